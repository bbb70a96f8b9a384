/* Learning curves of runs, as a gnuplot script on stdout: what scripts/plot.sh draws. Runs of one
 * experiment are one curve, with a band; different experiments are different curves. */
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/base/option_rows.h"
#include "common/base/process.h"
#include "deploy/inspect/curve.h"
#include "deploy/inspect/figure.h"
#include "deploy/inspect/groups.h"
#include "deploy/inspect/run_log.h"

enum { EXIT_NOTHING = 4, EXIT_USAGE = 2 };

/* A share of the longest run that is worth a warning. */
static const double NOTABLE_CUT = 0.1;

struct curves_options {
  struct options_given given;
  char *x, *y, *band, *title;
  bool data;
};

#define AT(member) offsetof(struct curves_options, member)
static const struct option rows[] = {
    CHOICE("x", x, "steps", "steps|seconds", NULL, "the x axis"),
    STRING("y", y, "train/episode_return", NULL, "a metric of metrics.jsonl"),
    CHOICE(
        "band", band, "range", "range|interval", NULL,
        "around the mean of several runs: from the lowest to the highest, or the 95 % confidence "
        "interval of the mean (Student's t)"),
    STRING("title", title, "", NULL, "above the picture; default: the experiments"),
    BOOL("data", data, "false", NULL, "print the curves' points instead: x, mean, low, high"),
};
static const struct option_exit exits[] = {
    {"0", "the curves are written"},
    {"1", "the output cannot be written"},
    {"2", "wrong options, or no run that can be read"},
    {"4", "no run has two points yet"},
    {NULL, NULL},
};

static const struct option_table table = {
    .program = "curves",
    .words = "RUN...",
    .about = "Learning curves of run folders, as a gnuplot script.",
    .exits = exits,
    .options = rows,
    .count = sizeof(rows) / sizeof(rows[0]),
};

struct curves {
  struct curves_options options;
  struct groups groups;
  char **folder;                                   /* (groups.num_runs) borrowed */
  struct run_log log[GROUPS_MAX_RUNS];             /* (groups.num_runs) */
  struct figure_line line[GROUPS_MAX_RUNS];        /* (num_lines) */
  char label[GROUPS_MAX_RUNS][GROUPS_LABEL_BYTES]; /* (num_lines) */
  int num_lines;
};

/* An empty log, after an error, is no curve. */
static enum status read_run(struct curves *self, char *folder, struct error *error) {
  struct run_axes axes = {strcmp(self->options.x, "seconds") == 0, self->options.y};
  int run = self->groups.num_runs;
  enum status status = groups_add(&self->groups, folder, error);
  if (status != STATUS_OK) return status;
  self->folder[run] = folder;
  status = run_log_read(&self->log[run], folder, &axes, error);
  if (status == STATUS_OK && self->log[run].count < 2)
    log_warn("%s: %s has %d points so far: left out", folder, axes.y, self->log[run].count);
  return status;
}

/* One of several that cannot be read keeps no other from being drawn. */
static enum status read_runs(struct curves *self, int num_folders, struct error *error) {
  int num_read = 0;
  for (int i = 0; i < num_folders; i++) {
    bool is_full = self->groups.num_runs == GROUPS_MAX_RUNS;
    enum status status = read_run(self, self->folder[i], error);
    if (status == STATUS_OK)
      num_read++;
    else if (is_full || num_folders == 1)
      return status;
    else
      log_warn("%s: left out", error->text);
  }
  if (num_read > 0) return STATUS_OK;
  return status_fail(error, STATUS_INVALID, "none of these %d runs can be drawn", num_folders);
}

static double end_of(const struct run_log *log) {
  return log->point[log->count - 1].x;
}

/* A mean ends with the shortest of its runs, which hides the ends of the others: a warning. */
static void warn_of_cut(const struct curves *self, const char *label,
                        const struct run_log *const *logs, int num_logs) {
  const struct run_log *shortest = logs[0], *longest = logs[0];
  for (int i = 1; i < num_logs; i++) {
    if (end_of(logs[i]) < end_of(shortest)) shortest = logs[i];
    if (end_of(logs[i]) > end_of(longest)) longest = logs[i];
  }
  if (end_of(shortest) >= (1 - NOTABLE_CUT) * end_of(longest)) return;
  log_warn(
      "the curve of %s ends at %.10g %s with its shortest run, %s; the longest goes on to %.10g",
      label, end_of(shortest), self->options.x, self->folder[shortest - self->log],
      end_of(longest));
}

/* The curve of one group, of its runs that have one. */
static enum status make_line(struct curves *self, int group, struct error *error) {
  const struct run_log *logs[GROUPS_MAX_RUNS];
  int num_logs = 0;
  for (int i = 0; i < self->groups.num_runs; i++)
    if (self->groups.group[i] == group && self->log[i].count >= 2) logs[num_logs++] = &self->log[i];
  if (num_logs == 0) return STATUS_OK;
  bool range = strcmp(self->options.band, "range") == 0;
  char *label = self->label[self->num_lines];
  struct figure_line *line = &self->line[self->num_lines];
  groups_label(label, &self->groups, group);
  warn_of_cut(self, label, logs, num_logs);
  *line = (struct figure_line){.label = label, .num_runs = num_logs};
  enum status status =
      curve_create(&line->curve, logs, num_logs, range ? CURVE_RANGE : CURVE_INTERVAL, error);
  if (status == STATUS_OK) self->num_lines++;
  return status;
}

/* "train/episode_return" as a person would say it. */
static const char *describe_metric(const char *name) {
  if (strcmp(name, "train/episode_return") == 0)
    return "episode return (mean of the last 100, training)";
  if (strcmp(name, "eval/episode_return") == 0)
    return "episode return (mean of the last 100, evaluation)";
  return name;
}

static enum status write_figure(const struct curves *self, struct error *error) {
  bool range = strcmp(self->options.band, "range") == 0;
  const char *title = self->num_lines == 1 ? self->label[0] : "Learning curves";
  struct figure figure = {
      .title = self->options.title[0] ? self->options.title : title,
      .x_label = strcmp(self->options.x, "seconds") == 0 ? "seconds" : "environment steps",
      .y_label = describe_metric(self->options.y),
      .band = range ? "range" : "95 % interval",
      .line = self->line,
      .num_lines = self->num_lines};
  if (self->options.data)
    figure_write_data(&figure, stdout);
  else
    figure_write_script(&figure, stdout);
  return process_flush(error);
}

static enum status run(struct curves *self, int argc, char **argv, struct error *error) {
  int num_folders = 0;
  enum status status = options_parse(&table, &self->options, argc, argv, argv, &num_folders, error);
  if (status == STATUS_OK && num_folders == 0)
    status = status_fail(error, STATUS_INVALID, "name one or more run folders");
  self->folder = argv;
  if (status == STATUS_OK) status = read_runs(self, num_folders, error);
  if (status != STATUS_OK) return status;
  for (int i = 0; i < self->groups.count; i++)
    if (make_line(self, i, error) != STATUS_OK) {
      status = STATUS_INVALID;
      if (self->groups.count > 1) log_warn("%s: left out", error->text);
    }
  return self->num_lines > 0 ? STATUS_OK : status;
}

int main(int argc, char **argv) {
  static struct curves self;
  struct error error;
  process_ignore_file_limit();
  log_init("plot", LOG_INFO);
  options_init(&table, &self.options);
  enum status status = run(&self, argc, argv, &error);
  int code = status == STATUS_OK || status == STATUS_DONE ? 0 : EXIT_USAGE;
  if (status == STATUS_OK && self.num_lines == 0) {
    code = EXIT_NOTHING;
  } else if (status == STATUS_OK) {
    status = write_figure(&self, &error);
    if (status != STATUS_OK) code = EXIT_FAILURE;
  }
  if (code == EXIT_USAGE || code == EXIT_FAILURE) fprintf(stderr, "plot: %s\n", error.text);

  for (int i = 0; i < self.num_lines; i++) curve_deinit(&self.line[i].curve);
  for (int i = 0; i < self.groups.num_runs; i++) run_log_deinit(&self.log[i]);
  groups_deinit(&self.groups);
  options_deinit(&table, &self.options);
  return code;
}
