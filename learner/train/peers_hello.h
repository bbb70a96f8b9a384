/* Mutual authentication of learners by HMAC-SHA-256 with the run's token.
 *
 * The caller sends its hello, the other one answers with its own. Then each sends a proof: a MAC
 * over both, in that order of sender and receiver, by the run's token, which so never travels. The
 * caller proves itself first. Nonces make each proof good for one connection.
 *
 * Upstream: peers_links.c. Thread: any. */
#ifndef ACORN_LEARNER_TRAIN_PEERS_HELLO_H
#define ACORN_LEARNER_TRAIN_PEERS_HELLO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"
#include "common/base/token.h"

enum { PEERS_PROOF_BYTES = 32 };

/* As it travels: little-endian hosts alone know each other's. */
struct peers_hello {
  char form[8];
  uint32_t from, to; /* ranks */
  uint32_t learners; /* of the sender's run */
  uint32_t zero;
  uint8_t nonce[32];
};

struct peers_proof {
  uint8_t mac[PEERS_PROOF_BYTES];
};

/* With a new nonce. */
struct peers_hello peers_hello_make(int from, int to, int learners);

/* Whether bytes are a hello to learner `self`; a hello that is read has a rank from 0 to 63 of
 * another learner. Errors: INVALID: what they are instead. */
MUST_CHECK enum status peers_hello_read(struct peers_hello *hello, const void *bytes, int self,
                                        struct error *error);

/* Without a token every proof is by the empty one. `token`: the number of the one that is used,
 * modulo how many there are: the caller tries one after the other, and the other side uses the one
 * that the caller proved, so that learners agree while a token is replaced. */
struct peers_proof peers_prove(const struct tokens *tokens, int token,
                               const struct peers_hello *sender,
                               const struct peers_hello *receiver);
/* The number of the token that the proof is by; -1: none of them. Takes the same time wherever a
 * proof differs. */
int peers_proves(const struct peers_proof *proof, const struct tokens *tokens,
                 const struct peers_hello *sender, const struct peers_hello *receiver);

#endif
