/* What one side of a call shows the other, from the options of a program: a shared secret.
 * Upstream: learner/options.h, actor/options.h, client.h, server.h. */
#ifndef ACORN_COMMON_RPC_CREDENTIALS_H
#define ACORN_COMMON_RPC_CREDENTIALS_H

#include "common/base/status.h"

/* Members of a program's options; "": not given. */
struct credentials_options {
  char *token_file;
};

/* Their rows; `at` is the offset of the struct above in that of the program. */
#define CREDENTIALS_ROW(at, name, group, help)                                                     \
  {                                                                                                \
#name, NULL, OPTION_STRING, (at) + offsetof(struct credentials_options, name), "", 0, 0, NULL, \
        group, help                                                                                \
  }
#define CREDENTIALS_SERVER_ROWS(at, group)                                                        \
  CREDENTIALS_ROW(at, token_file, group,                                                          \
                  "file with the secret that actors must show: one token, or two on a line each " \
                  "while it is replaced; 16 to 256 characters; its owner's alone (chmod 600)")
#define CREDENTIALS_CLIENT_ROWS(at, group) \
  CREDENTIALS_ROW(at, token_file, group,   \
                  "file with the secret that the learner asks for, in its first line")

struct credentials;

/* Reads the files. Thread: any may use it. Errors: INVALID: names the option and the file. */
MUST_CHECK enum status credentials_open(struct credentials **out,
                                        const struct credentials_options *options,
                                        struct error *error);

/* Frees them; NULL is allowed. After the servers and channels that were made with them. */
void credentials_close(struct credentials *credentials);

#endif
