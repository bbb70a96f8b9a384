/* Evaluators that a launcher starts beside the actors: how many, and what the learner needs to know
 * of them.
 * Upstream: deploy/launch_plan.c, deploy/task_plan.c. Thread: one, at start. */
#ifndef ACORN_DEPLOY_EVALUATORS_H
#define ACORN_DEPLOY_EVALUATORS_H

#include "deploy/arguments.h"
#include "learner/options.h"

/* asked: --evaluators. Where that is -1: what suits the agent (learner_options_evaluators), but
 * none where `others` run already, where nothing is trained, and with --deterministic: evaluation
 * episodes end in no order that repeats. */
int evaluators_choose(int64_t asked, int suiting, int others,
                      const struct learner_options *learner);

/* Whether the result line is over evaluation episodes: --over=eval, or evaluators run and nothing
 * else is asked for. Training episodes explore. */
bool evaluators_give_result(int evaluators, const struct learner_options *learner);

/* Adds to the learner's words what follows from evaluators with so many environments each: room
 * for them, and that the target and the result are about their episodes from the start: a target
 * must not be reached in training before the first evaluation. Errors: INVALID: the room that was
 * asked for is too small; nothing is trained. */
MUST_CHECK enum status evaluators_add_words(struct words *words, int evaluators, int envs_each,
                                            const struct learner_options *learner,
                                            struct error *error);

#endif
