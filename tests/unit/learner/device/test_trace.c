/* V-trace on every device: SEED RL's published vectors, a direct O(T^2) sum, masks against whole
 * episodes, the losses. */
#include "tests/unit/learner/device/device_testing.h"
#include "tests/unit/learner/device/actor_critic_testing.h"

/* One sequence on the host. */
enum { MAX_T = 24 };
struct sequence {
  int T;
  float log_prob[MAX_T], behaviour[MAX_T], value[MAX_T + 1], reward[MAX_T + 1];
  uint8_t flags[MAX_T + 1];
};

static const struct device_trace PLAIN = {.discount = 0.9f,
                                          .lambda = 1,
                                          .rho_clip = 3.7f,
                                          .c_clip = 1,
                                          .pg_rho_clip = 2.2f,
                                          .reward_scale = 1};

static void run_vtrace(struct testing *t, float *vs, float *advantage, const struct sequence *s,
                       struct device_trace v) {
  size_t T = (size_t)s->T;
  real *vs_d = testing_room(t, T), *advantage_d = testing_room(t, T);
  v.T = s->T;
  v.N = 1;
  v.log_prob = testing_upload(t, s->log_prob, T);
  v.value = testing_upload(t, s->value, T + 1);
  v.behaviour = testing_bytes(t, s->behaviour, T * sizeof(float));
  v.reward = testing_bytes(t, s->reward, (T + 1) * sizeof(float));
  v.flags = testing_bytes(t, s->flags, T + 1);
  t->device->ops->trace(t->device, vs_d, advantage_d, &v);
  t->device->ops->download(t->device, vs, vs_d, T);
  t->device->ops->download(t->device, advantage, advantage_d, T);
  testing_release(t);
}

static void close_to(float got, double expected, double tolerance) {
  if (!(fabs((double)got - expected) <= tolerance * (1 + fabs(expected))))
    fail_msg("%.9g, not %.9g", (double)got, expected);
}

/* ---- the published vectors: T = B = 5; column b has discount 0.9 / (b + 1) */

static const double VS[2][5][5] = {{{0.92982, 0.55644, 0.81689, 1.18977, 1.65500},
                                    {12.58608, 6.12260, 6.01477, 6.85831, 8.22333},
                                    {53.25023, 29.47221, 27.54515, 29.03719, 31.86115},
                                    {84.99705, 62.25253, 60.63228, 66.03655, 76.13018},
                                    {66.53000, 69.69000, 72.85000, 76.01000, 79.17000}},
                                   {{0.41083, 0.46181, 0.75993, 1.13654, 1.59274},
                                    {6.06778, 4.33913, 4.80466, 5.68530, 6.83351},
                                    {22.87927, 16.34421, 16.87473, 17.72701, 17.81387},
                                    {32.28900, 25.05850, 23.31500, 22.94325, 23.12020},
                                    {20.90000, 21.90000, 22.90000, 23.90000, 24.90000}}};
static const double PG[2][5][5] = {{{0.92982, 0.35644, 0.41689, 0.58977, 0.85500},
                                    {11.58608, 4.92260, 4.61477, 5.25831, 6.42333},
                                    {51.25023, 27.27221, 25.14515, 27.91465, 33.61612},
                                    {118.50514, 88.92833, 78.00100, 69.30495, 64.79132},
                                    {37.18000, 38.94000, 40.70000, 42.46000, 44.22000}},
                                   {{0.44827, 0.27597, 0.37244, 0.55029, 0.80929},
                                    {5.48707, 3.31260, 3.54921, 4.22368, 5.16771},
                                    {22.47809, 14.87291, 15.01532, 15.56223, 15.36164},
                                    {30.81000, 22.65500, 20.47000, 19.77750, 19.68200},
                                    {16.90000, 17.70000, 18.50000, 19.30000, 20.10000}}};

static void published_column(struct testing *t, int table, int b) {
  struct sequence s = {.T = 5};
  struct device_trace v = PLAIN;
  float vs[5], advantage[5];
  if (table == 1) v.rho_clip = v.pg_rho_clip = 1, v.lambda = 0.9f;
  v.discount = 0.9f / (float)(b + 1);
  for (int i = 0; i < 5; i++) {
    float k = (float)(5 * i + b);
    s.log_prob[i] = 5 * (k / 25 - 0.5f);
    s.value[i] = k / 5;
    s.reward[i + 1] = k;
  }
  s.value[5] = (float)(b + 1);
  run_vtrace(t, vs, advantage, &s, v);
  for (int i = 0; i < 5; i++) {
    close_to(vs[i], VS[table][i][b], 6e-6);
    close_to(advantage[i], PG[table][i][b], 6e-6);
  }
}

static void published(struct testing *cpu, struct testing *ref) {
  for (int table = 0; table < 2; table++)
    for (int b = 0; b < 5; b++) {
      published_column(cpu, table, b);
      published_column(ref, table, b);
    }
}

/* ---- the definition: a double sum per step, over the steps up to where the trace ends */

static double clipped(double x, float limit) {
  return fmin(x, (double)limit);
}

static double reward_of(const struct sequence *s, const struct device_trace *v, int t) {
  double r = (double)v->reward_scale * (double)s->reward[t + 1], limit = (double)v->reward_clip;
  return limit > 0 ? fmax(-limit, fmin(limit, r)) : r;
}

static double discount_into(const struct sequence *s, const struct device_trace *v, int t) {
  return !v->endless && s->flags[t] & STEP_TERMINATED ? 0 : (double)v->discount;
}

static double rho_of(const struct sequence *s, int t) {
  return exp((double)s->log_prob[t] - (double)s->behaviour[t]);
}

/* vs(t) = V(t) + sum over k >= t of (product of discounts and c from t to k-1) delta(k); nothing
 * from a truncated row on, because that row's action was not played: what it holds is the value
 * of the last observation. */
static double slow_vs(const struct sequence *s, const struct device_trace *v, int t) {
  if (t == s->T) return (double)s->value[t];
  double sum = (double)s->value[t], weight = 1;
  for (int k = t; k < s->T && !(s->flags[k] & STEP_TRUNCATED); k++) {
    double bootstrap = discount_into(s, v, k + 1) * (double)s->value[k + 1];
    double delta =
        clipped(rho_of(s, k), v->rho_clip) * (reward_of(s, v, k) + bootstrap - (double)s->value[k]);
    sum += weight * delta;
    weight *= discount_into(s, v, k + 1) * (double)v->lambda * clipped(rho_of(s, k), v->c_clip);
  }
  return sum;
}

static void compare_with_slow(struct testing *t, const struct sequence *s,
                              const struct device_trace *v) {
  float vs[MAX_T], advantage[MAX_T];
  run_vtrace(t, vs, advantage, s, *v);
  for (int i = 0; i < s->T; i++) {
    double next = discount_into(s, v, i + 1) * slow_vs(s, v, i + 1);
    double gain =
        clipped(rho_of(s, i), v->pg_rho_clip) * (reward_of(s, v, i) + next - (double)s->value[i]);
    close_to(vs[i], slow_vs(s, v, i), 1e-5);
    close_to(advantage[i], s->flags[i] & STEP_TRUNCATED ? 0 : gain, 1e-5);
  }
}

static struct sequence random_sequence(uint64_t *random, int T) {
  struct sequence s = {.T = T};
  for (int t = 0; t <= T; t++) {
    if (t < T)
      s.log_prob[t] = -2 * testing_uniform(random), s.behaviour[t] = -2 * testing_uniform(random);
    s.value[t] = 4 * testing_uniform(random) - 2;
    s.reward[t] = 4 * testing_uniform(random) - 2;
  }
  return s;
}

static void direct_sum(struct testing *cpu, struct testing *ref) {
  uint64_t random = 12;
  for (int i = 0; i < 40; i++) {
    struct sequence s = random_sequence(&random, 1 + i % MAX_T);
    struct device_trace v = PLAIN;
    v.lambda = 0.5f + 0.05f * (float)(i % 10);
    v.reward_clip = i % 3 ? 0 : 1;
    v.reward_scale = i % 2 ? 1 : 0.6f;
    v.c_clip = 0.8f;
    compare_with_slow(cpu, &s, &v);
    compare_with_slow(ref, &s, &v);
  }
}

/* A ratio that is not a number is clipped nowhere. */
static void not_a_number(struct testing *cpu, struct testing *ref) {
  enum { T = 5, AT = 2 };
  struct testing *both[] = {cpu, ref};
  uint64_t random = 15;
  struct sequence s = random_sequence(&random, T);
  s.log_prob[AT] = NAN;
  for (int k = 0; k < 2; k++) {
    float vs[T], advantage[T];
    run_vtrace(both[k], vs, advantage, &s, PLAIN);
    for (int t = 0; t < T; t++) assert_int_equal(isnan(vs[t]) != 0, t <= AT);
    for (int t = 0; t < T; t++) assert_int_equal(isnan(advantage[t]) != 0, t <= AT);
  }
}

/* ---- masks: an end of either kind, or both, or a mere first row, at every position */

static void masks_by_definition(struct testing *cpu, struct testing *ref) {
  enum { T = 7 };
  uint64_t random = 13;
  static const uint8_t kinds[] = {STEP_FIRST, STEP_FIRST | STEP_TERMINATED, STEP_TRUNCATED,
                                  STEP_TERMINATED | STEP_TRUNCATED};
  for (int k = 0; k < 4; k++)
    for (int at = 0; at <= T; at++)
      for (int also = at; also <= T; also++) {
        struct sequence s = random_sequence(&random, T);
        s.flags[at] = kinds[k];
        s.flags[also] |= kinds[(k + also) % 4];
        for (int endless = 0; endless < 2; endless++) {
          struct device_trace v = PLAIN;
          v.endless = endless;
          compare_with_slow(cpu, &s, &v);
          compare_with_slow(ref, &s, &v);
        }
      }
}

/* A window that an episode's end cuts in two gives what its two halves give alone: a terminated
 * half bootstraps from 0, a truncated one from the value of its final observation. */
static void masks_by_episode(struct testing *cpu, struct testing *ref) {
  enum { T = 9 };
  struct testing *both[] = {cpu, ref};
  uint64_t random = 14;
  for (int i = 0; i < 2 * 2 * T; i++) {
    struct testing *t = both[i % 2];
    bool truncated = i / 2 % 2;
    int cut = i / 4; /* row `cut` ends the first half */
    float vs[T], advantage[T], vs_half[T], advantage_half[T];
    struct sequence s = random_sequence(&random, T), first = s, second = {.T = T - cut - truncated};
    s.flags[cut] = truncated ? STEP_TRUNCATED : STEP_FIRST | STEP_TERMINATED;
    run_vtrace(t, vs, advantage, &s, PLAIN);

    first.T = cut;
    if (!truncated) first.value[cut] = 0;
    run_vtrace(t, vs_half, advantage_half, &first, PLAIN);
    for (int k = 0; k < cut; k++)
      close_to(vs[k], (double)vs_half[k], 1e-6),
          close_to(advantage[k], (double)advantage_half[k], 1e-6);

    int start = cut + truncated;
    memcpy(second.log_prob, s.log_prob + start, sizeof(float) * (size_t)second.T);
    memcpy(second.behaviour, s.behaviour + start, sizeof(float) * (size_t)second.T);
    memcpy(second.value, s.value + start, sizeof(float) * (size_t)(second.T + 1));
    memcpy(second.reward, s.reward + start, sizeof(float) * (size_t)(second.T + 1));
    run_vtrace(t, vs_half, advantage_half, &second, PLAIN);
    for (int k = 0; k < second.T; k++) close_to(vs[start + k], (double)vs_half[k], 1e-6);
    if (truncated) close_to(vs[cut], (double)s.value[cut], 0), close_to(advantage[cut], 0, 0);
  }
}

/* ---- both operations, cpu against ref, many sequences side by side */

struct loss_arrays {
  real *vs, *advantage, *d_log_prob, *d_entropy, *d_value, *sums;
};

static struct loss_arrays run_losses(struct testing *t, int T, int N, int flag_percent,
                                     uint64_t seed) {
  uint64_t random = seed;
  size_t count = (size_t)T * (size_t)N, more = count + (size_t)N;
  float *log_prob = testing_floats(&random, count, 1),
        *behaviour = testing_floats(&random, count, 1);
  float *value = testing_floats(&random, more, 2), *reward = testing_floats(&random, more, 2);
  float *entropy = testing_floats(&random, count, 1);
  uint8_t *flags = check_alloc(more, 1);
  for (size_t i = 0; i < more; i++)
    if (testing_below(&random, 100) < flag_percent)
      flags[i] = (uint8_t)(1 << testing_below(&random, 3));
  struct device_trace v = {
      .T = T, .N = N, .discount = 0.97f, .lambda = 0.95f, .rho_clip = 1, .c_clip = 1};
  v.pg_rho_clip = 1.1f;
  v.reward_scale = 1.3f;
  v.reward_clip = 1.5f;
  v.log_prob = testing_upload(t, log_prob, count);
  v.value = testing_upload(t, value, more);
  v.behaviour = testing_bytes(t, behaviour, count * sizeof(float));
  v.reward = testing_bytes(t, reward, more * sizeof(float));
  v.flags = testing_bytes(t, flags, more);
  real *entropy_d = testing_upload(t, entropy, count);
  struct loss_arrays a = {testing_room(t, count), testing_room(t, count),
                          testing_room(t, count), testing_room(t, count),
                          testing_room(t, count), testing_room(t, ACTOR_CRITIC_SUMS)};
  struct device_schedule costs = {.entropy_cost = 0.01f},
                         *schedule = testing_bytes(t, &costs, sizeof costs);
  const struct device_ops *ops = t->device->ops;
  ops->trace(t->device, a.vs, a.advantage, &v);
  run_actor_critic(t->device, (real *[]){a.d_log_prob, a.d_entropy, a.d_value}, a.sums, &v,
                   (const real *[]){a.vs, a.advantage, entropy_d}, schedule,
                   (struct actor_critic_costs){0.5f, 0.2f, LOSS_MEAN, 1});
  free(log_prob);
  free(behaviour);
  free(value);
  free(reward);
  free(entropy);
  free(flags);
  return a;
}

static void losses(struct testing *cpu, struct testing *ref) {
  static const int shapes[][3] = {{1, 1, 0},    {1, 1, 100},  {3, 7, 20},  {20, 32, 5},
                                  {20, 33, 10}, {5, 257, 30}, {7, 16, 100}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    int T = shapes[i][0], N = shapes[i][1];
    size_t count = (size_t)T * (size_t)N;
    struct loss_arrays got = run_losses(cpu, T, N, shapes[i][2], 40 + i);
    struct loss_arrays expected = run_losses(ref, T, N, shapes[i][2], 40 + i);
    testing_compare("vs", cpu, got.vs, ref, expected.vs, count, 5e-6);
    testing_compare("advantage", cpu, got.advantage, ref, expected.advantage, count, 5e-6);
    testing_compare("d_log_prob", cpu, got.d_log_prob, ref, expected.d_log_prob, count, 5e-6);
    testing_compare("d_entropy", cpu, got.d_entropy, ref, expected.d_entropy, count, 1e-7);
    testing_compare("d_value", cpu, got.d_value, ref, expected.d_value, count, 5e-6);
    testing_compare("sums", cpu, got.sums, ref, expected.sums, ACTOR_CRITIC_SUMS, 2e-5);
    testing_release(cpu);
    testing_release(ref);
  }
}

/* Steps whose policy is what acted, to within rounding and the last update, are not clipped. One
 * whose ratio no float is has a gradient that is a number. */
static void next_to_the_clip_is_not_clipped(struct testing *cpu, struct testing *ref) {
  struct testing *both[] = {cpu, ref};
  for (int k = 0; k < 2; k++) {
    struct testing *t = both[k];
    float log_prob[] = {logf(1.001f), logf(1.04f), logf(1.06f), 200}, zeros[8] = {0};
    uint8_t flags[8] = {0};
    struct device_trace v = {.T = 1, .N = 4, .rho_clip = 1, .reward_scale = 1};
    v.behaviour = testing_bytes(t, zeros, sizeof zeros);
    v.reward = testing_bytes(t, zeros, sizeof zeros);
    v.flags = testing_bytes(t, flags, sizeof flags);
    v.log_prob = testing_upload(t, log_prob, 4);
    v.value = testing_upload(t, zeros, 8);
    real *out[3], *in = testing_upload(t, zeros, 4), *sums_d = testing_room(t, ACTOR_CRITIC_SUMS);
    for (int i = 0; i < 3; i++) out[i] = testing_room(t, 4);
    struct device_schedule costs = {0}, *schedule = testing_bytes(t, &costs, sizeof costs);
    run_actor_critic(t->device, out, sums_d, &v, (const real *[]){in, in, in}, schedule,
                     (struct actor_critic_costs){.deviation = 1});
    float sums[ACTOR_CRITIC_SUMS];
    t->device->ops->download(t->device, sums, sums_d, ACTOR_CRITIC_SUMS);
    close_to(sums[SUM_RHO_CLIPPED], 2, 0);
    t->device->ops->download(t->device, sums, out[0], 4);
    for (int i = 0; i < 4; i++) close_to(sums[i], 0, 0);
    testing_release(t);
  }
}

/* Two steps by hand: step 0 counts, step 1 is truncated. */
static void loss_by_hand(struct testing *cpu, struct testing *ref) {
  struct testing *both[] = {cpu, ref};
  static const float expected_sums[ACTOR_CRITIC_SUMS] = {1,    0.7f, 0.125f, 0.6f,  0.01873075f, 2,
                                                         1.5f, 0,    2.5f,   6.25f, 0.25f};
  for (int k = 0; k < 2; k++) {
    struct testing *t = both[k];
    float log_prob[] = {-0.7f, -1}, behaviour[] = {-0.5f, -1}, value[] = {2, 3, 4},
          reward[] = {9, 1.75f, 9};
    float vs[] = {2.5f, 3.5f}, advantage[] = {1, 0.5f}, entropy[] = {0.6f, 0.5f};
    float out[ACTOR_CRITIC_SUMS];
    uint8_t flags[] = {STEP_FIRST, STEP_TRUNCATED, STEP_FIRST};
    struct device_trace v = {.T = 2, .N = 1, .rho_clip = 1, .reward_clip = 1.5f};
    v.reward_scale = 0.9f; // 1.75 * 0.9 is above the clip
    v.behaviour = testing_bytes(t, behaviour, sizeof behaviour);
    v.reward = testing_bytes(t, reward, sizeof reward);
    v.flags = testing_bytes(t, flags, sizeof flags);
    v.log_prob = testing_upload(t, log_prob, 2);
    v.value = testing_upload(t, value, 3);
    real *d_log_prob = testing_room(t, 2), *d_entropy = testing_room(t, 2),
         *d_value = testing_room(t, 2);
    real *sums = testing_room(t, ACTOR_CRITIC_SUMS), *vs_d = testing_upload(t, vs, 2),
         *advantage_d = testing_upload(t, advantage, 2);
    real *entropy_d = testing_upload(t, entropy, 2);
    struct device_schedule costs = {.entropy_cost = 0.01f},
                           *schedule = testing_bytes(t, &costs, sizeof costs);
    run_actor_critic(t->device, (real *[]){d_log_prob, d_entropy, d_value}, sums, &v,
                     (const real *[]){vs_d, advantage_d, entropy_d}, schedule,
                     (struct actor_critic_costs){0.5f, 0.25f, LOSS_MEAN, 1});
    t->device->ops->download(t->device, out, d_log_prob, 2);
    double ratio = exp(-0.2); /* the KL divergence is ratio - 1 - log ratio */
    close_to(out[0], -(1 - 0.25 * (ratio - 1)), 1e-6), close_to(out[1], 0, 0);
    t->device->ops->download(t->device, out, d_entropy, 2);
    close_to(out[0], -0.01, 1e-6), close_to(out[1], 0, 0);
    t->device->ops->download(t->device, out, d_value, 2);
    close_to(out[0], -0.25, 1e-6), close_to(out[1], 0, 0);
    t->device->ops->download(t->device, out, sums, ACTOR_CRITIC_SUMS);
    for (int i = 0; i < ACTOR_CRITIC_SUMS; i++) close_to(out[i], (double)expected_sums[i], 1e-6);
    testing_release(t);
  }
}

static void test_published(void **state) {
  (void)state;
  testing_each_set(published);
}
static void test_direct_sum(void **state) {
  (void)state;
  testing_each_set(direct_sum);
}
static void test_not_a_number(void **state) {
  (void)state;
  testing_each_set(not_a_number);
}
static void test_masks_by_definition(void **state) {
  (void)state;
  testing_each_set(masks_by_definition);
}
static void test_masks_by_episode(void **state) {
  (void)state;
  testing_each_set(masks_by_episode);
}
static void test_losses(void **state) {
  (void)state;
  testing_each_set(losses);
}
static void test_next_to_the_clip(void **state) {
  (void)state;
  testing_each_set(next_to_the_clip_is_not_clipped);
}
static void test_loss_by_hand(void **state) {
  (void)state;
  testing_each_set(loss_by_hand);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_published),        cmocka_unit_test(test_direct_sum),
      cmocka_unit_test(test_not_a_number),     cmocka_unit_test(test_masks_by_definition),
      cmocka_unit_test(test_masks_by_episode), cmocka_unit_test(test_losses),
      cmocka_unit_test(test_next_to_the_clip), cmocka_unit_test(test_loss_by_hand),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
