/* Credentials of a client or a server, from its options: a token, and certificates for TLS.
 * Upstream: learner/run/options.h, actor/options.h, client.h, server.h. */
#ifndef ACORN_COMMON_RPC_CREDENTIALS_H
#define ACORN_COMMON_RPC_CREDENTIALS_H

#include <stdbool.h>

#include "common/base/status.h"
#include "common/base/token.h"

/* Members of a program's options; "": not given. */
struct credentials_options {
  char *token_file;
  char *tls_ca, *tls_cert, *tls_key;
  char *operator_token_file; /* of a server with calls of its operator; NULL: it has none */
};

enum credentials_side { CREDENTIALS_SERVER, CREDENTIALS_CLIENT };

/* Their rows (common/base/option_rows.h); `access` is the member of the program's options, `own`
 * whose the server's files are ("the learner's"), `clients` a word for those that call it. */
#define CREDENTIALS_SERVER_ROWS(access, group, own, clients)                                     \
  STRING("token_file", access.token_file, "", group,                                             \
         "file with the secret that " clients                                                    \
         " must show: one token, or two on a line each "                                         \
         "while it is replaced; 16 to 256 characters; its owner's alone (chmod 600)"),           \
      STRING("tls_cert", access.tls_cert, "", group, "PEM file with " own " certificate: TLS"),  \
      STRING("tls_key", access.tls_key, "", group, "PEM file with its private key (chmod 600)"), \
      STRING("tls_ca", access.tls_ca, "", group,                                                 \
             "PEM file with the certificate that must have signed those of " clients             \
             "; "                                                                                \
             "without it they need none")
#define CREDENTIALS_CLIENT_ROWS(access, group)                                              \
  STRING("token_file", access.token_file, "", group,                                        \
         "file with the secret that the learner asks for, in its first line"),              \
      STRING("tls_ca", access.tls_ca, "", group,                                            \
             "PEM file with the certificate that must have signed the learner's: TLS"),     \
      STRING("tls_cert", access.tls_cert, "", group,                                        \
             "PEM file with a certificate of this client, where the learner asks for one"), \
      STRING("tls_key", access.tls_key, "", group, "PEM file with its private key (chmod 600)")

struct credentials;

/* Reads the files. Thread: any may use it. Errors: INVALID: names the option and the file. */
MUST_CHECK enum status credentials_open(struct credentials **out,
                                        const struct credentials_options *options,
                                        enum credentials_side side, struct error *error);

/* Whether connections are encrypted. */
bool credentials_have_tls(const struct credentials *credentials);

/* The tokens that are accepted now; none: count is 0. For what proves itself by other ways than a
 * header. Owner: the caller's, to be wiped. */
void credentials_tokens(struct tokens *tokens, struct credentials *credentials);

/* Frees them; NULL is allowed. After the servers and channels that were made with them. */
void credentials_close(struct credentials *credentials);

#endif
