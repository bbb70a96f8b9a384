/* The random numbers that Gymnasium's environments draw: numpy's default generator, bit for bit.
 *
 * PCG64 (128-bit state, XSL-RR output) seeded through SeedSequence(seed), so that reset(seed=42)
 * here starts the same episode as there. Upstream: environments. Thread: the one that uses the
 * environment.
 * Source: O'Neill 2014, "PCG: a family of simple fast space-efficient statistically good
 * algorithms"; SeedSequence: numpy.random's bit-generator documentation. */
#ifndef ACORN_ENVS_PCG64_H
#define ACORN_ENVS_PCG64_H

#include <stdint.h>

__extension__ typedef unsigned __int128 pcg64_word;

/* Plain data; both members are set by pcg64_seed. */
struct pcg64 {
  pcg64_word state;
  pcg64_word increment; /* odd */
};

/* As numpy.random.default_rng(seed). */
void pcg64_seed(struct pcg64 *rng, uint64_t seed);

/* 64 uniform bits. */
uint64_t pcg64_next(struct pcg64 *rng);

/* Uniform in [0, 1) on a grid of 2^-53, as Generator.random(). */
double pcg64_double(struct pcg64 *rng);

/* A whole number 0..count-1: int(random() * count). */
int pcg64_below(struct pcg64 *rng, int count);

#endif
