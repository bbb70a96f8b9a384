/* What learners of several hosts say to each other first, so that a stranger's connection is none.
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

/* Without a token every proof is by the empty one. tokens: the first one is used to prove, each is
 * accepted, so that they can be replaced. Both take the same time wherever a proof differs. */
struct peers_proof peers_prove(const struct tokens *tokens, const struct peers_hello *sender,
                               const struct peers_hello *receiver);
bool peers_proves(const struct peers_proof *proof, const struct tokens *tokens,
                  const struct peers_hello *sender, const struct peers_hello *receiver);

#endif
