/* Saving a replay while inference goes on: what is saved is what there was when it was captured, to
 * the bit; inference waits for no more than a page that it would overwrite, and goes on after a
 * save that failed, that was cancelled, or during which the source closed. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/resource.h>

#include "common/base/clock.h"
#include "tests/unit/learner/experience/replay_file_world.h"
#include "tests/unit/support/races.h"
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
  for (int round = 0; round < (TESTING_SLOWLY ? 3 : 8); round++) {
    for (int i = 0; i < 5; i++) world_train(actor.world);
    const char *path = temporary_folder_path(temporary_folder(), "replay");
    world_save(actor.world, path);
    wait_for_steps(&actor, 200);
    assert_whole(temporary_folder_path(temporary_folder(), "replay"));
  }
  end(&actor);
}

/* ---- what is saved is of the moment when it was captured */

struct meanwhile {
  struct world *world;
  int blocks;
};

static bool play_on(void *context) {
  struct meanwhile *meanwhile = context;
  if (meanwhile->blocks++ < 2) world_play(meanwhile->world, 300);
  return false;
}

/* Steps, new lives, windows, batches and priorities while pages are left that nothing is in. */
static void what_comes_meanwhile_is_not_in_the_file(void **state) {
  (void)state;
  char first[TEMPORARY_PATH_BYTES], second[TEMPORARY_PATH_BYTES];
  strcpy(first, temporary_folder_path(temporary_folder(), "first"));
  strcpy(second, temporary_folder_path(temporary_folder(), "second"));
  struct world_config roomy = config;
  roomy.spare_pages = 300;
  struct meanwhile meanwhile = {.world = world_create(&roomy)};
  struct world *world = meanwhile.world;
  world_begin(world, 1);
  world_play(world, 1000);
  world_save(world, first);
  int64_t windows = world_windows(world), batches = world->batches;
  source_capture(world->source);
  world_play(world, 300);
  assert_int_equal(world_write_captured(world, second, play_on, &meanwhile), STATUS_OK);
  assert_true(meanwhile.blocks > 2);
  assert_true(world_windows(world) > windows && world->batches > batches);
  assert_int_equal(source_counters(world->source).saving_wait_us, 0);
  world_assert_same_files(first, second);
  world_destroy(world);
}

/* Nothing more is written before inference has come to a page that is to be; or has made so many
 * steps that it cannot have waited. */
static bool until_it_waits(void *context) {
  struct actor *actor = context;
  while (!source_counters(actor->world->source).saving_wait_us &&
         atomic_load(&actor->steps) < 100000)
    clock_sleep_us(100);
  return false;
}

/* The pool is full: each new page takes the place of one that is in the file. */
static void a_page_is_written_before_it_is_reused(void **state) {
  (void)state;
  char first[TEMPORARY_PATH_BYTES], second[TEMPORARY_PATH_BYTES];
  strcpy(first, temporary_folder_path(temporary_folder(), "first"));
  strcpy(second, temporary_folder_path(temporary_folder(), "second"));
  struct actor actor = {.world = world_create(&config)};
  struct world *world = actor.world;
  world_begin(world, 1);
  world_play(world, 2000);
  world_save(world, first);
  source_capture(world->source);
  assert_int_equal(pthread_create(&actor.thread, NULL, act, &actor), 0);
  assert_int_equal(world_write_captured(world, second, until_it_waits, &actor), STATUS_OK);
  wait_for_steps(&actor, 2000);
  assert_int_equal(source_counters(world->source).saving_us, 0);
  world_assert_same_files(first, second);
  end(&actor);
}

static enum status save_with(struct actor *actor, bool (*cancelled)(void *), void *context) {
  const char *path = temporary_folder_path(temporary_folder(), "replay");
  source_capture(actor->world->source);
  return world_write_captured(actor->world, path, cancelled, context);
}

static void what_cannot_be_written_is_let_go(void **state) {
  (void)state;
  struct actor actor;
  start(&actor);
  world_train(actor.world);
  source_capture(actor.world->source);
  source_let_go(actor.world->source);
  wait_for_steps(&actor, 2000);
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

/* It is let go, as inference no longer waits. */
static void a_source_may_close_while_it_is_saved(void **state) {
  (void)state;
  struct actor actor;
  start(&actor);
  wait_for_steps(&actor, 2000);
  world_train(actor.world);
  assert_int_equal(save_with(&actor, close_it, &actor), STATUS_DONE);
  wait_for_steps(&actor, 100);
  end(&actor);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(inference_goes_on_between_saves),
      cmocka_unit_test(what_comes_meanwhile_is_not_in_the_file),
      cmocka_unit_test(a_page_is_written_before_it_is_reused),
      cmocka_unit_test(what_cannot_be_written_is_let_go),
      cmocka_unit_test(inference_goes_on_after_a_save_that_failed),
      cmocka_unit_test(a_source_may_close_while_it_is_saved),
  };
  return cmocka_run_group_tests(tests, temporary_folder_setup, temporary_folder_teardown);
}
