/* The ways in which learners meet: by memory of one host, by connections between hosts, by MPI.
 *
 * peers.c has what all share: errors, the arithmetic of sums, what learners agree in. A way moves
 * bytes; each of its functions but is_gone, give_up, leave and close is a meeting, see peers.h.
 *
 * Upstream: peers.c, peers_memory.c, peers_messages.h. Thread: as peers.h. */
#ifndef ACORN_LEARNER_TRAIN_PEERS_WAY_H
#define ACORN_LEARNER_TRAIN_PEERS_WAY_H

#include "learner/train/peers.h"

struct peers_way {
  size_t area_bytes; /* of the arrays that go through it at a time */
  /* Waits until all have come. Errors: of peers_open. */
  enum status (*open)(struct peers *peers, struct error *error);
  /* all (learners, bytes): what each has in `mine`; bytes <= area_bytes. */
  enum status (*gather)(struct peers *peers, void *all, const void *mine, size_t bytes);
  /* count <= area_bytes */
  enum status (*broadcast)(struct peers *peers, void *bytes, size_t count);
  /* In place; the first `scaled` of n numbers are a mean by weights, the others a sum. */
  enum status (*mean)(struct peers *peers, char *numbers, size_t n, size_t scaled,
                      size_t real_bytes, double weight);
  bool (*is_gone)(struct peers *peers, int rank); /* and has not left well */
  /* One that is gone, which the others are told. Returns the first error. */
  enum status (*give_up)(struct peers *peers, int rank);
  void (*leave)(struct peers *peers, bool well); /* NULL: the end of one does not end the others */
  void (*close)(struct peers *peers);
};

struct peers {
  struct device_peers of_device; /* first */
  struct peers_config config;    /* its pointers but `context`: until opened */
  const struct peers_way *way;
  enum status status; /* the first error */
  bool is_given_up;   /* by the others: that was it */
  int lost;           /* rank + 1 of the one that is missing; 0: none, or not known */
  struct error error;
};

/* All zeros but `way`. Owner: the way's close frees it. */
struct peers *peers_memory_create(void);
struct peers *peers_net_create(void);
struct peers *peers_mpi_create(void);

/* Why a learner is missing. */
enum peers_loss { PEERS_ENDED, PEERS_SILENT, PEERS_NOT_COME, PEERS_TOLD };
/* Keeps it as the first error. TOLD: by another learner. */
enum status peers_lose(struct peers *peers, int rank, enum peers_loss loss);

/* A learner's share of n numbers, from `begin` to `end`, which it adds up for all. */
struct peers_share {
  size_t begin, end;
};
struct peers_share peers_share(const struct peers *peers, int rank, size_t n);

/* Of n numbers, each at its place in these arrays. */
struct peers_sum {
  char *numbers;           /* what this learner brings to the sum; its own share becomes the sum */
  char *sum;               /* so that others read its share there */
  const char *const *part; /* (learners): what the others have brought, weighted */
};

/* What a learner brings to another one's share: the first `scaled` of all numbers times its weight,
 * at their places. */
void peers_scale(char *to, const char *numbers, struct peers_share share, size_t scaled,
                 size_t real_bytes, double weight);
/* A share of the sum, in the order of ranks. `scaled`: of all numbers, as in `mean`; weights: of
 * all learners together. */
void peers_add(const struct peers *peers, const struct peers_sum *sum, struct peers_share share,
               size_t scaled, size_t real_bytes, double weight, double weights);

#endif
