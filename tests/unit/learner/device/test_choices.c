/* Actions of several choices on every device: what is drawn, log-probabilities, entropies and
 * gradients beside a computation in double of each choice alone, masks, and what a network reads of
 * the action before. */
#include "learner/network/action_values.h"
#include "tests/unit/learner/device/device_testing.h"

enum { B = 21, MOST = 200 };

static const struct space_choices KINDS[] = {
    {.count = 3, .among = {3, 2, 4}},
    {.count = 2, .among = {1, 70}},
    {.count = 4, .among = {40, 1, 1, 33}},
    {.count = 6, .among = {2, 2, 2, 2, 2, 2}},
    {.count = 0}, /* one, of 5 */
};
enum { NUM_KINDS = sizeof KINDS / sizeof *KINDS };

static int all_of(const struct space_choices *choices) {
  int all = 0;
  for (int c = 0; c < choices->count; c++) all += choices->among[c];
  return choices->count ? all : 5;
}

static struct space_choices all_binary(void) {
  struct space_choices choices = {.count = SPACE_MAX_CHOICES};
  for (int c = 0; c < choices.count; c++) choices.among[c] = 2;
  return choices;
}

static void close(const char *what, const struct testing *t, float got, double expected) {
  if (!(fabs((double)got - expected) <= 4e-6 * (1 + fabs(expected))))
    fail_msg("%s, %s: %.9g, not %.9g", t->device->description, what, (double)got, expected);
}

static struct rule_run rows_of(int rows, int A) {
  return (struct rule_run){.rows = (size_t)rows, .A = A};
}

/* ---- in double, a choice alone */

static double normaliser(const float *logits, int A) {
  double sum = 0;
  for (int a = 0; a < A; a++) sum += exp((double)logits[a]);
  return log(sum);
}

static double entropy_of(const float *logits, int A) {
  double entropy = 0, total = normaliser(logits, A);
  for (int a = 0; a < A; a++) {
    double log_p = (double)logits[a] - total;
    entropy -= exp(log_p) * log_p;
  }
  return entropy;
}

/* d logits of both. */
static double gradient(const float *logits, int A, int a, int action, double d_log_prob,
                       double d_entropy) {
  double log_p = (double)logits[a] - normaliser(logits, A), p = exp(log_p);
  return d_log_prob * ((a == action) - p) - d_entropy * p * (log_p + entropy_of(logits, A));
}

/* ---- */

struct world {
  const struct space_choices *choices;
  int A, C;
  float *logits, *d_log_prob, *d_entropy;
  int32_t action[B * SPACE_MAX_CHOICES];
};

static struct world make_world(uint64_t *random, const struct space_choices *choices) {
  struct world w = {.choices = choices, .A = all_of(choices), .C = space_num_choices(choices)};
  w.logits = testing_floats(random, (size_t)(B * w.A), 3);
  w.d_log_prob = testing_floats(random, B, 1);
  w.d_entropy = testing_floats(random, B, 1);
  for (int i = 0; i < B * w.C; i++)
    w.action[i] = testing_below(random, space_among(choices, i % w.C, w.A));
  w.action[0] = -1; /* out of range: counts as 0 */
  w.action[B * w.C - 1] = INT32_MAX;
  return w;
}

static void free_world(struct world *w) {
  free(w->logits);
  free(w->d_log_prob);
  free(w->d_entropy);
}

static void check_row(const struct testing *t, const struct world *w, int b, float got_log_prob,
                      float got_entropy, const float *got_gradient) {
  const float *logits = w->logits + b * w->A;
  double log_prob = 0, entropy = 0;
  for (int c = 0, first = 0; c < w->C; c++) {
    int A = space_among(w->choices, c, w->A), action = w->action[b * w->C + c];
    if (action < 0 || action >= A) action = 0;
    log_prob += (double)logits[first + action] - normaliser(logits + first, A);
    entropy += entropy_of(logits + first, A);
    for (int a = 0; a < A; a++)
      close("gradient", t, got_gradient[first + a],
            gradient(logits + first, A, a, action, (double)w->d_log_prob[b],
                     (double)w->d_entropy[b]));
    first += A;
  }
  close("log-probability", t, got_log_prob, log_prob);
  close("entropy", t, got_entropy, entropy);
}

static void check_scores(struct testing *t, const struct world *w) {
  const int32_t *action = testing_bytes(t, w->action, (size_t)(B * w->C) * sizeof(int32_t));
  const struct rule_row_in logits = {.x = testing_upload(t, w->logits, (size_t)(B * w->A)),
                                     .stride = w->A};
  const struct categorical_evaluate_rule evaluate = {.run = rows_of(B, w->A),
                                                     .logits = logits,
                                                     .choices = *w->choices,
                                                     .action = action,
                                                     .log_prob = testing_room(t, B),
                                                     .entropy = testing_room(t, B)};
  t->device->ops->run_rule(t->device, RULE_categorical_evaluate, &evaluate.run);
  const struct categorical_backward_rule backward = {
      .run = rows_of(B, w->A),
      .logits = logits,
      .choices = *w->choices,
      .action = action,
      .d_log_prob = testing_upload(t, w->d_log_prob, B),
      .d_entropy = testing_upload(t, w->d_entropy, B),
      .d_logits = {.x = testing_room(t, (size_t)(B * w->A)), .stride = w->A}};
  t->device->ops->run_rule(t->device, RULE_categorical_backward, &backward.run);
  float *log_prob = testing_back(t, evaluate.log_prob, B),
        *entropy = testing_back(t, evaluate.entropy, B),
        *d_logits = testing_back(t, backward.d_logits.x, (size_t)(B * w->A));
  for (int b = 0; b < B; b++) check_row(t, w, b, log_prob[b], entropy[b], d_logits + b * w->A);
  free(log_prob);
  free(entropy);
  free(d_logits);
  testing_release(t);
}

/* The inverse of each choice's cumulative distribution, or its argmax. */
static int expected_choice(const float *logits, int A, float uniform) {
  int best = 0, drawn = 0;
  double sum = 0, total = 0;
  for (int a = 0; a < A; a++) {
    total += exp((double)logits[a]);
    if (logits[a] > logits[best]) best = a;
  }
  if (uniform < 0) return best;
  for (; drawn < A - 1; drawn++) {
    sum += exp((double)logits[drawn]);
    if (fabs(sum - (double)uniform * total) < 1e-5 * total) return -1; /* too near to tell */
    if (sum > (double)uniform * total) break;
  }
  return drawn;
}

static void check_samples(struct testing *t, const struct world *w, uint64_t *random) {
  size_t draws = (size_t)(B * w->C);
  float *uniform = check_alloc(draws, sizeof *uniform);
  for (int i = 0; i < (int)draws; i++) uniform[i] = i / w->C == 0 ? -1 : testing_uniform(random);
  const struct categorical_sample_rule rule = {
      .run = rows_of(B, w->A),
      .logits = {.x = testing_upload(t, w->logits, (size_t)(B * w->A)), .stride = w->A},
      .choices = *w->choices,
      .uniform = testing_bytes(t, uniform, draws * sizeof *uniform),
      .action = testing_bytes_room(t, draws * sizeof(int32_t)),
      .log_prob = testing_bytes_room(t, B * sizeof(float))};
  t->device->ops->run_rule(t->device, RULE_categorical_sample, &rule.run);
  int32_t *action = testing_bytes_back(t, rule.action, draws * sizeof *action);
  float *log_prob = testing_bytes_back(t, rule.log_prob, B * sizeof *log_prob);
  for (int b = 0; b < B; b++) {
    const float *logits = w->logits + b * w->A;
    double sum = 0;
    for (int c = 0; c < w->C; c++) {
      int i = b * w->C + c, A = space_among(w->choices, c, w->A),
          expected = expected_choice(logits, A, uniform[i]);
      assert_in_range(action[i], 0, A - 1);
      if (expected >= 0) assert_int_equal(action[i], expected);
      sum += (double)logits[action[i]] - normaliser(logits, A);
      logits += A;
    }
    close("log-probability of what was drawn", t, log_prob[b], sum);
  }
  free(uniform);
  free(action);
  free(log_prob);
  testing_release(t);
}

static void check_all(struct testing *t) {
  uint64_t random = 77;
  const struct space_choices binary = all_binary();
  for (int k = 0; k <= NUM_KINDS; k++) {
    struct world w = make_world(&random, k < NUM_KINDS ? &KINDS[k] : &binary);
    assert_in_range(w.A, 1, MOST);
    check_scores(t, &w);
    check_samples(t, &w, &random);
    free_world(&w);
  }
}

/* Each choice has a mask of its own: one that allows nothing allows all, whatever the others do. */
static void check_masks(struct testing *t) {
  static const float x[] = {1, 2, 3, 4, 5, 6, 7, 8, 9}, mask[] = {0, 1, 0, 0, 0, 1, 0, 0, 1},
                     y[] = {-1e30f, 2, -1e30f, 4, 5, 6, -1e30f, -1e30f, 9};
  real *got = testing_upload(t, x, 9);
  action_mask_apply(t->device, got, got, 9, testing_upload(t, mask, 9), &KINDS[0], 9, 1);
  float *back = testing_back(t, got, 9);
  for (int i = 0; i < 9; i++) assert_true(back[i] == y[i]);
  free(back);
  testing_release(t);
}

/* One-hot, choice after choice; -1: none, as on a first row. */
static void check_previous_action(struct testing *t) {
  static const int32_t action[] = {2, 0, 3, -1, -1, -1, 0, 1, 0};
  static const float x[] = {7, 8, 9};
  static const float y[] = {7, 0, 0, 1, 1, 0, 0, 0, 0, 1, 8, 0, 0, 0, 0,
                            0, 0, 0, 0, 0, 9, 1, 0, 0, 0, 1, 1, 0, 0, 0};
  static const uint8_t flags[] = {0, 1, 0};
  const struct device_inputs inputs = {.observation = testing_bytes(t, x, sizeof x),
                                       .row_stride = 4,
                                       .num_tensors = 1,
                                       .tensor = {{DTYPE_FLOAT32, 1, 0}},
                                       .previous_action = testing_bytes(t, action, sizeof action),
                                       .flags = testing_bytes(t, flags, sizeof flags),
                                       .discrete = 9,
                                       .choices = KINDS[0],
                                       .use_previous_action = true};
  assert_int_equal(device_inputs_size(&inputs), 10);
  real *read = testing_room(t, 30);
  t->device->ops->embed(t->device, read, &inputs, 3);
  float *got = testing_back(t, read, 30);
  for (int i = 0; i < 30; i++) assert_true(got[i] == y[i]);
  free(got);
  testing_release(t);
}

static void test_each_choice_as_if_it_were_alone(void **state) {
  (void)state;
  testing_each_device(check_all);
}
static void test_masks(void **state) {
  (void)state;
  testing_each_device(check_masks);
}
static void test_previous_action(void **state) {
  (void)state;
  testing_each_device(check_previous_action);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_each_choice_as_if_it_were_alone),
      cmocka_unit_test(test_masks),
      cmocka_unit_test(test_previous_action),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
