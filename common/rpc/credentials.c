#include "common/rpc/credentials.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "common/base/token.h"
#include "common/rpc/credentials_grpc.h"
#include "common/rpc/tls.h"

static const char header_name[] = "authorization";

struct credentials {
  struct token_file *tokens; /* NULL: no token is asked for, or shown */
  struct tls *tls;           /* NULL: connections are plain */
};

enum status credentials_open(struct credentials **out, const struct credentials_options *options,
                             enum credentials_side side, struct error *error) {
  struct credentials *credentials = check_alloc(1, sizeof(*credentials));
  enum status status = STATUS_OK;
  if (options->token_file[0])
    status = token_file_open(&credentials->tokens, "--token_file", options->token_file, error);
  if (status == STATUS_OK) status = tls_open(&credentials->tls, options, side, error);
  *out = credentials;
  if (status == STATUS_OK) return STATUS_OK;
  credentials_close(credentials);
  *out = NULL;
  return status;
}

void credentials_close(struct credentials *credentials) {
  if (!credentials) return;
  token_file_close(credentials->tokens);
  tls_close(credentials->tls);
  free(credentials);
}

/* ---- connections */

bool credentials_have_tls(const struct credentials *credentials) {
  return credentials && credentials->tls;
}

grpc_server_credentials *credentials_server(const struct credentials *credentials) {
  return tls_server(credentials->tls);
}

grpc_channel_credentials *credentials_client(const struct credentials *credentials) {
  if (!credentials_have_tls(credentials)) return grpc_insecure_credentials_create();
  return tls_client(credentials->tls);
}

const char *credentials_explain(const struct credentials *credentials, const char *text) {
  if (strstr(text, "wrong version number"))
    return "the learner has no TLS: leave --tls_ca out, or start it with --tls_cert and --tls_key";
  if (strstr(text, "certificate verify failed"))
    return "the learner's certificate has expired, or is not signed by the one in --tls_ca";
  if (strstr(text, "is not in peer certificate"))
    return "the learner's certificate is another host's: this address is not among its names";
  if (!strstr(text, "Socket closed") && !strstr(text, "reset by peer")) return NULL;
  if (credentials_have_tls(credentials))
    return "the learner hung up: it may ask for another certificate (--tls_cert, --tls_key)";
  return "the learner hung up: it may ask for TLS (--tls_ca)";
}

/* ---- a call's metadata */

const char *credentials_refuse(const struct credentials *credentials,
                               const grpc_metadata_array *metadata) {
  if (!credentials || !credentials->tokens) return NULL;
  for (size_t i = 0; i < metadata->count; i++) {
    const grpc_metadata *entry = &metadata->metadata[i];
    if (grpc_slice_str_cmp(entry->key, header_name) != 0) continue;
    if (token_file_accepts(credentials->tokens, (const char *)GRPC_SLICE_START_PTR(entry->value),
                           GRPC_SLICE_LENGTH(entry->value)))
      return NULL;
    return "the token is none of the learner's: --token_file must hold the learner's secret";
  }
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
