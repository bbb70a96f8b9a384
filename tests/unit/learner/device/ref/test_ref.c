/* The reference device: small cases by hand, and every backward against central finite
 * differences in double. */
#include "tests/unit/learner/device/categorical_testing.h"
#include "tests/unit/learner/device/device_testing.h"
#include "tests/unit/learner/device/actor_critic_testing.h"

/* ---- finite differences */

struct objective {
  double (*value)(void *context);
  void *context;
};

/* gradient[i] against (f(x + h) - f(x - h)) / 2h for every element of x, to a relative error of
 * 1e-6. */
static void check_gradient(const char *what, const struct objective *f, double *x,
                           const double *gradient, size_t n) {
  const double h = 1e-5;
  for (size_t i = 0; i < n; i++) {
    double kept = x[i];
    x[i] = kept + h;
    double above = f->value(f->context);
    x[i] = kept - h;
    double below = f->value(f->context);
    x[i] = kept;
    double slope = (above - below) / (2 * h);
    if (!(fabs(slope - gradient[i]) <= 1e-6 * fmax(fabs(slope), 1e-2)))
      fail_msg("%s: gradient %zu is %.12g, differences give %.12g", what, i, gradient[i], slope);
  }
}

static double *doubles(uint64_t *random, size_t n, double scale) {
  double *x = check_alloc(n, sizeof *x);
  for (size_t i = 0; i < n; i++) x[i] = scale * (2 * (double)testing_uniform(random) - 1);
  return x;
}

static double dot(const double *a, const double *b, size_t n) {
  double sum = 0;
  for (size_t i = 0; i < n; i++) sum += a[i] * b[i];
  return sum;
}

/* ---- linear */

struct linear_case {
  struct device *d;
  int B, I, O, x_stride;
  enum activation act;
  double *x, *w, *b, *y, *weights;
};

static double linear_value(void *context) {
  struct linear_case *c = context;
  c->d->ops->linear_forward(c->d, (real *)c->y, (real *)c->x, c->x_stride, (real *)c->w,
                            (real *)c->b, c->act, c->B, c->I, c->O);
  return dot(c->y, c->weights, (size_t)c->B * (size_t)c->O);
}

static void test_linear_backward(void **state) {
  (void)state;
  static const enum activation acts[] = {ACTIVATION_NONE, ACTIVATION_RELU, ACTIVATION_TANH};
  uint64_t random = 4;
  for (int k = 0; k < 3; k++) {
    struct linear_case c = {
        device_ref_double_create(), 5, 7, 3, 7 + k, acts[k], NULL, NULL, NULL, NULL, NULL};
    size_t rows = (size_t)c.B, I = (size_t)c.I, O = (size_t)c.O;
    c.x = doubles(&random, rows * (size_t)c.x_stride, 1);
    c.w = doubles(&random, I * O, 1);
    c.b = doubles(&random, O, 1);
    c.y = doubles(&random, rows * O, 1);
    c.weights = doubles(&random, rows * O, 1);
    double *dx = doubles(&random, rows * I, 1), *dw = doubles(&random, I * O, 1),
           *db = doubles(&random, O, 1);
    double *dy = doubles(&random, rows * O, 1);
    struct objective f = {linear_value, &c};
    linear_value(&c);
    memcpy(dy, c.weights, rows * O * sizeof *dy);
    c.d->ops->linear_backward(c.d, (real *)dx, (real *)dw, (real *)db, (real *)dy, (real *)c.y,
                              (real *)c.x, c.x_stride, (real *)c.w, c.act, c.B, c.I, c.O);
    check_gradient("dw", &f, c.w, dw, I * O);
    check_gradient("db", &f, c.b, db, O);
    for (int b = 0; b < c.B; b++)
      check_gradient("dx", &f, c.x + (size_t)b * (size_t)c.x_stride, dx + (size_t)b * I, I);
    double *all[] = {c.x, c.w, c.b, c.y, c.weights, dx, dw, db, dy};
    for (int i = 0; i < 9; i++) free(all[i]);
    device_destroy(c.d);
  }
}

/* ---- LSTM */

enum { T = 6, N = 3, H = 4, STEPS = T * N * H };

struct lstm_case {
  struct device *d;
  double inputs[4 * STEPS], gates[4 * STEPS], h[STEPS], c[STEPS], wh[4 * H * H], h0[N * H],
      c0[N * H], weights[STEPS];
  uint8_t reset[T * N];
};

static double lstm_value(void *context) {
  struct lstm_case *c = context;
  memcpy(c->gates, c->inputs, sizeof c->gates);
  c->d->ops->lstm_forward(c->d, (real *)c->h, (real *)c->c, (real *)c->gates, (real *)c->wh,
                          (real *)c->h0, (real *)c->c0, c->reset, T, N, H);
  return dot(c->h, c->weights, STEPS);
}

static void random_doubles(double *x, size_t n, uint64_t *random) {
  for (size_t i = 0; i < n; i++) x[i] = 2 * (double)testing_uniform(random) - 1;
}

static void test_lstm_backward(void **state) {
  (void)state;
  uint64_t random = 6;
  static struct lstm_case c;
  static double dgates[4 * STEPS], dwh[4 * H * H], dh[STEPS];
  for (int percent = 0; percent <= 40; percent += 20) {
    c.d = device_ref_double_create();
    random_doubles(c.inputs, 4 * STEPS, &random);
    random_doubles(c.wh, 4 * H * H, &random);
    random_doubles(c.h0, N * H, &random);
    random_doubles(c.c0, N * H, &random);
    random_doubles(c.weights, STEPS, &random);
    for (int i = 0; i < T * N; i++) c.reset[i] = testing_below(&random, 100) < percent;
    struct objective f = {lstm_value, &c};
    lstm_value(&c);
    memcpy(dh, c.weights, sizeof dh);
    c.d->ops->lstm_backward(c.d, (real *)dgates, (real *)dwh, (real *)dh, (real *)c.h, (real *)c.c,
                            (real *)c.gates, (real *)c.wh, (real *)c.h0, (real *)c.c0, c.reset, T,
                            N, H);
    check_gradient("dgates", &f, c.inputs, dgates, 4 * STEPS);
    check_gradient("dwh", &f, c.wh, dwh, 4 * H * H);
    device_destroy(c.d);
  }
}

/* One cell, one step, by the formulas; 1 is added to the forget gate. */
static void test_lstm_by_hand(void **state) {
  (void)state;
  struct device *d = device_ref_double_create();
  double gates[4] = {0.1, 0.2, 0.3, 0.4}, wh[4] = {1, 2, 3, 4}, h0 = 0.5, c0 = -0.25, h, c;
  uint8_t reset = 0;
  d->ops->lstm_forward(d, (real *)&h, (real *)&c, (real *)gates, (real *)wh, (real *)&h0,
                       (real *)&c0, &reset, 1, 1, 1);
  double i = 1 / (1 + exp(-0.6)), f = 1 / (1 + exp(-2.2)), g = tanh(1.8), o = 1 / (1 + exp(-2.4));
  assert_true(fabs(c - (f * -0.25 + i * g)) < 1e-12);
  assert_true(fabs(h - o * tanh(c)) < 1e-12);
  device_destroy(d);
}

/* ---- categorical */

enum { ROWS = 4, ACTIONS = 5, STRIDE = 6 };

struct categorical_case {
  struct device *d;
  double logits[ROWS * STRIDE], log_prob[ROWS], entropy[ROWS], d_log_prob[ROWS], d_entropy[ROWS];
  int32_t action[ROWS];
};

static double categorical_value(void *context) {
  struct categorical_case *c = context;
  categorical_evaluate(c->d, (real *)c->log_prob, (real *)c->entropy, (real *)c->logits, STRIDE,
                       c->action, ROWS, ACTIONS);
  return dot(c->log_prob, c->d_log_prob, ROWS) + dot(c->entropy, c->d_entropy, ROWS);
}

static void test_categorical_backward(void **state) {
  (void)state;
  uint64_t random = 9;
  struct categorical_case c = {.d = device_ref_double_create(), .action = {0, 4, 2, 1}};
  double dlogits[ROWS * ACTIONS];
  random_doubles(c.logits, ROWS * STRIDE, &random);
  random_doubles(c.d_log_prob, ROWS, &random);
  random_doubles(c.d_entropy, ROWS, &random);
  struct objective f = {categorical_value, &c};
  categorical_backward(c.d, (real *)dlogits, ACTIONS, (real *)c.logits, STRIDE, c.action,
                       (real *)c.d_log_prob, (real *)c.d_entropy, ROWS, ACTIONS);
  for (int row = 0; row < ROWS; row++)
    check_gradient("dlogits", &f, c.logits + row * STRIDE, dlogits + row * ACTIONS, ACTIONS);
  device_destroy(c.d);
}

static void test_categorical_by_hand(void **state) {
  (void)state;
  struct device *d = device_ref_double_create();
  double logits[3] = {0, log(2), 0}, log_prob, entropy;
  int32_t action = 1;
  categorical_evaluate(d, (real *)&log_prob, (real *)&entropy, (real *)logits, 3, &action, 1, 3);
  assert_true(fabs(log_prob - log(0.5)) < 1e-12);
  assert_true(fabs(entropy - 1.5 * log(2)) < 1e-12);
  device_destroy(d);
}

/* ---- V-trace losses: their sums, weighted, are the loss that the three gradients belong to */

enum { COUNT = 3 * 4 };

struct loss_case {
  struct device *d;
  struct device_trace v;
  double log_prob[COUNT], value[COUNT + 4], vs[COUNT], advantage[COUNT], entropy[COUNT],
      sums[ACTOR_CRITIC_SUMS];
  double d_log_prob[COUNT], d_entropy[COUNT], d_value[COUNT];
  float behaviour[COUNT], reward[COUNT + 4];
  uint8_t flags[COUNT + 4];
};

static double loss_value(void *context) {
  struct loss_case *c = context;
  const struct device_schedule schedule = {.entropy_cost = 0.25f};
  run_actor_critic(c->d,
                   (real *[]){(real *)c->d_log_prob, (real *)c->d_entropy, (real *)c->d_value},
                   (real *)c->sums, &c->v,
                   (const real *[]){(real *)c->vs, (real *)c->advantage, (real *)c->entropy},
                   &schedule, (struct actor_critic_costs){0.5f, 0.125f, LOSS_MEAN, 1.5f});
  return (c->sums[1] + 0.5 * c->sums[2] - 0.25 * c->sums[3] + 0.125 * c->sums[4]) / c->sums[0];
}

static void test_loss_gradients(void **state) {
  (void)state;
  uint64_t random = 10;
  static struct loss_case c;
  c.d = device_ref_double_create();
  random_doubles(c.log_prob, COUNT, &random);
  random_doubles(c.value, COUNT + 4, &random);
  random_doubles(c.vs, COUNT, &random);
  random_doubles(c.advantage, COUNT, &random);
  random_doubles(c.entropy, COUNT, &random);
  c.flags[5] = c.flags[10] = 4;
  c.v = (struct device_trace){
      .T = 3, .N = 4, .rho_clip = 1, .behaviour = c.behaviour, .reward = c.reward};
  c.v.flags = c.flags;
  c.v.reward_scale = 1;
  c.v.log_prob = (real *)c.log_prob;
  c.v.value = (real *)c.value;
  struct objective f = {loss_value, &c};
  double d_log_prob[COUNT], d_entropy[COUNT], d_value[COUNT];
  loss_value(&c);
  memcpy(d_log_prob, c.d_log_prob, sizeof d_log_prob);
  memcpy(d_entropy, c.d_entropy, sizeof d_entropy);
  memcpy(d_value, c.d_value, sizeof d_value);
  check_gradient("d_log_prob", &f, c.log_prob, d_log_prob, COUNT);
  check_gradient("d_entropy", &f, c.entropy, d_entropy, COUNT);
  check_gradient("d_value", &f, c.value, d_value, COUNT);
  device_destroy(c.d);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_linear_backward),     cmocka_unit_test(test_lstm_backward),
      cmocka_unit_test(test_lstm_by_hand),        cmocka_unit_test(test_categorical_backward),
      cmocka_unit_test(test_categorical_by_hand), cmocka_unit_test(test_loss_gradients),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
