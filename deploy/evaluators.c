#include "deploy/evaluators.h"

#include <string.h>

static bool trains(const struct learner_options *learner) {
  return strcmp(learner->mode, "evaluate") != 0;
}

int evaluators_choose(int64_t asked, int suiting, int others,
                      const struct learner_options *learner) {
  if (asked >= 0) return (int)asked;
  return others > 0 || learner->deterministic || !trains(learner) ? 0 : suiting;
}

bool evaluators_give_result(int evaluators, const struct learner_options *learner) {
  if (strcmp(learner->over, "auto") != 0) return strcmp(learner->over, "eval") == 0;
  return evaluators > 0 && !learner->deterministic;
}

enum status evaluators_add_words(struct words *words, int evaluators, int envs_each,
                                 const struct learner_options *learner, struct error *error) {
  int64_t envs = (int64_t)evaluators * envs_each;
  if (envs == 0) return STATUS_OK;
  if (!trains(learner))
    return status_fail(error, STATUS_INVALID,
                       "--evaluators belong to a run that trains; leave them out with "
                       "--mode=evaluate");
  bool room_given = options_given(&learner_options_table, learner, "num_eval_envs");
  if (room_given && learner->num_eval_envs < envs)
    return status_fail(
        error, STATUS_INVALID,
        "--num_eval_envs=%lld is less than the %lld environments of %d evaluators with %d each: "
        "leave it out, or give fewer --evaluators or --eval_envs",
        (long long)learner->num_eval_envs, (long long)envs, evaluators, envs_each);
  if (!room_given && learner->num_eval_envs < envs)
    words_add(words, words_format("--num_eval_envs=%lld", (long long)envs));
  bool over_given = options_given(&learner_options_table, learner, "over");
  if (!over_given && evaluators_give_result(evaluators, learner)) words_add(words, "--over=eval");
  return STATUS_OK;
}
