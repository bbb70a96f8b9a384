/* Leases under random schedules of Joins, Plays, ends and lost patience, against a model that says
 * what the header says: the lowest free ids, one lease per name, ids freed once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "common/base/log.h"
#include "learner/serve/leases.h"
#include "tests/unit/learner/serve/loopback.h"

enum { TRAIN = 9, EVAL = 4, SLOTS = TRAIN + EVAL, NAMES = 8, SCHEDULES = 60, ACTS = 400 };

/* A lease as it should be. */
struct entry {
  struct lease *lease; /* NULL: this entry is not in use */
  int name, role, first, count;
  bool playing, stepped, ended;
  int64_t joined_us;
  uint64_t run_id;
  struct rpc_stream stream;
};

struct world {
  struct leases *leases;
  struct entry entry[SLOTS];
  int taken[SLOTS]; /* by how many leases */
  uint32_t life[SLOTS];
  bool absent[NAMES];
  int64_t now_us;
  uint64_t random;
};

static const struct space space = {
    .num_tensors = 1, .tensor = {{"x", DTYPE_FLOAT32, 1, {4}}}, .discrete = 2};

static int below(struct world *world, int n) {
  world->random = world->random * 6364136223846793005u + 1442695040888963407u;
  return (int)((world->random >> 33) % (uint64_t)n);
}

static int lowest_free(const struct world *world, int begin, int end, int count) {
  for (int first = begin; first + count <= end; first++) {
    int free = 0;
    while (free < count && !world->taken[first + free]) free++;
    if (free == count) return first;
  }
  return -1;
}

static struct entry *unused_entry(struct world *world) {
  for (int i = 0; i < SLOTS; i++)
    if (!world->entry[i].lease) return &world->entry[i];
  return NULL;
}

static struct entry *of_name(struct world *world, int name) {
  for (int i = 0; i < SLOTS; i++) {
    struct entry *entry = &world->entry[i];
    if (entry->lease && !entry->ended && entry->name == name) return entry;
  }
  return NULL;
}

static struct entry *any_entry(struct world *world, bool playing) {
  for (int i = 0, at = below(world, SLOTS); i < SLOTS; i++, at = (at + 1) % SLOTS)
    if (world->entry[at].lease && world->entry[at].playing == playing) return &world->entry[at];
  return NULL;
}

static void free_ids(struct world *world, struct entry *entry) {
  for (int i = 0; i < entry->count && !entry->ended; i++) world->taken[entry->first + i]--;
  entry->ended = true;
}

static void forget_entry(struct world *world, struct entry *entry) {
  free_ids(world, entry);
  entry->lease = NULL;
}

/* As if the older lease of the name (NULL: none) had ended. */
static int lowest_free_without(struct world *world, const struct entry *old, int begin, int end,
                               int count) {
  for (int i = 0; old && i < old->count; i++) world->taken[old->first + i]--;
  int first = lowest_free(world, begin, end, count);
  for (int i = 0; old && i < old->count; i++) world->taken[old->first + i]++;
  return first;
}

static void check_granted(struct world *world, struct entry *entry, int first, uint32_t life) {
  const struct lease *lease = entry->lease;
  assert_int_equal(lease->first_slot, first);
  assert_int_equal(lease->num_environments, entry->count);
  assert_int_equal(lease->role, entry->role);
  assert_int_equal(lease->life, 100 + life);
  assert_int_not_equal(lease->run_id, 0);
  for (int i = 0; i < SLOTS; i++) {
    const struct entry *other = &world->entry[i];
    if (other != entry && other->lease) assert_true(other->lease != lease);
    if (other != entry && other->lease) assert_true(other->run_id != lease->run_id);
  }
}

static void act_join(struct world *world) {
  int name = below(world, NAMES), role = below(world, 3) ? WIRE_ROLE_TRAIN : WIRE_ROLE_EVAL;
  int begin = role == WIRE_ROLE_EVAL ? TRAIN : 0, end = role == WIRE_ROLE_EVAL ? SLOTS : TRAIN;
  int count = 1 + below(world, 5);
  struct wire_join_request request = {.space = space, .num_environments = count, .role = role};
  snprintf(request.name, sizeof(request.name), "a/%d", name);
  struct lease *lease;
  struct rpc_stream *superseded;
  struct error error;
  enum status status =
      leases_join(world->leases, &lease, &superseded, &request, world->now_us, &error);
  if (count > end - begin) {
    assert_int_equal(status, STATUS_MISMATCH);
    assert_null(superseded);
    return;
  }

  struct entry *old = of_name(world, name);
  int first = lowest_free_without(world, old, begin, end, count);
  bool fits = first >= 0 && (unused_entry(world) || (old && !old->playing));
  assert_int_equal(status, fits ? STATUS_OK : STATUS_EXHAUSTED);
  assert_ptr_equal(superseded, fits && old && old->playing ? &old->stream : NULL);
  if (!fits) return;
  if (superseded) rpc_stream_unref(superseded);
  if (old && old->playing) free_ids(world, old);
  if (old && !old->playing) forget_entry(world, old);
  struct entry *entry = unused_entry(world);

  uint32_t life = 0;
  for (int i = first; i < first + count; i++) life = world->life[i] > life ? world->life[i] : life;
  life++;
  *entry = (struct entry){.lease = lease,
                          .name = name,
                          .role = role,
                          .first = first,
                          .count = count,
                          .joined_us = world->now_us,
                          .run_id = lease->run_id};
  check_granted(world, entry, first, life);
  for (int i = first; i < first + count; i++) {
    world->life[i] = life;
    world->taken[i]++;
  }
  world->absent[name] = false;
}

static void act_play(struct world *world) {
  struct entry *entry = any_entry(world, false);
  if (!entry) return;
  struct lease *lease;
  struct error error;
  assert_int_equal(leases_play(world->leases, &lease, entry->run_id, &entry->stream, &error),
                   STATUS_OK);
  assert_ptr_equal(lease, entry->lease);
  assert_int_equal(entry->stream.references, 1);
  entry->playing = true;
  entry->stepped = below(world, 4) > 0;
  lease->started = entry->stepped;
}

/* Neither an id that was never given nor one that plays already. */
static void act_play_again(struct world *world) {
  struct entry *entry = any_entry(world, true);
  struct rpc_stream stream = {.references = 0};
  struct lease *lease;
  struct error error;
  uint64_t run_id = entry ? entry->run_id : 12;
  assert_int_equal(leases_play(world->leases, &lease, run_id, &stream, &error), STATUS_NOT_FOUND);
  assert_int_equal(stream.references, 0);
}

/* A stream closes, superseded or not. */
static void act_close(struct world *world) {
  struct entry *entry = any_entry(world, true);
  if (!entry) return;
  bool finished = below(world, 2);
  if (!finished && !entry->ended && entry->role == WIRE_ROLE_TRAIN)
    world->absent[entry->name] = true;
  leases_end(world->leases, entry->lease, finished);
  assert_int_equal(entry->stream.references, 0);
  forget_entry(world, entry);
}

static bool is_too_old(const struct world *world, const struct entry *entry) {
  if (!entry->lease || entry->ended || entry->stepped) return false;
  int64_t age_us = world->now_us - entry->joined_us;
  return age_us > (entry->playing ? LEASE_ROWS_WAIT_US : LEASE_PLAY_WAIT_US);
}

/* A lease without a Play is gone at once; a stream without rows is handed back, once. */
static void act_expire(struct world *world) {
  static const int64_t steps_us[] = {1, LEASE_PLAY_WAIT_US / 3, LEASE_ROWS_WAIT_US / 3};
  world->now_us += steps_us[below(world, 3)];
  struct rpc_stream *stream;
  while ((stream = leases_expire(world->leases, world->now_us))) stream->cancelled = true;
  for (int i = 0; i < SLOTS; i++) {
    struct entry *entry = &world->entry[i];
    bool ends = is_too_old(world, entry);
    assert_int_equal(entry->lease && entry->stream.cancelled, ends && entry->playing);
    if (!ends) continue;
    if (!entry->playing) {
      forget_entry(world, entry);
    } else {
      free_ids(world, entry);
      entry->stream.cancelled = false;
      rpc_stream_unref(&entry->stream);
    }
  }
}

static void check_view(struct world *world, const struct lease_view *view) {
  for (int i = 0; i < SLOTS; i++) {
    const struct entry *entry = &world->entry[i];
    char name[16];
    if (!entry->lease || entry->ended || entry->run_id != view->run_id) continue;
    snprintf(name, sizeof(name), "a/%d", entry->name);
    assert_string_equal(view->name, name);
    assert_int_equal(view->first_slot, entry->first);
    assert_int_equal(view->num_environments, entry->count);
    assert_int_equal(view->role, entry->role);
    assert_int_equal(view->playing, entry->playing);
    assert_int_equal(view->joined_us, entry->joined_us);
    return;
  }
  fail_msg("%s has no lease", view->name);
}

static void check(struct world *world) {
  struct leases_count count = leases_count(world->leases);
  int envs[2] = {0, 0}, players = 0, absent = 0;
  for (int i = 0; i < SLOTS; i++) {
    assert_in_range(world->taken[i], 0, 1);
    envs[i >= TRAIN] += world->taken[i];
    players += world->entry[i].lease && !world->entry[i].ended;
  }
  for (int i = 0; i < NAMES; i++) absent += world->absent[i];
  assert_int_equal(count.train_envs, envs[0]);
  assert_int_equal(count.eval_envs, envs[1]);
  assert_int_equal(count.players, players);
  assert_int_equal(count.absent, absent);
  struct lease_view views[SLOTS];
  assert_int_equal(leases_view(world->leases, views, SLOTS), players);
  for (int i = 0; i < players; i++) check_view(world, &views[i]);
}

static void act(struct world *world) {
  static void (*const acts[])(struct world *) = {act_join, act_join,  act_join,   act_play,
                                                 act_play, act_close, act_expire, act_play_again};
  acts[below(world, sizeof(acts) / sizeof(acts[0]))](world);
}

static void random_schedules_agree_with_the_model(void **state) {
  (void)state;
  log_init("test", LOG_ERROR);
  for (uint64_t schedule = 0; schedule < SCHEDULES; schedule++) {
    struct world *world = calloc(1, sizeof(*world));
    struct leases_config config = {
        .max_train = TRAIN, .max_eval = EVAL, .seed = schedule, .first_life = 100};
    world->leases = leases_create(&config);
    world->random = schedule;
    for (int i = 0; i < ACTS; i++) {
      act(world);
      check(world);
    }
    leases_destroy(world->leases);
    free(world);
  }
}

/* The wait to the microsecond. */
static void a_join_without_a_play_ends_in_time(void **state) {
  (void)state;
  log_init("test", LOG_ERROR);
  struct leases *leases = leases_create(&(struct leases_config){.max_train = 4});
  struct wire_join_request request = {.name = "a", .space = space, .num_environments = 4};
  struct lease *lease;
  struct rpc_stream *superseded, stream = {.references = 0};
  struct error error;
  assert_int_equal(leases_join(leases, &lease, &superseded, &request, 5, &error), STATUS_OK);
  uint64_t run_id = lease->run_id;
  leases_expire(leases, 5 + LEASE_PLAY_WAIT_US);
  assert_int_equal(leases_count(leases).train_envs, 4);
  leases_expire(leases, 5 + LEASE_PLAY_WAIT_US + 1);
  assert_int_equal(leases_count(leases).train_envs, 0);
  assert_int_equal(leases_count(leases).absent, 0);
  assert_int_equal(leases_play(leases, &lease, run_id, &stream, &error), STATUS_NOT_FOUND);
  leases_destroy(leases);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(random_schedules_agree_with_the_model),
      cmocka_unit_test(a_join_without_a_play_ends_in_time),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
