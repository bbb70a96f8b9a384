#include "actor/check_env.h"

#include <string.h>

#include "actor/trial.h"
#include "common/base/clock.h"
#include "common/base/decimal.h"
#include "envs/registry.h"

struct check {
  struct trial trial;
  FILE *out;
};

/* ---- what it looks like */

static void describe(const struct check *check) {
  static const char *const dtypes[] = {"", "uint8", "int32", "float32"};
  const struct space *space = check->trial.space;
  FILE *out = check->out;
  fprintf(out, "environment %s: %s\n", check->trial.env->name,
          check->trial.env->about ? check->trial.env->about : "no description");
  for (int i = 0; i < check->trial.config->num_options; i++) {
    const struct acorn_option *option = &check->trial.config->option[i];
    fprintf(out, "  option       %s = %g (%g..%g): %s\n", option->name, option->value, option->min,
            option->max, option->help ? option->help : "");
  }
  for (int i = 0; i < space->num_tensors; i++) {
    fprintf(out, "  observation  %s %s[", space->tensor[i].name, dtypes[space->tensor[i].dtype]);
    for (int d = 0; d < space->tensor[i].rank; d++)
      fprintf(out, "%s%d", d ? "," : "", space->tensor[i].shape[d]);
    fprintf(out, "]\n");
  }
  if (space->discrete && !space->choices.count)
    fprintf(out, "  action       one of 0..%d\n", space->discrete - 1);
  for (int c = 0; c < space->choices.count; c++)
    fprintf(out, "  action       %d of %d: one of 0..%d\n", c, space->choices.count,
            space->choices.among[c] - 1);
  for (int i = 0; i < space->box; i++)
    fprintf(out, "  action       %d of %d: %g..%g\n", i, space->box, (double)space->low[i],
            (double)space->high[i]);
}

static void summarise(const struct check *check, const struct trial_record *record,
                      const struct trial_summary *summary, int64_t us) {
  int episodes = summary->terminated + summary->truncated;
  fprintf(check->out, "  played       %d steps with random actions, %.0f a second\n",
          record->num_steps, record->num_steps * 1e6 / (double)(us ? us : 1));
  if (episodes == 0) {
    fprintf(check->out, "  note         no episode ended; a learner sees returns of whole ones\n");
    return;
  }
  fprintf(check->out,
          "  episodes     %d (%d terminated, %d truncated), mean length %.1f, mean return %.3f "
          "(%.3f..%.3f)\n",
          episodes, summary->terminated, summary->truncated, summary->length / episodes,
          summary->total / episodes, summary->lowest, summary->highest);
}

/* ---- the rules */

static bool report(struct check *check, bool ok, const char *rule, const char *fault) {
  fprintf(check->out, ok ? "ok    %s\n" : "FAIL  %s: %s\n", rule, fault);
  fflush(check->out); // the next play may end the process
  return ok;
}

/* Plays again under another condition; what is seen must be the same. */
static bool repeats(struct check *check, const struct trial_record *first, const char *rule,
                    const struct trial_condition *how) {
  struct trial_record again;
  trial_record_init(&again);
  bool ok = trial_play(&check->trial, &again, NULL, how, first->num_steps);
  for (int r = 0; ok && r < first->num_rows; r++) {
    int at = 0;
    while (at <= check->trial.space->num_tensors && again.sum[r][at] == first->sum[r][at]) at++;
    if (at > check->trial.space->num_tensors) continue;
    bool is_rest = at == check->trial.space->num_tensors;
    (void)!status_fail(&check->trial.fault, STATUS_IO, "in row %d %s%s%s differs", r,
                       is_rest ? "the reward or an ending" : "the observation '",
                       is_rest ? "" : check->trial.space->tensor[at].name, is_rest ? "" : "'");
    ok = false;
  }
  trial_record_deinit(&again);
  return report(check, ok, rule, check->trial.fault.text);
}

/* Another seed should mean another episode, but an environment without chance is allowed. */
static void note_chance(struct check *check, const struct trial_record *first) {
  struct trial_record other;
  trial_record_init(&other);
  const struct trial_condition how = {.seed = 1000003, .fill = 0xA5};
  if (trial_play(&check->trial, &other, NULL, &how, first->num_steps) &&
      other.num_rows == first->num_rows &&
      memcmp(other.sum, first->sum, (size_t)other.num_rows * sizeof *other.sum) == 0)
    fprintf(check->out, "  note         another seed gives the same episodes\n");
  trial_record_deinit(&other);
}

static bool check_rules(struct check *check, struct trial_record *first) {
  static const struct {
    const char *rule;
    struct trial_condition how;
  } rules[] = {
      {"the same seed and actions give the same episodes", {.seed = 1, .fill = 0xA5}},
      {"every byte of an observation is written", {.seed = 1, .fill = 0x5A}},
      {"reset starts afresh in the middle of an episode", {.seed = 1, .fill = 0xA5, .warm_up = 13}},
      {"instances share nothing", {.seed = 1, .fill = 0xA5, .neighbour = true}},
  };
  struct trial_summary summary = {0};
  int64_t start_us = clock_now_us();
  bool ok = trial_play(&check->trial, first, &summary, &rules[0].how, TRIAL_MAX_STEPS);
  locale_t before = decimal_begin();
  summarise(check, first, &summary, clock_now_us() - start_us);
  decimal_end(before);
  if (!report(check, ok, "rows are as they should be", check->trial.fault.text)) return false;
  // What differs without a cause would differ under every condition.
  if (!repeats(check, first, rules[0].rule, &rules[0].how)) return false;
  for (size_t i = 1; i < sizeof rules / sizeof *rules; i++)
    ok &= repeats(check, first, rules[i].rule, &rules[i].how);
  if (registry_has(check->trial.env, render) && check->trial.env->render)
    ok &= repeats(check, first, "pictures are whole, and drawing them changes nothing",
                  &(struct trial_condition){.seed = 1, .fill = 0xA5, .pictures = true});
  note_chance(check, first);
  return ok;
}

bool check_env(const struct acorn_env *env, const struct acorn_config *config,
               const struct space *space, FILE *out) {
  struct check check = {.out = out};
  struct trial_record first;
  trial_init(&check.trial, env, config, space);
  trial_record_init(&first);
  locale_t before = decimal_begin();
  describe(&check);
  decimal_end(before);
  bool ok = check_rules(&check, &first);
  trial_record_deinit(&first);
  trial_deinit(&check.trial);
  return ok;
}
