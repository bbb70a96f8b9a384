/* Every device against ref on what the other tests leave out: sizes beyond what a vector, a warp or
 * a block takes at once, arrays that begin anywhere, numbers behind the rows, and the same bits in
 * each run. Outputs are filled with NaN first. */
#include "common/base/step.h"
#include "learner/device/create.h"
#include "tests/unit/learner/device/categorical_testing.h"
#include "tests/unit/learner/device/q_testing.h"
#include "tests/unit/learner/device/actor_critic_testing.h"

static real *poisoned(struct testing *t, size_t n) {
  real *y = testing_room(t, n);
  device_fill(t->device, y, NAN, n);
  return y;
}

/* Runs the body with a second device, ref. */
static void beside_ref(struct testing *t, void (*body)(struct testing *t, struct testing *ref)) {
  struct testing ref = {.device = device_ref_float_create(), .low = t->low};
  body(t, &ref);
  testing_release(&ref);
  testing_release(t);
  device_destroy(ref.device);
}

/* ---- traces and their losses */

struct trace_shape {
  int T, N;
  enum trace_kind kind;
  enum loss_reduction reduction;
};

enum { VS, ADVANTAGE, D_LOG_PROB, D_ENTROPY, D_VALUE, TRACE_ARRAYS };

/* The arrays (T, N), one after the other, then the sums. */
static float *run_trace(struct testing *t, const struct trace_shape *s) {
  uint64_t random = (uint64_t)(s->T + s->N);
  size_t steps = (size_t)s->T * (size_t)s->N, rows = steps + (size_t)s->N;
  float *x = testing_floats(&random, 5 * rows, 1);
  uint8_t *flags = check_alloc(rows, 1);
  for (size_t i = 0; i < rows; i++)
    flags[i] = testing_below(&random, 20) ? 0 : (uint8_t)(1 << testing_below(&random, 3));
  struct device_trace v = {.kind = s->kind,
                           .T = s->T,
                           .N = s->N,
                           .discount = 0.98f,
                           .lambda = 0.9f,
                           .rho_clip = 1.1f,
                           .c_clip = 1,
                           .pg_rho_clip = 1.2f,
                           .reward_scale = 0.7f,
                           .log_prob = testing_upload(t, x, steps),
                           .behaviour = testing_bytes(t, x + rows, steps * sizeof(float)),
                           .value = testing_upload(t, x + 2 * rows, rows),
                           .reward = testing_bytes(t, x + 3 * rows, rows * sizeof(float)),
                           .flags = testing_bytes(t, flags, rows)};
  const struct device_schedule costs = {.entropy_cost = 0.01f};
  real *y[TRACE_ARRAYS], *sums = poisoned(t, ACTOR_CRITIC_SUMS);
  for (int k = 0; k < TRACE_ARRAYS; k++) y[k] = poisoned(t, steps);
  const struct device_ops *ops = t->device->ops;
  ops->trace(t->device, y[VS], y[ADVANTAGE], &v);
  run_actor_critic(t->device, (real *[]){y[D_LOG_PROB], y[D_ENTROPY], y[D_VALUE]}, sums, &v,
                   (const real *[]){y[VS], y[ADVANTAGE], testing_upload(t, x + 4 * rows, steps)},
                   testing_bytes(t, &costs, sizeof costs),
                   (struct actor_critic_costs){0.5f, 0.1f, s->reduction, 1});
  float *all = check_alloc(TRACE_ARRAYS * steps + ACTOR_CRITIC_SUMS, sizeof *all);
  for (size_t k = 0; k < TRACE_ARRAYS; k++) ops->download(t->device, all + k * steps, y[k], steps);
  ops->download(t->device, all + TRACE_ARRAYS * steps, sums, ACTOR_CRITIC_SUMS);
  free(x);
  free(flags);
  testing_release(t);
  return all;
}

static void traces(struct testing *t, struct testing *ref) {
  static const struct trace_shape shapes[] = {{200, 3, TRACE_VTRACE, LOSS_MEAN},
                                              {65, 70, TRACE_GAE, LOSS_MEAN},
                                              {64, 33, TRACE_VTRACE, LOSS_SUM_OVER_TIME},
                                              {129, 1, TRACE_GAE, LOSS_SUM_OVER_TIME},
                                              {20, 2000, TRACE_VTRACE, LOSS_MEAN}};
  for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
    size_t numbers = TRACE_ARRAYS * (size_t)shapes[k].T * (size_t)shapes[k].N;
    float *got = run_trace(t, &shapes[k]), *expected = run_trace(ref, &shapes[k]),
          *again = run_trace(t, &shapes[k]);
    assert_memory_equal(got, again, (numbers + ACTOR_CRITIC_SUMS) * sizeof *got);
    free(again);
    for (size_t i = numbers; i < numbers + ACTOR_CRITIC_SUMS; i++)
      q_close("sums of many numbers", t, got[i], (double)expected[i], 3e-4);
    testing_compare_floats("trace and loss", t, got, expected, numbers, 2e-5);
  }
}

/* ---- action values */

static void wide_action_values(struct testing *t, struct testing *ref) {
  static const struct {
    int T, N, A, Z;
    bool dueling;
  } table[] = {{80, 3, 40, 1, true},  {1, 70, 33, 1, false}, {3, 5, 3, 97, true},
               {40, 2, 2, 64, false}, {2, 9, 35, 33, true},  {5, 4, 4, 2, true}};
  for (size_t k = 0; k < sizeof table / sizeof *table; k++) {
    uint64_t random = 300 + k;
    struct q_batch batch = q_random_batch(&random, 2, 2, 1);
    struct q_case loss = batch.loss;
    q_batch_free(&batch);
    loss.T = loss.counted = table[k].T, loss.N = table[k].N;
    loss.values = (struct action_values){table[k].A, table[k].Z, table[k].dueling, -4, 3};
    loss.stride = q_outputs_size(&loss.values) + 2;
    if (loss.values.Z > 1) loss.rescaling = loss.huber = 0;
    batch = q_batch_make(loss);
    size_t rows = q_rows(&loss), numbers = rows * (size_t)loss.stride;
    for (size_t i = 0; i < numbers; i++) {
      batch.online[i] = 4 * testing_uniform(&random) - 2;
      batch.target[i] = 4 * testing_uniform(&random) - 2;
    }
    for (size_t i = 0; i < rows; i++) {
      batch.action[i] = testing_below(&random, loss.values.A);
      batch.reward[i] = testing_uniform(&random);
    }
    for (int n = 0; n < loss.N; n++) q_random_window(&random, &batch, n);
    struct q_results got = q_run(t, &batch), expected = q_run(ref, &batch),
                     again = q_run(t, &batch);
    size_t steps = q_steps(&loss), heads = steps * (size_t)loss.stride;
    assert_memory_equal(got.dhead, again.dhead, heads * sizeof(float));
    assert_memory_equal(got.sums, again.sums, sizeof got.sums);
    for (int i = 0; i < Q_SUMS; i++)
      q_close("sums", t, got.sums[i], (double)expected.sums[i], 3e-5);
    for (int n = 0; n < loss.N; n++)
      q_close("priority", t, got.priority[n], (double)expected.priority[n], 3e-5);
    testing_compare_floats("dhead", t, got.dhead, expected.dhead, heads, 1e-5);
    testing_compare_floats("td", t, got.td, expected.td, steps, 3e-5);
    free(got.priority);
    free(expected.priority);
    q_results_free(&again);
    q_batch_free(&batch);
  }
}

/* ---- categorical distributions over many actions */

enum { ROWS = 7, ACTIONS = 1000, PADDING = 3, STRIDE = ACTIONS + PADDING };

struct categorical {
  float *log_prob, *entropy, *dlogits, *sampled;
  int32_t *action;
};

static struct categorical run_categorical(struct testing *t) {
  uint64_t random = 5;
  float *logits = testing_floats(&random, ROWS * STRIDE, 3),
        uniform[ROWS] = {-1, 0, 0.25f, 0.5f, 0.75f, 1 - 0x1p-24f, -1};
  logits[700] = logits[900] = 4; /* of equals the first */
  for (int a = 0; a < 40; a++)   /* impossible ones */
    logits[STRIDE + a] = logits[5 * STRIDE + ACTIONS - 1 - a] = -INFINITY;
  int32_t action[ROWS] = {0, 999, 31, 32, 33, -1, 1000};
  real *x = testing_upload(t, logits, ROWS * STRIDE), *dlogits = testing_room(t, ROWS * STRIDE),
       *log_prob = poisoned(t, ROWS), *entropy = poisoned(t, ROWS);
  device_fill(t->device, dlogits, 5, ROWS * STRIDE);
  int32_t *action_d = testing_bytes(t, action, sizeof action),
          *chosen = testing_bytes_room(t, sizeof action);
  float *sampled = testing_bytes_room(t, sizeof uniform);
  categorical_sample(t->device, chosen, sampled, x, STRIDE,
                     testing_bytes(t, uniform, sizeof uniform), ROWS, ACTIONS);
  categorical_evaluate(t->device, log_prob, entropy, x, STRIDE, action_d, ROWS, ACTIONS);
  categorical_backward(t->device, dlogits, STRIDE, x, STRIDE, action_d,
                       testing_upload(t, uniform, ROWS), testing_upload(t, uniform, ROWS), ROWS,
                       ACTIONS);
  struct categorical y = {testing_back(t, log_prob, ROWS), testing_back(t, entropy, ROWS),
                          testing_back(t, dlogits, ROWS * STRIDE),
                          testing_bytes_back(t, sampled, sizeof uniform),
                          testing_bytes_back(t, chosen, sizeof action)};
  free(logits);
  testing_release(t);
  return y;
}

static void many_actions(struct testing *t, struct testing *ref) {
  struct categorical got = run_categorical(t), expected = run_categorical(ref);
  assert_int_equal(got.action[0], 700);
  assert_int_equal(got.action[1], 40);
  assert_in_range(got.action[5], ACTIONS - 100, ACTIONS - 41);
  for (int b = 0; b < ROWS; b++) /* a float's sum may be off by one where it is drawn */
    assert_in_range(got.action[b] - expected.action[b] + 1, 0, 2);
  assert_true(fabsf(got.sampled[0] - expected.sampled[0]) < 1e-5f);
  for (size_t i = 0; i < ROWS * STRIDE; i++)
    if (i % STRIDE >= ACTIONS) assert_true(got.dlogits[i] == 5);
  for (size_t b = 1; b < ROWS; b += 4) { /* 0 log 0 */
    got.entropy[b] = expected.entropy[b] = 0;
    for (size_t i = 0; i < STRIDE; i++)
      got.dlogits[b * STRIDE + i] = expected.dlogits[b * STRIDE + i] = 0;
  }
  testing_compare_floats("log_prob", t, got.log_prob, expected.log_prob, ROWS, 2e-6);
  testing_compare_floats("entropy", t, got.entropy, expected.entropy, ROWS, 2e-6);
  testing_compare_floats("dlogits", t, got.dlogits, expected.dlogits, ROWS * STRIDE, 2e-6);
  free(got.sampled);
  free(expected.sampled);
  free(got.action);
  free(expected.action);
}

/* Where rounding leaves the draw above all cumulative probabilities, the last action is not drawn
 * if it is impossible. */
static void impossible_last(struct testing *t, struct testing *ref) {
  enum { B = 2000, A = 70, POSSIBLE = 60 };
  (void)ref;
  uint64_t random = 6;
  float *logits = testing_floats(&random, B * A, 3), *uniform = check_alloc(B, sizeof *uniform);
  for (int i = 0; i < B * A; i++)
    if (i % A >= POSSIBLE) logits[i] = -INFINITY;
  for (int b = 0; b < B; b++) uniform[b] = 1 - 0x1p-24f;
  int32_t *action = testing_bytes_room(t, B * sizeof *action);
  float *log_prob = testing_bytes_room(t, B * sizeof *log_prob);
  categorical_sample(t->device, action, log_prob, testing_upload(t, logits, B * A), A,
                     testing_bytes(t, uniform, B * sizeof *uniform), B, A);
  int32_t *got = testing_bytes_back(t, action, B * sizeof *got);
  for (int b = 0; b < B; b++) assert_in_range(got[b], 0, POSSIBLE - 1);
  free(logits);
  free(uniform);
  free(got);
}

/* ---- optimisers and element by element, on arrays that begin anywhere */

static const size_t LENGTHS[] = {1, 2, 5, 1023, 70001};

/* p, m, v after two steps of each optimiser from `from` on, and the norm. */
static float *run_optimisers(struct testing *t, size_t from, size_t P) {
  uint64_t random = P;
  size_t n = from + P + 1;
  float *x = testing_floats(&random, 2 * n, 1);
  real *p = testing_upload(t, x, n), *first = testing_zeros(t, n), *second = testing_zeros(t, n),
       *g = testing_upload(t, x + n, n), *norm = poisoned(t, 1);
  struct device *d = t->device;
  d->ops->global_norm(d, norm, device_at(d, g, from), P);
  for (int64_t step = 1; step <= 2; step++) {
    const struct device_schedule schedule = {.step = 1000000 * step, .learning_rate = 0.01f};
    const void *s = testing_bytes(t, &schedule, sizeof schedule);
    d->ops->adam(d, device_at(d, p, from), device_at(d, first, from), device_at(d, second, from),
                 device_at(d, g, from), norm, s, 0.5f, 0.9f, 0.999999f, 1e-3f, step == 2, P);
    d->ops->rmsprop(d, device_at(d, p, from), device_at(d, second, from), device_at(d, first, from),
                    device_at(d, g, from), norm, s, 0.5f, 0.9f, 0.5f, 1e-2f, P);
  }
  float *all = check_alloc(3 * n + 1, sizeof *all);
  d->ops->download(d, all, p, n);
  d->ops->download(d, all + n, first, n);
  d->ops->download(d, all + 2 * n, second, n);
  d->ops->download(d, all + 3 * n, norm, 1);
  for (size_t i = 0; i < n; i++) /* what is in front and behind is untouched */
    if (i < from || i == n - 1) assert_true(all[i] == x[i] && all[n + i] == 0);
  free(x);
  testing_release(t);
  return all;
}

static void optimisers(struct testing *t, struct testing *ref) {
  for (size_t k = 0; k < sizeof LENGTHS / sizeof *LENGTHS; k++)
    for (size_t from = 0; from < 2; from++) {
      size_t numbers = 3 * (from + LENGTHS[k] + 1) + 1;
      testing_compare_floats("optimisers", t, run_optimisers(t, from, LENGTHS[k]),
                             run_optimisers(ref, from, LENGTHS[k]), numbers, 1e-5);
    }
}

/* Squares that no float holds do not make the norm infinite. */
static void large_norm(struct testing *t, struct testing *ref) {
  (void)ref;
  const float g[3] = {3e30f, 0, -4e30f};
  real *norm = poisoned(t, 1);
  t->device->ops->global_norm(t->device, norm, testing_upload(t, g, 3), 3);
  float *got = testing_back(t, norm, 1);
  assert_true(fabsf(*got / 5e30f - 1) < 1e-6f);
  free(got);
}

static float *run_relus(struct testing *t, size_t from, size_t n) {
  uint64_t random = n;
  size_t all = from + n + 1;
  float *x = testing_floats(&random, 3 * all, 1);
  pixel *y = testing_upload_pixels(t, x, all), *dx = testing_upload_pixels(t, x + all, all),
        *dy = testing_upload_pixels(t, x + 2 * all, all);
  struct device *d = t->device;
  d->ops->relu(d, pixel_at(d, y, from), pixel_at(d, y, from), n);
  d->ops->relu_backward(d, pixel_at(d, dx, from), pixel_at(d, dy, from), pixel_at(d, y, from), n);
  float *out = check_alloc(2 * all, sizeof *out);
  device_download_pixels(d, out, y, all);
  device_download_pixels(d, out + all, dx, all);
  free(x);
  testing_release(t);
  return out;
}

static void relus(struct testing *t, struct testing *ref) {
  double tolerance = testing_pixel_tolerance(t, 1e-7);
  for (size_t k = 0; k < sizeof LENGTHS / sizeof *LENGTHS; k++)
    for (size_t from = 0; from < 2; from++)
      testing_compare_floats("relu in place", t, run_relus(t, from, LENGTHS[k]),
                             run_relus(ref, from, LENGTHS[k]), 2 * (from + LENGTHS[k] + 1),
                             tolerance);
}

/* ---- rows by number */

/* Rows that are gathered, then those that are scattered. */
static uint8_t *run_rows(struct testing *t, size_t bytes, size_t *count) {
  enum { B = 37 };
  uint64_t random = bytes;
  uint8_t *host = check_alloc(B * bytes, 1);
  for (size_t i = 0; i < B * bytes; i++) host[i] = (uint8_t)testing_bits(&random);
  int32_t row[B];
  for (int b = 0; b < B; b++) row[b] = b % 6 == 4 ? -1 : (b * 5 + 3) % B;
  const void *x = testing_bytes(t, host, B * bytes);
  const int32_t *rows = testing_bytes(t, row, sizeof row);
  uint8_t *y = testing_bytes_room(t, 2 * B * bytes);
  t->device->ops->gather_rows(t->device, y, x, rows, B, bytes);
  t->device->ops->scatter_rows(t->device, y + B * bytes, x, rows, B, bytes);
  uint8_t *both = testing_bytes_back(t, y, *count = 2 * B * bytes);
  free(host);
  testing_release(t);
  return both;
}

static void rows(struct testing *t, struct testing *ref) {
  static const size_t bytes[] = {1, 4, 16, 20, 64, 1024, 5000, 16400};
  for (size_t k = 0; k < sizeof bytes / sizeof *bytes; k++) {
    size_t count;
    uint8_t *got = run_rows(t, bytes[k], &count), *expected = run_rows(ref, bytes[k], &count);
    assert_memory_equal(got, expected, count);
    free(got);
    free(expected);
  }
}

/* ---- images */

enum { IMAGE_LIMIT = 2 };

/* So that each number is normalised by a mean and deviation of its own, some of them clipped. */
static void normalize_images(struct testing *t, struct device_inputs *in, size_t n) {
  float *mean = check_alloc(n, sizeof *mean), *deviation = check_alloc(n, sizeof *deviation);
  for (size_t i = 0; i < n; i++) {
    mean[i] = (float)(i % 10) / 10;
    deviation[i] = (float)(i % 7 + 1) / 10;
  }
  in->mean = testing_upload(t, mean, n);
  in->deviation = testing_upload(t, deviation, n);
  in->limit = IMAGE_LIMIT;
  free(mean);
  free(deviation);
}

static float normalized_number(float x, size_t i) {
  float y = (x - (float)(i % 10) / 10) / ((float)(i % 7 + 1) / 10);
  return fmaxf(-IMAGE_LIMIT, fminf(IMAGE_LIMIT, y));
}

static float *run_image(struct testing *t, int height, int width, int channels, int stack,
                        size_t offset, bool normalizes, size_t *count) {
  enum { B = 3, HISTORY = 5 };
  uint64_t random = (uint64_t)(height * width * channels + stack);
  size_t bytes = (size_t)(height * width * channels), stride = (offset + bytes + 15) / 16 * 16;
  uint8_t *rows = check_alloc((B + HISTORY) * stride, 1);
  for (size_t i = 0; i < (B + HISTORY) * stride; i++) rows[i] = (uint8_t)testing_bits(&random);
  int32_t frame[B * 8];
  for (int i = 0; i < B * 8; i++) frame[i] = testing_below(&random, HISTORY + 1) - 1;
  struct device_inputs in = {.observation = testing_bytes(t, rows, B * stride),
                             .row_stride = stride,
                             .num_tensors = 1,
                             .tensor = {{DTYPE_UINT8, (int)bytes, offset, height, width, channels}},
                             .stack = stack,
                             .history = testing_bytes(t, rows + B * stride, HISTORY * stride),
                             .frame = testing_bytes(t, frame, sizeof frame)};
  if (normalizes) normalize_images(t, &in, bytes);
  *count = B * bytes * (size_t)stack;
  pixel *y = testing_pixel_room(t, *count);
  t->device->ops->image(t->device, y, &in, B);
  float *host = testing_pixels_back(t, y, *count);
  free(rows);
  testing_release(t);
  return host;
}

static void images(struct testing *t, struct testing *ref) {
  static const int shapes[][4] = {{84, 84, 1, 4}, {6, 6, 1, 4}, {5, 5, 1, 4}, {8, 6, 3, 1},
                                  {7, 5, 3, 1},   {6, 6, 1, 3}, {4, 4, 2, 4}, {12, 1, 1, 1}};
  for (size_t i = 0; i < 2 * (sizeof shapes / sizeof *shapes); i++) {
    const size_t k = i / 2, offset = 16 * (k % 2);
    const bool normalizes = i % 2;
    const int *s = shapes[k];
    size_t count;
    float *got = run_image(t, s[0], s[1], s[2], s[3], offset, normalizes, &count);
    testing_compare_floats("image", t, got,
                           run_image(ref, s[0], s[1], s[2], s[3], offset, normalizes, &count),
                           count, testing_pixel_tolerance(t, normalizes ? 2e-6 : 1e-7));
  }
}

/* A row of every kind of image: bytes with planes of one channel, floats with two channels, whole
 * numbers with several planes of three. */
enum { KINDS_H = 5, KINDS_W = 6, KINDS_PIXELS = KINDS_H * KINDS_W, KINDS_C = 3 + 2 + 6 };

static float *run_kinds(struct testing *t, int stack, bool normalizes, size_t *count) {
  enum { B = 3, HISTORY = 5, BYTES = 3 * KINDS_PIXELS, FLOATS = 2 * KINDS_PIXELS };
  enum { WHOLE = 6 * KINDS_PIXELS, FLOATS_AT = 96, WHOLE_AT = FLOATS_AT + 4 * FLOATS };
  enum { ROW_BYTES = WHOLE_AT + 4 * WHOLE };
  uint64_t random = (uint64_t)stack;
  static uint8_t rows[B + HISTORY][ROW_BYTES] __attribute__((aligned(16)));
  for (int r = 0; r < B + HISTORY; r++) {
    for (int i = 0; i < BYTES; i++) rows[r][i] = (uint8_t)testing_bits(&random);
    for (int i = 0; i < FLOATS; i++)
      ((float *)(rows[r] + FLOATS_AT))[i] = (float)testing_below(&random, 1000) / 300 - 1;
    for (int i = 0; i < WHOLE; i++)
      ((int32_t *)(rows[r] + WHOLE_AT))[i] = testing_below(&random, 100) - 50;
  }
  int32_t frame[B * 8];
  for (int i = 0; i < B * 8; i++) frame[i] = testing_below(&random, HISTORY + 1) - 1;
  struct device_inputs in = {
      .observation = testing_bytes(t, rows, (size_t)B * ROW_BYTES),
      .row_stride = ROW_BYTES,
      .num_tensors = 3,
      .tensor = {{DTYPE_UINT8, BYTES, 0, KINDS_H, KINDS_W, 1, .planes = 3},
                 {DTYPE_FLOAT32, FLOATS, FLOATS_AT, KINDS_H, KINDS_W, 2, .planes = 1},
                 {DTYPE_INT32, WHOLE, WHOLE_AT, KINDS_H, KINDS_W, 3, .planes = 2}},
      .stack = stack,
      .history = testing_bytes(t, rows + B, (size_t)HISTORY * ROW_BYTES),
      .frame = testing_bytes(t, frame, sizeof frame)};
  assert_int_equal(device_inputs_channels(&in), KINDS_C);
  if (normalizes) normalize_images(t, &in, (size_t)(KINDS_PIXELS * KINDS_C));
  *count = (size_t)(B * stack * KINDS_PIXELS * KINDS_C);
  pixel *y = testing_pixel_room(t, *count);
  t->device->ops->image(t->device, y, &in, B);
  float *host = testing_pixels_back(t, y, *count);
  // Where each channel of pixel 7 comes from, in the first row's newest frame.
  const uint8_t *bytes = rows[0];
  const float *floats = (const float *)(rows[0] + FLOATS_AT);
  const int32_t *whole = (const int32_t *)(rows[0] + WHOLE_AT);
  const float *got = host + 7 * stack * KINDS_C;
  double tolerance = testing_pixel_tolerance(t, 1e-6);
  for (int c = 0; c < KINDS_C; c++) {
    int p = c - 5, i = c < 3 ? c * KINDS_PIXELS + 7 : 7 * 2 + c - 3, before = 3 * KINDS_PIXELS;
    if (c >= 5) i = (p / 3 * KINDS_PIXELS + 7) * 3 + p % 3;
    float expected = c < 3 ? (float)bytes[i] / 255 : c < 5 ? floats[i] : (float)whole[i];
    if (c < 3) before = 0;
    if (c >= 5) before += FLOATS;
    if (normalizes) expected = normalized_number(expected, (size_t)(before + i));
    assert_true(fabs(got[c] - expected) <= tolerance * fmax(1, fabs(expected)));
  }
  testing_release(t);
  return host;
}

static void kinds_of_images(struct testing *t, struct testing *ref) {
  for (int i = 2; i <= 7; i++) {
    const int stack = i / 2;
    const bool normalizes = i % 2;
    size_t count;
    float *got = run_kinds(t, stack, normalizes, &count);
    testing_compare_floats("images of several kinds", t, got,
                           run_kinds(ref, stack, normalizes, &count), count,
                           testing_pixel_tolerance(t, normalizes ? 2e-6 : 1e-7));
  }
}

/* y, dx, then the choices as numbers. */
static float *run_pool(struct testing *t, const struct device_window *v, int B, size_t *count) {
  size_t in = (size_t)(B * v->H * v->W * v->C),
         out =
             (size_t)(B * v->C) * (size_t)device_window_rows(v) * (size_t)device_window_columns(v);
  uint64_t random = in;
  float *x = testing_floats(&random, in, 1), *dy = testing_floats(&random, out, 1);
  for (size_t i = 0; i < in; i++) x[i] = roundf(4 * x[i]); /* equals in a window */
  uint8_t *choice = testing_bytes_room(t, out);
  pixel *y = testing_pixel_room(t, out), *dx = testing_pixel_room(t, in);
  const struct device_ops *ops = t->device->ops;
  ops->pool_forward(t->device, y, choice, testing_upload_pixels(t, x, in), v, B);
  ops->pool_backward(t->device, dx, testing_upload_pixels(t, dy, out), choice, v, B);
  *count = 2 * out + in;
  float *all = check_alloc(*count, sizeof *all);
  device_download_pixels(t->device, all, y, out);
  device_download_pixels(t->device, all + out, dx, in);
  uint8_t *places = testing_bytes_back(t, choice, out);
  for (size_t i = 0; i < out; i++) all[out + in + i] = places[i];
  free(places);
  free(x);
  free(dy);
  testing_release(t);
  return all;
}

static void pools(struct testing *t, struct testing *ref) {
  static const struct device_window windows[] = {
      {42, 42, 16, 16, 3, 2, true}, {11, 11, 32, 32, 3, 2, true}, {9, 8, 5, 5, 3, 2, false},
      {7, 9, 8, 8, 2, 2, true},     {10, 7, 4, 4, 5, 3, false},   {6, 6, 12, 12, 3, 1, true},
      {5, 7, 3, 3, 4, 4, true},     {1, 1, 8, 8, 3, 2, true},     {8, 8, 2, 2, 2, 3, false}};
  for (size_t k = 0; k < sizeof windows / sizeof *windows; k++) {
    size_t count;
    float *got = run_pool(t, &windows[k], 1 + (int)k % 3, &count);
    testing_compare_floats("pooling", t, got, run_pool(ref, &windows[k], 1 + (int)k % 3, &count),
                           count, testing_pixel_tolerance(t, 1e-6));
  }
}

#define EACH_DEVICE(body)                    \
  static void body##_of(struct testing *t) { \
    beside_ref(t, body);                     \
  }                                          \
  static void body##_(void **state) {        \
    (void)state;                             \
    testing_each_device(body##_of);          \
  }
EACH_DEVICE(traces)
EACH_DEVICE(wide_action_values)
EACH_DEVICE(many_actions)
EACH_DEVICE(impossible_last)
EACH_DEVICE(optimisers)
EACH_DEVICE(large_norm)
EACH_DEVICE(rows)

/* And on one whose pixels are bf16. */
#define EACH_DEVICE_OF_PIXELS(body)                                             \
  static void body##_of(struct testing *t) {                                    \
    beside_ref(t, body);                                                        \
  }                                                                             \
  static void body##_(void **state) {                                           \
    (void)state;                                                                \
    testing_each_device(body##_of);                                             \
    struct testing low = {.device = emulated_cuda_create("bf16"), .low = true}; \
    body##_of(&low);                                                            \
    device_destroy(low.device);                                                 \
  }
EACH_DEVICE_OF_PIXELS(relus)
EACH_DEVICE_OF_PIXELS(images)
EACH_DEVICE_OF_PIXELS(kinds_of_images)
EACH_DEVICE_OF_PIXELS(pools)

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(traces_),          cmocka_unit_test(wide_action_values_),
      cmocka_unit_test(many_actions_),    cmocka_unit_test(impossible_last_),
      cmocka_unit_test(optimisers_),      cmocka_unit_test(large_norm_),
      cmocka_unit_test(relus_),           cmocka_unit_test(rows_),
      cmocka_unit_test(images_),          cmocka_unit_test(pools_),
      cmocka_unit_test(kinds_of_images_),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
