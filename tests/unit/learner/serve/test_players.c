/* What Status says of a player: its rates and means over an interval, by a clock of the test's. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "learner/serve/players.h"
#include "tests/unit/learner/serve/loopback.h"

enum { SLOTS = 8, K = 4, MS = 1000, SECOND = 1000 * MS };

struct fixture {
  struct leases *leases;
  struct batcher *batcher;
  struct players *players;
};

static int create(void **state) {
  struct fixture *f = calloc(1, sizeof(*f));
  struct leases_config leases = {.max_train = SLOTS, .max_eval = SLOTS, .seed = 1};
  struct batcher_config batcher = {
      .max_clients = 2 * SLOTS, .max_rows = 4 * SLOTS, .row_stride = 16, .max_wait_us = SECOND};
  f->leases = leases_create(&leases);
  f->batcher = batcher_create(&batcher);
  f->players = players_create(f->leases, f->batcher);
  *state = f;
  return 0;
}

static int destroy(void **state) {
  struct fixture *f = *state;
  players_destroy(f->players);
  batcher_destroy(f->batcher);
  leases_destroy(f->leases);
  free(f);
  return 0;
}

static struct lease *join(struct fixture *f, const char *name, enum wire_role role, int64_t now) {
  struct wire_join_request request = {.num_environments = K, .role = role};
  request.space =
      (struct space){.num_tensors = 1, .tensor = {{"state", DTYPE_FLOAT32, 1, {4}}}, .discrete = 2};
  snprintf(request.name, sizeof(request.name), "%s", name);
  struct lease *lease;
  struct rpc_stream *superseded;
  assert_int_equal(leases_join(f->leases, &lease, &superseded, &request, now, NULL), STATUS_OK);
  return lease;
}

/* Without rows yet. */
static void bind_lease(struct fixture *f, struct lease *lease, struct rpc_stream *stream) {
  struct lease *same;
  assert_int_equal(leases_play(f->leases, &same, lease->run_id, stream, NULL), STATUS_OK);
}

static void play(struct fixture *f, struct lease *lease, struct rpc_stream *stream, int64_t now) {
  bind_lease(f, lease, stream);
  batcher_add(f->batcher, lease->client, K, lease->first_slot, lease->life, false, true, now);
}

/* A message at `now`, answered `wait` later. */
static void step(struct fixture *f, struct lease *lease, int64_t now, int64_t wait) {
  int segment;
  int64_t deadline;
  struct row_batch *batch = batcher_reserve(f->batcher, lease->client, &segment, now);
  lease->steps += K;
  batcher_commit(f->batcher, batch, segment, NULL, now);
  batch = batcher_try_take(f->batcher, now, &deadline);
  assert_non_null(batch);
  batcher_stepping(f->batcher, batch, now + wait);
  batcher_recycle(f->batcher, batch);
}

static struct wire_player only(struct fixture *f, int64_t now) {
  int count;
  struct wire_player *list = players_list(f->players, &count, now);
  assert_int_equal(count, 1);
  struct wire_player player = list[0];
  free(list);
  return player;
}

static void near(double value, double expected) {
  if (!(fabs(value - expected) <= 1e-6 * fabs(expected)))
    fail_msg("%g, expected %g", value, expected);
}

static void a_player_that_has_joined(void **state) {
  struct fixture *f = *state;
  struct lease *lease = join(f, "actor/0/0", WIRE_ROLE_EVAL, 5 * SECOND);
  struct wire_player player = only(f, 8 * SECOND);
  assert_string_equal(player.name, "actor/0/0");
  assert_string_equal(player.state, "joined");
  assert_int_equal(player.role, WIRE_ROLE_EVAL);
  assert_int_equal(player.first_environment, SLOTS);
  near(player.silent_seconds, 3);
  assert_true(isnan(player.step_us) && isnan(player.steps_per_second));
  leases_end(f->leases, lease, true);
  int count;
  free(players_list(f->players, &count, 0));
  assert_int_equal(count, 0);
}

/* Ten messages a second: 70 ms for its environments, 30 ms for the learner. */
static void rates_and_means(void **state) {
  struct fixture *f = *state;
  struct rpc_stream stream = {.references = 1};
  struct lease *lease = join(f, "actor/0/0", WIRE_ROLE_TRAIN, SECOND);
  play(f, lease, &stream, SECOND);
  for (int i = 0; i < 10; i++) step(f, lease, SECOND + i * 100 * MS, 30 * MS);
  players_tick(f->players, 2 * SECOND);
  struct wire_player player = only(f, 2 * SECOND);
  near(player.steps_per_second, 10 * K);
  near(player.step_us, 70 * MS);
  near(player.wait_us, 30 * MS);
  near(player.silent_seconds, 0.1);
  assert_int_equal(player.steps, 10 * K);
  assert_int_equal(player.late_environments, 0);
  /* Twice as slow in the next second: the means are that second's. */
  for (int i = 0; i < 5; i++) step(f, lease, 2 * SECOND + i * 200 * MS, 60 * MS);
  players_tick(f->players, 3 * SECOND);
  player = only(f, 3 * SECOND);
  near(player.steps_per_second, 5 * K);
  near(player.step_us, (70 * MS + 4 * 140 * MS) / 5.0);
  near(player.wait_us, 60 * MS);
  /* Then it stops: late, rate 0, the means stay. */
  int64_t deadline;
  assert_null(batcher_try_take(f->batcher, 4 * SECOND, &deadline));
  players_tick(f->players, 4 * SECOND);
  player = only(f, 4 * SECOND);
  assert_string_equal(player.state, "late");
  assert_int_equal(player.late_environments, K);
  near(player.wait_us, 60 * MS);
  assert_true(player.steps_per_second == 0);
  near(player.silent_seconds, 1.2);
  batcher_remove(f->batcher, lease->client);
  leases_end(f->leases, lease, true);
}

/* Another one in the same place begins with figures of its own. */
static void a_successor_inherits_nothing(void **state) {
  struct fixture *f = *state;
  struct rpc_stream stream = {.references = 1};
  struct lease *lease = join(f, "actor/0/0", WIRE_ROLE_TRAIN, SECOND);
  play(f, lease, &stream, SECOND);
  for (int i = 0; i < 10; i++) step(f, lease, SECOND + i * 100 * MS, 30 * MS);
  players_tick(f->players, 2 * SECOND);
  batcher_remove(f->batcher, lease->client);
  leases_end(f->leases, lease, false);
  lease = join(f, "actor/1/0", WIRE_ROLE_TRAIN, 2 * SECOND);
  play(f, lease, &stream, 2 * SECOND);
  assert_true(isnan(only(f, 2 * SECOND).wait_us));
  step(f, lease, 2500 * MS, 10 * MS);
  players_tick(f->players, 3 * SECOND);
  struct wire_player player = only(f, 3 * SECOND);
  near(player.steps_per_second, K);
  near(player.wait_us, 10 * MS);
  assert_true(isnan(player.step_us));
  batcher_remove(f->batcher, lease->client);
  leases_end(f->leases, lease, true);
}

/* Nor does one that holds a stream and has sent no rows. */
static void a_successor_that_resets_is_silent_since_its_join(void **state) {
  struct fixture *f = *state;
  struct rpc_stream stream = {.references = 1};
  struct lease *lease = join(f, "actor/0/0", WIRE_ROLE_TRAIN, SECOND);
  play(f, lease, &stream, SECOND);
  step(f, lease, SECOND, 30 * MS);
  batcher_remove(f->batcher, lease->client);
  leases_end(f->leases, lease, false);
  lease = join(f, "actor/1/0", WIRE_ROLE_TRAIN, 10 * SECOND);
  bind_lease(f, lease, &stream);
  struct wire_player player = only(f, 15 * SECOND);
  assert_string_equal(player.state, "joined");
  near(player.silent_seconds, 5);
  leases_end(f->leases, lease, true);
}

int main(void) {
#define WITH(test) cmocka_unit_test_setup_teardown(test, create, destroy)
  const struct CMUnitTest tests[] = {
      WITH(a_player_that_has_joined),
      WITH(rates_and_means),
      WITH(a_successor_inherits_nothing),
      WITH(a_successor_that_resets_is_silent_since_its_join),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
