/* What the tests of the batcher share: clients that send and are answered on a clock of the test's
 * own. */
#ifndef ACORN_TESTS_UNIT_LEARNER_SERVE_BATCHER_CLIENTS_H
#define ACORN_TESTS_UNIT_LEARNER_SERVE_BATCHER_CLIENTS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "learner/serve/batcher.h"

static inline struct batcher_config config_of(int clients, int rows) {
  return (struct batcher_config){
      .max_clients = clients, .max_rows = 2 * rows, .row_stride = 16, .max_wait_us = 5000};
}

static inline struct rpc_stream *fake_stream(int client) {
  return (struct rpc_stream *)(uintptr_t)(client + 1);
}

static inline void send(struct batcher *batcher, int client, int64_t now_us) {
  int segment;
  struct row_batch *batch = batcher_reserve(batcher, client, &segment, now_us);
  assert_non_null(batch);
  batcher_commit(batcher, batch, segment, fake_stream(client), now_us);
}

static inline struct row_batch *take(struct batcher *batcher, int64_t now_us) {
  int64_t deadline;
  return batcher_try_take(batcher, now_us, &deadline);
}

static inline void finish(struct batcher *batcher, struct row_batch *batch, int64_t now_us) {
  batcher_stepping(batcher, batch, now_us);
  batcher_recycle(batcher, batch);
}

static inline struct batcher *with_clients(int clients, int rows_each, int64_t now_us) {
  struct batcher_config config = config_of(clients, clients * rows_each);
  struct batcher *batcher = batcher_create(&config);
  for (int i = 0; i < clients; i++)
    batcher_add(batcher, i, rows_each, i * rows_each, 1, false, true, now_us);
  return batcher;
}

/* The same with a row each, who may take a second. */
static inline struct batcher *with_patience(int clients, int target_rows, int barrier_rows) {
  struct batcher_config config = config_of(clients, clients);
  config.target_rows = target_rows;
  config.barrier_rows = barrier_rows;
  config.late_us = 1000000;
  struct batcher *batcher = batcher_create(&config);
  for (int i = 0; i < clients; i++) batcher_add(batcher, i, 1, i, 1, false, true, 0);
  return batcher;
}

#endif
