/* The rule divergence, in place of what cpu_rules.h makes of it: a row at a time, with vectors
 * along its atoms, of which a number is given to two. Part of cpu_kernels.c. */
#ifndef ACORN_LEARNER_DEVICE_CPU_CPU_DIVERGENCE_H
#define ACORN_LEARNER_DEVICE_CPU_CPU_DIVERGENCE_H

#include "common/base/check.h"
#include "learner/device/cpu/cpu_rules.h"

/* Of W atoms from z on, the last that exist. */
INLINE vi atoms_of(int z, int Z) {
  static const int32_t lane[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  return load_int(lane) + z < Z;
}

/* Room for a row: arrays of Z numbers or more, as many as vectors of W take. */
struct divergence_room {
  float *atoms, *exponentials;
  float *m; /* what each atom gets */
};

static struct divergence_room divergence_room_make(struct device *d,
                                                   const struct divergence_rule *rule) {
  const int Z = rule->run.A, width = Z / W * W + W; /* more than Z */
  float *memory = cpu_scratch(d, SCRATCH_STATE, 3 * (size_t)width);
  for (int j = 0; j < Z; j++)
    memory[j] = rule->low + (rule->high - rule->low) * (float)j / (float)(Z - 1);
  return (struct divergence_room){memory, memory + width, memory + 2 * width};
}

/* An atom's share of a number is what is left of 1 by the distance between them, in atoms: only the
 * two beside it have one. NaN goes to the first. */
INLINE void share_out(float *m, float number, float share, const struct divergence_rule *rule) {
  const float last = (float)(rule->run.A - 1);
  float inside = number < rule->low ? rule->low : number > rule->high ? rule->high : number;
  float place = (inside - rule->low) * (last / (rule->high - rule->low));
  if (place > last) place = last;
  int left = place >= 0 ? (int)place : 0;
  float distance = place - (float)left;
  m[left] += share * (1.0f - distance);
  m[left + 1] += share * (distance > 0 ? 1.0f - ((float)(left + 1) - place) : 0);
}

static void project(const struct divergence_room *room, const struct divergence_rule *rule,
                    size_t i) {
  const int Z = rule->run.A;
  float returned = ((const float *)rule->returned)[i],
        discount = ((const float *)rule->discount)[i];
  const float *p = (const float *)rule->bootstrap.x + i * (size_t)rule->bootstrap.stride;
  memset(room->m, 0, (size_t)(Z + 1) * sizeof *room->m);
  if (discount == 0)
    share_out(room->m, returned, 1, rule);
  else
    for (int j = 0; j < Z; j++)
      share_out(room->m, returned + discount * room->atoms[j], p[j], rule);
}

/* exponentials (width): of logits (Z) less the largest, 0 behind them. Returns the logarithm of all
 * exponentials' sum; *total: this sum, of those that are kept. */
static float softmax_row(float *exponentials, float *total, const float *logits, int Z) {
  vf most = splat(-INFINITY), sum = {0};
  for (int z = 0; z < Z; z += W)
    most = vmax(choose(atoms_of(z, Z), load_some(logits + z, lanes_left((size_t)Z, (size_t)z)),
                       splat(-INFINITY)),
                most);
  float largest = -INFINITY;
  for (int k = 0; k < W; k++) largest = most[k] > largest ? most[k] : largest;
  for (int z = 0; z < Z; z += W) {
    vf logit = load_some(logits + z, lanes_left((size_t)Z, (size_t)z));
    vf e = choose(atoms_of(z, Z), vexp(logit - largest), splat(0));
    store(exponentials + z, e);
    sum += e;
  }
  *total = sum_lanes(sum);
  return largest + vlog(splat(*total))[0];
}

static void divergence_row(const struct divergence_rule *rule, const struct divergence_room *room,
                           size_t i) {
  const int Z = rule->run.A;
  const float *logits = (const float *)rule->taken.x + PLACE_OF(&rule->run, rule->taken, i);
  float *gradient = (float *)rule->gradient.x + i * (size_t)rule->gradient.stride, total;
  float normaliser = softmax_row(room->exponentials, &total, logits, Z), inverse = 1 / total;
  vf error = {0}, loss = {0}, value = {0}, target = {0};
  for (int z = 0; z < Z; z += W) {
    int lanes = lanes_left((size_t)Z, (size_t)z);
    vi here = atoms_of(z, Z);
    vf p = choose(here, load(room->m + z), splat(0)), q = load(room->exponentials + z) * inverse;
    vf atom = choose(here, load(room->atoms + z), splat(0));
    vf log_q = choose(here, load_some(logits + z, lanes) - normaliser, splat(0));
    vf log_p = choose(p > 0, vlog(choose(p > 0, p, splat(1))), splat(0));
    value += q * atom;
    target += p * atom;
    loss -= p * log_q;
    error += p * (log_p - log_q);
    store_some(gradient + z, q - p, lanes);
  }
  ((float *)rule->error)[i] = sum_lanes(error), ((float *)rule->loss)[i] = sum_lanes(loss);
  ((float *)rule->value)[i] = sum_lanes(value), ((float *)rule->target)[i] = sum_lanes(target);
}

/* Rows of `bootstrap` and `gradient` lie as they are numbered. */
static void divergence(struct device *d, const struct divergence_rule *rule) {
  CHECK(rule->run.columns <= 1 && !rule->bootstrap.from && !rule->bootstrap.pick &&
            !rule->gradient.from && !rule->gradient.pick,
        "distributions of the next value that are chosen from others");
  struct divergence_room room = divergence_room_make(d, rule);
  for (size_t i = 0; i < rule->run.rows; i++) {
    project(&room, rule, i);
    divergence_row(rule, &room, i);
  }
}

static void run_rule_of_cpu(struct device *d, enum rule which, const struct rule_run *rule) {
  if (which == RULE_divergence)
    divergence(d, (const struct divergence_rule *)rule);
  else
    run_rule(d, which, rule);
}

#endif
