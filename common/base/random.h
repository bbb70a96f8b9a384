/* Counter-based random numbers: the same (seed, environment, life, step, purpose) gives the same
 * number on every device, in any order and on any thread. There is no state to save. Source: Salmon
 * et al. 2011, "Parallel random numbers: as easy as 1, 2, 3": Philox4x32 with 10 rounds. */
#ifndef ACORN_COMMON_BASE_RANDOM_H
#define ACORN_COMMON_BASE_RANDOM_H

#include <stdint.h>

/* What a number is for; each purpose is a stream of its own. Never renumber: recorded runs depend
 * on them. */
enum random_purpose {
  RANDOM_ACTION = 1,
  RANDOM_ENV_SEED = 2,
  RANDOM_PARAMETERS = 3,
  RANDOM_RUN_ID = 4,
  RANDOM_TEST = 5,
  RANDOM_NOISE = 6,     /* of noisy layers */
  RANDOM_SAMPLE = 7,    /* of windows from a replay */
  RANDOM_MINIBATCH = 8, /* which windows it has */
  RANDOM_RESAMPLE = 9,  /* of actions that an update chooses anew */
};

/* The number of an environment in the keys of random numbers, unlike those of all other learners:
 * the learner's rank stands above the slot. slot: below 2^RANDOM_SLOT_BITS. */
enum { RANDOM_SLOT_BITS = 20 };
static inline uint32_t random_environment(int rank, uint32_t slot) {
  return (uint32_t)rank << RANDOM_SLOT_BITS | slot;
}

/* Rounds, multipliers and Weyl increments of Philox4x32 (Salmon et al. 2011, table 2 and section
 * 4.3). */
#define RANDOM_ROUNDS 10
#define RANDOM_MULTIPLIER_0 0xD2511F53u
#define RANDOM_MULTIPLIER_1 0xCD9E8D57u
#define RANDOM_WEYL_0 0x9E3779B9u
#define RANDOM_WEYL_1 0xBB67AE85u

/* One block of four 32-bit numbers. */
void random_philox4x32(uint32_t out[4], const uint32_t counter[4], uint64_t key);

/* 64 random bits for (seed, environment, life, step, purpose); counter = {step, life, environment,
 * purpose}. */
uint64_t random_bits(uint64_t seed, uint32_t environment, uint32_t life, uint32_t step,
                     enum random_purpose purpose);

/* Uniform in [0, 1) on a grid of 2^-24: exact in float, so that every device draws the same action.
 */
float random_uniform(uint64_t seed, uint32_t environment, uint32_t life, uint32_t step,
                     enum random_purpose purpose);

/* Standard normal, by Box and Muller, for parameter i of stream `stream`. */
double random_normal(uint64_t seed, uint32_t stream, uint32_t i, enum random_purpose purpose);

#endif
