#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/metrics/metrics.h"

static int make(void **state) {
  *state = metrics_create(8);
  return 0;
}

static int unmake(void **state) {
  metrics_destroy(*state);
  return 0;
}

// Writes one line and reads it back. Owner of the result: the caller.
static json_t *write_and_read(struct metrics *metrics, int64_t step, double seconds) {
  char *text;
  size_t bytes;
  FILE *out = open_memstream(&text, &bytes);
  assert_int_equal(metrics_write_json(metrics, step, seconds, out), 0);
  fclose(out);
  assert_true(bytes > 0 && strchr(text, '\n') == text + bytes - 1);
  json_error_t error;
  json_t *line = json_loads(text, JSON_REJECT_DUPLICATES, &error);
  if (!line) fail_msg("%s: %s", text, error.text);
  free(text);
  return line;
}

static double number_at(const json_t *line, const char *name) {
  const json_t *value = json_object_get(line, name);
  if (!value) fail_msg("%s is not there", name);
  return json_is_null(value) ? NAN : json_number_value(value);
}

static void test_line(void **state) {
  struct metrics *metrics = *state;
  struct metric *updates = metrics_counter(metrics, "train/updates", "updates made");
  struct metric *fill = metrics_gauge(metrics, "batch/fill", "rows in a batch, as a fraction");
  struct metric *loss = metrics_gauge(metrics, "train/loss", "loss");
  struct metric *wait = metrics_histogram(metrics, "serve/wait_us", "wait of a row");
  metric_add(updates, 3);
  metric_add(updates, 4);
  metric_set(fill, 0.25);
  metric_set(fill, 0.75);
  metric_set(loss, INFINITY);
  for (int i = 1; i <= 100; i++) metric_observe(wait, i * 10);

  json_t *line = write_and_read(metrics, 1234, 5.5);
  assert_int_equal(json_object_size(line), 2 + 3 + 4);
  assert_true(number_at(line, "step") == 1234);
  assert_true(number_at(line, "seconds") == 5.5);
  assert_true(json_is_integer(json_object_get(line, "train/updates")));
  assert_true(number_at(line, "train/updates") == 7);
  assert_true(number_at(line, "batch/fill") == 0.75);
  assert_true(json_is_null(json_object_get(line, "train/loss")));
  assert_true(number_at(line, "serve/wait_us") == 505);
  assert_true(fabs(number_at(line, "serve/wait_us/p50") - 500) <= 500.0 / 64);
  assert_true(fabs(number_at(line, "serve/wait_us/p99") - 990) <= 990.0 / 64);
  assert_true(number_at(line, "serve/wait_us/max") == 1000);
  json_decref(line);
}

static void test_what_was_never_set_is_null(void **state) {
  struct metrics *metrics = *state;
  metrics_gauge(metrics, "train/loss", "loss");
  metrics_histogram(metrics, "serve/wait_us", "wait");
  json_t *line = write_and_read(metrics, 0, NAN);
  static const char *const names[] = {"seconds",           "train/loss",
                                      "serve/wait_us",     "serve/wait_us/p50",
                                      "serve/wait_us/p99", "serve/wait_us/max"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    assert_true(json_is_null(json_object_get(line, names[i])));
  }
  json_decref(line);
}

static void test_each_line_has_its_own_interval(void **state) {
  struct metrics *metrics = *state;
  struct metric *wait = metrics_histogram(metrics, "serve/wait_us", "wait");
  metric_observe(wait, 1000);
  json_decref(write_and_read(metrics, 1, 1));

  metric_observe(wait, 10);
  metric_observe(wait, 20);
  json_t *line = write_and_read(metrics, 2, 2);
  assert_true(number_at(line, "serve/wait_us") == 15);
  assert_true(number_at(line, "serve/wait_us/max") == 20);
  json_decref(line);

  line = write_and_read(metrics, 3, 3);
  assert_true(json_is_null(json_object_get(line, "serve/wait_us")));
  json_decref(line);
}

// Lines that are written meanwhile are no matter of it.
static void test_a_reader_has_an_interval_of_its_own(void **state) {
  struct metrics *metrics = *state;
  struct metric *wait = metrics_histogram(metrics, "serve/wait_us", "wait");
  struct metric_sum since = {0}, start = {0};
  assert_true(isnan(metric_mean_since(wait, &since)));
  metric_observe(wait, 1000);
  assert_true(metric_mean_since(wait, &since) == 1000);
  metric_observe(wait, 10);
  metrics_close_interval(metrics);
  metric_observe(wait, 20);
  assert_true(metric_mean_since(wait, &since) == 15);
  metrics_close_interval(metrics);
  assert_true(isnan(metric_mean_since(wait, &since)));
  assert_true(fabs(metric_mean_since(wait, &start) - 1030.0 / 3) < 1e-9);
}

static void test_no_metric_is_no_work(void **state) {
  (void)state;
  metric_add(NULL, 1);
  metric_set(NULL, 1);
  metric_observe(NULL, 1);
  assert_true(metric_value(NULL) == 0);
  assert_true(isnan(metric_mean_since(NULL, &(struct metric_sum){0})));
}

static void test_names_are_found(void **state) {
  struct metrics *metrics = *state;
  struct metric *fill = metrics_gauge(metrics, "batch/fill", "fill");
  assert_ptr_equal(metrics_find(metrics, "batch/fill"), fill);
  assert_null(metrics_find(metrics, "batch"));
  assert_true(isnan(metric_value(fill)));
  metric_set(fill, 2);
  assert_true(metric_value(fill) == 2);
}

static void append_name(void *context, const struct metric_view *view) {
  char *names = context;
  strcat(strcat(names, view->name), " ");
  if (view->kind == METRIC_COUNTER) assert_int_equal(view->total, 5);
  if (view->kind != METRIC_HISTOGRAM) return;
  // Totals go on growing, the rest is the last interval's.
  assert_int_equal(view->total, 3);
  assert_true(view->value == 60);
  assert_int_equal(view->count, 1);
  assert_true(view->mean == 30 && view->max == 30);
}

static void test_each_visits_in_order(void **state) {
  struct metrics *metrics = *state;
  metric_add(metrics_counter(metrics, "b", "first"), 5);
  struct metric *wait = metrics_histogram(metrics, "c", "second");
  metrics_gauge(metrics, "a", "third");
  metric_observe(wait, 10);
  metric_observe(wait, 20);
  metrics_close_interval(metrics);
  metric_observe(wait, 30);
  metrics_close_interval(metrics);
  char names[64] = "";
  metrics_each(metrics, append_name, names);
  assert_string_equal(names, "b c a ");
}

static void test_a_full_disk_is_told(void **state) {
  metrics_gauge(*state, "a", "a");
  FILE *full = fopen("/dev/full", "w");
  assert_non_null(full);
  assert_int_equal(metrics_write_json(*state, 1, 1, full), -1);
  assert_int_equal(errno, ENOSPC);
  fclose(full);
}

// ---- several threads

enum { NUM_THREADS = 4, UPDATES = 200000 };

struct shared {
  struct metric *counter, *gauge, *histogram;
  pthread_barrier_t start; // so that the threads do meet
  atomic_int num_running;
};

static void *update(void *argument) {
  struct shared *shared = argument;
  pthread_barrier_wait(&shared->start);
  for (int i = 0; i < UPDATES; i++) {
    metric_add(shared->counter, 1);
    metric_set(shared->gauge, i);
    metric_observe(shared->histogram, 1 + i % 4);
  }
  atomic_fetch_sub(&shared->num_running, 1);
  return NULL;
}

struct observed {
  int64_t count; // over all intervals
  int64_t total; // since the start
  double sum;    // since the start
};

static void add_observed(void *context, const struct metric_view *view) {
  struct observed *observed = context;
  if (view->kind != METRIC_HISTOGRAM) return;
  observed->count += view->count;
  observed->total = view->total;
  observed->sum = view->value;
}

// Updates run while intervals are closed; at the end nothing is lost and nothing counted twice.
static void test_threads(void **state) {
  struct metrics *metrics = *state;
  struct shared shared = {.counter = metrics_counter(metrics, "counter", ""),
                          .gauge = metrics_gauge(metrics, "gauge", ""),
                          .histogram = metrics_histogram(metrics, "histogram", ""),
                          .num_running = NUM_THREADS};
  pthread_barrier_init(&shared.start, NULL, NUM_THREADS);
  pthread_t threads[NUM_THREADS];
  for (int i = 0; i < NUM_THREADS; i++) {
    assert_int_equal(pthread_create(&threads[i], NULL, update, &shared), 0);
  }

  // Nothing is asserted before all threads are joined: a failure would free what they use.
  struct observed observed = {0, 0, 0};
  struct metric_sum since = {0};
  bool is_last = false, is_sane = true;
  while (!is_last) {
    is_last = atomic_load(&shared.num_running) == 0;
    is_sane &= !(metric_mean_since(shared.histogram, &since) < 0);
    is_sane &= metric_value(shared.gauge) != -1;
    metrics_close_interval(metrics);
    metrics_each(metrics, add_observed, &observed);
  }
  for (int i = 0; i < NUM_THREADS; i++) pthread_join(threads[i], NULL);
  pthread_barrier_destroy(&shared.start);
  assert_true(is_sane);
  assert_int_equal(observed.count, NUM_THREADS * UPDATES);
  assert_int_equal(observed.total, NUM_THREADS * UPDATES);
  assert_true(observed.sum == NUM_THREADS * UPDATES * 2.5);
  assert_true(metric_value(shared.counter) == NUM_THREADS * UPDATES);
  assert_true(metric_value(shared.gauge) == UPDATES - 1);
}

#define WITH_METRICS(test) cmocka_unit_test_setup_teardown(test, make, unmake)

int main(void) {
  const struct CMUnitTest tests[] = {
      WITH_METRICS(test_line),
      WITH_METRICS(test_what_was_never_set_is_null),
      WITH_METRICS(test_each_line_has_its_own_interval),
      WITH_METRICS(test_a_reader_has_an_interval_of_its_own),
      WITH_METRICS(test_no_metric_is_no_work),
      WITH_METRICS(test_names_are_found),
      WITH_METRICS(test_each_visits_in_order),
      WITH_METRICS(test_a_full_disk_is_told),
      WITH_METRICS(test_threads),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
