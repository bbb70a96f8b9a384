#include "learner/report.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "learner/gauges.h"

enum {
  SECOND_US = 1000000,
  LIVE_TERMINAL_US = 500000,
  LIVE_FILE_US = 5 * SECOND_US,
  SILENCE_US = 10 * SECOND_US
};

enum status report_open(struct report *report, struct run *run, int64_t start_us,
                        struct error *error) {
  *report = (struct report){.run = run,
                            .start_us = start_us,
                            .rate_us = start_us,
                            .moved_us = start_us,
                            .explained_us = start_us,
                            .metrics_us = start_us,
                            .terminal = isatty(STDERR_FILENO)};
  report->first_steps = report->rate_steps = report->moved_steps = progress_steps(run->progress);
  if (run->trainer) report->rate_trained = trainer_report(run->trainer).trained_steps;
  if (run->evaluates || run->options->metrics_secs == 0) return STATUS_OK;
  char path[1024];
  snprintf(path, sizeof(path), "%s/metrics.jsonl", run->folder.path);
  report->metrics_file = fopen(path, "a");
  if (!report->metrics_file)
    return status_fail(error, STATUS_IO, "cannot write %s: %s", path, strerror(errno));
  return STATUS_OK;
}

void report_close(struct report *report) {
  if (report->metrics_file) fclose(report->metrics_file);
}

static double seconds_since(const struct report *report, int64_t now_us) {
  return (double)(now_us - report->start_us) / SECOND_US;
}

/* Rates over the time since the last call that is at least half a second ago. */
static void update_rates(struct report *report, int64_t now_us,
                         const struct trainer_report *trainer) {
  double seconds = (double)(now_us - report->rate_us) / SECOND_US;
  if (seconds < 0.45) return;
  int64_t steps = progress_steps(report->run->progress);
  report->steps_per_second = (double)(steps - report->rate_steps) / seconds;
  report->trained_per_second = (double)(trainer->trained_steps - report->rate_trained) / seconds;
  report->rate_us = now_us;
  report->rate_steps = steps;
  report->rate_trained = trainer->trained_steps;
  ingress_set_rates(report->run->ingress, (uint64_t)trainer->updates, seconds_since(report, now_us),
                    report->steps_per_second);
}

/* 1234567 -> "1.23M". */
static const char *short_number(double x, char text[32]) {
  if (x >= 1e9)
    snprintf(text, 32, "%.2fG", x / 1e9);
  else if (x >= 1e6)
    snprintf(text, 32, "%.2fM", x / 1e6);
  else if (x >= 1e4)
    snprintf(text, 32, "%.0fk", x / 1e3);
  else
    snprintf(text, 32, "%.0f", x);
  return text;
}

static int expected_envs(const struct run *run) {
  return (int)run->options->num_envs;
}

static void live_line(struct report *report, const struct trainer_report *trainer) {
  struct run *run = report->run;
  struct progress_returns returns = progress_returns(run->progress, run->evaluates);
  struct leases_count count = leases_count(run->leases);
  char steps[32], rate[32], line[512];
  int n = snprintf(
      line, sizeof(line), "%s %s  %s steps  %s/s  return %.2f (%lld episodes)", run->options->env,
      run->options->agent, short_number((double)progress_steps(run->progress), steps),
      short_number(report->steps_per_second, rate), returns.mean, (long long)returns.count);
  if (run->trains)
    n += snprintf(line + n, sizeof(line) - (size_t)n, "  loss %.4f  entropy %.3f  lag %.1f",
                  trainer->stats.total_loss, trainer->stats.entropy, trainer->stats.lag_updates);
  snprintf(line + n, sizeof(line) - (size_t)n, "  batch %.0f rows  %d of %d environments",
           metric_mean(run->inference_metrics.batch_rows),
           run->evaluates ? count.eval_envs : count.train_envs, expected_envs(run));
  log_live(line);
}

/* Why nothing has moved, in the order of what stops everything. */
static void explain(struct report *report, int64_t now_us) {
  struct run *run = report->run;
  struct leases_count count = leases_count(run->leases);
  struct batcher_counts rows = batcher_counts(run->batcher);
  int here = run->evaluates ? count.eval_envs : count.train_envs;
  int silent_s = (int)((now_us - report->moved_us) / SECOND_US);
  if (run->fifo) {
    struct fifo_counters fifo = fifo_counters(run->fifo);
    if (fifo.full) {
      log_warn("no steps for %d s: the FIFO is full and the trainer has been busy for %.0f s",
               silent_s, (double)fifo.busy_us / SECOND_US);
      return;
    }
  }
  if (here < expected_envs(run))
    log_warn("no steps for %d s: %d of %d environments are connected to %s", silent_s, here,
             expected_envs(run), run->options->listen);
  else
    log_warn(
        "no steps for %d s: %d environments are connected, none has sent a step (%d rows queued, "
        "%d streams late)",
        silent_s, here, rows.queued_rows, rows.late_clients);
}

static void explain_silence(struct report *report, int64_t now_us) {
  int64_t steps = progress_steps(report->run->progress);
  if (steps != report->moved_steps) {
    report->moved_steps = steps;
    report->moved_us = report->explained_us = now_us;
  } else if (now_us - report->explained_us >= SILENCE_US) {
    report->explained_us = now_us;
    explain(report, now_us);
  }
}

/* Copies what others own into the gauges, then writes a line. */
static void metrics_line(struct report *report, int64_t now_us,
                         const struct trainer_report *trainer) {
  struct run *run = report->run;
  int64_t steps = progress_steps(run->progress);
  gauges_fill(run, trainer, report->steps_per_second, report->trained_per_second);
  if (metrics_write_json(run->metrics, steps, seconds_since(report, now_us),
                         report->metrics_file) != 0) {
    log_warn("cannot write metrics.jsonl: %s; training goes on without it", strerror(errno));
    fclose(report->metrics_file);
    report->metrics_file = NULL;
  }
}

void report_tick(struct report *report, int64_t now_us) {
  struct run *run = report->run;
  struct trainer_report trainer = {0};
  if (run->trainer) trainer = trainer_report(run->trainer);
  update_rates(report, now_us, &trainer);
  if (now_us - report->live_us >= (report->terminal ? LIVE_TERMINAL_US : LIVE_FILE_US) &&
      now_us > report->start_us) {
    report->live_us = now_us;
    live_line(report, &trainer);
  }
  if (report->metrics_file &&
      now_us - report->metrics_us >= (int64_t)(run->options->metrics_secs * SECOND_US)) {
    report->metrics_us = now_us;
    metrics_line(report, now_us, &trainer);
  }
  explain_silence(report, now_us);
}

/* 3 only when the budget ended a run that was to reach a target. */
static int exit_code(const struct run *run, enum stop_reason reason) {
  if (reason == STOP_ERROR) return 1;
  if (reason == STOP_TOTAL_STEPS && !isnan(run->options->target_return)) return 3;
  return 0;
}

int report_result(struct report *report, int64_t now_us) {
  struct run *run = report->run;
  if (report->metrics_file) {
    struct trainer_report trainer = {0};
    if (run->trainer) trainer = trainer_report(run->trainer);
    metrics_line(report, now_us, &trainer);
  }
  log_live("");
  bool eval = run->evaluates;
  enum stop_reason reason = progress_stopped(run->progress);
  struct progress_returns returns = progress_returns(run->progress, eval);
  double seconds = seconds_since(report, now_us);
  int64_t steps = progress_steps(run->progress);
  if (eval && returns.window)
    printf(
        "evaluation episodes=%d return_mean=%.16g return_std=%.16g return_min=%.16g "
        "return_median=%.16g "
        "return_max=%.16g length_mean=%.16g policy=%s\n",
        returns.window, returns.mean, returns.std, returns.min, returns.median, returns.max,
        returns.length_mean, run->options->policy);
  printf(
      "result env=%s agent=%s steps=%lld seconds=%.2f sps=%.0f episodes=%lld return_mean=%.3f "
      "return_std=%.3f over=%s "
      "reason=%s\n",
      run->options->env, run->options->agent, (long long)steps, seconds,
      (double)(steps - report->first_steps) / seconds, (long long)returns.count, returns.mean,
      returns.std, eval ? "eval" : "train", stop_reason_name(reason));
  fflush(stdout);
  return exit_code(run, reason);
}
