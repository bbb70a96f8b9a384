/* The normal policy squashed by tanh: what it chooses and the logarithm of its density, against the
 * C library in double, on every device; its gradient, through the action, against finite
 * differences. */
#include "learner/learn/algorithms.h"
#include "learner/learn/policy.h"
#include "tests/unit/learner/device/device_testing.h"

enum { B = 9, A = 3, STRIDE = 2 * A };

/* A uniform number is -1 on greedy rows. */
struct world {
  float head[B * STRIDE], uniform[B * A];
};

/* Means and logarithms of deviations within the range that is learned, at its ends and beyond. */
static void make_world(struct world *w) {
  static const float log_std[] = {0, -1, 1.5f, -3, 5, -30, 2.5f, -0.25f};
  uint64_t random = 9;
  for (int b = 0; b < B; b++)
    for (int a = 0; a < A; a++) {
      w->head[b * STRIDE + a] = b == B - 1 ? 40 * (float)(a - 1) : 4 * testing_uniform(&random) - 2;
      w->head[b * STRIDE + A + a] = log_std[(b * A + a) % 8];
      w->uniform[b * A + a] =
          b % 4 == 2 ? -1 : floorf(testing_uniform(&random) * 0x1p24f) * 0x1p-24f;
    }
}

/* The number below which lie so many, by bisection. */
static double normal_at(double share) {
  double low = -10, high = 10;
  for (int i = 0; i < 100; i++) {
    double middle = (low + high) / 2;
    *(erfc(-middle / sqrt(2)) / 2 < share ? &low : &high) = middle;
  }
  return low;
}

static double drawn(const struct world *w, int i) {
  return w->uniform[i] < 0 ? 0 : normal_at((double)w->uniform[i] + 0x1p-25);
}

/* Of number a of row b, before it is squashed; adds to log_prob. */
static double expected(const struct world *w, int b, int a, double *log_prob) {
  double z = drawn(w, b * A + a), log_std = (double)w->head[b * STRIDE + A + a];
  log_std = fmin(2, fmax(-20, log_std));
  double before = (double)w->head[b * STRIDE + a] + exp(log_std) * z;
  double slope = -2 * log(cosh(fmin(20, fabs(before)))); /* of tanh there */
  if (fabs(before) > 20) slope = -2 * (fabs(before) - log(2));
  *log_prob += -z * z / 2 - log_std - log(2 * M_PI) / 2 - slope;
  return before;
}

static struct network_outputs outputs(struct testing *t, const struct world *w) {
  return (struct network_outputs){
      .head = testing_upload(t, w->head, B * STRIDE), .size = STRIDE, .stride = STRIDE};
}

static struct policy_rows uniforms(struct testing *t, const struct world *w) {
  return (struct policy_rows){.uniform = testing_bytes(t, w->uniform, sizeof(w->uniform))};
}

static void check_chosen(struct testing *t) {
  struct world w;
  make_world(&w);
  float *action_d = testing_bytes_room(t, B * A * sizeof(float)),
        *log_prob_d = testing_bytes_room(t, B * sizeof(float));
  struct network_outputs out = outputs(t, &w);
  struct policy_rows rows = uniforms(t, &w);
  policy_squashed_normal.choose(t->device, action_d, log_prob_d, &out, &rows, B);
  float *action = testing_bytes_back(t, action_d, B * A * sizeof(float));
  float *log_prob = testing_bytes_back(t, log_prob_d, B * sizeof(float));
  for (int b = 0; b < B; b++) {
    double total = 0;
    for (int a = 0; a < A; a++) {
      double chosen = tanh(expected(&w, b, a, &total)), got = (double)action[b * A + a];
      if (!(fabs(got - chosen) < 2e-6) || !(fabs(got) <= 1))
        fail_msg("%s: number %d of row %d is %.9g, expected %.9g", t->device->description, a, b,
                 got, chosen);
    }
    if (!(fabs((double)log_prob[b] - total) < 1e-5 * fmax(1, fabs(total))))
      fail_msg("%s: log_prob of row %d is %.9g, expected %.9g", t->device->description, b,
               (double)log_prob[b], total);
  }
  free(action);
  free(log_prob);
  testing_release(t);
}

static void it_chooses_as_the_c_library_does(void **state) {
  (void)state;
  testing_each_device(check_chosen);
}

/* ---- the gradient */

static double weighted(const struct world *w, const float *d_action, const float *d_log_prob) {
  double sum = 0;
  for (int b = 0; b < B; b++) {
    double log_prob = 0;
    for (int a = 0; a < A; a++)
      sum += (double)d_action[b * A + a] * tanh(expected(w, b, a, &log_prob));
    sum += (double)d_log_prob[b] * log_prob;
  }
  return sum;
}

static void check_gradient(struct testing *t) {
  struct world w;
  make_world(&w);
  uint64_t random = 10;
  float d_action[B * A], d_log_prob[B];
  for (int i = 0; i < B * A; i++) d_action[i] = testing_uniform(&random) - 0.5f;
  for (int b = 0; b < B; b++) d_log_prob[b] = testing_uniform(&random) - 0.5f;
  struct network_outputs out = outputs(t, &w);
  struct policy_rows rows = uniforms(t, &w);
  real *d_head_d = testing_zeros(t, B * STRIDE);
  policy_squashed_normal.chosen_backward(t->device, d_head_d, &out, &rows,
                                         testing_upload(t, d_action, B * A), A,
                                         testing_upload(t, d_log_prob, B), B);
  float *d_head = testing_back(t, d_head_d, B * STRIDE);
  for (int i = 0; i < B * STRIDE; i++) {
    const float e = 0x1p-8f;
    float at = w.head[i];
    w.head[i] = at + e;
    double above = weighted(&w, d_action, d_log_prob);
    w.head[i] = at - e;
    double difference = (above - weighted(&w, d_action, d_log_prob)) / (2 * (double)e);
    w.head[i] = at;
    if (!(fabs(difference - (double)d_head[i]) < 1e-4 * fmax(1, fabs(difference))))
      fail_msg("%s: output %d: finite difference %.9g, gradient %.9g", t->device->description, i,
               difference, (double)d_head[i]);
  }
  free(d_head);
  testing_release(t);
}

static void gradients_match_finite_differences(void **state) {
  (void)state;
  testing_each_device(check_gradient);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(it_chooses_as_the_c_library_does),
      cmocka_unit_test(gradients_match_finite_differences),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
