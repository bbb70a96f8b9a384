/* What a run says at its end and how it is measured on the way: a run is made, but not started;
 * steps and episodes are put in by hand, and time comes in as an argument. */
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/log.h"
#include "learner/report/report.h"
#include "tests/unit/support/episodes.h"

enum { SECOND = 1000000, START = 5 * SECOND };

struct fixture {
  char folder[64];
  struct learner_options options;
  struct run run;
  struct report report;
};

static void nothing(void *context) {
  (void)context;
}

static void set(struct fixture *f, const char *name, const char *value) {
  struct error error;
  if (options_set(&learner_options_table, &f->options, name, value, "", &error) != STATUS_OK)
    fail_msg("%s", error.text);
}

/* A run of catch, with some more options: names and values, then NULL. */
static struct fixture *create_with(const char *const *options) {
  struct fixture *f = calloc(1, sizeof(*f));
  char path[128];
  snprintf(f->folder, sizeof(f->folder), "/tmp/report-XXXXXX");
  assert_non_null(mkdtemp(f->folder));
  options_init(&learner_options_table, &f->options);
  snprintf(path, sizeof(path), "unix:%s/socket", f->folder);
  set(f, "listen", path);
  snprintf(path, sizeof(path), "%s/run", f->folder);
  set(f, "logdir", path);
  set(f, "env", "catch");
  set(f, "tensorboard", "false");
  for (; options[0]; options += 2) set(f, options[0], options[1]);
  learner_options_apply_preset(&f->options);
  log_init("test", LOG_ERROR);
  struct run_callbacks callbacks = {.on_stop = nothing, .on_saved = nothing};
  struct error error;
  if (run_create(&f->run, &f->options, &callbacks, &error) != STATUS_OK) fail_msg("%s", error.text);
  assert_int_equal(report_open(&f->report, &f->run, START, &error), STATUS_OK);
  return f;
}

/* With one more option, or NULL. */
static struct fixture *create(const char *name, const char *value) {
  return create_with((const char *const[]){name, value, NULL});
}

static void destroy(struct fixture *f) {
  char command[128];
  report_close(&f->report);
  run_destroy(&f->run);
  options_deinit(&learner_options_table, &f->options);
  snprintf(command, sizeof(command), "rm -rf %s", f->folder);
  assert_int_equal(system(command), 0);
  free(f);
}

static void add_episodes(struct fixture *f, bool eval, const double *returns, int count) {
  for (int i = 0; i < count; i++)
    add_episode(f->run.progress, eval, 0, returns[i], (uint32_t)(10 * (i + 1)));
}

/* What report_result writes to stdout; *code: what it returns. */
static const char *result(struct fixture *f, int64_t now_us, int *code) {
  static char text[2048];
  FILE *file = tmpfile();
  fflush(stdout);
  int own = dup(STDOUT_FILENO);
  dup2(fileno(file), STDOUT_FILENO);
  *code = report_result(&f->report, now_us);
  dup2(own, STDOUT_FILENO);
  close(own);
  rewind(file);
  text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
  fclose(file);
  return text;
}

static int lines_of_metrics(const struct fixture *f) {
  char path[128];
  int lines = 0;
  snprintf(path, sizeof(path), "%s/run/metrics.jsonl", f->folder);
  FILE *file = fopen(path, "r");
  for (int c; file && (c = getc(file)) != EOF;) lines += c == '\n';
  if (file) fclose(file);
  return file ? lines : -1;
}

/* ---- tests */

static void the_result_line_says_how_it_went(void **state) {
  (void)state;
  struct fixture *f = create(NULL, NULL);
  int code;
  progress_add_steps(f->run.progress, 500);
  add_episodes(f, false, (double[]){1, 2, 3, 6}, 4);
  progress_stop(f->run.progress, STOP_SIGNAL);
  char expected[512];
  snprintf(expected, sizeof(expected),
           "result env=catch agent=vtrace steps=500 seconds=2.00 sps=250 episodes=4 "
           "return_mean=3.000 return_std=1.871 over=train reason=signal seed=1 logdir=%s/run\n",
           f->folder);
  assert_string_equal(result(f, START + 2 * SECOND, &code), expected);
  assert_int_equal(code, 0);
  destroy(f);
}

/* 3 is for a target that was wanted and not reached. */
static void the_exit_code_says_whether_it_was_what_was_wanted(void **state) {
  (void)state;
  const struct {
    const char *target;
    enum stop_reason reason;
    int code;
  } table[] = {{NULL, STOP_TOTAL_STEPS, 0},  {"0.9", STOP_TOTAL_STEPS, 3},
               {"0.9", STOP_SIGNAL, 0},      {"0.9", STOP_TARGET_RETURN, 0},
               {NULL, STOP_ERROR, 1},        {"0.9", STOP_ERROR, 1},
               {NULL, STOP_EPISODE_STEPS, 3}};
  for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
    struct fixture *f = create(table[i].target ? "target_return" : NULL, table[i].target);
    int code;
    progress_stop(f->run.progress, table[i].reason);
    const char *line = result(f, START + SECOND, &code);
    assert_non_null(strstr(line, stop_reason_name(table[i].reason)));
    assert_int_equal(code, table[i].code);
    destroy(f);
  }
}

/* The number after `name` in the line. */
static double number(const char *line, const char *name) {
  const char *at = strstr(line, name);
  assert_non_null(at);
  return strtod(at + strlen(name), NULL);
}

/* Mean 2.5; the sample's deviation sqrt(5/3); t with 3 degrees of freedom is 3.1824 at 95%. */
static void an_evaluation_has_its_interval(void **state) {
  (void)state;
  struct fixture *f = create("over", "eval");
  int code;
  f->run.evaluates = true;
  add_episodes(f, false, (double[]){100, 100}, 2);
  add_episodes(f, true, (double[]){1, 2, 3, 4}, 4);
  const char *lines = result(f, START + SECOND, &code);
  assert_memory_equal(lines, "evaluation episodes=4 return_mean=2.5 ", 38);
  double half_width = 3.1824463 * sqrt(5.0 / 3) / 2;
  assert_true(fabs(number(lines, "return_std=") - sqrt(1.25)) < 1e-12);
  assert_true(fabs(number(lines, "return_ci95_low=") - (2.5 - half_width)) < 0.005);
  assert_true(fabs(number(lines, "return_ci95_high=") - (2.5 + half_width)) < 0.005);
  assert_true(number(lines, "return_min=") == 1 && number(lines, "return_max=") == 4);
  assert_true(number(lines, "return_median=") == 2.5 && number(lines, "length_mean=") == 25);
  assert_non_null(strstr(lines, "\nresult env=catch"));
  assert_non_null(strstr(lines, " over=eval "));
  destroy(f);
}

static void an_evaluation_without_episodes_says_nothing_of_them(void **state) {
  (void)state;
  struct fixture *f = create(NULL, NULL);
  int code;
  f->run.evaluates = true;
  assert_memory_equal(result(f, START + SECOND, &code), "result ", 7);
  destroy(f);
}

static void rates_are_over_the_last_seconds(void **state) {
  (void)state;
  struct fixture *f = create(NULL, NULL);
  const double *rate = &f->report.vitals.status.steps_per_second;
  progress_add_steps(f->run.progress, 100);
  report_tick(&f->report, START + SECOND / 25); /* too short a time for a rate */
  assert_true(*rate == 0);
  report_tick(&f->report, START + SECOND / 4); /* the first one is there early */
  assert_true(*rate == 400);
  report_tick(&f->report, START + SECOND / 2);
  assert_true(*rate == 200);
  progress_add_steps(f->run.progress, 300);
  report_tick(&f->report, START + SECOND);
  assert_true(*rate == 400);
  /* An update takes seconds, in which nothing acts. */
  for (int i = 3; i <= 10; i++) report_tick(&f->report, START + i * SECOND / 2);
  assert_true(*rate == 80);
  report_tick(&f->report, START + 11 * SECOND / 2); /* without the first half second */
  assert_true(*rate == 60);
  report_tick(&f->report, START + 6 * SECOND);
  assert_true(*rate == 0);
  destroy(f);
}

/* A batch of `rows`, of which each message has waited so long. */
static void add_batch(struct fixture *f, double rows, double wait_us) {
  metric_observe(f->run.inference_metrics.batch_rows, rows);
  metric_observe(f->run.inference_metrics.batch_wait_us, wait_us);
}

/* Whether lines of metrics are written meanwhile, as with `metrics_secs`, or not. */
static void check_batches(const char *metrics_secs) {
  struct fixture *f = create("metrics_secs", metrics_secs);
  const struct wire_status *status = &f->report.vitals.status;
  add_batch(f, 8, 100);
  report_tick(&f->report, START + SECOND);
  assert_true(status->batch_rows == 8 && status->batch_wait_us == 100);
  add_batch(f, 2, 40);
  report_tick(&f->report, START + SECOND * 5 / 4); /* a line is due; for a mean it is too early */
  assert_true(status->batch_rows == 8 && status->batch_wait_us == 100);
  add_batch(f, 4, 20);
  report_tick(&f->report, START + 2 * SECOND);
  assert_true(status->batch_rows == 3 && status->batch_wait_us == 30);
  report_tick(&f->report, START + 3 * SECOND);
  assert_true(isnan(status->batch_rows) && isnan(status->batch_wait_us));
  destroy(f);
}

static void batches_are_those_since_rates_were_last_taken(void **state) {
  (void)state;
  check_batches("0");
  check_batches("0.1");
}

/* Each as soon as it is due, and the last one with the result; never twice for one step. */
static void metrics_are_written_when_they_are_due(void **state) {
  (void)state;
  struct fixture *f = create(NULL, NULL);
  int code;
  report_tick(&f->report, START + 49999);
  assert_int_equal(lines_of_metrics(f), 0);
  progress_add_steps(f->run.progress, 5);
  report_tick(&f->report, START + 50000);
  assert_int_equal(lines_of_metrics(f), 1);
  report_tick(&f->report, START + 99999);
  assert_int_equal(lines_of_metrics(f), 1);
  progress_add_steps(f->run.progress, 5);
  result(f, START + 100000, &code);
  assert_int_equal(lines_of_metrics(f), 2);
  result(f, START + 101000, &code);
  assert_int_equal(lines_of_metrics(f), 2);
  destroy(f);
}

/* Also those that ended after the last tick. */
static void the_last_metrics_count_every_episode(void **state) {
  (void)state;
  struct fixture *f = create(NULL, NULL);
  int code;
  char path[128], text[8192];
  progress_add_steps(f->run.progress, 30);
  add_episodes(f, false, (double[]){1, 3}, 2);
  report_tick(&f->report, START + SECOND);
  assert_true(f->report.vitals.status.return_mean == 2);
  progress_add_steps(f->run.progress, 10);
  add_episodes(f, false, (double[]){11}, 1);
  result(f, START + 2 * SECOND, &code);
  snprintf(path, sizeof(path), "%s/run/metrics.jsonl", f->folder);
  FILE *file = fopen(path, "r");
  text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
  fclose(file);
  const char *last = strchr(text, '\n') + 1;
  assert_non_null(strstr(text, "\"train/episode_return\":2"));
  assert_non_null(strstr(last, "\"train/episode_return\":5"));
  assert_non_null(strstr(last, "\"train/episodes\":3"));
  destroy(f);
}

/* A learner may wait for hours; a stall later on is written, though its lines repeat the step. */
static void before_the_first_step_there_is_no_line(void **state) {
  (void)state;
  struct fixture *f = create(NULL, NULL);
  int code;
  for (int i = 1; i < 5; i++) report_tick(&f->report, START + i * SECOND);
  assert_int_equal(lines_of_metrics(f), 0);
  progress_add_steps(f->run.progress, 5);
  for (int i = 5; i < 8; i++) report_tick(&f->report, START + i * SECOND);
  assert_int_equal(lines_of_metrics(f), 3);
  result(f, START + 9 * SECOND, &code);
  assert_int_equal(lines_of_metrics(f), 3);
  destroy(f);
}

/* Where nothing ever happened the result's line is the only one. */
static void a_run_without_a_step_has_one_line(void **state) {
  (void)state;
  struct fixture *f = create(NULL, NULL);
  int code;
  report_tick(&f->report, START + SECOND);
  progress_stop(f->run.progress, STOP_SIGNAL);
  result(f, START + 2 * SECOND, &code);
  assert_int_equal(lines_of_metrics(f), 1);
  destroy(f);
}

/* The loop may tick once more before it hears of the end: the last line is the result's. */
static void a_tick_after_the_end_writes_nothing(void **state) {
  (void)state;
  struct fixture *f = create(NULL, NULL);
  int code;
  progress_stop(f->run.progress, STOP_TOTAL_STEPS);
  progress_add_steps(f->run.progress, 5);
  report_tick(&f->report, START + SECOND);
  assert_int_equal(lines_of_metrics(f), 0);
  result(f, START + SECOND, &code);
  assert_int_equal(lines_of_metrics(f), 1);
  destroy(f);
}

/* ---- a replay, whose figures are made up */

static struct source_counters made_up;

static struct source_counters give_made_up(struct source *source) {
  (void)source;
  return made_up;
}

static const struct source_ops MADE_UP = {.counters = give_made_up};
static struct source made_up_source = {&MADE_UP};

/* A run of dqn with 8 environments. *own: the run's source, for destroy_replay. */
static struct fixture *create_replay(struct source **own) {
  static const char *const options[] = {"agent",
                                        "dqn",
                                        "num_envs",
                                        "8",
                                        "replay_steps",
                                        "20000",
                                        "replay_ratio",
                                        "0.25",
                                        "replay_min_steps",
                                        "1000",
                                        "exploration",
                                        "per_environment",
                                        "epsilon_start",
                                        "0.4",
                                        NULL};
  struct fixture *f = create_with(options);
  *own = f->run.source;
  f->run.source = &made_up_source;
  made_up = (struct source_counters){
      .replays = true, .windows_given = 812, .windows_held = 812, .windows_needed = 5000};
  return f;
}

static void destroy_replay(struct fixture *f, struct source *own) {
  f->run.source = own;
  destroy(f);
}

static double value(const struct fixture *f, const char *name) {
  struct metric *metric = metrics_find(f->run.metrics, name);
  if (!metric) fail_msg("there is no metric %s", name);
  return metric_value(metric);
}

static void a_replay_is_measured(void **state) {
  (void)state;
  struct source *own;
  struct fixture *f = create_replay(&own);
  const struct wire_status *status = &f->report.vitals.status;
  progress_add_steps(f->run.progress, 812);
  report_tick(&f->report, START + SECOND);
  assert_true(value(f, "replay/windows") == 812 && value(f, "fifo/windows") == 812);
  assert_true(value(f, "replay/windows_needed") == 5000 && isnan(value(f, "replay/ratio")));
  assert_true(status->replay_windows == 812 && status->replay_windows_needed == 5000);
  assert_true(isnan(status->replay_ratio) && status->replay_ratio_asked == 0.25);
  made_up.windows_given = 6000, made_up.windows_held = 5500;
  made_up.windows_since = 1000, made_up.windows_sampled = 240;
  made_up.priorities_late = 3, made_up.priorities_not_finite = 2;
  report_tick(&f->report, START + 2 * SECOND);
  assert_true(value(f, "replay/ratio") == 0.24 && value(f, "replay/ratio_asked") == 0.25);
  assert_true(value(f, "replay/windows_sampled") == 240 && value(f, "replay/windows") == 5500);
  assert_true(value(f, "replay/priorities_late") == 3);
  assert_true(value(f, "replay/priorities_not_finite") == 2);
  assert_true(status->replay_ratio == 0.24);
  assert_non_null(metrics_find(f->run.metrics, "replay/initial_priority"));
  assert_non_null(metrics_find(f->run.metrics, "replay/updated_priority"));
  assert_non_null(metrics_find(f->run.metrics, "replay/window_age_steps"));
  destroy_replay(f, own);
}

/* Of 8 environments 0 and 1 explore most, 6 and 7 least. */
static void returns_are_reported_by_exploration(void **state) {
  (void)state;
  struct source *own;
  struct fixture *f = create_replay(&own);
  progress_add_steps(f->run.progress, 8);
  for (int i = 0; i < 8; i++) add_episode(f->run.progress, false, i, i, 1);
  report_tick(&f->report, START + SECOND);
  assert_true(value(f, "train/episode_return_most_random") == 0.5);
  assert_true(value(f, "train/episode_return_least_random") == 6.5);
  double mean = 0;
  for (int i = 0; i < 8; i++) mean += pow(0.4, 1 + i) / 8;
  assert_true(fabs(value(f, "exploration/epsilon") - mean) < 1e-6);
  f->run.resumed = true; /* only short episodes have ended */
  report_tick(&f->report, START + 2 * SECOND);
  assert_true(isnan(value(f, "train/episode_return_most_random")));
  assert_true(isnan(value(f, "train/episode_return_least_random")));
  destroy_replay(f, own);
}

static void without_a_replay_there_is_none_of_that(void **state) {
  (void)state;
  struct fixture *f = create(NULL, NULL);
  report_tick(&f->report, START + SECOND);
  assert_null(metrics_find(f->run.metrics, "replay/windows"));
  assert_null(metrics_find(f->run.metrics, "replay/initial_priority"));
  assert_null(metrics_find(f->run.metrics, "exploration/epsilon"));
  assert_int_equal(f->report.vitals.status.replay_windows_needed, 0);
  assert_true(isnan(f->report.vitals.status.replay_ratio));
  destroy(f);
}

/* An actor with eight environments. */
static void join(struct fixture *f) {
  struct wire_join_request request = {
      .name = "actor/0/0", .num_environments = 8, .role = WIRE_ROLE_TRAIN, .space = f->run.space};
  struct lease *lease;
  struct rpc_stream *superseded;
  struct error error;
  assert_int_equal(leases_join(f->run.leases, &lease, &superseded, &request, START, &error),
                   STATUS_OK);
}

/* A tick every second; each time so many updates and steps more. */
static void tick(struct fixture *f, int from, int to, int updates, int steps) {
  for (int second = from; second <= to; second++) {
    struct trainer_report trainer = {.updates = updates * second};
    progress_add_steps(f->run.progress, steps);
    vitals_tick(&f->report.vitals, &trainer, START + second * SECOND);
  }
}

static void what_a_replay_waits_for_is_known(void **state) {
  (void)state;
  struct source *own;
  struct fixture *f = create_replay(&own);
  const char *no_data = f->report.vitals.status.no_data;
  const int stride = learner_options_stride(&f->options);
  char estimate[64];
  join(f);
  tick(f, 1, 9, 0, 40);
  assert_string_equal(no_data, "");
  tick(f, 10, 12, 0, 40);
  snprintf(estimate, sizeof(estimate), "so it takes about %d s more",
           ((5000 - 812) * stride + 39) / 40);
  assert_non_null(strstr(no_data, "the replay holds 812 of 5000 windows before training starts"));
  assert_non_null(strstr(no_data, estimate));
  made_up.windows_held = 5100, made_up.windows_since = 100, made_up.windows_sampled = 20;
  tick(f, 13, 14, 0, 40);
  assert_non_null(strstr(no_data, "new windows, which --replay_ratio=0.25 asks for"));
  made_up.full = true;
  tick(f, 15, 16, 0, 0);
  assert_non_null(strstr(no_data, "sampling is 5 windows behind --replay_ratio=0.25: actors wait"));
  destroy_replay(f, own);
}

/* Updates are made all the time. */
static void acting_that_waits_for_a_replay_is_noticed(void **state) {
  (void)state;
  struct source *own;
  struct fixture *f = create_replay(&own);
  const struct vitals *vitals = &f->report.vitals;
  join(f);
  made_up.full = true, made_up.windows_since = 100, made_up.windows_sampled = 2;
  tick(f, 1, 9, 1, 0);
  assert_int_equal(vitals->acting.said, SILENCE_NONE);
  tick(f, 10, 11, 1, 0);
  assert_int_equal(vitals->acting.said, SILENCE_ACTING);
  assert_string_equal(vitals->status.no_data, "");
  assert_int_equal(vitals->silence.said, SILENCE_NONE);
  destroy_replay(f, own);

  f = create_replay(&own); /* actors that are slow are another matter */
  join(f);
  made_up.full = false;
  tick(f, 1, 20, 1, 0);
  assert_int_equal(f->report.vitals.acting.said, SILENCE_NONE);
  destroy_replay(f, own);
}

static void metrics_can_be_off(void **state) {
  (void)state;
  struct fixture *f = create("metrics_secs", "0");
  int code;
  report_tick(&f->report, START + SECOND);
  result(f, START + 2 * SECOND, &code);
  assert_int_equal(lines_of_metrics(f), -1);
  destroy(f);
}

static void a_result_that_cannot_be_written_is_an_error(void **state) {
  (void)state;
  struct fixture *f = create(NULL, NULL);
  fflush(stdout);
  int own = dup(STDOUT_FILENO), full = open("/dev/full", O_WRONLY);
  dup2(full, STDOUT_FILENO);
  int code = report_result(&f->report, START + SECOND);
  dup2(own, STDOUT_FILENO);
  clearerr(stdout);
  close(full);
  close(own);
  assert_int_equal(code, 1);
  destroy(f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_result_line_says_how_it_went),
      cmocka_unit_test(the_exit_code_says_whether_it_was_what_was_wanted),
      cmocka_unit_test(an_evaluation_has_its_interval),
      cmocka_unit_test(an_evaluation_without_episodes_says_nothing_of_them),
      cmocka_unit_test(rates_are_over_the_last_seconds),
      cmocka_unit_test(batches_are_those_since_rates_were_last_taken),
      cmocka_unit_test(metrics_are_written_when_they_are_due),
      cmocka_unit_test(the_last_metrics_count_every_episode),
      cmocka_unit_test(before_the_first_step_there_is_no_line),
      cmocka_unit_test(a_run_without_a_step_has_one_line),
      cmocka_unit_test(a_tick_after_the_end_writes_nothing),
      cmocka_unit_test(a_replay_is_measured),
      cmocka_unit_test(returns_are_reported_by_exploration),
      cmocka_unit_test(without_a_replay_there_is_none_of_that),
      cmocka_unit_test(what_a_replay_waits_for_is_known),
      cmocka_unit_test(acting_that_waits_for_a_replay_is_noticed),
      cmocka_unit_test(metrics_can_be_off),
      cmocka_unit_test(a_result_that_cannot_be_written_is_an_error),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
