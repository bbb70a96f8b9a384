#include "learner/report/result_file.h"

#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/json_file.h"

static void path_of(char path[PATH_MAX], const struct run *run, const char *name) {
  snprintf(path, PATH_MAX, "%s/%s", run->folder.path, name);
}

static json_t *whole_path(const char *path) {
  char whole[PATH_MAX];
  return json_string(realpath(path, whole) ? whole : path);
}

/* What every file begins with. */
static json_t *describe(const struct run *run, json_t *object) {
  json_object_set_new(object, "env", json_string(run->label[0] ? run->label : run->options->env));
  json_object_set_new(object, "environment", json_string(run->identity));
  json_object_set_new(object, "agent", json_string(run->options->agent));
  json_object_set_new(object, "seed", json_integer(run->options->seed));
  json_object_set_new(object, "logdir", whole_path(run->folder.path));
  return object;
}

static void set_returns(json_t *object, const struct progress_returns *returns) {
  json_object_set_new(object, "return_mean", json_number(returns->mean));
  json_object_set_new(object, "return_std", json_number(returns->std));
  json_object_set_new(object, "return_min", json_number(returns->min));
  json_object_set_new(object, "return_max", json_number(returns->max));
}

/* ---- result.json */

void result_file_remove(const struct run *run) {
  char path[PATH_MAX];
  path_of(path, run, "result.json");
  if (!run->was_finished) unlink(path);
}

static void set_figures(json_t *object, const struct run_result *result) {
  const struct progress_returns *returns = &result->returns;
  json_object_set_new(object, "steps", json_integer(result->steps));
  json_object_set_new(object, "seconds", json_number(result->seconds));
  json_object_set_new(object, "sps", json_number(result->steps_per_second));
  json_object_set_new(object, "episodes", json_integer(returns->count));
  set_returns(object, returns);
  json_object_set_new(object, "over", json_string(result->over_eval ? "eval" : "train"));
  if (result->not_learning[0])
    json_object_set_new(object, "not_learning", json_string(result->not_learning));
}

/* Those of the start that trained. */
static void keep_figures(json_t *object, json_t *kept) {
  static const char *const names[] = {"steps",      "seconds",     "sps",        "episodes",
                                      "over",       "return_mean", "return_std", "return_min",
                                      "return_max", "not_learning"};
  for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
    json_object_set(object, names[i], json_object_get(kept, names[i]));
}

void result_file_write(const struct run *run, const struct run_result *result, int exit_code,
                       const char *why) {
  char path[PATH_MAX];
  path_of(path, run, "result.json");
  json_t *object = describe(run, folder_result(stop_reason_name(result->reason), exit_code, why));
  json_t *kept = run->was_finished ? json_file_read(path) : NULL;
  if (json_is_string(json_object_get(kept, "over")))
    keep_figures(object, kept);
  else
    set_figures(object, result);
  json_decref(kept);
  json_file_write_or_warn(path, object);
}

static double number_in(const json_t *object, const char *name) {
  const json_t *number = json_object_get(object, name);
  return json_is_number(number) ? json_number_value(number) : NAN;
}

void result_file_read(const struct run *run, struct run_result *result) {
  char path[PATH_MAX];
  path_of(path, run, "result.json");
  json_t *object = json_file_read(path);
  const char *over = json_string_value(json_object_get(object, "over"));
  if (over) {
    result->seconds = number_in(object, "seconds");
    result->steps_per_second = number_in(object, "sps");
    result->returns.count = json_integer_value(json_object_get(object, "episodes"));
    result->returns.mean = number_in(object, "return_mean");
    result->returns.std = number_in(object, "return_std");
    result->over_eval = strcmp(over, "eval") == 0;
  }
  json_decref(object);
}

void result_file_write_refusal(const struct run *run, int exit_code, const char *why) {
  char path[PATH_MAX];
  path_of(path, run, "result.json");
  if (!run->folder.path[0] || run->folder.held_run || access(run->folder.path, W_OK) != 0) return;
  json_t *object = describe(run, folder_result("refused", exit_code, why));
  json_object_set_new(object, "steps", json_integer(0));
  json_file_write_or_warn(path, object);
}

/* ---- eval.json */

void result_file_write_evaluation(const struct run *run, const struct progress_returns *returns,
                                  double half_width) {
  char path[PATH_MAX];
  if (!run->folder.path[0]) return;
  path_of(path, run, "eval.json");
  json_t *file = json_file_take(path), *part = describe(run, json_object());
  if (!file) file = json_object();
  json_object_set_new(part, "checkpoint", run->played[0] ? whole_path(run->played) : json_null());
  json_object_set_new(part, "step", json_integer(trainer_counter(run->trainer, TRAINER_STEPS)));
  json_object_set_new(part, "updates", json_integer(trainer_report(run->trainer).updates));
  json_object_set_new(part, "policy", json_string(run->options->policy));
  json_object_set_new(part, "episodes", json_integer(returns->window));
  set_returns(part, returns);
  json_object_set_new(part, "return_median", json_number(returns->median));
  json_object_set_new(part, "return_ci95_low", json_number(returns->mean - half_width));
  json_object_set_new(part, "return_ci95_high", json_number(returns->mean + half_width));
  json_object_set_new(part, "length_mean", json_number(returns->length_mean));
  folder_stamp(part);
  json_object_set_new(file, run->options->policy, part);
  json_file_write_or_warn(path, file);
}
