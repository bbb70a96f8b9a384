/* vtrace: actor-critic from actors that lag behind, corrected by truncated importance weights.
 * Source: Espeholt et al. 2018 (IMPALA), eq. 1 and section 4.2. */
#include "learner/learn/actor_critic.h"
#include "learner/learn/algorithms.h"

static void *create(const struct learning *learning) {
  return actor_critic_create(learning, TRACE_VTRACE);
}

static const struct loss_term terms[] = {
    ACTOR_CRITIC_TERMS,
    {"policy/rho_clipped", "share of importance weights more than 5 % above --rho_clip", NULL,
     SUM_RHO_CLIPPED},
    CURIOSITY_TERMS(ACTOR_CRITIC_SUMS),
};

const struct algorithm algorithm_vtrace = {
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
