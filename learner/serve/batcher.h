/* Gathers rows until an inference batch should run: crossing 1.
 *
 * One buffer fills while one batch runs, or two where the device is asynchronous. A client (one
 * stream, K rows) is *stepping* while its actor works, *queued* once its rows are in the filling
 * buffer, *running* until its answer goes out. A batch runs as soon as one holds:
 *   - queued rows, those of evaluators apart, >= target_rows (default: half of the live rows);
 *   - no live client is stepping: no more rows can come;
 *   - the oldest row has waited max_wait_us.
 * A client that steps for longer than late_us (default 10 x the median turnaround, at least
 * late_min_us) is *late*: not live, so not waited for, until it answers. Clients added with
 * live = false (evaluators) never count: their rows start no batch and go along with the next one.
 * With a barrier (deterministic mode) a batch runs when exactly barrier_rows of live rows are
 * queued, and a live client's rows stand at row first_slot, so that the order of rows does not
 * depend on who came first. A message is never split. A client that is removed drops its rows.
 * Every environment has at most one row queued and one running, so a buffer with a row for each
 * environment is exact; twice that leaves room for rows of clients that died.
 *
 * Threads: any; one mutex, one condition variable. The rows of a reserved segment are written
 * outside the lock by the thread that reserved it; a batch is taken only when all its segments are
 * committed or cancelled. Time comes in as an argument, so that tests run on a clock of their own.
 * Units: microseconds. */
#ifndef ACORN_LEARNER_SERVE_BATCHER_H
#define ACORN_LEARNER_SERVE_BATCHER_H

#include "learner/serve/row_batch.h"

struct batcher_config {
  int max_clients;
  int max_rows; /* of all clients together */
  size_t row_stride;
  int target_rows; /* 0: half of the live rows */
  int64_t max_wait_us;
  int64_t late_us;       /* 0: by the median turnaround */
  int64_t late_min_us;   /* then not below this; 0: 20 ms */
  int barrier_rows;      /* 0: no barrier */
  int running;           /* batches that may run at a time, 1 or 2; 0 counts as 1 */
  struct device *device; /* that reads the rows; NULL: they are in plain memory */
};

enum { BATCHER_MAX_RUNNING = 2 };

struct batcher;

struct batcher *batcher_create(const struct batcher_config *config);
void batcher_destroy(struct batcher *batcher);

/* A client with K rows begins to play; live: it is waited for. */
void batcher_add(struct batcher *batcher, int client, int num_rows, int first_slot, uint32_t life,
                 bool eval, bool live, int64_t now_us);
/* It is gone; rows it has queued are dead. */
void batcher_remove(struct batcher *batcher, int client);

/* Room for the client's message: the batch and the segment's index in it. It has none queued or
 * running. NULL if there is none, which takes many clients that died with rows queued: the client
 * should come back. */
struct row_batch *batcher_reserve(struct batcher *batcher, int client, int *segment,
                                  int64_t now_us);
/* The rows are written: they are queued. The thread that takes the batch answers the stream. */
void batcher_commit(struct batcher *batcher, struct row_batch *batch, int segment,
                    struct rpc_stream *stream, int64_t now_us);
/* The message was refused and is answered already: the segment is dead. */
void batcher_cancel(struct batcher *batcher, struct row_batch *batch, int segment);

/* The batch that should run now, or NULL, as while config.running batches do; then *deadline_us is
 * when to ask again if nothing happens. */
struct row_batch *batcher_try_take(struct batcher *batcher, int64_t now_us, int64_t *deadline_us);
/* Whether it is likely that only time makes the filling batch run, and that many messages come
 * before: recent batches had many, and were at most half full. */
bool batcher_waits_out(struct batcher *batcher);
/* Waits for one; NULL once closed. Thread: inference. */
struct row_batch *batcher_take(struct batcher *batcher);

/* Just before the answers go out: the batch's clients step from now on. */
void batcher_stepping(struct batcher *batcher, const struct row_batch *batch, int64_t now_us);
/* The batch's rows are filed: its buffer is free. */
void batcher_recycle(struct batcher *batcher, struct row_batch *batch);

/* Ends every wait. What is still queued can be taken one last time with batcher_take_rest. */
void batcher_close(struct batcher *batcher);
struct row_batch *batcher_take_rest(struct batcher *batcher);

struct batcher_counts {
  int live_rows, stepping_rows, queued_rows, late_clients;
  int64_t late_us; /* in force */
};
struct batcher_counts batcher_counts(struct batcher *batcher);

/* What one client has done since it was added. Sums are over all its messages. */
struct batcher_client {
  const char *state; /* "joined" (it is not there), "stepping", "queued", "running", "late" */
  bool late;
  int64_t messages, answers;
  int64_t step_us;    /* from an answer to the next message */
  int64_t wait_us;    /* from a message to its answer */
  int64_t message_us; /* when its last message came */
};
struct batcher_client batcher_client(struct batcher *batcher, int client);

#endif
