#include "common/base/token.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/private_file.h"

static const char scheme[] = "Bearer ";
enum { SCHEME_BYTES = sizeof(scheme) - 1, MAX_FILE_BYTES = 4096 };

struct token_file {
  /* read-only after open */
  const char *option;
  char *path;

  pthread_mutex_t lock; /* guards those below */
  struct tokens tokens;
  struct stat seen; /* the file that was read last, or refused */
};

/* ---- text */

static enum status add_token(struct tokens *tokens, const char *text, size_t bytes, int line,
                             struct error *error) {
  if (tokens->count == TOKENS_MAX)
    return status_fail(error, STATUS_INVALID, "line %d: there may be %d tokens, a line each", line,
                       TOKENS_MAX);
  if (bytes < TOKEN_MIN_BYTES || bytes > TOKEN_MAX_BYTES)
    return status_fail(error, STATUS_INVALID, "line %d has %zu characters; a token has %d to %d",
                       line, bytes, TOKEN_MIN_BYTES, TOKEN_MAX_BYTES);
  for (size_t i = 0; i < bytes; i++)
    if (text[i] <= ' ' || text[i] > '~')
      return status_fail(error, STATUS_INVALID,
                         "line %d: a token has visible ASCII characters only", line);
  memcpy(tokens->token[tokens->count].text, text, bytes);
  tokens->token[tokens->count++].bytes = bytes;
  return STATUS_OK;
}

static bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r';
}

enum status tokens_parse(struct tokens *tokens, const char *text, size_t bytes,
                         struct error *error) {
  *tokens = (struct tokens){0};
  int line = 1;
  for (size_t at = 0; at < bytes; line++) {
    const char *end = memchr(text + at, '\n', bytes - at);
    size_t whole = end ? (size_t)(end - (text + at)) : bytes - at, length = whole;
    while (length > 0 && is_blank(text[at + length - 1])) length--;
    enum status status = length > 0 ? add_token(tokens, text + at, length, line, error) : STATUS_OK;
    if (status != STATUS_OK) return status;
    at += whole + 1;
  }
  if (tokens->count > 0) return STATUS_OK;
  return status_fail(error, STATUS_INVALID, "it holds no token");
}

bool tokens_accept(const struct tokens *tokens, const char *header, size_t bytes) {
  if (bytes < SCHEME_BYTES || strncasecmp(header, scheme, SCHEME_BYTES) != 0) return false;
  bytes -= SCHEME_BYTES;
  if (bytes > TOKEN_MAX_BYTES) return false;
  char text[TOKEN_MAX_BYTES] = {0};
  memcpy(text, header + SCHEME_BYTES, bytes);
  bool accepted = false;
  for (int i = 0; i < tokens->count; i++) {
    /* volatile: the loop may not end at the first difference */
    volatile size_t differences = tokens->token[i].bytes ^ bytes;
    for (int k = 0; k < TOKEN_MAX_BYTES; k++)
      differences |= (uint8_t)(tokens->token[i].text[k] ^ text[k]);
    accepted |= differences == 0;
  }
  return accepted;
}

/* ---- file */

static enum status read_tokens(struct token_file *file, struct error *error) {
  struct tokens tokens;
  struct error reason;
  char *text;
  size_t bytes;
  enum status status = private_file_read(&text, &bytes, &file->seen, file->option, file->path,
                                         MAX_FILE_BYTES, error);
  if (status != STATUS_OK) return status;
  status = tokens_parse(&tokens, text, bytes, &reason);
  explicit_bzero(text, bytes);
  free(text);
  if (status != STATUS_OK)
    return status_fail(error, status, "%s=%.400s: %.400s", file->option, file->path, reason.text);
  file->tokens = tokens;
  return STATUS_OK;
}

enum status token_file_open(struct token_file **out, const char *option, const char *path,
                            struct error *error) {
  struct token_file *file = check_alloc(1, sizeof(*file));
  file->option = option;
  file->path = check_copy(path);
  pthread_mutex_init(&file->lock, NULL);
  *out = file;
  enum status status = read_tokens(file, error);
  if (status == STATUS_OK) return STATUS_OK;
  token_file_close(file);
  *out = NULL;
  return status;
}

void token_file_close(struct token_file *file) {
  if (!file) return;
  explicit_bzero(&file->tokens, sizeof(file->tokens));
  pthread_mutex_destroy(&file->lock);
  free(file->path);
  free(file);
}

/* Under the lock. A file that is wrong is named once for each of its states. */
static void refresh(struct token_file *file) {
  struct error error;
  if (!file_has_changed(file->path, &file->seen)) return;
  if (read_tokens(file, &error) == STATUS_OK)
    log_info("%s=%s has changed: %d of its tokens are valid now", file->option, file->path,
             file->tokens.count);
  else
    log_warn("%s; the tokens of before stay valid", error.text);
}

void token_file_tokens(struct tokens *tokens, struct token_file *file) {
  pthread_mutex_lock(&file->lock);
  refresh(file);
  *tokens = file->tokens;
  pthread_mutex_unlock(&file->lock);
}

bool token_file_accepts(struct token_file *file, const char *header, size_t bytes) {
  pthread_mutex_lock(&file->lock);
  refresh(file);
  bool accepted = tokens_accept(&file->tokens, header, bytes);
  pthread_mutex_unlock(&file->lock);
  return accepted;
}

void token_file_header(struct token_file *file, char header[TOKEN_HEADER_BYTES]) {
  pthread_mutex_lock(&file->lock);
  refresh(file);
  snprintf(header, TOKEN_HEADER_BYTES, "%s%.*s", scheme, (int)file->tokens.token[0].bytes,
           file->tokens.token[0].text);
  pthread_mutex_unlock(&file->lock);
}
