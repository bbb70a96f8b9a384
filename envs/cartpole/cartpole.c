/* CartPole-v1 as Gymnasium 1.x has it, bit for bit against libm's sine and cosine: state and
 * arithmetic in float64 in Gymnasium's order of operations, the observation rounded to float32.
 * Options: max_steps; hide_velocity, a test of memory: the observation is the cart's position and
 * the pole's angle, and nothing else changes. */
#include "envs/cartpole/cartpole.h"

#include <math.h>
#include <stdlib.h>

#include "envs/builtin.h"
#include "envs/pcg64.h"

/* A fused multiply-add rounds once where numpy rounds twice. The default instruction set has none,
 * but a build with -march=native would bring them in silently and every trajectory would drift. */
#ifdef __clang__
#pragma STDC FP_CONTRACT OFF
#else
#pragma GCC optimize("fp-contract=off")
#endif

static const double gravity = 9.8, pole_mass = 0.1, total_mass = 0.1 + 1.0, half_length = 0.5,
                    tau = 0.02;
static const double push = 10.0, pole_mass_length = 0.1 * 0.5;
static const double angle_limit = 12 * 2 * M_PI / 360, position_limit = 2.4;

struct cartpole {
  double state[4];
  int steps;
  int max_steps;
  int hide_velocity;
  struct pcg64 rng;
};

void cartpole_advance(double state[4], int action) {
  double x = state[0], x_dot = state[1], theta = state[2], theta_dot = state[3];
  double force = action == 1 ? push : -push;
  double cosine = cos(theta), sine = sin(theta);
  double temp = (force + pole_mass_length * (theta_dot * theta_dot) * sine) / total_mass;
  double angular = (gravity * sine - cosine * temp) /
                   (half_length * (4.0 / 3.0 - pole_mass * (cosine * cosine) / total_mass));
  double linear = temp - pole_mass_length * angular * cosine / total_mass;
  state[0] = x + tau * x_dot;
  state[1] = x_dot + tau * linear;
  state[2] = theta + tau * theta_dot;
  state[3] = theta_dot + tau * angular;
}

int cartpole_fallen(const double state[4]) {
  return fabs(state[0]) > position_limit || fabs(state[2]) > angle_limit;
}

enum { MAX_STEPS, HIDE_VELOCITY, NUM_OPTIONS };

static const struct acorn_option options[NUM_OPTIONS] = {
    [MAX_STEPS] = {"max_steps", 500, 1, 1e9, 1,
                   "the episode is cut (truncated) after so many steps"},
    [HIDE_VELOCITY] = {"hide_velocity", 0, 0, 1, 1,
                       "1: the observation is position and angle alone"},
};

static int cartpole_space(struct acorn_space *space, const struct acorn_config *config, char *error,
                          size_t error_bytes) {
  (void)error, (void)error_bytes;
  int numbers = builtin_option(config, HIDE_VELOCITY) ? 2 : 4;
  space->num_tensors = 1;
  space->tensor[0] = (struct acorn_tensor){"state", ACORN_FLOAT32, 1, {numbers}};
  space->discrete = 2;
  return 0;
}

static void *cartpole_create(const struct acorn_config *config, char *error, size_t error_bytes) {
  (void)error, (void)error_bytes;
  struct cartpole *env = calloc(1, sizeof *env);
  if (!env) return NULL;
  env->max_steps = builtin_option(config, MAX_STEPS);
  env->hide_velocity = builtin_option(config, HIDE_VELOCITY);
  pcg64_seed(&env->rng, 0);
  return env;
}

/* Shapes: (4), the state; (2), cart position and pole angle, without velocities. */
static void observe(const struct cartpole *env, struct acorn_row *row) {
  float *observation = row->observation[0];
  int stride = env->hide_velocity ? 2 : 1;
  for (int i = 0; i < 4; i += stride) *observation++ = (float)env->state[i];
}

static int cartpole_reset(void *self, const uint64_t *seed, struct acorn_row *row, char *error,
                          size_t error_bytes) {
  (void)error, (void)error_bytes;
  struct cartpole *env = self;
  if (seed) pcg64_seed(&env->rng, *seed);
  for (int i = 0; i < 4; i++) env->state[i] = -0.05 + 0.1 * pcg64_double(&env->rng);
  env->steps = 0;
  observe(env, row);
  return 0;
}

static int cartpole_step(void *self, const void *action, struct acorn_row *row, char *error,
                         size_t error_bytes) {
  struct cartpole *env = self;
  int chosen = *(const int32_t *)action;
  if (builtin_check_action("cartpole", chosen, 2, error, error_bytes)) return -1;
  cartpole_advance(env->state, chosen);
  env->steps++;
  observe(env, row);
  row->reward = 1.0f; // also for the step in which the pole falls
  row->terminated = cartpole_fallen(env->state);
  row->truncated = env->steps >= env->max_steps;
  return 0;
}

/* ---- for people */

enum { WIDTH = 600, HEIGHT = 400, GROUND = 300 };

/* The cart on its track, from limit to limit, and the pole in its true length. */
static int cartpole_render(void *self, struct acorn_picture *picture, char *error,
                           size_t error_bytes) {
  (void)error, (void)error_bytes;
  const struct cartpole *env = self;
  struct canvas canvas;
  if (!builtin_begin_picture(&canvas, picture, WIDTH, HEIGHT)) return 0;
  const double scale = WIDTH / (2 * position_limit + 0.6), cart_width = 64, cart_height = 36;
  double x = WIDTH / 2.0 + env->state[0] * scale, axle = GROUND - cart_height / 2 - 4;
  double length = 2 * half_length * scale, angle = env->state[2];
  canvas_fill(&canvas, 0xf7f7f5);
  canvas_line(&canvas, 0, GROUND, WIDTH, GROUND, 3, 0x9a9a96);
  for (int side = -1; side <= 1; side += 2) {
    double limit = WIDTH / 2.0 + side * position_limit * scale;
    canvas_line(&canvas, limit, GROUND - 12, limit, GROUND + 12, 4, 0xc0392b);
  }
  canvas_rectangle(&canvas, (int)lround(x - cart_width / 2), (int)lround(axle - cart_height / 2),
                   (int)cart_width, (int)cart_height, 0x2c3e50);
  canvas_line(&canvas, x, axle, x + length * sin(angle), axle - length * cos(angle), 12, 0xd98e3f);
  canvas_line(&canvas, x, axle, x, axle, 12, 0x5d6d7e);
  return 0;
}

static const char *cartpole_action_name(void *self, int action) {
  (void)self;
  return action == 1 ? "right" : "left";
}

const struct acorn_env env_cartpole = {
    .abi = ACORN_ENV_ABI,
    .struct_bytes = sizeof(struct acorn_env),
    .name = "cartpole",
    .about = "balance a pole on a cart (Gymnasium's CartPole-v1)",
    .options = options,
    .num_options = NUM_OPTIONS,
    .space = cartpole_space,
    .create = cartpole_create,
    .reset = cartpole_reset,
    .step = cartpole_step,
    .destroy = free,
    .render = cartpole_render,
    .action_name = cartpole_action_name,
};
