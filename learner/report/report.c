#include "learner/report/report.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/metrics/statistics.h"
#include "learner/run/gauges.h"
#include "learner/report/live.h"
#include "learner/report/pace.h"

enum { SECOND_US = 1000000, FIRST_LIVE_US = 250000 };

static void open_episodes(struct report *report) {
  struct error error;
  if (episodes_file_open(&report->episodes_file, report->run->folder.path, report->first_steps,
                         report->start_us, report->metrics_file.seconds_before,
                         &error) != STATUS_OK)
    log_warn("%s; training goes on without it", error.text);
}

static void write_episodes(struct report *report, int64_t now_us) {
  episodes_file_write(&report->episodes_file, report->run->episodes, report->run->progress, now_us);
}

enum status report_open(struct report *report, struct run *run, int64_t start_us,
                        struct error *error) {
  *report = (struct report){.run = run,
                            .start_us = start_us,
                            .live_us = start_us,
                            .metrics_us = start_us,
                            .metrics_file = {.fd = -1},
                            .episodes_file = {.fd = -1}};
  vitals_open(&report->vitals, run, start_us);
  report->first_steps = progress_steps(run->progress);
  if (run->options->metrics_steps)
    report->metrics_mark = report->first_steps - report->first_steps % run->options->metrics_steps;
  if (run->evaluates || run->options->metrics_secs == 0) return STATUS_OK;
  if (run->options->tensorboard) events_open(&report->events, run);
  enum status status =
      metrics_file_open(&report->metrics_file, run->folder.path, report->first_steps, error);
  if (run->episodes) open_episodes(report);
  return status;
}

void report_close(struct report *report) {
  video_close(&report->video);
  write_episodes(report, clock_now_us());
  episodes_file_close(&report->episodes_file);
  metrics_file_close(&report->metrics_file);
  events_close(&report->events, report->run);
  vitals_close(&report->vitals);
}

static double seconds_since(const struct report *report, int64_t now_us) {
  return (double)(now_us - report->start_us) / SECOND_US;
}

static void live_line(struct report *report, const struct trainer_report *trainer, int columns) {
  char line[1024];
  live_format(line, sizeof(line), &report->vitals.status,
              report->run->trains ? &trainer->stats : NULL, columns);
  log_live(line);
}

/* Copies the figures of the run into its metrics; finished episodes as the vitals know them. */
static void fill_metrics(struct report *report) {
  struct trainer_report trainer = {0};
  if (report->run->trainer) trainer = trainer_report(report->run->trainer);
  const struct vitals *vitals = &report->vitals;
  const struct wire_status *status = &vitals->status;
  struct gauges_rates rates = {NAN, NAN, NAN, NAN, NAN}; /* until they are measured */
  if (vitals->is_measured)
    rates =
        (struct gauges_rates){.env_steps = status->steps_per_second,
                              .trained_steps = status->trained_steps_per_second,
                              .updates = status->updates_per_second,
                              .trainer_busy = report->run->trains ? 1 - status->trainer_wait : 0,
                              .cpu_cores = vitals->cpu_cores};
  gauges_fill(report->run, &trainer, &rates, &vitals->train, &vitals->eval);
}

void report_measure(struct report *report) {
  vitals_read_returns(&report->vitals);
  fill_metrics(report);
}

/* Closes the metrics' interval, for metrics.jsonl, the events, and the metrics port. */
static void write_metrics(struct report *report, int64_t steps, int64_t now_us) {
  struct run *run = report->run;
  double seconds = seconds_since(report, now_us);
  report->metrics_us = now_us;
  fill_metrics(report);
  if (report->metrics_file.fd >= 0)
    metrics_file_write(&report->metrics_file, run->metrics, steps, seconds);
  else
    metrics_close_interval(run->metrics);
  events_write(&report->events, run, steps, seconds);
}

static bool metrics_are_wanted(const struct report *report) {
  return report->metrics_file.fd >= 0 || report->events.tensorboard ||
         report->run->options->metrics_port;
}

/* Until actors have come there is nothing to write, however long that takes. A run that is over has
 * its last line with the result: a busy machine may tick once more before the loop ends, even where
 * the run was over before it began. */
static bool metrics_are_due(const struct report *report, int64_t now_us) {
  const struct run *run = report->run;
  if (!run->evaluates && progress_steps(run->progress) == report->first_steps) return false;
  if (progress_stopped(run->progress) != STOP_NONE) return false;
  double every = run->options->metrics_secs;
  int64_t longest_us = (int64_t)((every > 0 ? every : 1) * SECOND_US);
  return metrics_are_wanted(report) &&
         now_us - report->metrics_us >= pace_metrics_us(now_us - report->start_us, longest_us);
}

/* A line at the multiple of --metrics_steps that the run has just passed. */
static void write_mark(struct report *report, int64_t steps, int64_t now_us) {
  int64_t every = report->run->options->metrics_steps, mark = steps - steps % every;
  bool is_over = progress_stopped(report->run->progress) != STOP_NONE;
  if (is_over || mark <= report->metrics_mark || !metrics_are_wanted(report)) return;
  report->metrics_mark = mark;
  write_metrics(report, mark, now_us);
}

void report_tick(struct report *report, int64_t now_us) {
  struct run *run = report->run;
  struct trainer_report trainer = {0};
  if (run->trainer) trainer = trainer_report(run->trainer);
  vitals_tick(&report->vitals, &trainer, now_us);
  if (video_tick(&report->video)) {
    events_write_video(&report->events, report->video.gif, report->video.step);
    unlink(report->video.gif);
  }
  int columns = log_live_columns();
  if (now_us - report->start_us >= FIRST_LIVE_US &&
      now_us - report->live_us >= live_interval_us(columns, seconds_since(report, now_us))) {
    report->live_us = now_us;
    live_line(report, &trainer, columns);
  }
  int64_t steps = progress_steps(run->progress);
  if (run->options->metrics_steps)
    write_mark(report, steps, now_us);
  else if (metrics_are_due(report, now_us))
    write_metrics(report, steps, now_us);
  if (episodes_file_is_due(&report->episodes_file, now_us)) write_episodes(report, now_us);
}

void report_checkpoint(struct report *report, int64_t now_us) {
  struct run *run = report->run;
  events_write_images(&report->events, run, seconds_since(report, now_us));
  if (progress_stopped(run->progress) == STOP_NONE)
    video_take(&report->video, run->folder.path, run->options->video_every,
               progress_steps(run->progress), now_us);
}

/* 3 only when the budget ended a run that was to reach a target, or to play more episodes. */
static int exit_code(const struct run *run, const struct run_result *result) {
  double target = run->options->target_return;
  if (result->reason == STOP_ERROR || result->reason == STOP_NO_ACTORS) return 1;
  if (result->reason == STOP_EPISODE_STEPS) return 3;
  bool has_reached =
      run->was_finished && result->returns.mean >= target; /* a lower one than then */
  if (result->reason == STOP_TOTAL_STEPS && !isnan(target) && !has_reached) return 3;
  return 0;
}

/* return_std is the population's; the interval of the mean is from the sample's. */
static void evaluation_line(const struct run *run, const struct progress_returns *returns) {
  int n = returns->window;
  double std = n > 1 ? returns->std * sqrt((double)n / (n - 1)) : 0;
  double half_width = statistics_half_width(std, n);
  printf(
      "evaluation episodes=%d return_mean=%.16g return_std=%.16g return_min=%.16g "
      "return_median=%.16g return_max=%.16g return_ci95_low=%.16g return_ci95_high=%.16g "
      "length_mean=%.16g policy=%s\n",
      n, returns->mean, returns->std, returns->min, returns->median, returns->max,
      returns->mean - half_width, returns->mean + half_width, returns->length_mean,
      run->options->policy);
  result_file_write_evaluation(run, returns, half_width);
}

/* Again at the end: results of such a run cannot be compared with its repetition. */
static void warn_of_irregular(struct report *report) {
  bool is_known = report->vitals.is_irregular;
  vitals_check_repeatable(&report->vitals);
  if (is_known)
    log_warn("this run is not repeatable: an actor left before its end (serve/streams_lost)");
}

/* Why there are fewer episodes than were asked for, or none, and so no return. */
static void warn_of_episodes(const struct report *report, const struct run_result *result) {
  const struct run *run = report->run;
  const char *limit = strncmp(run->options->env, "gym:", 4) == 0
                          ? "a time limit, --env_args='{\"max_episode_steps\": 1000}'"
                          : "a time limit in the environment";
  if (result->reason == STOP_EPISODE_STEPS)
    log_warn(
        "%d of %lld episodes have ended, and for %lld steps of each environment no other did: this "
        "policy may never end them. The figures are without those that go on. Try --policy=sample, "
        "%s, or more --episode_steps",
        result->returns.window, (long long)run->options->episodes,
        (long long)run->options->episode_steps, limit);
  else if (result->reason == STOP_TOTAL_STEPS && !run->evaluates && result->returns.window == 0 &&
           result->steps > report->first_steps)
    log_warn(
        "no %s episode of %s has ended in %lld steps of %lld environments, so there is no return "
        "(return_mean=nan): episodes are longer, or the policy never ends them. Try a larger "
        "--total_steps, or %s",
        result->over_eval ? "evaluation" : "training", run->label,
        (long long)(result->steps - report->first_steps), (long long)run->options->num_envs, limit);
}

/* The step of the last line: where the run has just passed a multiple of --metrics_steps, that. */
static int64_t last_mark(const struct report *report) {
  int64_t every = report->run->options->metrics_steps,
          steps = progress_steps(report->run->progress);
  if (every == 0 || steps - steps % every <= report->metrics_mark) return steps;
  return steps - steps % every;
}

static void result_line(const struct run *run, const struct run_result *result) {
  printf(
      "result env=%s agent=%s steps=%lld seconds=%.2f sps=%.0f episodes=%lld return_mean=%.3f "
      "return_std=%.3f over=%s reason=%s seed=%lld logdir=%s\n",
      run->label, run->options->agent, (long long)result->steps, result->seconds,
      result->steps_per_second, (long long)result->returns.count, result->returns.mean,
      result->returns.std, result->over_eval ? "eval" : "train", stop_reason_name(result->reason),
      (long long)run->options->seed, run->folder.name[0] ? run->folder.name : "-");
}

int report_result(struct report *report, int64_t now_us) {
  struct run *run = report->run;
  vitals_read_returns(&report->vitals);
  /* Once is enough for a step. */
  if (metrics_are_wanted(report) && !run->was_finished &&
      report->metrics_file.step != progress_steps(run->progress))
    write_metrics(report, last_mark(report), now_us);
  log_live("");
  warn_of_irregular(report);
  if (run->trainer) {
    struct trainer_report trainer = trainer_report(run->trainer);
    vitals_watch_learning(&report->vitals, &trainer);
  }
  bool eval = progress_over_eval(run->progress);
  enum stop_reason reason = progress_stopped(run->progress);
  struct progress_returns returns = eval ? report->vitals.eval : report->vitals.train;
  double seconds = seconds_since(report, now_us);
  int64_t steps = progress_steps(run->progress);
  double rate = (double)(steps - report->first_steps) / seconds;
  struct run_result *result = &report->result;
  *result = (struct run_result){
      steps, seconds, rate, returns, eval, reason, report->vitals.status.not_learning};
  if (run->was_finished) result_file_read(run, result);
  warn_of_episodes(report, result);
  if (run->evaluates && returns.window) evaluation_line(run, &returns);
  if (!run->rank || !run->options->learners_mpi) result_line(run, result);
  int code = exit_code(run, result);
  if (fflush(stdout) == 0 && !ferror(stdout)) return code;
  log_error("cannot write the result to stdout: %s", strerror(errno));
  return code ? code : 1;
}
