/* Any bytes are a learner's hello or none, and any that follow prove nothing, unless they are the
 * proof by the token. The first byte is the rank of the one that reads. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "learner/train/peers_hello.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct peers_hello hello, mine;
  struct peers_proof proof;
  struct error error = {""};
  if (size != 1 + sizeof(hello) + sizeof(proof)) return 0;
  int self = data[0] % 64;
  /* In memory of its exact size, so that the sanitizer sees a read past the end. */
  uint8_t *bytes = check_alloc(sizeof(hello), 1);
  memcpy(bytes, data + 1, sizeof(hello));
  memcpy(&proof, data + 1 + sizeof(hello), sizeof(proof));
  if (peers_hello_read(&hello, bytes, self, &error) == STATUS_OK) {
    const struct tokens tokens = {.count = 1, .token = {{16, "0123456789abcdef"}}};
    CHECK(hello.from < 64 && hello.from != (uint32_t)self, "from %u", hello.from);
    CHECK(hello.to == (uint32_t)self, "to %u", hello.to);
    mine = peers_hello_make(self, (int)hello.from, 2);
    CHECK(peers_proves(&proof, &tokens, &hello, &mine) < 0, "any bytes prove the token");
    proof = peers_prove(&tokens, 0, &hello, &mine);
    CHECK(peers_proves(&proof, &tokens, &hello, &mine) == 0, "the token proves nothing");
    CHECK(peers_proves(&proof, &tokens, &mine, &hello) < 0, "a proof is good for the other end");
    CHECK(peers_proves(&proof, NULL, &hello, &mine) < 0, "a token proves that there is none");
  } else {
    CHECK(error.text[0], "no sentence");
  }
  free(bytes);
  return 0;
}
