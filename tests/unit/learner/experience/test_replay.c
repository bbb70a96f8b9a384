/* The replay in one thread, against a model: which windows it holds, with which priorities and
 * weights they are drawn, how fast, and what becomes of priorities that are late or no numbers. */
#include <math.h>

#include "common/base/check.h"
#include "learner/experience/replay.h"
#include "tests/unit/learner/experience/pages_model.h"
#include "tests/unit/support/any_device.h"
#include "tests/unit/support/aborts.h"
#include "tests/unit/support/emulated_cuda.h"
#include "tests/unit/support/races.h"

enum { MAX_N = 8, NEVER = 1000000000 };

static const char *device_name;

static bool guarded(void) { /* each of its operations takes microseconds, and so on cuda */
  return strcmp(device_name, "guarded") == 0 || strcmp(device_name, "cuda") == 0;
}

/* A window in the replay, and its priority. */
struct entry {
  bool is_in;
  struct window window;
  double priority;
};

struct world {
  struct model *m;
  struct device *gathering; /* the trainer's */
  struct replay_config config;
  struct source *source;
  struct host_batch host; /* what was taken last */
  struct metrics *metrics;
  struct metric_sum initial, updated; /* so far */
  struct train_batch *taken;

  struct entry entry[MODEL_STARTS]; /* at each start */
  bool started;
  double largest;
  int64_t inserted, since, sampled, batches, late, not_finite, twice;
};

/* A kind of windows on pages, and of a replay over them. */
struct kind {
  int slots, page_steps, stride, window_steps, burn_in, spare_pages;
  int N, min_windows;
  double ratio, exponent, importance;
  bool initial_max;
  int footprint;
};

/* Of the replays that are created now. */
static uint64_t sampling_seed = 3;
static int lent_at_once = 1;
static bool is_uniform;
static double importance_end, share_done; /* of the run; importance_end 0: it stays */

static double share_now(const void *context) {
  return *(const double *)context;
}

/* Of first priorities: one-step returns, so that the test's own computation is one line. */
enum { ETA_PERCENT = 75, DISCOUNT_PERCENT = 50 };

static struct replay_config config_of(const struct kind *kind, struct metrics *metrics) {
  struct replay_config config = {.N = kind->N,
                                 .min_windows = kind->min_windows,
                                 .ratio = kind->ratio,
                                 .band = NEVER,
                                 .exponent = kind->exponent,
                                 .importance = kind->importance,
                                 .importance_end = importance_end,
                                 .share_done = importance_end > 0 ? share_now : NULL,
                                 .context = &share_done,
                                 .uniform = is_uniform,
                                 .initial_max = kind->initial_max,
                                 .burn_in = kind->burn_in,
                                 .priority = {.T = kind->window_steps - kind->burn_in,
                                              .counted = kind->window_steps - kind->burn_in,
                                              .n_steps = 1,
                                              .discount = DISCOUNT_PERCENT / 100.f,
                                              .reward_scale = 1,
                                              .eta = ETA_PERCENT / 100.f},
                                 .lent_at_once = lent_at_once,
                                 .seed = sampling_seed,
                                 .initial_priority = metrics_histogram(metrics, "initial", ""),
                                 .updated_priority = metrics_histogram(metrics, "updated", "")};
  return config;
}

static struct world *create(const struct kind *kind) {
  struct world *w = check_alloc(1, sizeof(*w));
  struct pages_config pages = {
      .num_slots = kind->slots,
      .page_steps = kind->page_steps,
      .shape = discrete_shape(MODEL_ROW_BYTES, MODEL_STATE, kind->footprint),
      .phase = PAGES_STAGGERED,
      .stride = kind->stride,
      .window_steps = kind->window_steps,
      .replays = true};
  struct error error;
  pages.shape.statistics = 2;
  pages.num_pages = pages_needed(&pages) + kind->spare_pages;
  w->m = model_create(device_name, &pages);
  assert_int_equal(any_device_create(&w->gathering, device_name, &error), STATUS_OK);
  w->metrics = metrics_create(2);
  w->config = config_of(kind, w->metrics);
  w->source = replay_create(w->gathering, w->m->device, w->m->pages, &w->config);
  w->host = host_batch_create(kind->window_steps, kind->N, &pages.shape);
  for (int i = 0; i < kind->slots; i++) model_begin(w->m, i);
  return w;
}

/* The trainer may hold two batches. */
static struct world *create_for_two(const struct kind *kind) {
  lent_at_once = 2;
  struct world *w = create(kind);
  lent_at_once = 1;
  return w;
}

static void destroy(struct world *w) {
  source_destroy(w->source);
  metrics_destroy(w->metrics);
  host_batch_destroy(&w->host);
  device_destroy(w->gathering);
  model_destroy(w->m);
  free(w);
}

/* ---- the model */

static double value_of(const struct world *w, const struct entry *entry) {
  return pow(entry->priority, w->config.exponent);
}

static bool is_there(const struct world *w, const struct entry *entry) {
  const struct model_window *window = &w->m->window[entry->window.start];
  return entry->is_in && model_is_there(w->m, window) &&
         model_same_window(&entry->window, &window->window);
}

static int count_entries(const struct world *w) {
  int count = 0;
  for (int s = 0; s < pages_num_starts(w->m->pages); s++) count += is_there(w, &w->entry[s]);
  return count;
}

/* What becomes of a priority that is too small, too large, or no number. */
static double sane(struct world *w, double priority) {
  w->not_finite += !isfinite(priority);
  double kept = isfinite(priority) ? fmin(fmax(priority, 1e-6), 1e12) : 1e-6;
  w->largest = fmax(w->largest, kept);
  return kept;
}

/* From its definition: one-step TD errors, the network's own largest value in place of a target's.
 * Steps are counted from the end of the burn-in. */
static double td_priority_of(const struct world *w, const struct window *window) {
  int T = w->m->config.window_steps - w->config.burn_in, count = 0;
  uint64_t first = window->first_step + (uint64_t)w->config.burn_in;
  double most = 0, total = 0, eta = ETA_PERCENT / 100., discount = DISCOUNT_PERCENT / 100.;
  for (int t = 0; t < T; t++) {
    struct history_step now = history_step(window->slot, window->life, first + (uint64_t)t);
    struct history_step next = history_step(window->slot, window->life, first + (uint64_t)t + 1);
    if (now.flags & STEP_TRUNCATED) continue;
    double after = next.flags & STEP_TERMINATED ? 0 : discount * next.statistics[1];
    double td = fabs(next.reward + after - now.statistics[0]);
    most = fmax(most, td);
    total += td;
    count++;
  }
  return count ? eta * most + (1 - eta) * total / count : 0;
}

static double credit(const struct world *w) {
  return w->config.ratio * (double)w->since - (double)w->sampled;
}

static bool is_due(const struct world *w) {
  return w->started && credit(w) >= w->config.N && count_entries(w) > 0;
}

static void expect_near(double is, double should, double tolerance) {
  if (!(fabs(is - should) <= tolerance * fmax(1, fabs(should))))
    fail_msg("%.9g, not %.9g", is, should);
}

/* The mean of what a metric got since, whose sum of all has rounded off something. */
static void expect_observed(const struct metric *metric, struct metric_sum *since, double mean) {
  double is = metric_mean_since(metric, since);
  expect_near(is, mean, 1e-5 + 1e-15 * since->sum);
}

static void check_counters(const struct world *w) {
  struct source_counters counters = source_counters(w->source);
  assert_true(counters.replays);
  assert_int_equal(counters.windows_held, count_entries(w));
  assert_int_equal(counters.windows_needed, w->config.min_windows);
  assert_int_equal(counters.windows_given, w->inserted);
  assert_int_equal(counters.windows_since, w->since);
  assert_int_equal(counters.windows_sampled, w->sampled);
  assert_int_equal(counters.batches_taken, w->batches);
  assert_int_equal(counters.priorities_late, w->late);
  assert_int_equal(counters.priorities_not_finite, w->not_finite);
  if (!w->taken) assert_int_equal(counters.busy_us, 0);
  assert_false(counters.full);
}

/* ---- inference's side */

/* Gives a window that has closed; its first priority is the one that the metric got. */
static void give(struct world *w, int i) {
  struct window window = w->m->slot[i].waiting[0];
  double expected = td_priority_of(w, &window);
  if (w->config.initial_max) expected = w->largest > 0 ? w->largest : 1;
  bool due = source_give(w->source, w->m->pages, &window, 0);
  model_note_release(w->m, i, 0);
  expected = sane(w, expected);
  expect_observed(w->config.initial_priority, &w->initial, expected);
  w->entry[window.start] = (struct entry){true, window, expected};
  w->inserted++;
  w->since += w->started;
  if (count_entries(w) >= w->config.min_windows) w->started = true;
  assert_int_equal(due, is_due(w));
}

/* A step of the slot; the window that closes is given. Returns whether one did. */
static bool step(struct world *w, int i) {
  if (model_life_is_full(&w->m->slot[i])) model_begin(w->m, i);
  bool closed = model_step(w->m, i);
  if (closed) give(w, i);
  return closed;
}

/* Steps the first slot until so many windows were inserted. */
static void insert(struct world *w, int windows) {
  while (w->inserted < windows) step(w, 0);
}

/* ---- the trainer's side */

/* Takes a batch that is due: its windows are there, their weights follow from their priorities,
 * and the steps are those that were played. */
static const struct train_batch *take(struct world *w) {
  double value[MAX_N], least = INFINITY, importance = w->config.importance;
  if (importance_end > 0) importance += fmin(share_done, 1) * (importance_end - importance);
  float weight[MAX_N];
  assert_true(is_due(w));
  w->taken = source_take(w->source);
  assert_non_null(w->taken);
  assert_int_equal(w->taken->num_windows, w->config.N);
  host_batch_read(&w->host, w->gathering, w->taken);
  w->gathering->ops->download(w->gathering, weight, w->taken->weight.memory, (size_t)w->config.N);
  for (int n = 0; n < w->config.N; n++) {
    const struct window *window = &w->taken->window[n];
    const struct entry *entry = &w->entry[window->start];
    assert_true(is_there(w, entry) && model_same_window(window, &entry->window));
    assert_true(history_matches(w->host.batch, n));
    value[n] = value_of(w, entry);
    least = fmin(least, value[n]);
    for (int k = 0; k < n; k++) w->twice += w->taken->window[k].start == window->start;
  }
  for (int n = 0; n < w->config.N; n++)
    expect_near(weight[n], pow(least / value[n], importance), 1e-5);
  w->sampled += w->config.N;
  w->batches++;
  return w->host.batch;
}

/* Gives the batch back with these priorities (N). Of a window that was drawn twice the last
 * counts. */
static void release(struct world *w, const double *priority) {
  double sum = 0;
  int there = 0;
  w->largest *= 0.999;
  for (int n = 0; n < w->config.N; n++) {
    ((float *)w->taken->priority.host)[n] = (float)priority[n];
    const struct window *window = &w->taken->window[n];
    struct entry *entry = &w->entry[window->start];
    if (!is_there(w, entry) || !model_same_window(window, &entry->window)) {
      w->late++;
      continue;
    }
    entry->priority = sane(w, (float)priority[n]);
    sum += entry->priority;
    there++;
  }
  source_release(w->source, w->taken);
  w->taken = NULL;
  if (there) expect_observed(w->config.updated_priority, &w->updated, sum / there);
}

/* ---- everything at random */

static double random_priority(struct model *m) {
  static const double odd[] = {NAN, INFINITY, -INFINITY, -3, 0, 1e-12, 1e-6, 1e20, 1};
  int what = model_draw(m, 40);
  if (what < 9) return odd[what];
  return ldexp(1 + model_draw(m, 1000) / 1000., model_draw(m, 20) - 10);
}

static void random_schedule(struct world *w, int operations) {
  struct model *m = w->m;
  double priority[MAX_N];
  for (int op = 0; op < operations; op++) {
    int i = model_draw(m, 30) == 0 ? 0 : model_draw(m, m->config.num_slots);
    int what = model_draw(m, 1000);
    if (what < 4) {
      model_begin(m, i);
    } else if (what < 100 && w->taken) {
      for (int n = 0; n < w->config.N; n++) priority[n] = random_priority(m);
      release(w, priority);
    } else if (what < 100 && is_due(w)) {
      take(w);
    } else {
      step(w, i);
    }
    check_counters(w);
  }
}

static void it_is_the_model_under_random_schedules(void **state) {
  (void)state;
  static const struct kind kinds[] = {
      {3, 4, 4, 4, 0, 20, 3, 4, 1, 0.9, 0.6, false, 0},
      {4, 6, 2, 8, 2, 9, 4, 6, 2.5, 1, 1, false, 3},
      {2, 8, 4, 13, 9, 12, 8, 3, 8, 0.5, 0.4, true, 0},
      {5, 32, 1, 1, 0, 2, 2, 60, 0.1, 0, 1, false, 3},
      {3, 3, 3, 6, 3, 1, 5, 2, 4, 2, 0.6, true, 0},
  };
  int64_t late = 0, not_finite = 0, twice = 0;
  for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
    struct world *w = create(&kinds[k]);
    w->m->seed = 50 + (uint32_t)k;
    random_schedule(w, guarded() ? 800 : 8000);
    assert_true(w->batches > (guarded() ? 5 : 50));
    late += w->late;
    not_finite += w->not_finite;
    twice += w->twice;
    destroy(w);
  }
  if (!guarded()) assert_true(late > 20 && not_finite > 100 && twice > 100);
}

/* ---- probabilities and weights, against worked examples */

/* n windows that are all in the replay, and so much credit that sampling never waits. */
static struct world *create_filled(int n, double exponent, double importance) {
  struct kind kind = {1, 4, 4, 4, 0, n, n, n - 1, 1e6, exponent, importance, true, 0};
  struct world *w = create(&kind);
  insert(w, n);
  assert_int_equal(count_entries(w), n);
  return w;
}

/* The window's number, in the order in which they were inserted. */
static int number_of(const struct window *window) {
  return (int)(window->first_step / 4);
}

/* Gives the batch back so that window k has priority[k]. */
static void release_as(struct world *w, const double *priority) {
  double of_column[MAX_N];
  for (int n = 0; n < w->config.N; n++) of_column[n] = priority[number_of(&w->taken->window[n])];
  release(w, of_column);
}

struct example {
  int n;
  double exponent, importance;
  double priority[4], probability[4], weight[4]; /* before the division by the batch's largest */
};

static void check_example(const struct example *example) {
  struct world *w = create_filled(example->n, example->exponent, example->importance);
  int batches = guarded() ? 200 : TESTING_SLOWLY ? 2000 : 20000, n = example->n, drawn[4] = {0};
  take(w); /* equal priorities: each of them once */
  for (int k = 0; k < n; k++) assert_int_equal(number_of(&w->taken->window[k]), k);
  release_as(w, example->priority);
  for (int b = 0; b < batches; b++) {
    const struct train_batch *batch = take(w);
    const float *weight = w->taken->weight.host;
    double largest = 0;
    for (int c = 0; c < n; c++)
      largest = fmax(largest, example->weight[number_of(&batch->window[c])]);
    for (int c = 0; c < n; c++) {
      int k = number_of(&batch->window[c]);
      expect_near(weight[c], example->weight[k] / largest, 1e-5);
      drawn[k]++;
    }
    release_as(w, example->priority);
  }
  for (int k = 0; k < n; k++) /* four standard deviations of independent draws */
    expect_near((double)drawn[k] / batches / n, example->probability[k],
                4 * 0.5 / sqrt((double)batches * n));
  destroy(w);
}

static void probabilities_and_weights_are_those_of_the_paper(void **state) {
  (void)state;
  static const struct example examples[] = {
      {4,
       0.6,
       0.4,
       {1, 2, 4, 8},
       {.120550, .182720, .276951, .419779},
       {1.338780, 1.133606, .959875, .812770}},
      {4,
       0.6,
       1,
       {1, 2, 4, 8},
       {.120550, .182720, .276951, .419779},
       {2.073829, 1.368217, .902686, .595551}},
      {4, 0, 0.7, {1, 2, 4, 8}, {.25, .25, .25, .25}, {1, 1, 1, 1}},
      {2, 1, 1, {.3, .9}, {.25, .75}, {1, .333333}},
      {2, 0.7, 0.3, {.3, .9}, {.316689, .683311}, {1, .793971}},
      {2, 0.9, 0.6, {.3, .9}, {.271159, .728841}, {1, .552528}},
      {2, 0.5, 0, {100, .9}, {.913341, .086659}, {1, 1}},
  };
  for (size_t i = 0; i < sizeof(examples) / sizeof(examples[0]); i++) check_example(&examples[i]);
}

/* Which take and give compare with what is done. */
static void importance_moves_with_the_run(void **state) {
  (void)state;
  static const double share[] = {0, 0.25, 0.5, 1, 1.5}, priority[] = {1, 2, 4, 8};
  importance_end = 1;
  struct world *w = create_filled(4, 0.6, 0.4);
  take(w);
  release_as(w, priority);
  for (size_t i = 0; i < sizeof(share) / sizeof(share[0]); i++) {
    share_done = share[i];
    take(w);
    release_as(w, priority);
  }
  destroy(w);
  importance_end = 0;
}

static void a_large_priority_of_the_past_is_forgotten(void **state) {
  (void)state;
  static const double first[] = {1000, 1, 1, 1}, later[] = {1, 1, 1, 1};
  struct world *w = create_filled(4, 0.6, 0.4);
  take(w);
  release_as(w, first);
  assert_true(w->largest == 1000);
  for (int b = 0; b < 10000; b++) {
    take(w);
    release_as(w, later);
  }
  insert(w, 5); /* with the largest priority */
  assert_true(w->largest == 1);
  destroy(w);
}

enum { DRAWN_BATCHES = 10, DRAWN_N = 4 };

/* The windows of some batches, of which all are as likely. */
static void draw(int drawn[DRAWN_BATCHES * DRAWN_N], uint64_t seed) {
  struct kind kind = {1, 4, 4, 4, 0, 40, DRAWN_N, 31, 1e6, 0, 1, true, 0};
  sampling_seed = seed;
  struct world *w = create(&kind);
  insert(w, 32);
  for (int b = 0; b < DRAWN_BATCHES; b++) {
    const struct train_batch *batch = take(w);
    for (int n = 0; n < DRAWN_N; n++) drawn[b * DRAWN_N + n] = number_of(&batch->window[n]);
    release(w, (const double[DRAWN_N]){1, 1, 1, 1});
  }
  destroy(w);
}

static void the_seed_says_which_windows_are_drawn(void **state) {
  (void)state;
  int first[DRAWN_BATCHES * DRAWN_N], again[DRAWN_BATCHES * DRAWN_N],
      other[DRAWN_BATCHES * DRAWN_N];
  draw(first, 3);
  draw(other, 4);
  draw(again, 3);
  assert_memory_equal(first, again, sizeof(first));
  assert_memory_not_equal(first, other, sizeof(first));
}

/* One window that has nearly all of the probability fills a batch; it is drawn again with the last
 * of its priorities, which is checked by the weights. */
static void a_window_may_be_drawn_more_than_once(void **state) {
  (void)state;
  struct world *w = create_filled(3, 1, 1);
  take(w);
  release(w, (const double[]){1, 1e9, 1});
  const struct train_batch *batch = take(w);
  for (int n = 0; n < 3; n++) assert_int_equal(number_of(&batch->window[n]), 1);
  release(w, (const double[]){5, 6, 7});
  for (int b = 0; b < 20; b++) {
    take(w);
    release_as(w, (const double[]){1, 7, 1});
  }
  destroy(w);
}

/* The trainer holds two batches; their priorities come in the order in which they were taken. */
static void a_second_batch_may_be_lent(void **state) {
  (void)state;
  struct kind kind = {1, 4, 4, 4, 0, 8, 4, 7, 1e6, 1, 1, true, 0};
  struct world *w = create_for_two(&kind);
  insert(w, 8);
  struct train_batch *older = NULL, *newer;
  for (int b = 0; b < 20; b++) {
    take(w);
    newer = w->taken;
    assert_ptr_not_equal(newer, older);
    if (!older) {
      older = newer;
      continue;
    }
    host_batch_read(&w->host, w->gathering, older);
    for (int n = 0; n < 4; n++) assert_true(history_matches(w->host.batch, n));
    w->taken = older;
    release(w, (const double[]){1 + b, 2 + b, 3 + b, 4 + b});
    older = newer;
  }
  w->taken = older;
  release(w, (const double[]){1, 1, 1, 1});
  check_counters(w);
  destroy(w);
}

/* Writes all rows of the pages again, as they are; the host does not wait for that. */
static void rewrite(struct world *w, real *spare) {
  struct device *device = w->m->device;
  real *observations = (real *)(void *)pages_rows(w->m->pages)->pool.observation;
  size_t n = pages_observation_bytes(w->m->pages) / sizeof(float);
  device_copy(device, spare, observations, n);
  device_copy(device, observations, spare, n);
}

/* A window that closes: its rows are written until it is given. */
static void insert_rewritten(struct world *w, real *spare) {
  if (model_life_is_full(&w->m->slot[0])) model_begin(w->m, 0);
  while (!model_step(w->m, 0)) {
  }
  rewrite(w, spare);
  give(w, 0);
}

static struct train_batch *take_unread(struct world *w) {
  struct train_batch *batch = source_take(w->source);
  assert_non_null(batch);
  w->sampled += w->config.N;
  for (int n = 0; n < w->config.N; n++) ((float *)batch->priority.host)[n] = 1;
  return batch;
}

/* What is given is gathered behind its filing, and rows are written again behind their gather: once
 * the only batch was taken, or both of two were released. */
static void the_streams_wait_for_each_other(void **state) {
  (void)state;
  struct kind kind = {1, 4, 4, 4, 0, 16, 4, 7, 1e6, 1, 1, true, 0};
  for (int lent = 1; lent <= 2; lent++) {
    struct world *w = lent == 1 ? create(&kind) : create_for_two(&kind);
    const struct device_ops *ops = w->m->device->ops;
    real *spare = ops->alloc(w->m->device, pages_observation_bytes(w->m->pages));
    insert(w, 7);
    for (int round = 0; round < 20; round++) {
      insert_rewritten(w, spare);
      struct train_batch *batch[2] = {take_unread(w)};
      if (lent == 1) rewrite(w, spare);
      if (lent == 2) batch[1] = take_unread(w);
      for (int k = 0; k < lent; k++) source_release(w->source, batch[k]);
      rewrite(w, spare);
      device_finish(w->m->device);
    }
    ops->release(w->m->device, spare);
    destroy(w);
  }
}

/* Where nothing is due a trainer that still computes goes on with that. */
static void a_take_need_not_wait(void **state) {
  (void)state;
  struct kind kind = {1, 4, 4, 4, 0, 8, 4, 7, 0.5, 1, 1, true, 0};
  struct world *w = create_for_two(&kind);
  assert_null(source_try_take(w->source));
  insert(w, 7);
  assert_null(source_try_take(w->source));
  insert(w, 15);
  assert_true(is_due(w));
  take(w);
  assert_null(source_try_take(w->source));
  release(w, (const double[]){1, 1, 1, 1});
  check_counters(w);
  destroy(w);
}

/* NaN and infinities count as the smallest priority, and are counted; the rest goes on. */
static void what_is_no_number_is_the_smallest_priority(void **state) {
  (void)state;
  struct world *w = create_filled(4, 1, 1);
  take(w);
  release(w, (const double[]){NAN, INFINITY, 3, -INFINITY});
  check_counters(w);
  assert_int_equal(w->not_finite, 3);
  for (int b = 0; b < 50; b++) {
    const struct train_batch *batch = take(w);
    for (int n = 0; n < 4; n++) assert_int_equal(number_of(&batch->window[n]), 2);
    release(w, (const double[]){3, 3, 3, 3});
  }
  destroy(w);
}

/* A trainer that is slow: all windows of its batch are gone when their priorities come. */
static void late_priorities_are_dropped_and_counted(void **state) {
  (void)state;
  struct kind kind = {2, 4, 4, 4, 0, 20, 4, 8, 1, 0.9, 0.6, false, 0};
  struct world *w = create(&kind);
  while (!is_due(w)) step(w, (int)(w->m->draws++ % 2));
  take(w);
  for (int n = 0; n < 30 * 4; n++)
    for (int i = 0; i < 2; i++) step(w, i);
  check_counters(w);
  release(w, (const double[]){1, 2, 3, 4});
  check_counters(w);
  assert_int_equal(w->late, 4);
  destroy(w);
}

/* What is in a batch's priorities is not looked at: a new window's is still 1. */
static void a_uniform_replay_keeps_its_priorities(void **state) {
  (void)state;
  struct kind kind = {2, 4, 4, 4, 0, 20, 4, 8, 1, 0, 0, true, 0};
  is_uniform = true;
  struct world *w = create(&kind);
  is_uniform = false;
  for (int batches = 0; batches < 20;) {
    step(w, (int)(w->m->draws++ % 2));
    if (!is_due(w)) continue;
    take(w);
    ((float *)w->taken->priority.host)[0] = NAN;
    source_release(w->source, w->taken);
    w->taken = NULL;
    batches++;
  }
  check_counters(w);
  assert_true(isnan(metric_mean_since(w->config.updated_priority, &w->updated)));
  destroy(w);
}

/* A slot whose actor has gone: its windows age out, and those of the others take their places. */
static void windows_of_a_dead_slot_age_out(void **state) {
  (void)state;
  struct kind kind = {3, 4, 4, 4, 0, 24, 4, 8, 1, 0.9, 0.6, false, 0};
  struct world *w = create(&kind);
  while (w->inserted < 30)
    for (int i = 0; i < 3; i++) step(w, i);
  for (int n = 0; n < 60 * 4; n++) {
    for (int i = 1; i < 3; i++) step(w, i);
    if (!is_due(w)) continue;
    take(w);
    release(w, (const double[]){1, 1, 1, 1});
  }
  check_counters(w);
  assert_true(count_entries(w) >= kind.spare_pages);
  for (int s = 0; s < pages_num_starts(w->m->pages); s++)
    if (is_there(w, &w->entry[s])) assert_int_not_equal(w->entry[s].window.slot, 0);
  destroy(w);
}

/* ---- how many windows */

/* As many windows as the pages beyond those that may be held can have: so a replay with no more
 * than that to wait for starts. */
static void it_holds_as_many_windows_as_the_options_count_on(void **state) {
  (void)state;
  static const struct kind kinds[] = {
      {3, 4, 4, 4, 0, 20, 3, NEVER, 1, 1, 1, true, 0},
      {4, 6, 2, 8, 2, 9, 4, NEVER, 1, 1, 1, true, 0},
      {2, 8, 4, 13, 9, 12, 8, NEVER, 1, 1, 1, true, 0},
      {5, 32, 1, 1, 0, 2, 2, NEVER, 1, 1, 1, true, 0},
      {3, 4, 4, 4, 0, 20, 3, NEVER, 1, 1, 1, true, 3},
      {4, 6, 2, 8, 2, 9, 4, NEVER, 1, 1, 1, true, 3},
      {3, 8, 2, 7, 0, 9, 4, NEVER, 1, 1, 1, true, 7},
      {2, 8, 4, 13, 9, 12, 8, NEVER, 1, 1, 1, true, 2},
      {3, 32, 1, 1, 0, 2, 2, NEVER, 1, 1, 1, true, 3},
  };
  for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
    struct world *w = create(&kinds[k]);
    const struct pages_config *c = &w->m->config;
    for (int n = 0; n < 2 * c->num_pages * c->page_steps; n++) {
      int i = model_draw(w->m, c->num_slots);
      if (!model_life_is_full(&w->m->slot[i])) step(w, i);
      bool full = n >= c->num_pages * c->page_steps + c->num_slots * c->page_steps;
      int64_t least = kinds[k].spare_pages * c->page_steps / c->stride;
      if (full) assert_true(source_counters(w->source).windows_held >= least);
    }
    destroy(w);
  }
}

/* Nothing is sampled before there are min_windows, then `ratio` for each one that comes: the credit
 * is never more than what one more window gives. */
static void it_samples_as_many_as_the_ratio_asks(void **state) {
  (void)state;
  static const double ratios[] = {0.25, 1, 3, 7.5};
  for (size_t r = 0; r < sizeof(ratios) / sizeof(ratios[0]); r++) {
    struct kind kind = {2, 4, 4, 4, 0, 30, 4, 10, ratios[r], 1, 1, true, 0};
    struct world *w = create(&kind);
    while (w->inserted < (guarded() ? 40 : 400)) {
      step(w, (int)(w->m->draws++ % 2));
      if (w->inserted <= 10) assert_int_equal(w->batches, 0);
      while (is_due(w)) {
        take(w);
        release(w, (const double[]){1, 2, 3, 4});
      }
      assert_true(credit(w) < 4);
    }
    check_counters(w);
    expect_near((double)w->sampled, ratios[r] * (double)(w->inserted - 10),
                4. / (double)w->sampled);
    destroy(w);
  }
}

/* ---- what must not be done */

static void misuse(void *subject, int what) {
  struct world *w = subject;
  take(w);
  source_release(w->source, what == 1 ? NULL : w->taken);
  if (what == 2) source_release(w->source, w->taken);
}

/* Takes a third batch, or gives the second one back before the first. */
static void misuse_of_two(void *subject, int what) {
  struct world *w = subject;
  take(w);
  if (what == 0) return;
  take(w);
  if (what == 1) take(w);
  if (what == 2) source_release(w->source, w->taken);
}

/* A replay whose priorities leave `what` steps of a window out. */
static void create_other(void *subject, int what) {
  struct world *w = subject;
  struct replay_config config = w->config;
  config.priority.T -= what;
  source_destroy(replay_create(w->gathering, w->m->device, w->m->pages, &config));
}

static void misuse_is_a_check(void **state) {
  (void)state;
  struct world *w = create_filled(2, 1, 1);
  assert_false(aborts(misuse, w, 0));
  assert_true(aborts(misuse, w, 1));
  assert_true(aborts(misuse, w, 2));
  assert_false(aborts(create_other, w, 0));
  assert_true(aborts(create_other, w, 1));
  destroy(w);
  struct kind kind = {1, 4, 4, 4, 0, 8, 4, 7, 1e6, 1, 1, true, 0};
  w = create_for_two(&kind);
  insert(w, 8);
  for (int what = 0; what < 3; what++) assert_int_equal(aborts(misuse_of_two, w, what), what > 0);
  destroy(w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(it_is_the_model_under_random_schedules),
      cmocka_unit_test(probabilities_and_weights_are_those_of_the_paper),
      cmocka_unit_test(importance_moves_with_the_run),
      cmocka_unit_test(a_large_priority_of_the_past_is_forgotten),
      cmocka_unit_test(the_seed_says_which_windows_are_drawn),
      cmocka_unit_test(a_window_may_be_drawn_more_than_once),
      cmocka_unit_test(a_second_batch_may_be_lent),
      cmocka_unit_test(the_streams_wait_for_each_other),
      cmocka_unit_test(a_take_need_not_wait),
      cmocka_unit_test(what_is_no_number_is_the_smallest_priority),
      cmocka_unit_test(late_priorities_are_dropped_and_counted),
      cmocka_unit_test(a_uniform_replay_keeps_its_priorities),
      cmocka_unit_test(windows_of_a_dead_slot_age_out),
      cmocka_unit_test(it_holds_as_many_windows_as_the_options_count_on),
      cmocka_unit_test(it_samples_as_many_as_the_ratio_asks),
      cmocka_unit_test(misuse_is_a_check),
  };
  /* Steps are filed by one stream and gathered by another. */
  const struct CMUnitTest between_streams[] = {
      cmocka_unit_test(it_is_the_model_under_random_schedules),
      cmocka_unit_test(a_second_batch_may_be_lent),
      cmocka_unit_test(the_streams_wait_for_each_other),
  };
  int failed = 0;
  static const char *const devices[] = {"ref", "guarded"};
  for (int i = 0; i < 2; i++) {
    device_name = devices[i];
    failed += cmocka_run_group_tests_name(device_name, tests, NULL, NULL);
  }
  emulated_cuda_use();
  device_name = "cuda";
  return failed + cmocka_run_group_tests_name(device_name, between_streams, NULL, NULL);
}
