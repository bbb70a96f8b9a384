/* Saving a replay while inference goes on: what is saved is whole, inference waits no longer than
 * that, and goes on after a save that failed, that was cancelled, or during which the source
 * closed. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/resource.h>

#include "common/base/clock.h"
#include "tests/unit/learner/experience/replay_file_world.h"
#include "tests/unit/support/temporary_folder.h"

/* A row is large, so that saving takes a while; windows overlap and reach into the page that is
 * filled. */
static const struct world_config config = {"ref",           12, 3, 5,  3, 0, 4, 40, 4096,
                                           PAGES_STAGGERED, 20, 1, 0.6};

struct actor {
  struct world *world;
  pthread_t thread;
  atomic_bool ends;
  _Atomic int64_t steps;
};

/* Inference: steps of all slots in turn, and new lives. The trainer is another thread. */
static void *act(void *argument) {
  struct actor *actor = argument;
  struct world *world = actor->world;
  for (int slot = 0; !atomic_load(&actor->ends); slot = (slot + 1) % WORLD_SLOTS) {
    if (world_draw(world, 500) == 0) {
      world->life[slot] += WORLD_SLOTS;
      world->step[slot] = 0;
      world->depth[slot] = 0;
      pages_begin_life(world->pages, slot, world->life[slot]);
    }
    world_step(world, slot);
    atomic_fetch_add(&actor->steps, 1);
  }
  return NULL;
}

static void start(struct actor *actor) {
  *actor = (struct actor){.world = world_create(&config)};
  world_begin(actor->world, 1);
  assert_int_equal(pthread_create(&actor->thread, NULL, act, actor), 0);
}

static void end(struct actor *actor) {
  atomic_store(&actor->ends, true);
  source_close(actor->world->source);
  pthread_join(actor->thread, NULL);
  world_destroy(actor->world);
}

static void wait_for_steps(struct actor *actor, int64_t more) {
  int64_t from = atomic_load(&actor->steps);
  while (atomic_load(&actor->steps) < from + more) clock_sleep_us(100);
}

/* Every window that a replay loaded from the file draws holds its steps. */
static void assert_whole(const char *path) {
  struct world *world = world_create(&config);
  world_load(world, path);
  world_begin(world, 1 << 20);
  for (int i = 0; i < 1500; i++) {
    if (!world_step(world, (int)world_draw(world, WORLD_SLOTS))) continue;
    world_train(world);
    for (int n = 0; n < config.N; n++) assert_true(world_column_matches(world, n));
  }
  assert_true(world->batches > 20);
  world_destroy(world);
}

static void inference_goes_on_between_saves(void **state) {
  (void)state;
  struct actor actor;
  start(&actor);
  for (int round = 0; round < 8; round++) {
    for (int i = 0; i < 5; i++) world_train(actor.world);
    const char *path = temporary_folder_path(temporary_folder(), "replay");
    world_save(actor.world, path);
    wait_for_steps(&actor, 200);
    assert_whole(temporary_folder_path(temporary_folder(), "replay"));
  }
  end(&actor);
}

/* While it is saved inference soon stands still, which is counted; then it goes on. */
struct hold {
  struct actor *actor;
  int64_t stands_at, saving_us;
};

static bool hold(void *context) {
  struct hold *held = context;
  int64_t before = -1;
  while (before != atomic_load(&held->actor->steps)) {
    before = atomic_load(&held->actor->steps);
    clock_sleep_us(100000);
  }
  held->stands_at = before;
  held->saving_us = source_counters(held->actor->world->source).saving_us;
  return false;
}

static enum status save_with(struct actor *actor, bool (*cancelled)(void *), void *context) {
  struct error error;
  struct block_writer *writer = block_writer_create();
  const char *path = temporary_folder_path(temporary_folder(), "replay");
  assert_int_equal(block_writer_begin(writer, path, cancelled, context, &error), STATUS_OK);
  enum status status = source_save(actor->world->source, writer, &error);
  block_writer_destroy(writer);
  return status;
}

static void inference_waits_while_it_is_saved(void **state) {
  (void)state;
  struct actor actor;
  start(&actor);
  world_train(actor.world);
  struct hold held = {.actor = &actor};
  assert_int_equal(save_with(&actor, hold, &held), STATUS_OK);
  assert_true(held.saving_us >= 100000);
  assert_int_equal(source_counters(actor.world->source).saving_us, 0);
  wait_for_steps(&actor, 100);
  world_train(actor.world);
  end(&actor);
}

static bool at_once(void *context) {
  (void)context;
  return true;
}

static bool close_it(void *context) {
  source_close(((struct actor *)context)->world->source);
  return false;
}

static void inference_goes_on_after_a_save_that_failed(void **state) {
  (void)state;
  struct actor actor;
  start(&actor);
  world_train(actor.world);
  assert_int_equal(save_with(&actor, at_once, NULL), STATUS_DONE);
  wait_for_steps(&actor, 100);
  world_train(actor.world);

  struct rlimit limit;
  getrlimit(RLIMIT_FSIZE, &limit);
  signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &(struct rlimit){100000, limit.rlim_max});
  enum status status = save_with(&actor, NULL, NULL);
  setrlimit(RLIMIT_FSIZE, &limit);
  assert_int_equal(status, STATUS_IO);
  wait_for_steps(&actor, 100);
  world_train(actor.world);
  end(&actor);
}

static void a_source_may_close_while_it_is_saved(void **state) {
  (void)state;
  struct actor actor;
  start(&actor);
  world_train(actor.world);
  assert_int_equal(save_with(&actor, close_it, &actor), STATUS_OK);
  wait_for_steps(&actor, 100);
  end(&actor);
}

/* A window that closes while the replay is saved, which no page is begun for. */
struct late_window {
  struct world *world;
  struct window window;
  pthread_t thread;
  bool is_given;
  int64_t held_before, held_then;
};

static void *give_it(void *argument) {
  struct late_window *late = argument;
  source_give(late->world->source, late->world->pages, &late->window, 0);
  return NULL;
}

static bool give_meanwhile(void *context) {
  struct late_window *late = context;
  if (late->is_given) return false;
  late->is_given = true;
  late->held_before = world_windows(late->world);
  assert_int_equal(pthread_create(&late->thread, NULL, give_it, late), 0);
  while (!source_counters(late->world->source).full &&
         world_windows(late->world) == late->held_before)
    clock_sleep_us(100);
  late->held_then = world_windows(late->world);
  return false;
}

/* Closes a window of slot 0, which has not been given yet. */
static struct window close_window(struct world *world) {
  struct pages_place place;
  do {
    place = pages_append(world->pages, 0);
    if (place.start >= 0) pages_rows(world->pages)->start_depth[place.start] = 0;
    world_write(world, &place, 0);
    world->step[0]++;
  } while (!place.closes_window);
  return place.window;
}

static void a_window_that_closes_meanwhile_is_not_inserted(void **state) {
  (void)state;
  struct actor actor = {.world = world_create(&config)};
  struct world *world = actor.world;
  world_begin(world, 1);
  for (int i = 0; i < 500; i++) world_step(world, i % (WORLD_SLOTS - 1) + 1);
  struct late_window late = {.world = world, .window = close_window(world)};
  assert_int_equal(save_with(&actor, give_meanwhile, &late), STATUS_OK);
  pthread_join(late.thread, NULL);
  assert_int_equal(late.held_then, late.held_before);
  assert_int_equal(world_windows(world), late.held_before + 1);
  world_destroy(world);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(inference_goes_on_between_saves),
      cmocka_unit_test(inference_waits_while_it_is_saved),
      cmocka_unit_test(a_window_that_closes_meanwhile_is_not_inserted),
      cmocka_unit_test(inference_goes_on_after_a_save_that_failed),
      cmocka_unit_test(a_source_may_close_while_it_is_saved),
  };
  return cmocka_run_group_tests(tests, temporary_folder_setup, temporary_folder_teardown);
}
