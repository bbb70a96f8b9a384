#include "learner/experience/fifo.h"

#include <pthread.h>
#include <stdlib.h>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "learner/experience/wait_time.h"

enum { MAX_BATCHES = 3 };

struct fifo {
  struct source source;      /* first: what others see of it */
  struct fifo_config config; /* read-only after create */
  struct device *device, *trainer;

  int waiting; /* inference's: the open batch's last windows, which are to be gathered together */

  pthread_mutex_t lock;
  pthread_cond_t room;      /* the trainer gave a batch back, or closed: inference waits on it */
  pthread_cond_t ready_now; /* a batch is full, or closed: the trainer waits on it */

  /* guarded by lock. A ring of batches: those that are lent, those that are ready, the open one,
   * and then the free ones. */
  struct train_batch *batch[MAX_BATCHES];
  uint64_t gathered[MAX_BATCHES]; /* marks of the device behind their last gathers */
  int num_batches;
  int first; /* the oldest that is not free */
  int lent, ready;
  bool closed, interrupted;
  int64_t taken_us; /* when the trainer took its newest batch */
  int64_t windows_given, windows_dropped_lag, batches_taken;
  struct wait_time give_wait, take_wait;
};

static struct fifo *fifo_of(struct source *source) {
  return (struct fifo *)source;
}

static void destroy(struct source *source) {
  struct fifo *fifo = fifo_of(source);
  for (int i = 0; i < fifo->num_batches; i++) train_batch_destroy(fifo->device, fifo->batch[i]);
  pthread_cond_destroy(&fifo->ready_now);
  pthread_cond_destroy(&fifo->room);
  pthread_mutex_destroy(&fifo->lock);
  free(fifo);
}

/* ---- under the lock */

static bool is_full(const struct train_batch *batch) {
  return batch->num_windows == batch->N;
}

/* The batch behind `count` others that are not free. */
static int at(const struct fifo *fifo, int count) {
  return (fifo->first + count) % fifo->num_batches;
}

/* Inference's to fill, outside the lock too, until it is full. */
static struct train_batch *open_batch(const struct fifo *fifo) {
  return fifo->batch[at(fifo, fifo->lent + fifo->ready)];
}

/* A full open batch goes to the trainer as soon as the next one is back. */
static void open_next_if_possible(struct fifo *fifo) {
  bool is_last = fifo->lent + fifo->ready == fifo->num_batches - 1;
  if (!is_full(open_batch(fifo)) || is_last) return;
  fifo->ready++;
  open_batch(fifo)->num_windows = 0;
  pthread_cond_signal(&fifo->ready_now);
}

/* ---- inference's side */

/* The open batch with room for a window; NULL once closed. */
static struct train_batch *wait_for_room(struct fifo *fifo) {
  pthread_mutex_lock(&fifo->lock);
  while (!fifo->closed && is_full(open_batch(fifo))) {
    wait_time_begin(&fifo->give_wait);
    pthread_cond_wait(&fifo->room, &fifo->lock);
  }
  wait_time_end(&fifo->give_wait, fifo->config.give_wait_us);
  struct train_batch *batch = fifo->closed ? NULL : open_batch(fifo);
  pthread_mutex_unlock(&fifo->lock);
  return batch;
}

/* Gathers the windows that wait for it, in one operation, and releases them. While there are any
 * the open batch is not full, and stays the open one. */
static void gather_waiting(struct fifo *fifo, struct pages *pages, struct train_batch *batch,
                           int end) {
  struct window *window = &batch->window[end - fifo->waiting];
  pages_gather(pages, fifo->device, batch, end - fifo->waiting, window, fifo->waiting);
  for (int k = 0; k < fifo->waiting; k++) pages_release(pages, &window[k]);
  fifo->waiting = 0;
  uint64_t gathered = fifo->device->ops->mark(fifo->device);
  pthread_mutex_lock(&fifo->lock);
  fifo->gathered[at(fifo, fifo->lent + fifo->ready)] = gathered;
  pthread_mutex_unlock(&fifo->lock);
}

/* Counts a window. Returns whether it filled the batch. */
static bool add_window(struct fifo *fifo, struct train_batch *batch) {
  pthread_mutex_lock(&fifo->lock);
  fifo->windows_given++;
  batch->num_windows++;
  bool full = is_full(batch);
  open_next_if_possible(fifo);
  pthread_mutex_unlock(&fifo->lock);
  return full;
}

/* Version of the parameters that chose the action of step t of the window. */
static int64_t version_of(const struct pages *pages, const struct window *window, int t) {
  return step_stamp_version(pages_rows(pages)->stamp[pages_row(pages, window, t)]);
}

static bool is_too_old(const struct fifo *fifo, const struct pages *pages,
                       const struct window *window, int64_t current_version) {
  const struct fifo_config *config = &fifo->config;
  if (config->synchronous && version_of(pages, window, config->T - 1) < current_version)
    return true;
  return config->max_lag > 0 && current_version - version_of(pages, window, 0) > config->max_lag;
}

static void drop(struct fifo *fifo, struct pages *pages, const struct window *window) {
  pages_release(pages, window);
  pthread_mutex_lock(&fifo->lock);
  fifo->windows_dropped_lag++;
  pthread_mutex_unlock(&fifo->lock);
}

static bool give(struct source *source, struct pages *pages, const struct window *window,
                 int64_t current_version) {
  struct fifo *fifo = fifo_of(source);
  if (is_too_old(fifo, pages, window, current_version)) {
    drop(fifo, pages, window);
    return false;
  }
  struct train_batch *batch = wait_for_room(fifo);
  if (!batch) {
    pages_release(pages, window);
    return false;
  }
  /* On the host's own time a gather is best done while the steps are in its caches. */
  int end = batch->num_windows + 1;
  bool waits = fifo->device->ops->asynchronous && end < batch->N;
  batch->window[end - 1] = *window;
  fifo->waiting++;
  if (!waits) gather_waiting(fifo, pages, batch, end);
  return add_window(fifo, batch);
}

static void flush(struct source *source, struct pages *pages) {
  struct fifo *fifo = fifo_of(source);
  if (!fifo->waiting) return;
  pthread_mutex_lock(&fifo->lock);
  struct train_batch *batch = open_batch(fifo);
  pthread_mutex_unlock(&fifo->lock);
  gather_waiting(fifo, pages, batch, batch->num_windows);
}

static void drain(struct source *source) {
  struct fifo *fifo = fifo_of(source);
  pthread_mutex_lock(&fifo->lock);
  while (!fifo->closed && fifo->lent + fifo->ready > 0) {
    wait_time_begin(&fifo->give_wait);
    pthread_cond_wait(&fifo->room, &fifo->lock);
  }
  wait_time_end(&fifo->give_wait, fifo->config.give_wait_us);
  pthread_mutex_unlock(&fifo->lock);
}

/* ---- the trainer's side */

static struct train_batch *take(struct source *source, int64_t wait_us) {
  struct fifo *fifo = fifo_of(source);
  struct train_batch *batch = NULL;
  uint64_t gathered = 0;
  bool waits = wait_us > 0;
  int64_t end_us = waits ? wait_time_end_us(wait_us) : 0;
  pthread_mutex_lock(&fifo->lock);
  while (waits && !fifo->closed && !fifo->interrupted && !fifo->ready) {
    wait_time_begin(&fifo->take_wait);
    if (!wait_time_for(&fifo->ready_now, &fifo->lock, end_us)) break;
  }
  if (waits) wait_time_end(&fifo->take_wait, fifo->config.take_wait_us);
  if (!fifo->closed && fifo->ready) {
    CHECK(fifo->lent < fifo->num_batches - 1, "%d batches are lent", fifo->lent);
    batch = fifo->batch[at(fifo, fifo->lent)];
    gathered = fifo->gathered[at(fifo, fifo->lent)];
    fifo->lent++;
    fifo->ready--;
    fifo->taken_us = clock_now_us();
    fifo->batches_taken++;
  }
  pthread_mutex_unlock(&fifo->lock);
  if (batch) fifo->trainer->ops->follow(fifo->trainer, fifo->device, gathered);
  return batch;
}

static void release(struct source *source, struct train_batch *batch) {
  struct fifo *fifo = fifo_of(source);
  pthread_mutex_lock(&fifo->lock);
  CHECK(fifo->lent > 0 && batch == fifo->batch[fifo->first], "a batch that was not taken");
  fifo->first = at(fifo, 1);
  fifo->lent--;
  open_next_if_possible(fifo);
  pthread_cond_signal(&fifo->room);
  pthread_mutex_unlock(&fifo->lock);
}

/* ---- any thread */

static void close_waits(struct source *source) {
  struct fifo *fifo = fifo_of(source);
  pthread_mutex_lock(&fifo->lock);
  fifo->closed = true;
  pthread_cond_broadcast(&fifo->room);
  pthread_cond_broadcast(&fifo->ready_now);
  pthread_mutex_unlock(&fifo->lock);
}

static void interrupt(struct source *source, bool on) {
  struct fifo *fifo = fifo_of(source);
  pthread_mutex_lock(&fifo->lock);
  fifo->interrupted = on;
  if (on) pthread_cond_broadcast(&fifo->ready_now);
  pthread_mutex_unlock(&fifo->lock);
}

static struct source_counters counters(struct source *source) {
  struct fifo *fifo = fifo_of(source);
  pthread_mutex_lock(&fifo->lock);
  int64_t now_us = clock_now_us();
  struct source_counters counters_now = {
      .windows_given = fifo->windows_given,
      .windows_dropped_lag = fifo->windows_dropped_lag,
      .batches_taken = fifo->batches_taken,
      .give_wait_us = wait_time_total(&fifo->give_wait, now_us),
      .take_wait_us = wait_time_total(&fifo->take_wait, now_us),
      .busy_us = fifo->lent ? now_us - fifo->taken_us : 0,
      .open_windows = open_batch(fifo)->num_windows,
      .full = fifo->give_wait.since_us != 0 && is_full(open_batch(fifo)),
  };
  pthread_mutex_unlock(&fifo->lock);
  return counters_now;
}

/* ---- the table */

static const struct source_ops FIFO = {.destroy = destroy,
                                       .give = give,
                                       .flush = flush,
                                       .drain = drain,
                                       .take = take,
                                       .release = release,
                                       .close = close_waits,
                                       .interrupt = interrupt,
                                       .counters = counters};

struct source *fifo_create(struct device *device, struct device *trainer,
                           const struct fifo_config *config) {
  struct fifo *fifo = check_alloc(1, sizeof(*fifo));
  *fifo = (struct fifo){.source = {&FIFO}, .config = *config, .device = device, .trainer = trainer};
  fifo->num_batches = 1 + (config->lent_at_once ? config->lent_at_once : 1);
  CHECK(fifo->num_batches <= MAX_BATCHES, "%d batches lent at once", config->lent_at_once);
  for (int i = 0; i < fifo->num_batches; i++)
    fifo->batch[i] = train_batch_create(device, config->T, config->N, &config->shape);
  pthread_mutex_init(&fifo->lock, NULL);
  pthread_cond_init(&fifo->room, NULL);
  pthread_cond_init(&fifo->ready_now, NULL);
  return &fifo->source;
}
