#include "learner/run/run_checkpoint.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "common/base/log.h"
#include "learner/params/checkpoint.h"
#include "learner/run/run_kept.h"
#include "learner/run/run_replay.h"

/* ---- before the run */

enum status run_check_same(const struct run *run, struct error *error) {
  if (!run->folder.held_run || !run->options->resume) return STATUS_OK;
  char path[1024], theirs[WIRE_ENVIRONMENT_BYTES];
  snprintf(path, sizeof(path), "%s/config.txt", run->folder.path);
  folder_read_environment(&run->folder, 0, theirs, sizeof(theirs));
  struct learner_options earlier;
  options_init(&learner_options_table, &earlier);
  enum status status = options_read_file(&learner_options_table, &earlier, path, error);
  bool same_env =
      theirs[0] ? strcmp(run->identity, theirs) == 0 : strcmp(run->options->env, earlier.env) == 0;
  if (status == STATUS_OK && !(same_env && strcmp(run->options->agent, earlier.agent) == 0))
    status = status_fail(error, STATUS_MISMATCH,
                         "%s holds a run of %s %s, this one is %s %s: resume with the same words, "
                         "or choose another --logdir",
                         run->folder.name, theirs[0] ? theirs : earlier.env, earlier.agent,
                         run->identity, run->options->agent);
  options_deinit(&learner_options_table, &earlier);
  return status;
}

const char *run_choices(char out[SPACE_ACTION_BYTES], const struct space *space) {
  if (space->choices.count) return space_describe_action(out, space);
  out[0] = '\0';
  return out;
}

/* A network of as many actions would fit, and take some of one choice for some of another. */
static enum status check_choices(const struct run *run, struct error *error) {
  char ours[SPACE_ACTION_BYTES], theirs[SPACE_ACTION_BYTES], all[SPACE_ACTION_BYTES];
  run_choices(ours, &run->space);
  folder_read_environment(&run->folder, 1, theirs, sizeof(theirs));
  if (strcmp(ours, theirs) == 0) return STATUS_OK;
  return status_fail(error, STATUS_MISMATCH,
                     "%s holds a run whose action is %s, that of %s is %s: choose the environment "
                     "as it was",
                     run->folder.name, theirs[0] ? theirs : "of one choice", run->identity,
                     space_describe_action(all, &run->space));
}

/* Of this run's network; 0: it has no such parameter. */
static int count_of(const struct run *run, const char *name) {
  int count;
  const struct network_parameter *parameter = network_parameters(run->network, &count);
  for (int i = 0; i < count; i++)
    if (strcmp(parameter[i].name, name) == 0) return (int)parameter[i].count;
  return 0;
}

/* How many actions (numbers of one) the network in a checkpoint has, from the biases of its head; 0
 * if unknown: in a run whose head has several outputs for each. The checkpoint's network is taken
 * to have as many values as this run's. */
static int num_actions_in(const struct run *run, const char *path) {
  struct checkpoint_item items[CHECKPOINT_MAX_ITEMS];
  struct error ignored;
  int count, head_size = network_head_size(run->network);
  int biases = count_of(run, "head/b");
  int value_size = biases ? biases - head_size : count_of(run, "head/value/b");
  if (head_size != space_num_actions(&run->space)) return 0;
  if (checkpoint_list(path, items, &count, &ignored) != STATUS_OK) return 0;
  for (int i = 0; i < count; i++) {
    if (strcmp(items[i].name, "params/head/b") == 0) return (int)items[i].shape[0] - value_size;
    if (strcmp(items[i].name, "params/head/advantage/b") == 0) return (int)items[i].shape[0];
  }
  return 0;
}

/* Of a checkpoint that does not fit: whether that is because the environment is another, which says
 * more than the shape of the first part that differs. */
static enum status blame_actions(const struct run *run, const char *path, struct error *error) {
  int theirs = num_actions_in(run, path), ours = space_num_actions(&run->space);
  if (theirs <= 0 || theirs == ours) return STATUS_MISMATCH;
  return status_fail(error, STATUS_MISMATCH,
                     "the run's network has %d actions, and %s has %d: choose an environment with "
                     "%d (%s)",
                     theirs, run->identity, ours, theirs, path);
}

static bool has_item(const struct checkpoint_item *items, int count, const char *name) {
  for (int i = 0; i < count; i++)
    if (strcmp(items[i].name, name) == 0) return true;
  return false;
}

/* A network that is a part of the checkpoint's would fit, too, and play nonsense. */
static enum status check_no_other_parameters(const char *path, const struct checkpoint_item *items,
                                             int count, struct error *error) {
  static const char prefix[] = "params/";
  struct checkpoint_item theirs[CHECKPOINT_MAX_ITEMS];
  int num_theirs;
  enum status status = checkpoint_list(path, theirs, &num_theirs, error);
  for (int i = 0; status == STATUS_OK && i < num_theirs; i++)
    if (strncmp(theirs[i].name, prefix, strlen(prefix)) == 0 &&
        !has_item(items, count, theirs[i].name))
      status = status_fail(error, STATUS_MISMATCH,
                           "the checkpoint %s does not fit: '%s' is in it, which the network here "
                           "does not have: use the options that it was written with",
                           path, theirs[i].name);
  return status;
}

static enum status read_best(char path[CHECKPOINT_PATH_BYTES], const struct run *run,
                             struct checkpoint_item *items, int count, struct error *error) {
  enum status status = STATUS_NOT_FOUND;
  // A run that goes on may have replaced it meanwhile.
  for (int tries = 0; tries < 3 && status == STATUS_NOT_FOUND; tries++) {
    status = run_kept_find_best(path, run->folder.checkpoints, error);
    if (status == STATUS_OK) status = checkpoint_read(path, items, count, error);
  }
  return status;
}

/* What was named; where nothing was, the best one, or the newest whole one where that cannot be. */
static enum status read_chosen(char path[CHECKPOINT_PATH_BYTES], const struct run *run,
                               struct checkpoint_item *items, int count, struct error *error) {
  const char *folder = run->folder.checkpoints;
  const char *named = run->evaluates ? run->options->checkpoint : "latest";
  if (!named[0] || strcmp(named, "best") == 0) {
    enum status status = read_best(path, run, items, count, error);
    if (status == STATUS_OK || status == STATUS_MISMATCH || named[0]) return status;
    if (status != STATUS_NOT_FOUND) log_warn("%s; the newest whole one is taken", error->text);
    named = "latest";
  }
  if (strcmp(named, "latest") == 0)
    return checkpoint_read_newest(folder, items, count, path, error);
  snprintf(path, CHECKPOINT_PATH_BYTES, "%s", named);
  enum status status = checkpoint_read(path, items, count, error);
  struct error why = *error;
  if (status != STATUS_NOT_FOUND || strchr(named, '/')) return status;
  return status_fail(error, status, "%s; give best, latest or a file", why.text);
}

static enum status load(struct run *run, struct error *error) {
  struct checkpoint_item items[CHECKPOINT_MAX_ITEMS];
  char path[CHECKPOINT_PATH_BYTES];
  int count = trainer_items(run->trainer, items);
  enum status status = read_chosen(path, run, items, count, error);
  if (status == STATUS_MISMATCH) status = blame_actions(run, path, error);
  if (status == STATUS_OK) status = check_choices(run, error);
  if (status == STATUS_OK) status = check_no_other_parameters(path, items, count, error);
  if (status != STATUS_OK) return status;
  snprintf(run->played, sizeof(run->played), "%s", path);
  trainer_load(run->trainer);
  int64_t updates = trainer_report(run->trainer).updates;
  int64_t steps = trainer_counter(run->trainer, TRAINER_STEPS);
  log_info("%s the checkpoint of update %lld, step %lld, in %s",
           run->evaluates ? "playing" : "resuming from", (long long)updates, (long long)steps,
           run->folder.name);
  if (run->evaluates) return STATUS_OK;
  progress_restore(run->progress, steps, trainer_counter(run->trainer, TRAINER_EPISODES));
  trainer_set_counter(run->trainer, TRAINER_RESTARTS,
                      trainer_counter(run->trainer, TRAINER_RESTARTS) + 1);
  run->resumed = true;
  return STATUS_OK;
}

/* A run that has had its steps ends at once, without waiting for actors. */
static bool end_if_finished(struct run *run) {
  int64_t steps = progress_steps(run->progress), total = run->options->total_steps;
  if (!run->resumed || steps < total) return false;
  log_info(
      "this run is finished: it has had %lld of its %lld steps; a larger --total_steps "
      "continues it",
      (long long)steps, (long long)total);
  progress_stop(run->progress, STOP_TOTAL_STEPS);
  run->was_finished = true;
  return true;
}

/* What an evaluation plays has no replay. */
static void go_on(struct run *run) {
  if (end_if_finished(run))
    run_replay_leave(run);
  else if (run->resumed)
    run_replay_load(run);
}

enum status run_load_if_wanted(struct run *run, struct error *error) {
  if (!run->trainer || (!run->options->resume && !run->evaluates)) return STATUS_OK;
  enum status status = load(run, error);
  if (status == STATUS_OK) go_on(run);
  if (status == STATUS_NOT_FOUND && !run->evaluates) {
    if (run->folder.held_run)
      log_warn("no checkpoint in %s yet: the run starts anew", run->folder.checkpoints);
    else
      log_info("--resume: there is no run in %s yet: it begins", run->folder.name);
    return STATUS_OK;
  }
  return status;
}

/* ---- while it goes on, and at its end */

static enum status write_items(struct run *run, struct error *error) {
  struct checkpoint_item items[CHECKPOINT_MAX_ITEMS];
  int count = trainer_items(run->trainer, items);
  run->kept.count = (int)run->options->checkpoints_kept;
  return checkpoint_write(run->folder.checkpoints, trainer_saved_updates(run->trainer), items,
                          count, &run->kept, error);
}

/* With the replay of the same update before it, whose loss alone is no reason to lose this: where
 * it took the last room, it goes. */
static enum status write_both(struct run *run, const char *what, bool until_stop,
                              struct error *error) {
  struct error why, why_not;
  enum status replay = run_replay_write(run, until_stop, &why);
  if (replay == STATUS_DONE) return status_fail(error, replay, "%s", why.text);
  enum status status = write_items(run, &why_not);
  if (status != STATUS_OK && replay == STATUS_OK && run->replay) {
    run_replay_drop(run);
    replay = status_fail(&why, status, "there is no room for both");
    status = write_items(run, &why_not);
  }
  if (status != STATUS_OK) return status_fail(error, status, "no %s: %s", what, why_not.text);
  run_replay_remove_others(run);
  if (replay == STATUS_OK) return STATUS_OK;
  return status_fail(error, replay, "no replay with the %s: %s", what, why.text);
}

/* Best and by steps, after the newest, whose `status` stays: it may be its replay's alone. */
static enum status write_others(struct run *run, int kinds, enum status status_before,
                                struct error *error) {
  struct checkpoint_item items[CHECKPOINT_MAX_ITEMS];
  if (!(kinds & (KEPT_BEST | KEPT_STEP)) || status_before == STATUS_DONE) return status_before;
  int count = trainer_items(run->trainer, items);
  struct error why;
  enum status status = run_kept_write(&run->others, kinds, run->folder.checkpoints,
                                      trainer_saved_updates(run->trainer), items, count, &why);
  if (status == STATUS_OK || status_before != STATUS_OK) return status_before;
  return status_fail(error, status, "no checkpoint: %s", why.text);
}

void run_request_checkpoint(struct run *run, int kinds) {
  atomic_store(&run->saved_kinds, kinds);
  trainer_request_save(run->trainer);
}

enum status run_write_saved(struct run *run, struct error *error) {
  int kinds = atomic_load(&run->saved_kinds);
  enum status status = kinds & KEPT_NEWEST ? write_both(run, "checkpoint", true, error) : STATUS_OK;
  return write_others(run, kinds, status, error);
}

enum status run_write_checkpoint(struct run *run, int others, struct error *error) {
  trainer_save_now(run->trainer);
  run_replay_capture(run);
  enum status status = write_both(run, "final checkpoint", false, error);
  return write_others(run, others, status, error);
}
