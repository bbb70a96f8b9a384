/* a2c: synchronous advantage actor-critic with generalised advantage estimation. --lambda 0 is the
 * one-step actor-critic, 1 is REINFORCE with a baseline (returns cut at the window's end).
 * Source: Mnih et al. 2016, algorithm S3 (with its actors in step); Schulman et al. 2016, eq. 16;
 * Williams 1992. */
#include "learner/learn/actor_critic.h"
#include "learner/learn/algorithms.h"

static void *create(const struct learning *learning) {
  return actor_critic_create(learning, TRACE_GAE);
}

static const struct loss_term terms[] = {ACTOR_CRITIC_TERMS, CURIOSITY_TERMS(ACTOR_CRITIC_SUMS)};

const struct algorithm algorithm_a2c = {
    .terms = terms,
    .num_terms = sizeof(terms) / sizeof(terms[0]),
    .curious_terms = CURIOSITY_NUM_TERMS,
    .num_sums = ACTOR_CRITIC_SUMS + CURIOSITY_SUMS,
    .check = curiosity_check,
    .create = create,
    .destroy = actor_critic_destroy,
    .parameters = curiosity_parameters,
    .init_parameters = curiosity_init_parameters,
    .begin = curiosity_begin,
    .gradient = actor_critic_gradient,
    .settle = actor_critic_settle,
    .complete = actor_critic_complete,
};
