/* The rows of one inference batch: a segment for each message, with its stream and lease.
 * Upstream: batcher.c, which fills it and lends it out. Downstream: ingress.c writes a reserved
 * segment's rows; inference.c and reply.c read a batch that runs. Thread: its owner; see
 * batcher.h. */
#ifndef ACORN_LEARNER_SERVE_ROW_BATCH_H
#define ACORN_LEARNER_SERVE_ROW_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "learner/device/device.h"

struct rpc_stream;

/* One message's rows in a batch: first_row .. first_row + num_rows - 1. */
struct batch_segment {
  int client;
  int first_row, num_rows;
  int first_slot; /* row i belongs to slot first_slot + i */
  uint32_t life;
  bool eval;
  bool live;      /* its client may be waited for */
  bool committed; /* its rows are written, and counted */
  bool dead;      /* its client was removed, or its message was refused: not to be filed */
  struct rpc_stream *stream; /* answered once, dead or not; NULL if it was answered already */
  int64_t queued_us;
  int64_t step_us; /* from its answer before to this message; -1: there was none */
};

/* Rows to run inference on. Arrays have max_rows rows, in memory of the host that transfers are
 * fast from; owner: batcher, lent from take to recycle. */
struct row_batch {
  struct device *device; /* whose alloc_host memory the arrays are; NULL: plain memory */
  uint8_t *observation;  /* (rows, row_stride), 64-byte aligned */
  float *reward;         /* (rows) */
  uint8_t *flags;        /* (rows) */
  int num_rows;
  struct batch_segment *segment; /* (num_segments), in order of rows when there is a barrier */
  int num_segments;
  /* batcher's own; guarded by its lock */
  int uncommitted, queued_rows, live_rows, guest_rows, next_eval_row;
  int64_t oldest_us;
  bool running;
};

void row_batch_init(struct row_batch *batch, struct device *device, int max_rows, int max_segments,
                    size_t row_stride);
void row_batch_deinit(struct row_batch *batch);

/* Empties it. Rows that stand at no slot begin at `first_free_row`. */
void row_batch_clear(struct row_batch *batch, int first_free_row);

/* The segment's rows are written: they are queued, and count as live if its client still is. */
void row_batch_commit(struct row_batch *batch, int segment);

/* The client's segments are not to be filed, whether their rows are written yet or not. */
void row_batch_kill(struct row_batch *batch, int client);

/* Orders the segments by their rows. */
void row_batch_sort(struct row_batch *batch);

#endif
