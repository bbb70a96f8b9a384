/* Arguments of the operations that look ahead in time: trace and n_step.
 * Upstream: learner/device. */
#ifndef ACORN_LEARNER_DEVICE_RETURNS_H
#define ACORN_LEARNER_DEVICE_RETURNS_H

#include <stdbool.h>
#include <stdint.h>

#include "learner/rules/rules.h"

/* How rewards and values become value targets vs and advantages. delta_t = r_{t+1} + gamma
 * V(x_{t+1}) - V(x_t). */
enum trace_kind {
  /* Ratios rho = pi/mu, clipped; advantage = rho (r + gamma vs_{t+1} - V). Source: Espeholt et al.
   * 2018, eq. 1, computed backwards (remark 1). */
  TRACE_VTRACE,
  /* Generalised advantage estimation: no ratios; advantage = sum of (gamma lambda)^k delta_{t+k},
   * vs = V + advantage. lambda = 1: Monte-Carlo returns, cut at the window's end. Source: Schulman
   * et al. 2016, eq. 16. */
  TRACE_GAE
};

/* Arguments of the operation trace; time-major (T, N) unless noted. */
struct device_trace {
  enum trace_kind kind;
  int T, N;
  float discount; /* gamma */
  float lambda, rho_clip, c_clip, pg_rho_clip;
  bool endless;           /* returns go on over the ends of episodes */
  float reward_scale;     /* what rewards are multiplied by */
  float reward_clip;      /* then they are clipped to +-reward_clip; 0: not at all */
  const real *log_prob;   /* (T, N) log pi(a_t|x_t) of the policy that is trained */
  const float *behaviour; /* (T, N) log mu(a_t|x_t) of the policy that acted */
  const real *value;      /* (T+1, N) V(x_t) */
  const float *reward;    /* (T+1, N): reward[t+1] follows action t */
  const uint8_t *flags;   /* (T+1, N), enum step_flag */
};

/* Arguments of the operation n_step; time-major. */
struct device_n_step {
  int T, N;
  int n_steps;                               /* 1 or more */
  float discount, reward_scale, reward_clip; /* as in device_trace */
  const float *reward;                       /* (T+1, N): reward[t+1] follows action t */
  const uint8_t *flags;                      /* (T+1, N), enum step_flag */
  const real *value; /* (T+1, N): what a return ends with at each row; the first N are not read */
};

#endif
