/* A version's queue, batches and sequences: what waits becomes one batch, but for two steps of a
 * sequence; a full queue refuses; nothing that was taken is lost when the version is closed. The
 * first request's `done` holds the version's thread, so that the others wait for sure. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <sched.h>
#include <semaphore.h>

#include "common/base/check.h"
#include "common/base/files.h"
#include "deploy/serve/version.h"
#include "learner/run/run_environment.h"
#include "learner/run/run_parts.h"
#include "learner/train/state.h"
#include "tests/unit/support/temporary_folder.h"

enum { MAX_BATCH = 8, MAX_QUEUE = 12, MAX_SEQUENCES = 3, STEPS = 6 };

struct fixture {
  char folder[TEMPORARY_FOLDER_BYTES], file[CHECKPOINT_PATH_BYTES];
  struct learner_options options;
  struct run run;
  struct signature signature;
  struct metrics *metrics;
  struct version_metrics metric;
  struct version *version;
  sem_t *holds; /* the version's thread; NULL: nothing does */
};

static void set(struct learner_options *options, const char *name, const char *value) {
  struct error error;
  assert_int_equal(options_set(&learner_options_table, options, name, value, "", &error),
                   STATUS_OK);
}

static void make_options(struct learner_options *options, const char *env, const char *folder) {
  options_init(&learner_options_table, options);
  set(options, "env", env);
  set(options, "agent", "vtrace");
  set(options, "mode", "evaluate");
  set(options, "device", "cpu");
  set(options, "precision", "float32");
  set(options, "logdir", folder);
  learner_options_apply_preset(options);
}

/* Parameters as they begin, but for a head whose outputs can be told apart. */
static void write_checkpoint(struct fixture *f) {
  struct checkpoint_item items[NETWORK_MAX_PARAMETERS];
  struct error error;
  int count;
  char folder[PATH_MAX + 16];
  const struct network_parameter *parameter = network_parameters(f->run.network, &count);
  float *host = check_alloc(network_num_parameters(f->run.network), sizeof(*host));
  network_init_parameters(f->run.network, host, 1);
  for (int i = 0; i < count; i++) items[i] = train_state_item("params", host, &parameter[i]);
  snprintf(folder, sizeof(folder), "%s/checkpoints", f->folder);
  assert_int_equal(files_make_folders(folder, &error), STATUS_OK);
  assert_int_equal(checkpoint_write_named(folder, "best-7", items, count, &error), STATUS_OK);
  snprintf(f->file, sizeof(f->file), "%.4000s/best-7.acorn", folder);
  free(host);
}

static void write_config(struct fixture *f) {
  char path[PATH_MAX + 16];
  snprintf(path, sizeof(path), "%s/config.txt", f->folder);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  options_write(&learner_options_table, &f->options, NULL, 0, file);
  fclose(file);
}

static bool is(struct version *version, const bool *flag) {
  pthread_mutex_lock(&version->lock);
  bool value = *flag;
  pthread_mutex_unlock(&version->lock);
  return value;
}

static struct fixture *open_with(const char *env) {
  struct fixture *f = calloc(1, sizeof(*f));
  struct error error;
  temporary_folder_make(f->folder);
  make_options(&f->options, env, f->folder);
  f->run = (struct run){.options = &f->options, .folder = {.pin = -1, .lock = -1}};
  f->run.evaluates = true;
  f->run.agent = algorithms_find("vtrace");
  assert_int_equal(run_find_environment(&f->run, &f->options, &error), STATUS_OK);
  assert_int_equal(run_make_network(&f->run, &error), STATUS_OK);
  served_describe(&f->signature, &f->run);
  write_config(f);
  write_checkpoint(f);
  f->metrics = metrics_create(4);
  f->metric.batches = metrics_counter(f->metrics, "serve/batches", "");
  f->metric.rows = metrics_counter(f->metrics, "serve/rows", "");
  f->metric.evictions = metrics_counter(f->metrics, "serve/evictions", "");
  const struct version_limits limits = {
      .max_batch = MAX_BATCH, .max_queue = MAX_QUEUE, .max_sequences = MAX_SEQUENCES};
  struct learner_options options;
  make_options(&options, env, f->folder);
  assert_int_equal(version_open(&f->version, 7, f->folder, f->file, &options, &f->run,
                                &f->signature, &limits, &f->metric, &error),
                   STATUS_OK);
  f->version->at_once = false; /* however fast this machine is */
  while (!is(f->version, &f->version->idle)) sched_yield();
  return f;
}

static int open_mlp(void **state) {
  *state = open_with("cartpole");
  return 0;
}
static int open_lstm(void **state) {
  *state = open_with("tmaze");
  return 0;
}

static void close_version(struct fixture *f) {
  if (f->version) version_close(f->version);
  f->version = NULL;
}

static void release(struct fixture *f) {
  if (f->holds) sem_post(f->holds);
  f->holds = NULL;
}

static int destroy(void **state) {
  struct fixture *f = *state;
  release(f);
  close_version(f);
  run_destroy(&f->run);
  options_deinit(&learner_options_table, &f->options);
  metrics_destroy(f->metrics);
  temporary_folder_remove(f->folder);
  free(f);
  return 0;
}

/* ---- requests */

struct asked {
  struct request request;
  sem_t answered;
  sem_t *holds; /* `done` returns once this is posted; NULL: at once */
  sem_t held;
};

static void done(struct request *request) {
  struct asked *asked = request->context;
  sem_post(&asked->held);
  if (asked->holds) sem_wait(asked->holds);
  sem_post(&asked->answered);
}

/* A request of one row of `x`. */
static void make(struct fixture *f, struct asked *asked, float x, const char *sequence,
                 bool start) {
  struct error error;
  struct request *request = &asked->request;
  memset(asked, 0, sizeof(*asked));
  request_init(request, &f->signature, MAX_BATCH);
  assert_int_equal(request_set_rows(request, 1, f->signature.input, &error), STATUS_OK);
  float *row = (float *)request_row(request, f->signature.input, 0);
  for (size_t i = 0; i < f->signature.input[0].count; i++) row[i] = x * (float)(i + 1);
  request->given = ~0u;
  snprintf(request->sequence, sizeof(request->sequence), "%s", sequence);
  request->start = start;
  request->done = done;
  request->context = asked;
  sem_init(&asked->answered, 0, 0);
  sem_init(&asked->held, 0, 0);
  assert_int_equal(request_check(request, &error), STATUS_OK);
}

static enum status submit(struct fixture *f, struct asked *asked, struct error *error) {
  enum status status = version_submit(f->version, &asked->request, error);
  if (status == STATUS_OK) version_begin(f->version);
  return status;
}

static float value_of(struct fixture *f, struct asked *asked) {
  float value;
  const struct tensor *tensor = &f->signature.output[f->signature.num_outputs - 1];
  assert_string_equal(tensor->name, "value");
  memcpy(&value, request_output(&asked->request, tensor, 0), sizeof(value));
  return value;
}

static float take(struct fixture *f, struct asked *asked) {
  sem_wait(&asked->answered);
  float value = value_of(f, asked);
  request_deinit(&asked->request);
  return value;
}

static float ask(struct fixture *f, float x, const char *sequence, bool start) {
  struct asked asked;
  struct error error;
  make(f, &asked, x, sequence, start);
  assert_int_equal(submit(f, &asked, &error), STATUS_OK);
  return take(f, &asked);
}

/* The version's thread stays in this request's `done` until `holds` is posted. */
static void hold(struct fixture *f, struct asked *asked, sem_t *holds, const char *sequence) {
  struct error error;
  sem_init(holds, 0, 0);
  make(f, asked, 1, sequence, true);
  asked->holds = f->holds = holds;
  assert_int_equal(submit(f, asked, &error), STATUS_OK);
  sem_wait(&asked->held);
}

/* ---- tests */

static void what_waits_is_one_batch(void **state) {
  struct fixture *f = *state;
  struct asked first, asked[5];
  struct error error;
  sem_t holds;
  float alone[5];
  for (int i = 0; i < 5; i++) alone[i] = ask(f, (float)i / 4, "", false);
  assert_true(alone[0] != alone[1]);
  hold(f, &first, &holds, "");
  double before = metric_value(f->metric.batches);
  for (int i = 0; i < 5; i++) {
    make(f, &asked[i], (float)i / 4, "", false);
    assert_int_equal(submit(f, &asked[i], &error), STATUS_OK);
  }
  release(f);
  take(f, &first);
  for (int i = 0; i < 5; i++) assert_float_equal(take(f, &asked[i]), alone[i], 1e-6);
  assert_true(metric_value(f->metric.batches) == before + 1);
}

static void what_takes_little_is_answered_at_once(void **state) {
  struct fixture *f = *state;
  struct asked asked[MAX_QUEUE];
  struct error error;
  f->version->at_once = true;
  double before = metric_value(f->metric.batches);
  for (int i = 0; i < MAX_QUEUE; i++) {
    make(f, &asked[i], (float)i / 4, "", false);
    assert_int_equal(version_submit(f->version, &asked[i].request, &error), STATUS_OK);
  }
  assert_true(metric_value(f->metric.batches) == before); /* they wait */
  version_begin(f->version);
  for (int i = 0; i < MAX_BATCH; i++) assert_int_equal(sem_trywait(&asked[i].held), 0);
  for (int i = 0; i < MAX_QUEUE; i++) take(f, &asked[i]); /* the rest by the version's thread */
  assert_true(metric_value(f->metric.batches) == before + 2);
}

/* A request beside the first, which is held. */
static void expect_another_waits(struct fixture *f, struct asked *first) {
  struct asked asked;
  struct error error;
  make(f, &asked, 1, "", false);
  assert_int_equal(submit(f, &asked, &error), STATUS_OK);
  assert_int_equal(sem_trywait(&asked.held), -1);
  release(f);
  take(f, first);
  take(f, &asked);
}

/* Its device has one batch at a time. */
static void nothing_is_at_once_beside_another_batch(void **state) {
  struct fixture *f = *state;
  struct asked first;
  sem_t holds;
  hold(f, &first, &holds, "");
  f->version->at_once = true;
  expect_another_waits(f, &first);
}

static void *begin_it(void *fixture) {
  version_begin(((struct fixture *)fixture)->version);
  return NULL;
}

/* A thread that computes at once, beside which others submit. */
static void what_comes_meanwhile_is_the_threads(void **state) {
  struct fixture *f = *state;
  struct asked first;
  struct error error;
  sem_t holds;
  pthread_t thread;
  sem_init(&holds, 0, 0);
  f->version->at_once = true;
  make(f, &first, 1, "", false);
  first.holds = f->holds = &holds;
  assert_int_equal(version_submit(f->version, &first.request, &error), STATUS_OK);
  assert_int_equal(pthread_create(&thread, NULL, begin_it, f), 0);
  sem_wait(&first.held);
  expect_another_waits(f, &first);
  pthread_join(thread, NULL);
}

static void a_full_queue_refuses(void **state) {
  struct fixture *f = *state;
  struct asked first, asked[MAX_QUEUE], one_more;
  struct error error;
  sem_t holds;
  hold(f, &first, &holds, "");
  for (int i = 0; i < MAX_QUEUE; i++) {
    make(f, &asked[i], 1, "", false);
    assert_int_equal(submit(f, &asked[i], &error), STATUS_OK);
  }
  make(f, &one_more, 1, "", false);
  assert_int_equal(submit(f, &one_more, &error), STATUS_EXHAUSTED);
  assert_non_null(strstr(error.text, "the queue is full: 12 requests wait (--max_queue)"));
  release(f);
  take(f, &first);
  for (int i = 0; i < MAX_QUEUE; i++) take(f, &asked[i]);
  assert_int_equal(submit(f, &one_more, &error), STATUS_OK);
  take(f, &one_more);
}

static void *close_it(void *fixture) {
  close_version(fixture);
  return NULL;
}

static void what_was_taken_is_answered_at_the_end(void **state) {
  struct fixture *f = *state;
  struct asked first, asked[MAX_QUEUE];
  struct error error;
  sem_t holds;
  pthread_t thread;
  hold(f, &first, &holds, "");
  for (int i = 0; i < MAX_QUEUE; i++) {
    make(f, &asked[i], 1, "", false);
    assert_int_equal(submit(f, &asked[i], &error), STATUS_OK);
  }
  struct version *version = f->version;
  assert_int_equal(pthread_create(&thread, NULL, close_it, f), 0);
  while (!is(version, &version->closing)) sched_yield();
  release(f);
  pthread_join(thread, NULL);
  take(f, &first);
  for (int i = 0; i < MAX_QUEUE; i++) {
    assert_int_equal(sem_trywait(&asked[i].answered), 0);
    request_deinit(&asked[i].request);
  }
}

/* Its steps wait together, beside those of another one. */
static void steps_of_a_sequence_run_in_their_order(void **state) {
  struct fixture *f = *state;
  struct asked first, a[STEPS], b[STEPS];
  struct error error;
  sem_t holds;
  float alone[STEPS];
  for (int t = 0; t < STEPS; t++) alone[t] = ask(f, (float)t / 4, "alone", t == 0);
  assert_true(ask(f, 1.25f, "other", true) != alone[STEPS - 1]); /* the state matters */
  hold(f, &first, &holds, "other");
  for (int t = 0; t < STEPS; t++) {
    make(f, &a[t], (float)t / 4, "alone", t == 0);
    make(f, &b[t], (float)t / 4, "b", t == 0);
    assert_int_equal(submit(f, &a[t], &error), STATUS_OK);
    assert_int_equal(submit(f, &b[t], &error), STATUS_OK);
  }
  double before = metric_value(f->metric.batches);
  release(f);
  take(f, &first);
  for (int t = 0; t < STEPS; t++) {
    assert_float_equal(take(f, &a[t]), alone[t], 1e-6);
    assert_float_equal(take(f, &b[t]), alone[t], 1e-6);
  }
  assert_true(metric_value(f->metric.batches) == before + STEPS);
}

static void a_sequence_with_a_request_in_hand_is_not_evicted(void **state) {
  struct fixture *f = *state;
  struct asked first, asked[MAX_SEQUENCES], again;
  struct error error;
  sem_t holds;
  const char *names[MAX_SEQUENCES] = {"a", "b", "c"};
  hold(f, &first, &holds, "idle");
  /* "idle" is answered already: it makes room. */
  for (int i = 0; i < MAX_SEQUENCES; i++) {
    make(f, &asked[i], 1, names[i], true);
    assert_int_equal(submit(f, &asked[i], &error), STATUS_OK);
  }
  assert_true(metric_value(f->metric.evictions) == 1);
  make(f, &again, 1, "d", true);
  assert_int_equal(submit(f, &again, &error), STATUS_EXHAUSTED);
  assert_non_null(strstr(error.text, "all 3 sequences have a request in hand"));
  request_deinit(&again.request);
  make(f, &again, 1, "idle", false);
  assert_int_equal(submit(f, &again, &error), STATUS_NOT_FOUND);
  assert_non_null(strstr(error.text, "sequence idle is not known"));
  request_deinit(&again.request);
  release(f);
  take(f, &first);
  for (int i = 0; i < MAX_SEQUENCES; i++) take(f, &asked[i]);
  assert_true(version_used_us(f->version, "c", NULL) >= 0);
  assert_int_equal(version_sequences(f->version, INT64_MAX), 0);
  assert_int_equal(version_used_us(f->version, "c", NULL), -1);
}

static void a_sequence_is_found_by_how_it_began(void **state) {
  struct fixture *f = *state;
  struct asked asked;
  struct error error;
  make(f, &asked, 1, "a", true);
  asked.request.choice = "stable";
  assert_int_equal(submit(f, &asked, &error), STATUS_OK);
  take(f, &asked);
  int64_t used_us = version_used_us(f->version, "a", NULL);
  assert_true(version_used_us(f->version, "a", "stable") == used_us);
  assert_true(version_used_us(f->version, "a", "") == used_us);
  assert_int_equal(version_used_us(f->version, "a", "canary"), -1);
  version_supersede(f->version, "a", used_us);
  assert_true(version_used_us(f->version, "a", "stable") == used_us); /* used since then */
  version_supersede(f->version, "a", used_us + 1);
  assert_int_equal(version_used_us(f->version, "a", "stable"), -1);
  assert_int_equal(version_used_us(f->version, "a", ""), -1);
  assert_true(version_used_us(f->version, "a", NULL) == used_us);
  ask(f, 1, "a", true);
  assert_true(version_used_us(f->version, "a", "") > used_us);
  assert_int_equal(version_used_us(f->version, "a", "stable"), -1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(what_waits_is_one_batch, open_mlp, destroy),
      cmocka_unit_test_setup_teardown(what_takes_little_is_answered_at_once, open_mlp, destroy),
      cmocka_unit_test_setup_teardown(nothing_is_at_once_beside_another_batch, open_mlp, destroy),
      cmocka_unit_test_setup_teardown(what_comes_meanwhile_is_the_threads, open_mlp, destroy),
      cmocka_unit_test_setup_teardown(a_full_queue_refuses, open_mlp, destroy),
      cmocka_unit_test_setup_teardown(what_was_taken_is_answered_at_the_end, open_mlp, destroy),
      cmocka_unit_test_setup_teardown(steps_of_a_sequence_run_in_their_order, open_lstm, destroy),
      cmocka_unit_test_setup_teardown(a_sequence_with_a_request_in_hand_is_not_evicted, open_lstm,
                                      destroy),
      cmocka_unit_test_setup_teardown(a_sequence_is_found_by_how_it_began, open_lstm, destroy),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
