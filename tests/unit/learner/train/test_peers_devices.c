/* The group of the learners' devices: which way their sums go and why, what all of them record, and
 * a learner that ends or stops in the middle of a sum: the others skip the update, and name the
 * reason. */
#include <signal.h>

#include "common/base/clock.h"
#include "learner/train/peers.h"
#include "learner/train/trainer.h"
#include "tests/unit/learner/train/fixture.h"
#include "tests/unit/learner/train/peers_devices_testing.h"

enum { LEARNERS = 2, WINDOWS = 2, MOST_UPDATES = 20, BATCHES = 4 };

/* ---- which way */

struct way {
  const char *name, *version[LEARNERS]; /* of a learner's NCCL; NULL: the emulated one's own */
  int gpu[LEARNERS];
  const char *without, *expected[LEARNERS];
  float sum; /* of 1 + rank */
};

/* Behind the sum. */
static char *way_of(const struct peers_world *w, int rank) {
  return (char *)&w->result[rank].number[1];
}

static void add_up(struct peers_world *w, struct peers *peers, int rank) {
  const struct way *way = w->context;
  const char *version = way->version[rank], *without = rank == 1 ? way->without : NULL;
  if (version) setenv("ACORN_EMULATED_NCCL", version, 1);
  if (without) setenv("ACORN_CUDA_WITHOUT", without, 1);
  struct device *device = peers_gpu(way->gpu[rank]);
  snprintf(way_of(w, rank), PEERS_DEVICES_BYTES, "%s", peers_join(peers, device));
  real *x = device->ops->alloc(device, sizeof(float));
  float y;
  device_fill(device, x, 1 + (float)rank, 1);
  device->peers->by_group = device->peers->joined;
  device_add_up(device, x, 1);
  device->ops->download(device, &y, x, 1);
  w->result[rank].number[0] = (double)y;
  device->ops->release(device, x);
  device_destroy(device);
}

static void sums_go_by_the_group_or_else_through_the_host(void **state) {
  (void)state;
  static const struct way table[] = {
      {"two GPUs", {NULL, NULL}, {0, 1}, NULL, {"by NCCL 2.28.3", "by NCCL 2.28.3"}, 3},
      {"one GPU",
       {NULL, NULL},
       {1, 1},
       NULL,
       {"through the host: learners 0 and 1 share a GPU, see --gpu",
        "through the host: learners 0 and 1 share a GPU, see --gpu"},
       3},
      {"two versions",
       {NULL, "21802"},
       {0, 1},
       NULL,
       {"through the host: learners 0 and 1 have versions 22803 and 21802 of the library",
        "through the host: learners 0 and 1 have versions 22803 and 21802 of the library"},
       3},
      {"one without",
       {NULL, NULL},
       {0, 1},
       "nccl",
       {"through the host: learner 1 cannot; its log has the reason",
        "through the host: ACORN_CUDA_WITHOUT names nccl"},
       3},
      {"one without graphs",
       {NULL, NULL},
       {0, 1},
       "graphs",
       {"through the host: learner 1 cannot; its log has the reason",
        "through the host: updates are not recorded (ACORN_CUDA_WITHOUT=graphs or "
        "CUDA_LAUNCH_BLOCKING=1)"},
       3},
  };
  for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
    struct peers_world w = peers_world_create(LEARNERS);
    w.context = (void *)&table[i];
    peers_world_run_all(&w, add_up);
    for (int r = 0; r < LEARNERS; r++) {
      print_message("%s, learner %d\n", table[i].name, r);
      assert_int_equal(w.result[r].status, STATUS_OK);
      assert_string_equal(way_of(&w, r), table[i].expected[r]);
      assert_true(w.result[r].number[0] == (double)table[i].sum);
    }
    peers_world_destroy(&w);
  }
}

/* ---- its library */

enum { HAS_NCCL, HAS_NONE, HAS_ANOTHER };
static int machine;
void *__real_dlopen(const char *file, int flags);
void *__wrap_dlopen(const char *file, int flags);

void *__wrap_dlopen(const char *file, int flags) {
  if (!file || !strstr(file, "libnccl") || machine == HAS_NCCL) return __real_dlopen(file, flags);
  return machine == HAS_NONE ? NULL : __real_dlopen("libm.so.6", flags);
}

static void what_is_no_nccl_is_named(void **state) {
  (void)state;
  static const struct {
    int machine;
    enum status status;
    const char *sentence;
  } table[] = {
      {HAS_NONE, STATUS_UNAVAILABLE,
       "libnccl.so.2 is in none of LD_LIBRARY_PATH, CUDA's folder and pip's: "
       "`.venv/bin/python3 -m pip install nvidia-nccl-cu"},
      {HAS_ANOTHER, STATUS_MISMATCH, "libnccl.so.2 has no ncclGetVersion: install NCCL again"}};
  for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
    struct device_library library;
    struct error error;
    struct device *device = peers_gpu(0);
    machine = table[i].machine;
    enum status found = device->ops->group->find(device, &library, &error);
    machine = HAS_NCCL;
    assert_int_equal(found, table[i].status);
    if (!strstr(error.text, table[i].sentence)) fail_msg("%s", error.text);
    device_destroy(device);
  }
}

static void another_major_version_is_refused(void **state) {
  (void)state;
  static const struct {
    const char *version, *sentence;
  } table[] = {{"30100", "libnccl.so.2 is NCCL 3.1, and this program needs 2.14 or a later 2"},
               {"21304", "libnccl.so.2 is NCCL 2.13, and this program needs 2.14 or a later 2"},
               {"2708", "libnccl.so.2 is NCCL 2.7, and this program needs 2.14 or a later 2"}};
  for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
    struct error error;
    setenv("ACORN_EMULATED_NCCL", table[i].version, 1);
    struct device *device = peers_gpu(0);
    assert_int_equal(peers_check_device(device, &error), STATUS_MISMATCH);
    if (!strstr(error.text, table[i].sentence)) fail_msg("%s", error.text);
    device_destroy(device);
  }
  unsetenv("ACORN_EMULATED_NCCL");
  struct error error;
  struct device *device = peers_gpu(0);
  assert_int_equal(peers_check_device(device, &error), STATUS_OK);
  device_destroy(device);
  device = fixture_device("cpu");
  assert_int_equal(peers_check_device(device, &error), STATUS_OK);
  device_destroy(device);
}

/* ---- what trains */

/* Which of a learner's batches an update is of. */
static int first_batch(int rank, int number) {
  (void)rank;
  (void)number;
  return 0;
}

struct plan {
  const char *machine[LEARNERS]; /* NULL: the test's */
  int (*batch)(int rank, int number);
};

static const struct plan PLAIN = {{NULL}, first_batch};

struct learner {
  struct device *device;
  struct network *network;
  struct update *update;
  struct train_batch *batch[BATCHES];
};

static struct learner begin(struct peers *peers, int rank) {
  struct learner l = {.device = peers_gpu(rank)};
  (void)peers_join(peers, l.device);
  const struct network_config network_config = fixture_config("mlp", 1, ACTIVATION_TANH);
  l.network = fixture_network(&network_config);
  struct learner_options config = fixture_options();
  config.algorithm.batch_size = WINDOWS;
  struct update_config of_update = run_options_of_update(&config);
  of_update.policy = algorithms_find(config.agent)->policies[0];
  of_update.peers = peers;
  struct error error;
  if (update_create(&l.update, l.device, l.network, algorithms_find(config.agent)->algorithm,
                    &of_update, &error) != STATUS_OK)
    fail_msg("%s", error.text);
  for (int i = 0; i < BATCHES; i++)
    l.batch[i] = fixture_batch(l.device, l.network, UNROLL, WINDOWS, (uint32_t)(rank + i) + 2);
  return l;
}

static void end(struct learner *l) {
  update_destroy(l->update);
  for (int i = 0; i < BATCHES; i++) train_batch_destroy(l->device, l->batch[i]);
  device_destroy(l->device);
  network_destroy(l->network);
}

/* Trains until the other one is missing: updates done, whether what they made has stayed, the
 * version, and graphs that were played. */
static void train(struct peers_world *w, struct peers *peers, int rank) {
  const struct plan *plan = w->context ? w->context : &PLAIN;
  if (plan->machine[rank]) setenv("ACORN_EMULATED_CUDA", plan->machine[rank], 1);
  struct learner l = begin(peers, rank);
  struct update_stats stats;
  struct error error;
  size_t P = update_num_parameters(l.update);
  float *before = check_alloc(2 * P, sizeof(*before)), *after = before + P;
  enum status status = STATUS_OK;
  int updates = 0;
  for (; updates < MOST_UPDATES; updates++) {
    update_read_parameters(l.update, before);
    const struct train_batch *next = l.batch[plan->batch(rank, updates)];
    peers_agree(peers, l.update, next);
    update_start(l.update, next, 0);
    status = update_finish(l.update, &stats, &error);
    if (status != STATUS_OK) break;
  }
  peers_meet(peers);
  update_read_parameters(l.update, after);
  w->result[rank].number[0] = updates;
  w->result[rank].number[1] = memcmp(before, after, P * sizeof(*before)) == 0;
  w->result[rank].number[2] = (double)update_version(l.update);
  w->result[rank].number[3] = (double)emulated_cuda_count("cudaGraphLaunch");
  end(&l);
}

static void check_trained(const struct peers_world *w, const char *what, int graphs) {
  for (int r = 0; r < LEARNERS; r++)
    if (w->result[r].status != STATUS_OK)
      print_message("%s, learner %d: %s\n", what, r, w->result[r].error);
  for (int r = 0; r < LEARNERS; r++) {
    assert_int_equal(w->result[r].status, STATUS_OK);
    assert_int_equal((int)w->result[r].number[0], MOST_UPDATES);
    assert_int_equal((int)w->result[r].number[3], graphs);
  }
}

/* ---- what is recorded */

static void where_one_cannot_record_all_add_up_through_the_host(void **state) {
  (void)state;
  static const struct plan table[] = {{{NULL, "gpus:4,no_captures"}, first_batch},
                                      {{"gpus:4,no_captures", NULL}, first_batch},
                                      {{NULL, "gpus:4,no_graphs"}, first_batch},
                                      {{"gpus:4,no_graphs", NULL}, first_batch}};
  for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
    const char *const *of = table[i].machine;
    struct peers_world w = peers_world_create(LEARNERS);
    w.context = (void *)&table[i];
    peers_world_run_all(&w, train);
    check_trained(&w, of[0] ? of[0] : of[1], 0);
    peers_world_destroy(&w);
  }
}

/* The same batches in every other update, and between those a new set of them each time. */
static int often_the_first(int rank, int number) {
  int set = number < 2 || number % 2 ? 0 : number / 2;
  return rank == 0 ? set % BATCHES : set / BATCHES;
}

static void what_is_recorded_stays_while_it_is_used(void **state) {
  (void)state;
  struct plan plan = {{NULL}, often_the_first};
  struct peers_world w = peers_world_create(LEARNERS);
  w.context = &plan;
  peers_world_run_all(&w, train);
  check_trained(&w, "sets of batches", MOST_UPDATES / 2);
  peers_world_destroy(&w);
}

/* Five sets of batches in turn. A learner has its next batch at the last of so many looks. */
struct turns {
  int looks[LEARNERS];
  bool all_together;
};

struct in_turn {
  struct source source; /* first */
  struct learner *learner;
  struct progress *progress;
  const struct turns *turns;
  int rank, looks, taken;
};

static struct train_batch *take_in_turn(struct source *source, int64_t wait_us) {
  static const int set[][LEARNERS] = {{0, 0}, {1, 1}, {2, 2}, {0, 1}, {1, 2}};
  (void)wait_us;
  struct in_turn *in_turn = (struct in_turn *)source;
  int period = in_turn->turns->looks[in_turn->rank], number = in_turn->looks++ / period;
  if (number == MOST_UPDATES) progress_stop(in_turn->progress, STOP_SIGNAL);
  if (number == MOST_UPDATES || in_turn->looks % period != 0) return NULL;
  in_turn->taken++;
  return in_turn->learner->batch[set[number % 5][in_turn->rank]];
}

static void release_in_turn(struct source *source, struct train_batch *batch) {
  (void)source;
  (void)batch;
}

static const struct source_ops IN_TURN = {.take = take_in_turn, .release = release_in_turn};

static void train_in_turn(struct peers_world *w, struct peers *peers, int rank) {
  struct learner l = begin(peers, rank);
  train_batch_make_blank(l.device, l.batch[BATCHES - 1]);
  const struct progress_config of_progress = {.target_return = NAN};
  struct progress *progress = progress_create(&of_progress);
  struct weights *weights = weights_create(l.device, update_num_parameters(l.update));
  const struct turns *turns = w->context;
  struct in_turn in_turn = {{&IN_TURN}, &l, progress, turns, rank, 0, 0};
  const struct trainer_config config = {.peers = peers,
                                        .blank = l.batch[BATCHES - 1],
                                        .total_steps = INT64_MAX,
                                        .all_together = turns->all_together};
  struct trainer *trainer =
      trainer_create(&config, l.device, l.update, &in_turn.source, weights, progress);
  trainer_start(trainer);
  trainer_join(trainer);
  w->result[rank].number[0] = (double)trainer_report(trainer).updates;
  w->result[rank].number[1] = in_turn.taken;
  w->result[rank].number[3] = (double)emulated_cuda_count("cudaGraphLaunch");
  trainer_destroy(trainer);
  weights_destroy(weights);
  progress_destroy(progress);
  end(&l);
}

static void run_in_turn(struct turns turns) {
  struct peers_world w = peers_world_create(LEARNERS);
  w.context = &turns;
  peers_world_run_all(&w, train_in_turn);
  check_trained(&w, "batches in turn", MOST_UPDATES - 5);
  for (int r = 0; r < LEARNERS; r++) assert_int_equal((int)w.result[r].number[1], MOST_UPDATES);
  peers_world_destroy(&w);
}

static void meetings_without_an_update_use_up_no_recording(void **state) {
  (void)state;
  run_in_turn((struct turns){{2, 3}, true});
}

/* One that is a little late, by which a meeting fell between both. */
static void an_update_has_the_batches_of_both(void **state) {
  (void)state;
  run_in_turn((struct turns){{1, 2}, false});
}

/* ---- one that is missing */

struct loss {
  const char *signal; /* RANK:SUM:SIGNAL */
  int timeout_ms, updates;
  const char *sentence;
};

static void a_missing_learner_ends_the_others(void **state) {
  (void)state;
  /* The first update is no graph yet, and adds up through the host; the second one is recorded. Its
   * first call of NCCL waits for the others' calls, for a time that is longer than a test's. */
  static const struct loss table[] = {
      {"1:0:9", 600 * 1000, 1, "learner 1 of 2 has ended"},
      {"1:1:9", 20000, 1, "learner 1 of 2 has ended"},
      {"1:2:9", 20000, 2, "learner 1 of 2 has ended"},
      {"0:9:9", 20000, 9, "learner 0 of 2 has ended"},
      {"1:5:19", 5000, 5, "the devices of 2 learners have not added up within 5 s"},
  };
  for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
    const struct loss *loss = &table[i];
    int lost = loss->signal[0] - '0', left = 1 - lost;
    struct peers_world w = peers_world_create(LEARNERS);
    w.timeout_ms = loss->timeout_ms;
    setenv("ACORN_EMULATED_NCCL_SIGNAL", loss->signal, 1);
    for (int r = 0; r < LEARNERS; r++) peers_world_start(&w, r, train);
    waitpid(w.process[left], NULL, 0);
    w.process[left] = 0;
    kill(w.process[lost], SIGKILL);
    peers_world_wait(&w);
    print_message("%s: %s\n", loss->signal, w.result[left].error);
    assert_int_equal(w.result[left].status, STATUS_UNAVAILABLE);
    if (!strstr(w.result[left].error, loss->sentence)) fail_msg("%s", w.result[left].error);
    assert_int_equal((int)w.result[left].number[0], loss->updates);
    assert_int_equal((int)w.result[left].number[1], 1);
    assert_int_equal((int)w.result[left].number[2], loss->updates);
    peers_world_destroy(&w);
  }
  unsetenv("ACORN_EMULATED_NCCL_SIGNAL");
}

/* In a sum, or in the first call of NCCL, for longer than the timeout. */
static void learners_that_were_stopped_together_go_on(void **state) {
  (void)state;
  static const char *const table[] = {"1:5:19", "1:0:19"};
  for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
    int stopped;
    struct peers_world w = peers_world_create(LEARNERS);
    w.timeout_ms = 2000;
    setenv("ACORN_EMULATED_NCCL_SIGNAL", table[i], 1);
    for (int r = 0; r < LEARNERS; r++) peers_world_start(&w, r, train);
    assert_int_equal(waitpid(w.process[1], &stopped, WUNTRACED), w.process[1]);
    assert_true(WIFSTOPPED(stopped));
    clock_sleep_us(100 * 1000); /* until the other one waits for it */
    kill(w.process[0], SIGSTOP);
    clock_sleep_us((w.timeout_ms + 500) * 1000);
    for (int r = LEARNERS - 1; r >= 0; r--) kill(w.process[r], SIGCONT);
    peers_world_wait(&w);
    check_trained(&w, table[i], MOST_UPDATES - 1);
    peers_world_destroy(&w);
  }
  unsetenv("ACORN_EMULATED_NCCL_SIGNAL");
}

int main(void) {
  peers_use_gpus();
  /* The first ones' learners make machines of their own, before this process has one. */
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(where_one_cannot_record_all_add_up_through_the_host),
      cmocka_unit_test(sums_go_by_the_group_or_else_through_the_host),
      cmocka_unit_test(what_is_no_nccl_is_named),
      cmocka_unit_test(another_major_version_is_refused),
      cmocka_unit_test(what_is_recorded_stays_while_it_is_used),
      cmocka_unit_test(meetings_without_an_update_use_up_no_recording),
      cmocka_unit_test(an_update_has_the_batches_of_both),
      cmocka_unit_test(a_missing_learner_ends_the_others),
      cmocka_unit_test(learners_that_were_stopped_together_go_on)};
  return cmocka_run_group_tests(tests, temporary_folder_setup, temporary_folder_teardown);
}
