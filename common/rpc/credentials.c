#include "common/rpc/credentials.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/private_file.h"
#include "common/base/token.h"
#include "common/rpc/credentials_grpc.h"

static const char header_name[] = "authorization";

enum { CA, CERT, KEY, NUM_FILES };
enum { MAX_FILE_BYTES = 1 << 20 };

static const char *const option_names[NUM_FILES] = {"--tls_ca", "--tls_cert", "--tls_key"};

/* What PEM files hold. A key may be of several kinds: "RSA PRIVATE KEY". */
static const char *const marks[NUM_FILES] = {"-----BEGIN CERTIFICATE-----",
                                             "-----BEGIN CERTIFICATE-----", "PRIVATE KEY-----"};

/* With neither a certificate nor a CA connections are plain. */
struct credentials {
  struct token_file *tokens;          /* NULL: no token is asked for, or shown */
  struct token_file *operator_tokens; /* NULL: the operator's calls ask for the others */
  char *path[NUM_FILES];              /* of the TLS files, read-only after open; NULL: not given */
  pthread_mutex_t lock;               /* guards those below */
  char *pem[NUM_FILES];
  struct stat seen[NUM_FILES]; /* what was read last, or refused */
  int reading;                 /* counts what was read */
};

/* ---- TLS files */

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
static enum status read_files(struct credentials *self, struct error *error) {
  char *pem[NUM_FILES] = {NULL};
  enum status status = STATUS_OK;
  for (int i = 0; i < NUM_FILES && status == STATUS_OK; i++)
    if (self->path[i]) status = read_pem(&pem[i], &self->seen[i], i, self->path[i], error);
  char **dropped = status == STATUS_OK ? self->pem : pem;
  for (int i = 0; i < NUM_FILES; i++) {
    free(dropped[i]);
    dropped[i] = NULL;
  }
  if (status != STATUS_OK) return status;
  memcpy(self->pem, pem, sizeof(pem));
  self->reading++;
  return STATUS_OK;
}

static bool have_changed(struct credentials *self) {
  bool changed = false;
  for (int i = 0; i < NUM_FILES; i++)
    if (self->path[i]) changed |= file_has_changed(self->path[i], &self->seen[i]);
  return changed;
}

/* Under the lock. */
static void refresh(struct credentials *self) {
  struct error error;
  if (!have_changed(self)) return;
  if (read_files(self, &error) == STATUS_OK)
    log_info("the TLS files have changed and were read again");
  else
    log_warn("%s; the earlier TLS files stay in use", error.text);
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

/* An operator's token that actors have would be none. credentials_refuse sees to those that a file
 * gets later. */
static enum status check_apart(const struct credentials *self, struct error *error) {
  struct tokens own, others;
  bool is_shared = false;
  if (!self->operator_tokens || !self->tokens) return STATUS_OK;
  token_file_tokens(&own, self->operator_tokens);
  token_file_tokens(&others, self->tokens);
  for (int i = 0; i < own.count * others.count; i++)
    is_shared |= memcmp(&own.token[i / others.count], &others.token[i % others.count],
                        sizeof(own.token[0])) == 0;
  explicit_bzero(&own, sizeof(own));
  explicit_bzero(&others, sizeof(others));
  if (!is_shared) return STATUS_OK;
  return status_fail(error, STATUS_INVALID,
                     "--operator_token_file holds a token of --token_file, which actors have: make "
                     "it another one");
}

static enum status read_all(struct credentials *self, const struct credentials_options *options,
                            enum credentials_side side, struct error *error) {
  const char *const paths[NUM_FILES] = {options->tls_ca, options->tls_cert, options->tls_key};
  enum status status = STATUS_OK;
  if (options->token_file[0])
    status = token_file_open(&self->tokens, "--token_file", options->token_file, error);
  if (status == STATUS_OK && options->operator_token_file && options->operator_token_file[0])
    status = token_file_open(&self->operator_tokens, "--operator_token_file",
                             options->operator_token_file, error);
  if (status == STATUS_OK) status = check_apart(self, error);
  if (status == STATUS_OK) status = check_options(options, side, error);
  for (int i = 0; i < NUM_FILES && status == STATUS_OK; i++)
    if (paths[i][0]) self->path[i] = check_copy(paths[i]);
  return status == STATUS_OK ? read_files(self, error) : status;
}

enum status credentials_open(struct credentials **out, const struct credentials_options *options,
                             enum credentials_side side, struct error *error) {
  struct credentials *self = check_alloc(1, sizeof(*self));
  pthread_mutex_init(&self->lock, NULL);
  enum status status = read_all(self, options, side, error);
  *out = status == STATUS_OK ? self : NULL;
  if (status != STATUS_OK) credentials_close(self);
  return status;
}

void credentials_close(struct credentials *self) {
  if (!self) return;
  token_file_close(self->tokens);
  token_file_close(self->operator_tokens);
  for (int i = 0; i < NUM_FILES; i++) {
    if (self->pem[i]) explicit_bzero(self->pem[i], strlen(self->pem[i]));
    free(self->pem[i]);
    free(self->path[i]);
  }
  pthread_mutex_destroy(&self->lock);
  free(self);
}

void credentials_tokens(struct tokens *tokens, struct credentials *credentials) {
  *tokens = (struct tokens){0};
  if (credentials->tokens) token_file_tokens(tokens, credentials->tokens);
}

bool credentials_have_tls(const struct credentials *credentials) {
  return credentials && (credentials->path[CA] || credentials->path[CERT]);
}

/* ---- connections */

/* Before each handshake. A certificate and a key that do not belong together, as there may be while
 * the files are replaced one by one, are refused by gRPC, which keeps what it had. */
static grpc_ssl_certificate_config_reload_status fetch(
    void *context, grpc_ssl_server_certificate_config **config) {
  struct credentials_port *port = context;
  struct credentials *self = port->credentials;
  pthread_mutex_lock(&self->lock);
  refresh(self);
  bool is_new = port->fetched != self->reading;
  if (is_new) {
    const grpc_ssl_pem_key_cert_pair pair = {self->pem[KEY], self->pem[CERT]};
    /* gRPC wants some root, also where it asks clients for no certificate. */
    const char *root = self->pem[CA] ? self->pem[CA] : self->pem[CERT];
    *config = grpc_ssl_server_certificate_config_create(root, &pair, 1);
    port->fetched = self->reading;
  }
  pthread_mutex_unlock(&self->lock);
  return is_new ? GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW
                : GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
}

grpc_server_credentials *credentials_server(struct credentials_port *port,
                                            struct credentials *credentials) {
  *port = (struct credentials_port){.credentials = credentials};
  return grpc_ssl_server_credentials_create_with_options(
      grpc_ssl_server_credentials_create_options_using_config_fetcher(
          credentials->path[CA] ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                                : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE,
          fetch, port));
}

grpc_channel_credentials *credentials_client(int *reading, struct credentials *credentials) {
  *reading = 0;
  if (!credentials_have_tls(credentials)) return grpc_insecure_credentials_create();
  pthread_mutex_lock(&credentials->lock);
  grpc_ssl_pem_key_cert_pair pair = {credentials->pem[KEY], credentials->pem[CERT]};
  grpc_channel_credentials *made = grpc_ssl_credentials_create_ex(
      credentials->pem[CA], credentials->path[CERT] ? &pair : NULL, NULL, NULL);
  *reading = credentials->reading;
  pthread_mutex_unlock(&credentials->lock);
  return made;
}

bool credentials_have_changed(struct credentials *credentials, int reading) {
  if (!reading) return false;
  pthread_mutex_lock(&credentials->lock);
  refresh(credentials);
  bool changed = reading != credentials->reading;
  pthread_mutex_unlock(&credentials->lock);
  return changed;
}

const char *credentials_explain(const struct credentials *credentials, const char *text) {
  if (strstr(text, "wrong version number"))
    return "the learner has no TLS: leave --tls_ca out, or start it with --tls_cert and --tls_key";
  if (strstr(text, "certificate verify failed"))
    return "the learner's certificate is not signed by the one in --tls_ca, or is not valid by "
           "this machine's clock";
  if (strstr(text, "is not in peer certificate"))
    return "the learner's certificate is another host's: this address is not among its names";
  if (credentials_have_tls(credentials) && strstr(text, "empty address list"))
    return "the TLS files cannot be used: a certificate in them is damaged, or --tls_key is not "
           "the key of --tls_cert";
  if (!strstr(text, "Socket closed") && !strstr(text, "reset by peer")) return NULL;
  if (credentials_have_tls(credentials))
    return "the learner hung up: it may ask for another certificate (--tls_cert, --tls_key)";
  return "the learner hung up: it may ask for TLS (--tls_ca)";
}

/* ---- a call's metadata */

const char *credentials_refuse(const struct credentials *credentials,
                               const grpc_metadata_array *metadata, bool is_of_operator) {
  if (!credentials) return NULL;
  bool asks_operator = is_of_operator && credentials->operator_tokens;
  struct token_file *tokens = asks_operator ? credentials->operator_tokens : credentials->tokens;
  if (!tokens) return NULL;
  for (size_t i = 0; i < metadata->count; i++) {
    const grpc_metadata *entry = &metadata->metadata[i];
    if (grpc_slice_str_cmp(entry->key, header_name) != 0) continue;
    const char *value = (const char *)GRPC_SLICE_START_PTR(entry->value);
    size_t bytes = GRPC_SLICE_LENGTH(entry->value);
    bool is_actors = asks_operator && credentials->tokens &&
                     token_file_accepts(credentials->tokens, value, bytes);
    if (!is_actors && token_file_accepts(tokens, value, bytes)) return NULL;
    if (asks_operator) break;
    return "the token is none of the learner's: --token_file must hold the learner's secret";
  }
  if (asks_operator)
    return "this call asks for the operator's token, which is not that of actors: --token_file "
           "must hold the secret of the learner's --operator_token_file";
  return "this learner asks for a token: name a file with its secret by --token_file";
}

size_t credentials_metadata(grpc_metadata *metadata, const struct credentials *credentials) {
  if (!credentials || !credentials->tokens) return 0;
  char header[TOKEN_HEADER_BYTES];
  token_file_header(credentials->tokens, header);
  *metadata = (grpc_metadata){.key = grpc_slice_from_static_string(header_name),
                              .value = grpc_slice_from_copied_string(header)};
  explicit_bzero(header, sizeof(header));
  return 1;
}

void credentials_metadata_unref(grpc_metadata *metadata, size_t count) {
  for (size_t i = 0; i < count; i++) grpc_slice_unref(metadata[i].value);
}
