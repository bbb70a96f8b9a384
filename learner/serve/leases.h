/* Leases: each stream holds K consecutive environment ids, from its Join to its end.
 *
 * Training ids are 0 .. max_train-1, evaluation ids follow; a Join gets the lowest K that are free
 * together. A lease ends with its stream, or when no Play followed the Join for 30 s, or no rows
 * for 10 minutes. A Join with a name that is already there supersedes the older lease. Each slot
 * counts its lives: a row of an older life is never mistaken for one of the new. In deterministic
 * mode Joins are collected until all expected environments are there and then leased in the order
 * of their names, so that ids do not depend on the order of arrival.
 *
 * Threads: any; one mutex. No gRPC call is made under it: a stream to cancel is returned to the
 * caller. Upstream: ingress.c. A lease's plain members are read-only from its Join to its end.
 */
#ifndef ACORN_LEARNER_SERVE_LEASES_H
#define ACORN_LEARNER_SERVE_LEASES_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/shared_rows.h"
#include "common/rpc/server.h"
#include "common/wire/wire.h"
#include "learner/serve/batcher.h"

/* From the Join to the message that names its lease, and to the first rows. Between the two the
 * client resets its environments, one after the other: our actors allow 300 s for that (--hang_s).
 */
enum { LEASE_PLAY_WAIT_US = 30 * 1000 * 1000, LEASE_ROWS_WAIT_US = 600 * 1000 * 1000 };

struct leases_config {
  int max_train, max_eval;
  uint64_t seed;
  int rank;               /* of this learner: environments of others are seeded otherwise */
  uint32_t first_life;    /* lives of this process count from here: grows with every resume */
  int deterministic_envs; /* > 0: collect Joins until this many training environments are there */
  uint64_t seed_base;     /* evaluate mode: environment i is seeded with seed_base + i, */
  uint64_t seed_stride;   /* and its next episodes seed_stride further on; 0: train mode */
};

struct lease {
  int client; /* index of this lease in the table */
  char name[WIRE_MAX_PLAYER_NAME];
  uint64_t run_id;
  int first_slot; /* the ids first_slot .. first_slot + num_environments - 1 */
  int num_environments;
  uint32_t life;
  enum wire_role role;
  struct wire_layout layout;
  uint8_t *last_flags;       /* (K) of the message before; queue thread only */
  _Atomic bool started;      /* rows have come */
  struct shared_rows shared; /* where the actor writes observations; .file is guarded by the lock */
  int shared_file;           /* its descriptor until the Play, for the JoinReply; 0: none */
  _Atomic uint64_t steps;    /* rows that needed an action */

  /* guarded by the table's lock */
  bool used, playing;
  /* superseded, or without rows for too long: its ids are free, the struct stays until its stream
   * has closed */
  bool ended;
  int64_t joined_us;
  char host[WIRE_HOST_BYTES]; /* "" before its Play */
  struct rpc_stream *stream;  /* of its Play, referenced; NULL before */
};

struct leases;

struct leases *leases_create(const struct leases_config *config);
void leases_destroy(struct leases *leases);

/* Leases K ids. *superseded: the stream of an older lease of that name, with a reference that the
 * caller gives back after cancelling it (its on_close then calls leases_end); else NULL.
 * Errors, and then the older lease stays: MISMATCH: there could never be room. EXHAUSTED, with how
 * many are leased of how many. */
MUST_CHECK enum status leases_join(struct leases *leases, struct lease **out,
                                   struct rpc_stream **superseded,
                                   const struct wire_join_request *request, int64_t now_us,
                                   struct error *error);

/* The lease of a run id whose Play begins with this stream. Errors: NOT_FOUND: unknown, ended or
 * already playing. */
MUST_CHECK enum status leases_play(struct leases *leases, struct lease **out, uint64_t run_id,
                                   struct rpc_stream *stream, struct error *error);

/* Where its stream comes from, for leases_view; cut off where it is too long. */
void leases_name_host(struct leases *leases, struct lease *lease, const char *host);

/* Ends a lease; its ids are free. `finished`: in good order, it will not come back. */
void leases_end(struct leases *leases, struct lease *lease, bool finished);

/* Ends the leases whose Play or whose first rows did not come in time. Of the latter the stream is
 * returned, one at each call, with a reference that the caller gives back after cancelling it (its
 * on_close then calls leases_end); NULL: there is none, or no more. */
struct rpc_stream *leases_expire(struct leases *leases, int64_t now_us);

/* The seeds of a lease's environments (K), and how far apart those of its next episodes are. */
void leases_seeds(const struct leases *leases, const struct lease *lease, uint64_t *seeds);
uint64_t leases_seed_stride(const struct leases *leases);

/* Training and evaluation slots together. */
int leases_num_slots(const struct leases *leases);

struct leases_count {
  int train_envs, eval_envs, players;
  int absent;   /* players that lost their connection and are not back; without the evaluators of a
                 training run */
  int64_t lost; /* training leases that have ended before the run, in all */
  char first_lost[WIRE_MAX_PLAYER_NAME];
};
struct leases_count leases_count(struct leases *leases);

/* A lease as others see it: a copy. */
struct lease_view {
  int client;
  uint64_t run_id;
  char name[WIRE_MAX_PLAYER_NAME];
  int first_slot, num_environments;
  enum wire_role role;
  uint64_t steps;
  bool playing;
  int64_t joined_us;
  char host[WIRE_HOST_BYTES]; /* "": not known yet */
};
/* Copies the leases that have not ended: at most `room`. Returns how many. */
int leases_view(struct leases *leases, struct lease_view *views, int room);

/* ---- deterministic mode: Joins that wait for the others */

/* Keeps a Join whose stream will be answered later. *replaced: the stream of an older one of the
 * same name, to be answered by the caller; else NULL. *complete: all expected environments are
 * there, and leases_next_waiting gives them one by one in the order of their names.
 * Errors, and then the older one stays: MISMATCH, EXHAUSTED: as leases_join, where those that wait
 * count; DONE: Joins are not collected, or no more: the stream is the caller's to answer. */
MUST_CHECK enum status leases_wait(struct leases *leases, bool *complete,
                                   struct rpc_stream **replaced,
                                   const struct wire_join_request *request,
                                   struct rpc_stream *stream, struct error *error);
/* The peer of a waiting Join has gone. True if the stream was waiting: then the caller answers it.
 */
bool leases_forget_waiting(struct leases *leases, const struct rpc_stream *stream);
/* From now on no stream is found waiting: those that leases_next_waiting gives are the caller's to
 * answer. */
void leases_end_collecting(struct leases *leases);
bool leases_next_waiting(struct leases *leases, struct wire_join_request *request,
                         struct rpc_stream **stream);
/* Whether Joins are still being collected; and the training environments of those that wait. */
bool leases_collecting(struct leases *leases);
int leases_waiting(struct leases *leases);

#endif
