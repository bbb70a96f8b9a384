#include "learner/run/run_kept.h"

#include <dirent.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/json_file.h"
#include "common/base/log.h"

enum { SECOND_US = 1000000, PART_OF_TIME = 20, NAME_BYTES = 64 };
static const char prefix[] = "best-", suffix[] = ".acorn";

static void record_path(char path[CHECKPOINT_PATH_BYTES], const char *folder) {
  snprintf(path, CHECKPOINT_PATH_BYTES, "%s/best.json", folder);
}

static bool is_best(const char *name) {
  const char *end = strrchr(name, '.');
  return strncmp(name, prefix, strlen(prefix)) == 0 && end && strcmp(end, suffix) == 0;
}

/* ---- when */

void run_kept_init(struct run_kept *kept, const char *folder, int64_t steps, int64_t every) {
  *kept = (struct run_kept){.best = -INFINITY};
  if (every > 0) kept->next_step = (steps / every + 1) * every;
  run_kept_forget(kept, folder);
}

void run_kept_forget(struct run_kept *kept, const char *folder) {
  char path[CHECKPOINT_PATH_BYTES];
  kept->best = -INFINITY;
  record_path(path, folder);
  json_t *record = json_file_read(path);
  const json_t *score = json_object_get(record, "score");
  const char *over = json_string_value(json_object_get(record, "over"));
  if (json_is_number(score)) kept->best = json_number_value(score);
  kept->best_is_eval = over && strcmp(over, "eval") == 0;
  json_decref(record);
}

/* A mean over fewer episodes is more often high by luck. A score of another kind cannot be
 * compared: the first of evaluation replaces the best of training, which replaces one of evaluation
 * where a run was resumed without evaluators alone. */
static bool improves(struct run_kept *kept, const struct progress_returns *train,
                     const struct progress_returns *eval) {
  bool is_eval = eval->window > 0;
  const struct progress_returns *returns = is_eval ? eval : train;
  kept->score = returns->mean;
  kept->score_is_eval = is_eval;
  if (returns->window < PROGRESS_WINDOW || !isfinite(returns->mean)) return false;
  if (kept->best_is_eval && !is_eval && kept->is_evaluated) return false;
  return returns->mean > kept->best || (is_eval && !kept->best_is_eval);
}

static void take_score(struct run_kept *kept) {
  kept->best = kept->score;
  kept->best_is_eval = kept->score_is_eval;
}

static int take_step(struct run_kept *kept, int64_t steps, int64_t every) {
  if (every == 0 || steps < kept->next_step) return 0;
  kept->step = steps / every * every;
  kept->next_step = kept->step + every;
  return KEPT_STEP;
}

int run_kept_due(struct run_kept *kept, const struct progress_returns *train,
                 const struct progress_returns *eval, int64_t steps, int64_t every, int64_t now_us,
                 int64_t longest_us) {
  int kinds = take_step(kept, steps, every);
  int64_t pause_us = now_us / PART_OF_TIME;
  if (pause_us < SECOND_US) pause_us = SECOND_US;
  if (pause_us > longest_us) pause_us = longest_us;
  if (longest_us == 0 || now_us - kept->best_us < pause_us || !improves(kept, train, eval))
    return kinds;
  kept->best_us = now_us;
  kept->is_of_few = false;
  take_score(kept);
  return kinds | KEPT_BEST;
}

int run_kept_last(struct run_kept *kept, const struct progress_returns *train,
                  const struct progress_returns *eval, int64_t steps, int64_t every) {
  int kinds = take_step(kept, steps, every);
  bool is_better = improves(kept, train, eval);
  if (!is_better && isfinite(kept->best)) return kinds;
  kept->is_of_few = !is_better;
  take_score(kept);
  return kinds | KEPT_BEST;
}

/* ---- written */

static void remove_other_best(const char *folder, const char *name) {
  char path[CHECKPOINT_PATH_BYTES];
  DIR *directory = opendir(folder);
  if (!directory) return;
  for (struct dirent *entry; (entry = readdir(directory));) {
    if (!is_best(entry->d_name) || strcmp(entry->d_name, name) == 0) continue;
    int length = snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
    if (length < (int)sizeof(path)) unlink(path);
  }
  closedir(directory);
}

/* The older one goes once all of the new one is there. */
static enum status write_best(const struct run_kept *kept, const char *folder, int64_t updates,
                              const struct checkpoint_item *items, int num_items,
                              struct error *error) {
  char name[NAME_BYTES], file[NAME_BYTES + 16], path[CHECKPOINT_PATH_BYTES];
  snprintf(name, sizeof(name), "%s%012lld", prefix, (long long)updates);
  snprintf(file, sizeof(file), "%s%s", name, suffix);
  enum status status = checkpoint_write_named(folder, name, items, num_items, error);
  if (status != STATUS_OK) return status;
  json_t *record = json_object();
  json_object_set_new(record, "file", json_string(file));
  json_object_set_new(record, "updates", json_integer(updates));
  json_object_set_new(record, "score", json_number(kept->is_of_few ? NAN : kept->score));
  json_object_set_new(record, "over", json_string(kept->score_is_eval ? "eval" : "train"));
  record_path(path, folder);
  status = json_file_write(path, record, error);
  if (status == STATUS_OK) remove_other_best(folder, file);
  return status;
}

enum status run_kept_write(const struct run_kept *kept, int kinds, const char *folder,
                           int64_t updates, const struct checkpoint_item *items, int num_items,
                           struct error *error) {
  char name[NAME_BYTES];
  enum status status = STATUS_OK;
  snprintf(name, sizeof(name), "step-%012lld", (long long)kept->step);
  if (kinds & KEPT_STEP) status = checkpoint_write_named(folder, name, items, num_items, error);
  if (status == STATUS_OK && kinds & KEPT_BEST)
    status = write_best(kept, folder, updates, items, num_items, error);
  return status;
}

/* ---- found */

/* The one of the record; where that was cut off, any. */
enum status run_kept_find_best(char path[CHECKPOINT_PATH_BYTES], const char *folder,
                               struct error *error) {
  char name[NAME_BYTES + 16] = "";
  record_path(path, folder);
  json_t *record = json_file_read(path);
  const char *recorded = json_string_value(json_object_get(record, "file"));
  DIR *directory = opendir(folder);
  for (struct dirent *entry; directory && (entry = readdir(directory));) {
    bool is_recorded = recorded && strcmp(recorded, entry->d_name) == 0;
    size_t bytes = strlen(entry->d_name) + 1;
    if (is_best(entry->d_name) && bytes <= sizeof(name) && (is_recorded || !name[0]))
      memcpy(name, entry->d_name, bytes);
    if (is_recorded) break;
  }
  if (directory) closedir(directory);
  json_decref(record);
  snprintf(path, CHECKPOINT_PATH_BYTES, "%s/%s", folder, name);
  if (name[0]) return STATUS_OK;
  return status_fail(
      error, STATUS_NOT_FOUND,
      "--checkpoint=best: there is none in %s yet: it comes after %d episodes, or at "
      "the end of the run",
      folder, PROGRESS_WINDOW);
}
