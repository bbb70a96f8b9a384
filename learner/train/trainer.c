#include "learner/train/trainer.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/thread.h"
#include "learner/train/peers.h"

enum save_state { SAVE_NONE, SAVE_REQUESTED, SAVE_FILLED };

struct trainer {
  struct trainer_config config; /* read-only after create */
  struct device *device;
  struct update *update;
  struct source *source;
  struct weights *weights;
  struct progress *progress;
  pthread_t thread;
  int64_t busy_since_us; /* trainer's: since when the update that runs is the oldest */

  _Atomic int save_state; /* enum save_state: the buffer is the trainer's until FILLED, then main's
                             until NONE */
  int64_t counter[TRAINER_COUNTERS];       /* trainer's */
  int64_t saved_counter[TRAINER_COUNTERS]; /* in the buffer */
  int64_t saved_updates;
  pixel *images;      /* (TRAINER_IMAGES, numbers of one); NULL: none are wanted */
  float *saved_image; /* the same in the buffer */
  struct trainer_images saved_images;

  /* With other learners; the trainer's. */
  struct train_batch *held; /* taken, and not trained on yet */
  bool starved;             /* the last update was without a batch of its own */
  int64_t others;           /* steps of the others, and of all before a resume, in the progress */
  int64_t others_episodes;  /* as others */
  int64_t all_steps;        /* of all learners, as all know it */

  struct access access; /* from outside, between two updates */

  pthread_mutex_t lock; /* guards report */
  struct trainer_report report;
};

static void publish(struct trainer *trainer) {
  weights_publish(trainer->weights, trainer->device, update_parameters(trainer->update),
                  update_version(trainer->update));
}

struct trainer *trainer_create(const struct trainer_config *config, struct device *device,
                               struct update *update, struct source *source,
                               struct weights *weights, struct progress *progress) {
  struct trainer *trainer = check_alloc(1, sizeof(*trainer));
  *trainer = (struct trainer){.config = *config,
                              .device = device,
                              .update = update,
                              .source = source,
                              .weights = weights,
                              .progress = progress};
  pthread_mutex_init(&trainer->lock, NULL);
  access_init(&trainer->access, source);
  if (config->images) {
    size_t numbers = TRAINER_IMAGES * update_image_numbers(update);
    trainer->images = device->ops->alloc(device, numbers * device->ops->pixel_bytes);
    trainer->saved_image = check_alloc(numbers, sizeof(*trainer->saved_image));
  }
  publish(trainer);
  return trainer;
}

void trainer_destroy(struct trainer *trainer) {
  if (!trainer) return;
  pthread_mutex_destroy(&trainer->lock);
  access_deinit(&trainer->access);
  if (trainer->images) trainer->device->ops->release(trainer->device, trainer->images);
  free(trainer->saved_image);
  free(trainer);
}

static void fill_save(struct trainer *trainer) {
  trainer->counter[TRAINER_STEPS] = progress_steps(trainer->progress);
  trainer->counter[TRAINER_EPISODES] = progress_episodes(trainer->progress);
  update_save(trainer->update);
  memcpy(trainer->saved_counter, trainer->counter, sizeof(trainer->counter));
  trainer->saved_updates = update_version(trainer->update);
}

static void save_images(struct trainer *trainer, const struct train_batch *batch) {
  if (!trainer->images || batch->blank) return;
  int count = update_images(trainer->update, trainer->images, batch, TRAINER_IMAGES);
  device_download_pixels(trainer->device, trainer->saved_image, trainer->images,
                         (size_t)count * update_image_numbers(trainer->update));
  trainer->saved_images =
      (struct trainer_images){trainer->saved_image, count, update_version(trainer->update)};
}

/* At a step border: a checkpoint buffer, if one was asked for. Images also after the first update,
 * for a run that ends before a checkpoint is due; main does not read the buffer yet. Returns
 * whether the buffer was filled. */
static bool fill_if_requested(struct trainer *trainer, const struct train_batch *batch) {
  bool requested = atomic_load(&trainer->save_state) == SAVE_REQUESTED;
  if (requested || trainer->saved_images.count == 0) save_images(trainer, batch);
  if (requested) fill_save(trainer);
  return requested;
}

/* At the same border. The source is not changed by the trainer meanwhile, as it has no batch. */
static void announce_save(struct trainer *trainer) {
  if (trainer->config.capture_source) trainer->config.capture_source(trainer->config.saver);
  atomic_store(&trainer->save_state, SAVE_FILLED);
  trainer->config.on_saved(trainer->config.context);
}

static void report(struct trainer *trainer, const struct update_stats *stats, int64_t compute_us,
                   enum status status, const struct error *error) {
  pthread_mutex_lock(&trainer->lock);
  if (status == STATUS_OK)
    trainer->report.stats = *stats;
  else
    trainer->report.error = *error;
  if (status == STATUS_OK) trainer->report.updates_stopped += stats->stopped;
  trainer->report.status = status;
  trainer->report.updates = update_version(trainer->update) - update_running(trainer->update);
  trainer->report.trained_steps = trainer->counter[TRAINER_TRAINED_STEPS];
  trainer->report.compute_us += compute_us;
  pthread_mutex_unlock(&trainer->lock);
}

/* The age of a window is that of its first step. version: of the parameters before the update. */
static void measure(const struct trainer *trainer, const struct train_batch *batch, int64_t version,
                    int64_t compute_us) {
  metric_observe(trainer->config.update_us, (double)compute_us);
  if (batch->blank) return;
  for (int n = 0; n < batch->N; n++) {
    int64_t acted = step_stamp_version(*train_batch_stamp(batch, 0, n));
    metric_observe(trainer->config.lag_updates, (double)(version - acted));
  }
}

/* Nothing waits for the device here. */
static void start_update(struct trainer *trainer, const struct train_batch *batch) {
  if (update_running(trainer->update) == 0) trainer->busy_since_us = clock_now_us();
  update_start(trainer->update, batch,
               trainer->config.peers ? trainer->all_steps : progress_steps(trainer->progress));
  weights_write(trainer->weights, trainer->device, update_parameters(trainer->update),
                update_version(trainer->update));
}

/* The oldest update that runs, of that batch; its parameters are there for inference now. */
static enum status finish_update(struct trainer *trainer, const struct train_batch *batch) {
  struct update_stats stats;
  struct error error;
  int64_t version = update_version(trainer->update) - update_running(trainer->update);
  enum status status = update_finish(trainer->update, &stats, &error);
  weights_announce(trainer->weights, trainer->device);
  if (status == STATUS_OK) trainer->counter[TRAINER_TRAINED_STEPS] += stats.steps;
  int64_t now_us = clock_now_us(), compute_us = now_us - trainer->busy_since_us;
  trainer->busy_since_us = now_us;
  report(trainer, &stats, compute_us, status, &error);
  if (status == STATUS_OK) measure(trainer, batch, version, compute_us);
  return status;
}

/* A checkpoint, or images, can be taken only where no other update runs; parameters are got and set
 * there, too. */
static bool needs_border(struct trainer *trainer) {
  bool images = trainer->images && trainer->saved_images.count == 0;
  return images || atomic_load(&trainer->save_state) == SAVE_REQUESTED ||
         access_waits(&trainer->access);
}

/* Finishes the batch's update, and gives the batch back. */
static enum status complete(struct trainer *trainer, struct train_batch *batch) {
  enum status status = finish_update(trainer, batch);
  bool is_border = update_running(trainer->update) == 0;
  bool filled = status == STATUS_OK && is_border && fill_if_requested(trainer, batch);
  if (!batch->blank) source_release(trainer->source, batch);
  if (filled) announce_save(trainer);
  return status;
}

/* An update behind one that was skipped was skipped, too; the first one's error is the run's. */
static void abandon(struct trainer *trainer, struct train_batch *batch) {
  struct update_stats stats;
  struct error error;
  (void)!update_finish(trainer->update, &stats, &error);
  weights_announce(trainer->weights, trainer->device);
  source_release(trainer->source, batch);
}

/* ---- with other learners */

/* What a learner brings to a meeting before each update: its own steps, why it stops, whether it
 * has a batch (2: since an earlier meeting for this update), whether it had one for the last
 * update, and the place of this one or of the blank one. */
enum { WORD_STEPS, WORD_EPISODES, WORD_REASON, WORD_BATCH, WORD_DUE, WORD_PLACE, NUM_WORDS };

struct meeting {
  int batches;
  bool missing; /* one of those that the last update was made of */
  bool waited;  /* for it, since the meeting before */
  enum stop_reason reason;
  double place[PEERS_MAX];
};

static enum status check_reason(enum stop_reason reason, int rank, struct error *error) {
  if (reason != STOP_ERROR) return STATUS_OK;
  return status_fail(error, STATUS_UNAVAILABLE,
                     "learner %d has failed, and the run with it; its log has the reason", rank);
}

/* Every learner comes to the same end: what it decides by is what all have brought. */
static enum status meet(struct trainer *trainer, bool had_batch, struct meeting *meeting,
                        struct error *error) {
  const struct trainer_config *config = &trainer->config;
  int learners = peers_learners(config->peers);
  int64_t own = progress_steps(trainer->progress) - trainer->others, steps = 0;
  int64_t own_episodes = progress_episodes(trainer->progress) - trainer->others_episodes;
  int64_t episodes = 0;
  double all[PEERS_MAX * NUM_WORDS],
      mine[NUM_WORDS] = {[WORD_STEPS] = (double)own,
                         [WORD_EPISODES] = (double)own_episodes,
                         [WORD_REASON] = progress_stopped(trainer->progress),
                         [WORD_BATCH] = (trainer->held != NULL) + had_batch,
                         [WORD_DUE] = !trainer->starved,
                         [WORD_PLACE] = update_place(
                             trainer->update, trainer->held ? trainer->held : config->blank)};
  *meeting = (struct meeting){0};
  enum status status = peers_exchange(config->peers, all, mine, NUM_WORDS, error);
  for (int r = 0; r < learners && status == STATUS_OK; r++) {
    const double *word = &all[r * NUM_WORDS];
    steps += (int64_t)word[WORD_STEPS];
    episodes += (int64_t)word[WORD_EPISODES];
    meeting->place[r] = word[WORD_PLACE];
    meeting->batches += word[WORD_BATCH] > 0;
    meeting->missing |= word[WORD_BATCH] == 0 && word[WORD_DUE] > 0;
    meeting->waited |= word[WORD_BATCH] > 1;
    if (meeting->reason == STOP_NONE) meeting->reason = (enum stop_reason)word[WORD_REASON];
    if (r != peers_rank(config->peers))
      status = check_reason((enum stop_reason)word[WORD_REASON], r, error);
  }
  if (status != STATUS_OK) return status;
  progress_add_steps(trainer->progress, steps - own - trainer->others);
  progress_add_episodes(trainer->progress, episodes - own_episodes - trainer->others_episodes);
  trainer->others = steps - own;
  trainer->others_episodes = episodes - own_episodes;
  trainer->all_steps = steps;
  return STATUS_OK;
}

/* A batch that no update was made of: the device may still read what the source has gathered. */
static void release_held(struct trainer *trainer) {
  if (!trainer->held) return;
  device_finish(trainer->device);
  source_release(trainer->source, trainer->held);
}

/* The batches suffice for an update. A learner that is without one where another has its first is
 * waited for once more: batches that come at nearly the same time are not to be torn apart. */
static bool is_enough(const struct trainer *trainer, const struct meeting *meeting) {
  if (meeting->batches == peers_learners(trainer->config.peers)) return true;
  if (trainer->config.all_together || meeting->batches == 0) return false;
  return meeting->waited || !meeting->missing;
}

/* The next update's batch, or the blank one; NULL: there is none, since the run ends. */
static struct train_batch *take_with_others(struct trainer *trainer, enum status *status,
                                            struct error *error) {
  enum { STARVED_US = 500 * 1000 }; /* twice of it at most */
  const struct trainer_config *config = &trainer->config;
  for (bool enough = false, had_batch = false; !enough;) {
    struct meeting meeting;
    int64_t wait_us = trainer->starved ? 0 : STARVED_US;
    if (!trainer->held) trainer->held = source_take_within(trainer->source, wait_us);
    *status = meet(trainer, had_batch, &meeting, error);
    had_batch = trainer->held;
    enough = is_enough(trainer, &meeting);
    if (enough && trainer->all_steps >= config->total_steps && meeting.reason == STOP_NONE)
      meeting.reason = STOP_TOTAL_STEPS;
    if (*status != STATUS_OK || meeting.reason != STOP_NONE) {
      if (*status == STATUS_OK) progress_stop(trainer->progress, meeting.reason);
      release_held(trainer);
      return NULL;
    }
    trainer->starved = enough && !trainer->held;
    if (enough) update_agree(trainer->update, meeting.place);
  }
  struct train_batch *batch = trainer->held ? trainer->held : config->blank;
  trainer->held = NULL;
  return batch;
}

/* Requests for the parameters come first; a wait ends for those that come meanwhile. */
static struct train_batch *take_alone(struct trainer *trainer) {
  struct train_batch *batch;
  do {
    access_serve(&trainer->access, trainer->update, trainer->weights, trainer->device);
    batch = source_take(trainer->source);
  } while (!batch && access_waits(&trainer->access));
  return batch;
}

/* Waits for it; NULL: the run ends. */
static struct train_batch *take(struct trainer *trainer, enum status *status) {
  struct error error;
  if (!trainer->config.peers) return take_alone(trainer);
  struct train_batch *batch = take_with_others(trainer, status, &error);
  if (*status != STATUS_OK) report(trainer, NULL, 0, *status, &error);
  return batch;
}

/* ---- the loop */

/* Where updates may overlap the next one is started before the one that runs has been finished, so
 * that the device always has work, if there is a batch for it. */
static void *run(void *argument) {
  struct trainer *trainer = argument;
  thread_computes();
  struct train_batch *running = NULL, *next;
  enum status status = STATUS_OK;
  while (status == STATUS_OK) {
    bool overlaps = running && trainer->config.overlaps && !needs_border(trainer) &&
                    update_may_overlap(trainer->update);
    next = running && !overlaps ? NULL
           : running            ? source_try_take(trainer->source)
                                : take(trainer, &status);
    if (!running && !next) break;
    if (next) start_update(trainer, next);
    if (running) status = complete(trainer, running);
    running = next;
  }
  if (running) abandon(trainer, running);
  access_end(&trainer->access);
  if (status != STATUS_OK) progress_stop(trainer->progress, STOP_ERROR);
  return NULL;
}

void trainer_start(struct trainer *trainer) {
  bool is_first = !trainer->config.peers || peers_rank(trainer->config.peers) == 0;
  if (!is_first) trainer->others = trainer->counter[TRAINER_STEPS];
  if (!is_first) trainer->others_episodes = trainer->counter[TRAINER_EPISODES];
  thread_start(&trainer->thread, "trainer", run, trainer);
}

void trainer_join(struct trainer *trainer) {
  pthread_join(trainer->thread, NULL);
}

void trainer_access(struct trainer *trainer, struct access_request *request) {
  access_ask(&trainer->access, request);
}

void trainer_request_save(struct trainer *trainer) {
  int none = SAVE_NONE;
  atomic_compare_exchange_strong(&trainer->save_state, &none, SAVE_REQUESTED);
}

void trainer_release_save(struct trainer *trainer) {
  atomic_store(&trainer->save_state, SAVE_NONE);
}

void trainer_save_now(struct trainer *trainer) {
  fill_save(trainer);
}

struct trainer_images trainer_images(const struct trainer *trainer) {
  return trainer->saved_images;
}

int64_t trainer_saved_updates(const struct trainer *trainer) {
  return trainer->saved_updates;
}

int trainer_items(struct trainer *trainer, struct checkpoint_item *items) {
  int count = update_items(trainer->update, items);
  CHECK(count < CHECKPOINT_MAX_ITEMS, "too many items: %d", count);
  struct checkpoint_item *item = &items[count];
  *item = (struct checkpoint_item){.dtype = CHECKPOINT_INT64,
                                   .rank = 1,
                                   .shape = {TRAINER_COUNTERS},
                                   .data = trainer->saved_counter};
  snprintf(item->name, sizeof(item->name), TRAINER_COUNTERS_NAME);
  return count + 1;
}

void trainer_load(struct trainer *trainer) {
  update_load(trainer->update);
  memcpy(trainer->counter, trainer->saved_counter, sizeof(trainer->counter));
  trainer->report.updates = update_version(trainer->update);
  trainer->report.trained_steps = trainer->counter[TRAINER_TRAINED_STEPS];
  publish(trainer);
}

int64_t trainer_counter(const struct trainer *trainer, int counter) {
  return trainer->counter[counter];
}

void trainer_set_counter(struct trainer *trainer, int counter, int64_t value) {
  trainer->counter[counter] = value;
}

struct trainer_report trainer_report(struct trainer *trainer) {
  pthread_mutex_lock(&trainer->lock);
  struct trainer_report copy = trainer->report;
  pthread_mutex_unlock(&trainer->lock);
  return copy;
}
