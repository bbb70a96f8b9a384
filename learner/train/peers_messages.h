/* Ways that send messages: in each meeting every learner sends one to each other one.
 *
 * What a meeting sends and receives, and sums by it: each sends the others their shares, adds up
 * its own in the order of ranks, and sends them the sum: at most twice what a copy of the array
 * takes, whatever the number of learners. How messages travel is the way's.
 *
 * Upstream: peers_net.c, peers_mpi.c. Thread: as peers.h. */
#ifndef ACORN_LEARNER_TRAIN_PEERS_MESSAGES_H
#define ACORN_LEARNER_TRAIN_PEERS_MESSAGES_H

#include "learner/train/peers_way.h"

enum { PEERS_MESSAGES_BYTES = 1 << 20 }; /* area_bytes of such a way */

/* To and from one learner. */
struct peers_message {
  const char *out;
  char *in;
  size_t out_bytes, in_bytes;
  double in_weight; /* that the other one sends with it */
};

struct peers_messages {
  struct peers peers; /* first */
  struct peers_message message[PEERS_MAX];
  double weight; /* that this one sends */
  /* Sends and receives all of them; peers.status is not OK once one is missing. */
  enum status (*meet)(struct peers_messages *self);
  char *mine, *sum, *theirs; /* PEERS_MESSAGES_BYTES each: what this one brings; sums; shares */
};

void peers_messages_init(struct peers_messages *self, enum status (*meet)(struct peers_messages *));
void peers_messages_deinit(struct peers_messages *self);

/* Of struct peers_way. */
enum status peers_messages_gather(struct peers *peers, void *all, const void *mine, size_t bytes);
enum status peers_messages_broadcast(struct peers *peers, void *bytes, size_t count);
enum status peers_messages_mean(struct peers *peers, char *numbers, size_t n, size_t scaled,
                                size_t real_bytes, double weight);

#endif
