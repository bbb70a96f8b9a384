// Any bytes are a token file or none, and any bytes a header: only one that carries a token of the
// file is accepted. The first byte says where the header begins.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "common/base/token.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// In memory of its exact size, so that the sanitizer sees a read past the end.
static char *copy(const uint8_t *data, size_t size) {
  char *out = malloc(size ? size : 1);
  memcpy(out, data, size);
  return out;
}

static bool is_one_of(const struct tokens *tokens, const char *header, size_t bytes) {
  for (int i = 0; i < tokens->count; i++)
    if (bytes == 7 + tokens->token[i].bytes &&
        memcmp(header + 7, tokens->token[i].text, tokens->token[i].bytes) == 0)
      return true;
  return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0) return 0;
  size_t split = data[0] < size - 1 ? data[0] : size - 1;
  char *text = copy(data + 1, split), *header = copy(data + 1 + split, size - 1 - split);
  struct tokens tokens;
  struct error error;
  if (tokens_parse(&tokens, text, split, &error) == STATUS_OK) {
    size_t bytes = size - 1 - split;
    CHECK(tokens.count >= 1 && tokens.count <= TOKENS_MAX, "%d tokens", tokens.count);
    if (tokens_accept(&tokens, header, bytes)) CHECK(is_one_of(&tokens, header, bytes), "accepted");
    char right[TOKEN_HEADER_BYTES] = "Bearer ";
    memcpy(right + 7, tokens.token[0].text, tokens.token[0].bytes);
    CHECK(tokens_accept(&tokens, right, 7 + tokens.token[0].bytes), "its own token is refused");
  }
  free(text);
  free(header);
  return 0;
}
