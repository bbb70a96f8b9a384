#include "learner/experience/replay.h"

#include <math.h>
#include <stdlib.h>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "learner/device/shared.h"
#include "learner/experience/replay_file.h"
#include "learner/experience/sum_tree.h"
#include "learner/experience/wait_time.h"

/* A priority is at least this, so that every window can be drawn, and so that a leaf is above 0
 * exactly where there is one; and at most that, so that sums stay finite. */
static const double SMALLEST = 1e-6, LARGEST = 1e12;

/* Of the largest priority with each batch: errors of the first batches, which can be many times as
 * large as all later ones, are forgotten over some thousand batches. */
static const double DECAY = 0.999;

enum { MAX_LENT = 2 };

struct replay {
  struct source source;        /* first: what others see of it */
  struct replay_config config; /* read-only after create, as are the pointers */
  struct device *gathering, *filing;
  struct pages *pages;
  pthread_mutex_t *lock;               /* the pages' */
  pthread_cond_t room, ready;          /* inference waits for room, the trainer for windows */
  struct train_batch *batch[MAX_LENT]; /* the trainer's while they are lent */
  int num_batches;
  struct train_batch *pinned; /* the trainer's: its windows are, until `gathered`; NULL: none are */
  uint64_t gathered;          /* mark of the gathering device */
  int64_t *leaf;              /* (N) of the batch, and what is set there: the trainer's */
  double *value;
  float *step_value, *step_best, *step_reward; /* (T+1) of a window that closes: inference's */
  uint8_t *step_flags;
  struct pages_file *file;   /* NULL: it is not saved, as the next */
  double *captured;          /* (starts) see replay_file.h */
  struct replay_parts image; /* what is saved, from capture on: of the thread that saves */
  uint64_t image_filed;      /* as filed, of it */

  /* guarded by lock */
  struct sum_tree *tree; /* a leaf for each start of the pages */
  bool closed, interrupted, started;
  int lent, first;           /* batches, and the oldest of them */
  bool draining;             /* inference waits for all batches that are due */
  double largest;            /* priority of late */
  int64_t inserted, sampled; /* windows */
  int64_t inserted_before;   /* sampling started */
  int64_t batches, late, not_finite;
  int64_t taken_us; /* when the trainer took its newest batch */
  uint64_t filed;   /* mark of the filing device behind the windows in the tree */
  struct wait_time give_wait, take_wait;
};

static struct replay *replay_of(struct source *source) {
  return (struct replay *)source;
}

/* ---- the rate. Under the lock */

double replay_least_band(int N, double ratio, int closing) {
  return N + ratio * (1 + closing);
}

/* Windows that may be sampled for those that came, and have not been yet. */
static double credit(const struct replay *replay) {
  return replay->config.ratio * (double)(replay->inserted - replay->inserted_before) -
         (double)replay->sampled;
}

static bool may_insert(const struct replay *replay) {
  return !replay->started || credit(replay) + replay->config.ratio <= replay->config.band;
}

/* A batch is due. */
static bool is_due(const struct replay *replay) {
  return replay->started && credit(replay) >= replay->config.N && sum_tree_count(replay->tree) > 0;
}

static bool may_sample(const struct replay *replay) {
  return is_due(replay) && (replay->draining || !replay->config.lockstep);
}

static void start_if_filled(struct replay *replay) {
  if (replay->started || sum_tree_count(replay->tree) < replay->config.min_windows) return;
  replay->started = true;
  replay->inserted_before = replay->inserted;
}

/* ---- priorities. Under the lock */

/* The value of a leaf; NaN and infinity count as the smallest priority. metric: of priorities. */
static double leaf_value(struct replay *replay, double priority, struct metric *metric) {
  if (!isfinite(priority)) {
    replay->not_finite++;
    priority = SMALLEST;
  }
  priority = fmin(fmax(priority, SMALLEST), LARGEST);
  metric_observe(metric, priority);
  replay->largest = fmax(replay->largest, priority);
  return pow(priority, replay->config.exponent);
}

/* Windows that are gone as a page of theirs is reused. */
static void forget(void *context, int32_t first, int count) {
  struct replay *replay = context;
  for (int i = 0; i < count; i++) sum_tree_set(replay->tree, first + i, 0);
}

/* ---- inference's side */

/* From what was kept of its steps while it was played. */
static float own_priority(struct replay *replay, const struct window *window) {
  const struct pages_rows *rows = pages_rows(replay->pages);
  int width = 1 + rows->pool.statistics, steps = replay->config.priority.T;
  for (int t = 0; t <= steps; t++) {
    int64_t row = pages_row(replay->pages, window, replay->config.burn_in + t);
    const float *trail = rows->trail + row * width;
    replay->step_reward[t] = trail[0];
    replay->step_value[t] = trail[1];
    replay->step_best[t] = trail[2];
    replay->step_flags[t] = step_stamp_flags(rows->stamp[row]);
  }
  return td_priority(&replay->config.priority, replay->step_value, replay->step_best,
                     replay->step_reward, replay->step_flags);
}

static void insert(struct replay *replay, const struct window *window, double priority) {
  if (replay->config.initial_max) priority = replay->largest > 0 ? replay->largest : 1;
  double value = leaf_value(replay, priority, replay->config.initial_priority);
  sum_tree_set(replay->tree, window->start, value);
  replay->inserted++;
  replay->filed = replay->filing->ops->mark(replay->filing);
  start_if_filled(replay);
}

/* Until all batches that are due are drawn and given back. */
static void wait_for_due(struct replay *replay) {
  replay->draining = true;
  pthread_cond_signal(&replay->ready);
  while (!replay->closed && (replay->lent || is_due(replay))) {
    wait_time_begin(&replay->give_wait);
    pthread_cond_wait(&replay->room, replay->lock);
  }
  replay->draining = false;
}

/* In lockstep drains leave room, but a run that is resumed can begin further behind than its band,
 * and the trainer draws only during a drain. */
static void wait_for_room(struct replay *replay) {
  if (replay->config.lockstep && !may_insert(replay)) wait_for_due(replay);
  while (!replay->closed && !may_insert(replay)) {
    wait_time_begin(&replay->give_wait);
    pthread_cond_wait(&replay->room, replay->lock);
  }
}

static bool give(struct source *source, struct pages *pages, const struct window *window,
                 int64_t current_version) {
  (void)current_version;
  struct replay *replay = replay_of(source);
  double priority = replay->config.initial_max ? 0 : own_priority(replay, window);
  pthread_mutex_lock(replay->lock);
  wait_for_room(replay);
  wait_time_end(&replay->give_wait, replay->config.give_wait_us);
  if (!replay->closed) insert(replay, window, priority);
  bool due = !replay->closed && is_due(replay);
  if (due) pthread_cond_signal(&replay->ready);
  pthread_mutex_unlock(replay->lock);
  pages_release(pages, window);
  return due;
}

static void drain(struct source *source) {
  struct replay *replay = replay_of(source);
  pthread_mutex_lock(replay->lock);
  wait_for_due(replay);
  wait_time_end(&replay->give_wait, replay->config.give_wait_us);
  pthread_mutex_unlock(replay->lock);
}

/* ---- the trainer's side */

/* In [0, 1), the same for the same batch and column. */
static double uniform(const struct replay *replay, int column) {
  uint64_t batch = (uint64_t)replay->batches;
  uint64_t bits = random_bits(replay->config.seed, (uint32_t)(batch >> 32), (uint32_t)batch,
                              (uint32_t)column, RANDOM_SAMPLE);
  return (double)(bits >> 11) * 0x1p-53;
}

/* One position in each of N equal parts of the total: proportional, with less variance. */
static void draw_leaves(struct replay *replay) {
  int N = replay->config.N;
  double total = sum_tree_total(replay->tree), *position = replay->value;
  for (int n = 0; n < N; n++) {
    double at = total * ((n + uniform(replay, n)) / N);
    position[n] = at < total ? at : nextafter(total, 0);
  }
  sum_tree_find_many(replay->tree, replay->leaf, position, N);
}

static double importance_now(const struct replay_config *config) {
  if (!config->share_done) return config->importance;
  double share = fmin(config->share_done(config->context), 1);
  return config->importance + share * (config->importance_end - config->importance);
}

/* The weights correct for what is drawn too often: (n P)^-importance, over the batch's largest. */
static void set_weights(struct replay *replay, const struct train_batch *batch) {
  float *weight = batch->weight.host;
  double least = INFINITY, importance = importance_now(&replay->config);
  for (int n = 0; n < replay->config.N; n++) {
    replay->value[n] = sum_tree_get(replay->tree, replay->leaf[n]);
    least = fmin(least, replay->value[n]);
  }
  for (int n = 0; n < replay->config.N; n++)
    weight[n] = (float)pow(least / replay->value[n], importance);
}

/* By the pages that were begun since the window's. */
static void measure_age(const struct replay *replay, const struct window *window) {
  uint64_t pages = pages_begun(replay->pages) - window->generation;
  int steps = pages_config(replay->pages)->page_steps;
  metric_observe(replay->config.window_age_steps, (double)pages * steps);
}

/* Draws a batch and pins its windows; inference may have room now. */
static struct train_batch *sample(struct replay *replay) {
  CHECK(replay->lent < replay->num_batches, "%d batches are lent", replay->lent);
  struct train_batch *batch = replay->batch[(replay->first + replay->lent) % replay->num_batches];
  draw_leaves(replay);
  set_weights(replay, batch);
  for (int n = 0; n < replay->config.N; n++) {
    struct window *window = &batch->window[n];
    CHECK(pages_find(replay->pages, (int32_t)replay->leaf[n], window),
          "the tree has a window at start %lld that is gone", (long long)replay->leaf[n]);
    pages_pin(replay->pages, window);
    measure_age(replay, window);
  }
  replay->sampled += replay->config.N;
  replay->batches++;
  replay->lent++;
  replay->taken_us = clock_now_us();
  pthread_cond_signal(&replay->room);
  return batch;
}

/* Pages are pinned until the device has read them, not for as long as the trainer computes. */
static void unpin(struct replay *replay) {
  struct train_batch *batch = replay->pinned;
  if (!batch) return;
  replay->gathering->ops->wait(replay->gathering, replay->gathered);
  pthread_mutex_lock(replay->lock);
  for (int n = 0; n < replay->config.N; n++) pages_unpin(replay->pages, &batch->window[n]);
  pthread_mutex_unlock(replay->lock);
  replay->pinned = NULL;
}

/* Where a second batch may be lent, the trainer has an update to start now, and what is behind it
 * can wait: until the next take or release. */
static void gather(struct replay *replay, struct train_batch *batch, uint64_t filed) {
  const struct device_ops *ops = replay->gathering->ops;
  ops->follow(replay->gathering, replay->filing, filed);
  pages_gather(replay->pages, replay->gathering, batch, 0, batch->window, batch->N);
  batch->num_windows = batch->N;
  device_shared_upload(replay->gathering, &batch->weight);
  replay->pinned = batch;
  replay->gathered = ops->mark(replay->gathering);
  if (replay->num_batches == 1) unpin(replay);
}

static struct train_batch *take(struct source *source, int64_t wait_us) {
  struct replay *replay = replay_of(source);
  unpin(replay);
  bool waits = wait_us > 0;
  int64_t end_us = waits ? wait_time_end_us(wait_us) : 0;
  pthread_mutex_lock(replay->lock);
  while (waits && !replay->closed && !replay->interrupted && !may_sample(replay)) {
    wait_time_begin(&replay->take_wait);
    if (!wait_time_for(&replay->ready, replay->lock, end_us)) break;
  }
  if (waits) wait_time_end(&replay->take_wait, replay->config.take_wait_us);
  bool taken = !replay->closed && may_sample(replay);
  struct train_batch *batch = taken ? sample(replay) : NULL;
  uint64_t filed = replay->filed;
  pthread_mutex_unlock(replay->lock);
  if (batch) gather(replay, batch, filed);
  return batch;
}

/* Windows that are still there get their new priorities. */
static void update_priorities(struct replay *replay, const struct train_batch *batch) {
  const float *priority = batch->priority.host;
  int count = 0;
  replay->largest *= DECAY;
  for (int n = 0; n < batch->N; n++) {
    if (!pages_has(replay->pages, &batch->window[n])) {
      replay->late++;
      continue;
    }
    replay->leaf[count] = batch->window[n].start;
    replay->value[count++] = leaf_value(replay, priority[n], replay->config.updated_priority);
  }
  sum_tree_set_many(replay->tree, replay->leaf, replay->value, count);
}

static void release(struct source *source, struct train_batch *batch) {
  struct replay *replay = replay_of(source);
  if (batch == replay->pinned) unpin(replay);
  pthread_mutex_lock(replay->lock);
  CHECK(replay->lent && batch == replay->batch[replay->first], "a batch that was not taken");
  if (!replay->config.uniform) update_priorities(replay, batch);
  replay->lent--;
  replay->first = (replay->first + 1) % replay->num_batches;
  pthread_cond_signal(&replay->room);
  pthread_mutex_unlock(replay->lock);
}

/* ---- between runs */

static struct replay_parts parts_of(const struct replay *replay) {
  return (struct replay_parts){.pages = replay->pages,
                               .file = replay->file,
                               .tree = replay->tree,
                               .leaf = replay->captured,
                               .real_bytes = replay->gathering->ops->real_bytes,
                               .exponent = replay->config.exponent,
                               .ratio = replay->config.ratio,
                               .least_priority = SMALLEST,
                               .most_priority = LARGEST,
                               .counts = {.started = replay->started,
                                          .inserted = replay->inserted,
                                          .sampled = replay->sampled,
                                          .inserted_before = replay->inserted_before,
                                          .batches = replay->batches,
                                          .late = replay->late,
                                          .not_finite = replay->not_finite,
                                          .largest = replay->largest}};
}

static void capture(struct source *source) {
  struct replay *replay = replay_of(source);
  pthread_mutex_lock(replay->lock);
  CHECK(!replay->lent, "a batch is lent");
  replay->image = parts_of(replay);
  replay->image_filed = replay->filed;
  replay_file_capture(&replay->image);
  pthread_mutex_unlock(replay->lock);
}

static enum status save(struct source *source, struct block_writer *writer, struct error *error) {
  struct replay *replay = replay_of(source);
  replay->filing->ops->wait(replay->filing, replay->image_filed);
  bool whole = replay_file_save(&replay->image, writer);
  enum status status = block_writer_flush(writer, error);
  if (whole || status != STATUS_OK) return status;
  block_writer_drop(writer);
  return status_fail(error, STATUS_DONE, "the run ended before its replay was saved");
}

static void let_go(struct source *source) {
  struct replay *replay = replay_of(source);
  pthread_mutex_lock(replay->lock);
  pages_end_image(replay->pages);
  pthread_mutex_unlock(replay->lock);
}

static enum status load(struct source *source, struct block_reader *reader, struct error *error) {
  struct replay *replay = replay_of(source);
  struct replay_parts parts = parts_of(replay);
  enum status status = replay_file_load(&parts, reader, error);
  if (status != STATUS_OK) return status;
  const struct replay_counts *counts = &parts.counts;
  replay->started = counts->started;
  replay->inserted = counts->inserted;
  replay->sampled = counts->sampled;
  replay->inserted_before = counts->inserted_before;
  replay->batches = counts->batches;
  replay->late = counts->late;
  replay->not_finite = counts->not_finite;
  replay->largest = counts->largest;
  return STATUS_OK;
}

/* ---- any thread */

static void close_waits(struct source *source) {
  struct replay *replay = replay_of(source);
  pthread_mutex_lock(replay->lock);
  replay->closed = true;
  pages_end_image(replay->pages);
  pthread_cond_broadcast(&replay->room);
  pthread_cond_broadcast(&replay->ready);
  pthread_mutex_unlock(replay->lock);
}

static void interrupt(struct source *source, bool on) {
  struct replay *replay = replay_of(source);
  pthread_mutex_lock(replay->lock);
  replay->interrupted = on;
  if (on) pthread_cond_broadcast(&replay->ready);
  pthread_mutex_unlock(replay->lock);
}

static struct source_counters counters(struct source *source) {
  struct replay *replay = replay_of(source);
  pthread_mutex_lock(replay->lock);
  int64_t now_us = clock_now_us();
  struct wait_time saving = pages_image_wait(replay->pages);
  struct source_counters counters_now = {
      .windows_given = replay->inserted,
      .batches_taken = replay->batches,
      .give_wait_us = wait_time_total(&replay->give_wait, now_us),
      .take_wait_us = wait_time_total(&replay->take_wait, now_us),
      .busy_us = replay->lent ? now_us - replay->taken_us : 0,
      .full = replay->give_wait.since_us != 0,
      .replays = true,
      .windows_held = sum_tree_count(replay->tree),
      .windows_needed = replay->config.min_windows,
      .windows_sampled = replay->sampled,
      .windows_since = replay->started ? replay->inserted - replay->inserted_before : 0,
      .priorities_late = replay->late,
      .priorities_not_finite = replay->not_finite,
      .saving_us = saving.since_us ? now_us - saving.since_us : 0,
      .saving_wait_us = wait_time_total(&saving, now_us),
  };
  pthread_mutex_unlock(replay->lock);
  return counters_now;
}

/* ---- made */

static void destroy(struct source *source) {
  struct replay *replay = replay_of(source);
  pages_on_reuse(replay->pages, NULL, NULL);
  for (int i = 0; i < replay->num_batches; i++)
    train_batch_destroy(replay->gathering, replay->batch[i]);
  sum_tree_destroy(replay->tree);
  pages_file_destroy(replay->file);
  free(replay->captured);
  pthread_cond_destroy(&replay->ready);
  pthread_cond_destroy(&replay->room);
  free(replay->leaf);
  free(replay->value);
  free(replay->step_value);
  free(replay->step_best);
  free(replay->step_reward);
  free(replay->step_flags);
  free(replay);
}

static const struct source_ops REPLAY = {.destroy = destroy,
                                         .give = give,
                                         .drain = drain,
                                         .take = take,
                                         .release = release,
                                         .close = close_waits,
                                         .interrupt = interrupt,
                                         .counters = counters,
                                         .capture = capture,
                                         .save = save,
                                         .let_go = let_go,
                                         .load = load};

struct source *replay_create(struct device *gathering, struct device *filing, struct pages *pages,
                             const struct replay_config *config) {
  const struct pages_config *shape = pages_config(pages);
  CHECK(shape->replays && (config->initial_max || shape->shape.statistics == 2),
        "pages that do not replay");
  CHECK(config->burn_in + config->priority.T == shape->window_steps,
        "a burn-in of %d and %d steps in windows of %d", config->burn_in, config->priority.T,
        shape->window_steps);
  struct replay *replay = check_alloc(1, sizeof(*replay));
  *replay = (struct replay){.source = {&REPLAY},
                            .config = *config,
                            .gathering = gathering,
                            .filing = filing,
                            .pages = pages,
                            .lock = pages_lock(pages)};
  size_t steps = (size_t)shape->window_steps + 1, N = (size_t)config->N;
  replay->num_batches = config->lent_at_once ? config->lent_at_once : 1;
  CHECK(replay->num_batches <= MAX_LENT, "%d batches lent at once", replay->num_batches);
  for (int i = 0; i < replay->num_batches; i++) {
    replay->batch[i] = train_batch_create(gathering, shape->window_steps, config->N, &shape->shape);
    if (config->next_states) train_batch_keep_next(gathering, replay->batch[i], shape->stride);
  }
  replay->tree = sum_tree_create(pages_num_starts(pages));
  replay->leaf = check_alloc(N, sizeof(*replay->leaf));
  replay->value = check_alloc(N, sizeof(*replay->value));
  replay->step_value = check_alloc(steps, sizeof(*replay->step_value));
  replay->step_best = check_alloc(steps, sizeof(*replay->step_best));
  replay->step_reward = check_alloc(steps, sizeof(*replay->step_reward));
  replay->step_flags = check_alloc(steps, sizeof(*replay->step_flags));
  if (config->saving) {
    replay->file = pages_file_create(pages, config->saving, config->inputs);
    replay->captured = check_alloc((size_t)pages_num_starts(pages), sizeof(*replay->captured));
    sum_tree_get_all(replay->tree, replay->captured); /* touches it */
  }
  pthread_cond_init(&replay->room, NULL);
  pthread_cond_init(&replay->ready, NULL);
  pages_on_reuse(pages, forget, replay);
  return &replay->source;
}
