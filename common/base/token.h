/* Shared secrets: a caller proves with one that it may call.
 *
 * A token file has one or two lines, a token each. Each of them is accepted; a caller sends the
 * first. So a secret is replaced without a stop: while a new one is handed out, the file that is
 * checked holds both. A file that has changed is read again. A token is 16 to 256 visible ASCII
 * characters, and travels as the value "Bearer TOKEN" of the header "authorization".
 * Upstream: common/rpc/credentials.c, learner/report/metrics_port.c. Thread: any.
 * Invariant: no token appears in a log line or an error message. */
#ifndef ACORN_COMMON_BASE_TOKEN_H
#define ACORN_COMMON_BASE_TOKEN_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/status.h"

enum { TOKENS_MAX = 2, TOKEN_MIN_BYTES = 16, TOKEN_MAX_BYTES = 256 };

/* The longest value of the header "authorization", with its end. */
enum { TOKEN_HEADER_BYTES = TOKEN_MAX_BYTES + 8 };

struct tokens {
  int count;
  struct {
    size_t bytes;
    char text[TOKEN_MAX_BYTES]; /* zeros behind it */
  } token[TOKENS_MAX];
};

/* Reads the text of a token file. Blanks at the end of a line and empty lines are skipped.
 * Errors: INVALID: names the line and the rule. */
MUST_CHECK enum status tokens_parse(struct tokens *tokens, const char *text, size_t bytes,
                                    struct error *error);

/* Whether the value of the header carries one of the tokens. Takes the same time wherever it
 * differs from them. */
bool tokens_accept(const struct tokens *tokens, const char *header, size_t bytes);

struct token_file;

/* Reads the file; `option` ("--token_file") begins error messages. Errors: INVALID: as
 * private_file_read and tokens_parse. */
MUST_CHECK enum status token_file_open(struct token_file **out, const char *option,
                                       const char *path, struct error *error);

/* Frees it; NULL is allowed. */
void token_file_close(struct token_file *file);

/* These look first whether the file has changed; one that cannot be read any more is named in the
 * log, and its earlier tokens stay valid. */
bool token_file_accepts(struct token_file *file, const char *header, size_t bytes);
void token_file_tokens(struct tokens *tokens, struct token_file *file);
void token_file_header(struct token_file *file, char header[TOKEN_HEADER_BYTES]);

#endif
