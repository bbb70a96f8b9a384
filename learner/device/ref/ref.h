/* What the parts of the reference device share. They are headers, one for each part of the table,
 * of which ref.c makes one device for each REAL: float and double. */
#ifndef ACORN_LEARNER_DEVICE_REF_REF_H
#define ACORN_LEARNER_DEVICE_REF_REF_H

#include <stdlib.h>
#include <string.h>
#include <tgmath.h>

#include "common/base/check.h"
#undef I /* tgmath.h's imaginary unit; here I is the number of inputs */
#include "learner/device/create.h"
#include "learner/device/device.h"

#ifndef REAL
#define REAL double
#endif

struct ref {
  struct device device;
  REAL *carry; /* (H): lstm_backward's cell gradient */
  int carry_size;
};

static REAL clip(REAL x, REAL limit) {
  return x > limit ? limit : x < -limit ? -limit : x;
}

/* The reward that is learned from. limit 0: not clipped. */
static REAL learned_reward(float reward, float scale, float limit) {
  REAL scaled = (REAL)scale * (REAL)reward;
  return limit > 0 ? clip(scaled, (REAL)limit) : scaled;
}

static REAL activate(enum activation act, REAL x) {
  if (act == ACTIVATION_RELU) return x > 0 ? x : 0;
  return act == ACTIVATION_TANH ? tanh(x) : x;
}

/* The activation's derivative, from its output. */
static REAL slope(enum activation act, REAL y) {
  if (act == ACTIVATION_RELU) return y > 0;
  return act == ACTIVATION_TANH ? 1 - y * y : 1;
}

#endif
