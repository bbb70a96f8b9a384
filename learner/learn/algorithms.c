#include "learner/learn/algorithms.h"

#include <string.h>

#include "common/base/check.h"
#include "learner/learn/algorithm.h"
#include "learner/learn/policy.h"

const struct policy *const policies_of_probabilities[] = {&policy_categorical, &policy_normal,
                                                          NULL};
const struct policy *const policies_of_choices[] = {&policy_categorical, NULL};
const struct policy *const policies_of_squashed[] = {&policy_squashed_normal, NULL};
const struct policy *const policies_of_values[] = {&policy_epsilon_greedy, NULL};

static const struct algorithm_row rows[] = {
#define ROW(name, algorithm, policies, network, pace, evaluators, options, help) \
  {#name, help, algorithm, policies, network, pace, evaluators},
    ALGORITHMS(ROW)
#undef ROW
};

enum { NUM_ROWS = sizeof(rows) / sizeof(rows[0]) };

const struct algorithm_row *algorithms_find(const char *name) {
  for (int i = 0; i < NUM_ROWS; i++)
    if (strcmp(rows[i].name, name) == 0) return &rows[i];
  CHECK(false, "no algorithm %s", name);
  return NULL;
}

const struct policy *algorithms_policy(const struct algorithm_row *row, const struct space *space) {
  const struct policy *const *policy = row->policies;
  while (*policy && !(*policy)->head_size(space)) policy++;
  return *policy;
}

void algorithms_for(char names[256], const struct space *space) {
  size_t used = 0;
  names[0] = '\0';
  for (int i = 0; i < NUM_ROWS; i++)
    if (rows[i].algorithm && algorithms_policy(&rows[i], space) && used < 256)
      used += (size_t)snprintf(names + used, 256 - used, "%s%s", used ? ", " : "", rows[i].name);
}

/* ---- for docs/algorithms.md */

static const char *pace_in_words(enum algorithm_pace pace) {
  switch (pace) {
    case SYNCHRONOUS:
      return "synchronous: acting waits for every update, and the windows of all environments "
             "close "
             "together";
    case REPLAYED:
      return "replayed: windows go to a replay, and acting and training keep to `--replay_ratio`";
    case ASYNCHRONOUS:
      break;
  }
  return "asynchronous: acting goes on while the trainer computes";
}

static void print_algorithm(FILE *out, const struct algorithm_row *row) {
  fprintf(out, "### %s\n\n%s.\n\n* Pace: %s.\n", row->name, row->help, pace_in_words(row->pace));
  for (const struct policy *const *policy = row->policies; *policy; policy++)
    fprintf(out, "* Policy in %s action spaces: `%s`.\n", (*policy)->actions, (*policy)->name);
  fprintf(out, "* Evaluators by default: %d.\n", row->evaluators);
  fprintf(out, "\n| metric of the loss | what it means |\n|---|---|\n");
  for (int i = 0; i < row->algorithm->num_terms; i++)
    fprintf(out, "| `%s` | %s |\n", row->algorithm->terms[i].name, row->algorithm->terms[i].help);
  fputc('\n', out);
}

void algorithms_markdown(FILE *out) {
  for (int i = 0; i < NUM_ROWS; i++)
    if (rows[i].algorithm) print_algorithm(out, &rows[i]);
  fprintf(out, "### Without learning\n\n| agent | what it does |\n|---|---|\n");
  for (int i = 0; i < NUM_ROWS; i++)
    if (!rows[i].algorithm) fprintf(out, "| `%s` | %s |\n", rows[i].name, rows[i].help);
}
