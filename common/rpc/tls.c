#include "common/rpc/tls.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/private_file.h"

enum { CA, CERT, KEY, NUM_FILES };
enum { MAX_FILE_BYTES = 1 << 20 };

static const char *const option_names[NUM_FILES] = {"--tls_ca", "--tls_cert", "--tls_key"};

/* What PEM files hold. A key may be of several kinds: "RSA PRIVATE KEY". */
static const char *const marks[NUM_FILES] = {"-----BEGIN CERTIFICATE-----",
                                             "-----BEGIN CERTIFICATE-----", "PRIVATE KEY-----"};

struct tls {
  char *path[NUM_FILES]; /* read-only after open; NULL: not given */
  pthread_mutex_t lock;  /* guards those below */
  char *pem[NUM_FILES];
  struct stat seen[NUM_FILES]; /* what was read last, or refused */
  bool fetched;                /* gRPC has what was read */
};

/* ---- files */

static enum status read_pem(char **pem, struct stat *info, int file, const char *path,
                            struct error *error) {
  size_t bytes;
  enum status status =
      file == KEY
          ? private_file_read(pem, &bytes, info, option_names[file], path, MAX_FILE_BYTES, error)
          : public_file_read(pem, &bytes, info, option_names[file], path, MAX_FILE_BYTES, error);
  if (status != STATUS_OK || strstr(*pem, marks[file])) return status;
  free(*pem);
  *pem = NULL;
  return status_fail(error, STATUS_INVALID, "%s=%.400s: it holds no %s in PEM form",
                     option_names[file], path, file == KEY ? "private key" : "certificate");
}

/* All or none of them: a certificate and its key are replaced together. */
static enum status read_files(struct tls *tls, struct error *error) {
  char *pem[NUM_FILES] = {NULL};
  enum status status = STATUS_OK;
  for (int i = 0; i < NUM_FILES && status == STATUS_OK; i++)
    if (tls->path[i]) status = read_pem(&pem[i], &tls->seen[i], i, tls->path[i], error);
  char **dropped = status == STATUS_OK ? tls->pem : pem;
  for (int i = 0; i < NUM_FILES; i++) {
    free(dropped[i]);
    dropped[i] = NULL;
  }
  if (status == STATUS_OK) memcpy(tls->pem, pem, sizeof(pem));
  return status;
}

static bool have_changed(struct tls *tls) {
  bool changed = false;
  for (int i = 0; i < NUM_FILES; i++)
    if (tls->path[i]) changed |= file_has_changed(tls->path[i], &tls->seen[i]);
  return changed;
}

/* ---- options */

static enum status check_options(const struct credentials_options *options,
                                 enum credentials_side side, struct error *error) {
  bool ca = options->tls_ca[0], cert = options->tls_cert[0], key = options->tls_key[0];
  if (cert != key)
    return status_fail(error, STATUS_INVALID, "%s without %s: a certificate needs its private key",
                       cert ? "--tls_cert" : "--tls_key", cert ? "--tls_key" : "--tls_cert");
  if (side == CREDENTIALS_SERVER && ca && !cert)
    return status_fail(error, STATUS_INVALID,
                       "--tls_ca without --tls_cert: to ask actors for certificates the learner "
                       "needs one of its own");
  if (side == CREDENTIALS_CLIENT && cert && !ca)
    return status_fail(error, STATUS_INVALID,
                       "--tls_cert without --tls_ca: name the certificate that has signed the "
                       "learner's");
  return STATUS_OK;
}

enum status tls_open(struct tls **out, const struct credentials_options *options,
                     enum credentials_side side, struct error *error) {
  *out = NULL;
  enum status status = check_options(options, side, error);
  if (status != STATUS_OK || (!options->tls_ca[0] && !options->tls_cert[0])) return status;
  const char *const paths[NUM_FILES] = {options->tls_ca, options->tls_cert, options->tls_key};
  struct tls *tls = check_alloc(1, sizeof(*tls));
  pthread_mutex_init(&tls->lock, NULL);
  for (int i = 0; i < NUM_FILES; i++)
    if (paths[i][0]) tls->path[i] = check_copy(paths[i]);
  status = read_files(tls, error);
  if (status == STATUS_OK)
    *out = tls;
  else
    tls_close(tls);
  return status;
}

void tls_close(struct tls *tls) {
  if (!tls) return;
  for (int i = 0; i < NUM_FILES; i++) {
    if (tls->pem[i]) explicit_bzero(tls->pem[i], strlen(tls->pem[i]));
    free(tls->pem[i]);
    free(tls->path[i]);
  }
  pthread_mutex_destroy(&tls->lock);
  free(tls);
}

/* ---- gRPC */

/* Before each handshake. */
static grpc_ssl_certificate_config_reload_status fetch(
    void *context, grpc_ssl_server_certificate_config **config) {
  struct tls *tls = context;
  struct error error;
  pthread_mutex_lock(&tls->lock);
  if (have_changed(tls)) {
    if (read_files(tls, &error) == STATUS_OK) {
      log_info("the TLS files have changed and were read again");
      tls->fetched = false;
    } else {
      log_warn("%s; the earlier TLS files stay in use", error.text);
    }
  }
  bool is_new = !tls->fetched;
  if (is_new) {
    const grpc_ssl_pem_key_cert_pair pair = {tls->pem[KEY], tls->pem[CERT]};
    /* gRPC wants some root, also where it asks clients for no certificate. */
    const char *root = tls->pem[CA] ? tls->pem[CA] : tls->pem[CERT];
    *config = grpc_ssl_server_certificate_config_create(root, &pair, 1);
    tls->fetched = true;
  }
  pthread_mutex_unlock(&tls->lock);
  return is_new ? GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW
                : GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
}

grpc_server_credentials *tls_server(struct tls *tls) {
  tls->fetched = false;
  return grpc_ssl_server_credentials_create_with_options(
      grpc_ssl_server_credentials_create_options_using_config_fetcher(
          tls->path[CA] ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                        : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE,
          fetch, tls));
}

grpc_channel_credentials *tls_client(struct tls *tls) {
  grpc_ssl_pem_key_cert_pair pair = {tls->pem[KEY], tls->pem[CERT]};
  return grpc_ssl_credentials_create_ex(tls->pem[CA], tls->path[CERT] ? &pair : NULL, NULL, NULL);
}
