#include "learner/train/peers_messages.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"

static struct peers_messages *messages_of(struct peers *peers) {
  return (struct peers_messages *)peers;
}

void peers_messages_init(struct peers_messages *self,
                         enum status (*meet)(struct peers_messages *)) {
  self->meet = meet;
  self->mine = check_alloc(3, PEERS_MESSAGES_BYTES);
  self->sum = self->mine + PEERS_MESSAGES_BYTES;
  self->theirs = self->sum + PEERS_MESSAGES_BYTES;
}

void peers_messages_deinit(struct peers_messages *self) {
  free(self->mine);
}

static void set_message(struct peers_messages *self, int rank, const void *out, size_t out_bytes,
                        void *in, size_t in_bytes) {
  self->message[rank] =
      (struct peers_message){.out = out, .in = in, .out_bytes = out_bytes, .in_bytes = in_bytes};
}

static enum status meet(struct peers_messages *self, double weight) {
  self->weight = weight;
  return self->meet(self);
}

enum status peers_messages_gather(struct peers *peers, void *all, const void *mine, size_t bytes) {
  struct peers_messages *self = messages_of(peers);
  char *to = all;
  for (int r = 0; r < peers->of_device.learners; r++)
    set_message(self, r, mine, bytes, to + (size_t)r * bytes, bytes);
  memcpy(to + (size_t)peers->of_device.rank * bytes, mine, bytes);
  return meet(self, 0);
}

enum status peers_messages_broadcast(struct peers *peers, void *bytes, size_t count) {
  struct peers_messages *self = messages_of(peers);
  bool is_mine = peers->of_device.rank == 0;
  for (int r = 0; r < peers->of_device.learners; r++)
    set_message(self, r, bytes, is_mine ? count : 0, bytes, !is_mine && r == 0 ? count : 0);
  return meet(self, 0);
}

enum status peers_messages_mean(struct peers *peers, char *numbers, size_t n, size_t scaled,
                                size_t real_bytes, double weight) {
  struct peers_messages *self = messages_of(peers);
  int rank = peers->of_device.rank, learners = peers->of_device.learners;
  struct peers_share own = peers_share(peers, rank, n);
  size_t own_at = own.begin * real_bytes, own_bytes = (own.end - own.begin) * real_bytes;
  const char *part[PEERS_MAX];
  double weights = 0;
  for (int r = 0; r < learners; r++) {
    struct peers_share share = peers_share(peers, r, n);
    size_t at = share.begin * real_bytes, bytes = (share.end - share.begin) * real_bytes;
    char *place = self->theirs + (size_t)(r - (r > rank)) * own_bytes;
    part[r] = place - own_at;
    if (r != rank) peers_scale(self->mine, numbers, share, scaled, real_bytes, weight);
    set_message(self, r, self->mine + at, bytes, place, own_bytes);
  }
  if (meet(self, weight) != STATUS_OK) return peers->status;
  for (int r = 0; r < learners; r++) weights += r == rank ? weight : self->message[r].in_weight;
  const struct peers_sum sum = {numbers, self->sum, part};
  peers_add(peers, &sum, own, scaled, real_bytes, weight, weights);
  for (int r = 0; r < learners; r++) {
    struct peers_share share = peers_share(peers, r, n);
    set_message(self, r, self->sum + own_at, own_bytes, numbers + share.begin * real_bytes,
                (share.end - share.begin) * real_bytes);
  }
  return meet(self, weight);
}
