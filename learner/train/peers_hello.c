#include "learner/train/peers_hello.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>
#include <sys/random.h>

#include "common/base/check.h"

/* The digit is raised where bytes between learners change. */
static const char form[8] = {'a', 'c', 'o', 'r', 'n', ' ', 'p', '1'};
enum { MOST_RANK = 63 };

struct peers_hello peers_hello_make(int from, int to, int learners) {
  struct peers_hello hello = {
      .from = (uint32_t)from, .to = (uint32_t)to, .learners = (uint32_t)learners};
  memcpy(hello.form, form, sizeof(form));
  CHECK(getrandom(hello.nonce, sizeof(hello.nonce), 0) == sizeof(hello.nonce), "no random bytes");
  return hello;
}

enum status peers_hello_read(struct peers_hello *hello, const void *bytes, int self,
                             struct error *error) {
  memcpy(hello, bytes, sizeof(*hello));
  if (memcmp(hello->form, form, sizeof(form) - 1) != 0)
    return status_fail(error, STATUS_INVALID, "it is no learner");
  if (hello->form[7] != form[7] || hello->zero != 0)
    return status_fail(error, STATUS_INVALID, "it is a learner of another version of Acorn");
  if (hello->from > MOST_RANK || hello->from == (uint32_t)self)
    return status_fail(error, STATUS_INVALID, "it says that it is learner %u, and this is %d",
                       hello->from, self);
  if (hello->to == (uint32_t)self) return STATUS_OK;
  return status_fail(error, STATUS_INVALID,
                     "learner %u looks for learner %u, and this is %d: --learners_at has to be the "
                     "same for all",
                     hello->from, hello->to, self);
}

static struct peers_proof prove(const char *token, size_t bytes, const struct peers_hello *sender,
                                const struct peers_hello *receiver) {
  const struct peers_hello both[2] = {*sender, *receiver};
  struct peers_proof proof;
  unsigned length = 0;
  const void *made = HMAC(EVP_sha256(), token, (int)bytes, (const unsigned char *)both,
                          sizeof(both), proof.mac, &length);
  CHECK(made && length == sizeof(proof.mac), "HMAC made %u bytes", length);
  return proof;
}

struct peers_proof peers_prove(const struct tokens *tokens, int token,
                               const struct peers_hello *sender,
                               const struct peers_hello *receiver) {
  if (!tokens || tokens->count == 0) return prove("", 0, sender, receiver);
  token %= tokens->count;
  return prove(tokens->token[token].text, tokens->token[token].bytes, sender, receiver);
}

int peers_proves(const struct peers_proof *proof, const struct tokens *tokens,
                 const struct peers_hello *sender, const struct peers_hello *receiver) {
  int found = -1, count = tokens && tokens->count > 0 ? tokens->count : 1;
  for (int i = 0; i < count; i++) {
    struct peers_proof ours = peers_prove(tokens, i, sender, receiver);
    if (CRYPTO_memcmp(proof->mac, ours.mac, sizeof(ours.mac)) == 0) found = i;
  }
  return found;
}
