#include "envs/pcg64.h"

enum { POOL_WORDS = 4, STATE_WORDS = 8 };

/* A multiplicative hash whose multiplier moves on with every word. */
struct hash {
  uint32_t constant;
  uint32_t multiplier;
};

static uint32_t hash_word(struct hash *hash, uint32_t word) {
  word ^= hash->constant;
  hash->constant *= hash->multiplier;
  word *= hash->constant;
  return word ^ word >> 16;
}

static uint32_t mix(uint32_t a, uint32_t b) {
  uint32_t mixed = 0xca01f9ddu * a - 0x4973f715u * b;
  return mixed ^ mixed >> 16;
}

/* Spreads the seed's two words over the pool: every word is made to depend on every other. */
static void fill_pool(uint32_t pool[POOL_WORDS], uint64_t seed) {
  struct hash hash = {0x43b0d7e5u, 0x931e8875u};
  const uint32_t entropy[POOL_WORDS] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
  for (int i = 0; i < POOL_WORDS; i++) pool[i] = hash_word(&hash, entropy[i]);
  for (int from = 0; from < POOL_WORDS; from++) {
    for (int to = 0; to < POOL_WORDS; to++) {
      if (from != to) pool[to] = mix(pool[to], hash_word(&hash, pool[from]));
    }
  }
}

static void step(struct pcg64 *rng) {
  const pcg64_word multiplier = (pcg64_word)0x2360ed051fc65da4u << 64 | 0x4385df649fccf645u;
  rng->state = rng->state * multiplier + rng->increment;
}

void pcg64_seed(struct pcg64 *rng, uint64_t seed) {
  uint32_t pool[POOL_WORDS], word[STATE_WORDS];
  fill_pool(pool, seed);
  struct hash hash = {0x8b51f9ddu, 0x58f38dedu};
  for (int i = 0; i < STATE_WORDS; i++) word[i] = hash_word(&hash, pool[i % POOL_WORDS]);

  // 32-bit words pair up low word first, the 64-bit ones high word first: that is numpy's order.
  uint64_t half[STATE_WORDS / 2];
  for (int i = 0; i < STATE_WORDS / 2; i++) half[i] = word[2 * i] | (uint64_t)word[2 * i + 1] << 32;
  pcg64_word start = (pcg64_word)half[0] << 64 | half[1];
  pcg64_word sequence = (pcg64_word)half[2] << 64 | half[3];

  *rng = (struct pcg64){.state = 0, .increment = sequence << 1 | 1};
  step(rng);
  rng->state += start;
  step(rng);
}

uint64_t pcg64_next(struct pcg64 *rng) {
  step(rng);
  uint64_t folded = (uint64_t)(rng->state >> 64) ^ (uint64_t)rng->state;
  unsigned turn = (unsigned)(rng->state >> 122);
  return folded >> turn | folded << (-turn & 63);
}

double pcg64_double(struct pcg64 *rng) {
  return (double)(pcg64_next(rng) >> 11) * 0x1p-53;
}

int pcg64_below(struct pcg64 *rng, int count) {
  return (int)(pcg64_double(rng) * count);
}
