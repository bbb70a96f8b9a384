#include "deploy/inspect/groups.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct option_table *const table = &learner_options_table;

static bool same_value(const struct option *option, const struct learner_options *a,
                       const struct learner_options *b) {
  char *ours = options_value_text(option, a), *theirs = options_value_text(option, b);
  bool same = strcmp(ours, theirs) == 0;
  free(ours);
  free(theirs);
  return same;
}

/* Whether a schedule ends at total_steps. */
static bool decays(const struct learner_options *options) {
  return strcmp(options->optimizer.learning_rate_decay, "none") != 0 ||
         options->algorithm.actor_critic.entropy_cost_decay > 0;
}

static bool is_of_experiment(const struct option *option, const struct learner_options *options) {
  return learner_option_is_of_experiment(option) ||
         (strcmp(option->name, "total_steps") == 0 && decays(options));
}

static bool same_experiment(const struct learner_options *a, const struct learner_options *b) {
  for (int i = 0; i < table->count; i++)
    if (is_of_experiment(&table->options[i], a) && !same_value(&table->options[i], a, b))
      return false;
  return true;
}

static int group_of(struct groups *groups, int run) {
  for (int group = 0; group < groups->count; group++)
    if (same_experiment(&groups->options[groups->first_run[group]], &groups->options[run]))
      return group;
  groups->first_run[groups->count] = run;
  return groups->count++;
}

enum status groups_add(struct groups *groups, const char *folder, struct error *error) {
  if (groups->num_runs == GROUPS_MAX_RUNS)
    return status_fail(error, STATUS_INVALID, "more than %d runs", GROUPS_MAX_RUNS);
  char path[PATH_MAX];
  snprintf(path, sizeof(path), "%s/config.txt", folder);
  if (access(path, R_OK) != 0)
    return status_fail(error, STATUS_INVALID, "%.300s holds no run: there is no config.txt in it",
                       folder);
  struct learner_options *options = &groups->options[groups->num_runs];
  options_init(table, options);
  enum status status = options_read_file(table, options, path, error);
  if (status != STATUS_OK) {
    options_deinit(table, options);
    return status;
  }
  learner_options_drop_foreign(options, false);
  groups->group[groups->num_runs] = group_of(groups, groups->num_runs);
  groups->num_runs++;
  return STATUS_OK;
}

void groups_deinit(struct groups *groups) {
  for (int i = 0; i < groups->num_runs; i++) options_deinit(table, &groups->options[i]);
  groups->num_runs = groups->count = 0;
}

/* Whether another group of the same environment and agent has another value there. */
static bool tells_apart(const struct groups *groups, int group, const struct option *option) {
  const struct learner_options *own = &groups->options[groups->first_run[group]];
  for (int i = 0; i < groups->count; i++) {
    const struct learner_options *other = &groups->options[groups->first_run[i]];
    bool akin = strcmp(own->env, other->env) == 0 && strcmp(own->agent, other->agent) == 0;
    if (akin && !same_value(option, own, other)) return true;
  }
  return false;
}

void groups_label(char label[GROUPS_LABEL_BYTES], const struct groups *groups, int group) {
  const struct learner_options *own = &groups->options[groups->first_run[group]];
  const char *slash = strrchr(own->env, '/'); /* an environment may be a file */
  size_t length = (size_t)snprintf(label, GROUPS_LABEL_BYTES, "%s %s", slash ? slash + 1 : own->env,
                                   own->agent);
  for (int i = 0; i < table->count && length < GROUPS_LABEL_BYTES; i++) {
    const struct option *option = &table->options[i];
    if (!is_of_experiment(option, own) || !tells_apart(groups, group, option)) continue;
    char *value = options_value_text(option, own);
    length += (size_t)snprintf(label + length, GROUPS_LABEL_BYTES - length, " %s=%s", option->name,
                               value);
    free(value);
  }
}
