#include "deploy/serve/version.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/thread.h"

/* As long a thread may neither read nor write for its clients; and as long a row may take, which it
 * computes alone where it would else be in a batch: about what handing it over costs. */
enum { AT_ONCE_US = 1000, ROW_AT_ONCE_US = 20 };

/* ---- its thread */

/* Takes the requests of a batch from the queue; *rows: theirs. Under the lock. */
static struct request *take_batch(struct version *version, int *rows) {
  struct request *batch = NULL, **end = &batch, **link = &version->first;
  *rows = 0;
  while (*link && *rows + (*link)->rows <= version->limits.max_batch) {
    struct request *request = *link;
    if (request->slot >= 0 && version->busy[request->slot]) {
      link = &request->next;
      continue;
    }
    if (request->slot >= 0) version->busy[request->slot] = true;
    *link = request->next;
    *end = request;
    end = &request->next;
    *end = NULL;
    *rows += request->rows;
    version->queued--;
  }
  for (const struct request *request = batch; request; request = request->next)
    if (request->slot >= 0) version->busy[request->slot] = false;
  version->queued_rows -= *rows;
  version->last = &version->first;
  while (*version->last) version->last = &(*version->last)->next;
  return batch;
}

static void wait_until(struct version *version, int64_t until_us) {
  struct timespec time = {until_us / 1000000, until_us % 1000000 * 1000};
  version->idle = true;
  if (until_us)
    pthread_cond_timedwait(&version->changed, &version->lock, &time);
  else
    pthread_cond_wait(&version->changed, &version->lock);
  version->idle = false;
}

/* Until there is a batch; false: there will be none. Under the lock. */
static bool wait_for_batch(struct version *version) {
  for (;;) {
    if (!version->first && version->closing) return false;
    if (!version->first || version->computing) {
      wait_until(version, 0);
      continue;
    }
    int64_t due_us = version->first->queued_us + version->limits.delay_us;
    bool full = version->queued_rows >= version->limits.max_batch;
    if (full || version->closing || !version->limits.delay_us || clock_now_us() >= due_us)
      return true;
    wait_until(version, due_us);
  }
}

static void finish(struct version *version, struct request *batch, int rows, int64_t start_us) {
  const struct version_metrics *metrics = version->metrics;
  metric_add(metrics->batches, 1);
  metric_add(metrics->rows, rows);
  metric_observe(metrics->batch_rows, rows);
  metric_observe(metrics->run_us, (double)(clock_now_us() - start_us));
  pthread_mutex_lock(&version->lock);
  for (const struct request *request = batch; request; request = request->next)
    if (request->slot >= 0) sequences_leave(&version->sequences, request->slot);
  pthread_mutex_unlock(&version->lock);
  while (batch) {
    struct request *request = batch;
    batch = batch->next;
    metric_observe(metrics->wait_us, (double)(start_us - request->queued_us));
    request->done(request);
  }
}

/* Under the lock, which is free meanwhile. */
static void answer_batch(struct version *version) {
  int rows;
  struct request *batch = take_batch(version, &rows);
  version->computing = true;
  pthread_mutex_unlock(&version->lock);
  int64_t start_us = clock_now_us();
  served_answer(&version->served, batch, rows);
  finish(version, batch, rows, start_us);
  pthread_mutex_lock(&version->lock);
  version->computing = false;
}

static void *answer(void *argument) {
  struct version *version = argument;
  pthread_mutex_lock(&version->lock);
  while (wait_for_batch(version)) answer_batch(version);
  pthread_mutex_unlock(&version->lock);
  return NULL;
}

/* So that the first request does not wait for what libraries prepare for a size, and a device's
 * recordings, which are made at the second time. */
static void warm_up(struct version *version) {
  struct request request;
  struct error error;
  const int most = version->limits.max_batch, sizes[] = {most, most, 1, 1, 1, most};
  int64_t took_us[6] = {0};
  for (int i = 0; i < 6; i++) {
    request_init(&request, version->served.signature, sizes[i]);
    int64_t start_us = clock_now_us();
    if (request_set_rows(&request, sizes[i], version->served.signature->input, &error) == STATUS_OK)
      served_answer(&version->served, &request, sizes[i]);
    request_deinit(&request);
    took_us[i] = clock_now_us() - start_us;
  }
  version->at_once =
      !version->limits.delay_us && took_us[4] < ROW_AT_ONCE_US && took_us[5] < AT_ONCE_US;
}

/* ---- */

static void deinit(struct version *version) {
  served_close(&version->served);
  sequences_deinit(&version->sequences);
  free(version->busy);
  pthread_cond_destroy(&version->changed);
  pthread_mutex_destroy(&version->lock);
  free(version);
}

static void init_lock(struct version *version) {
  pthread_condattr_t monotonic;
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_mutex_init(&version->lock, NULL);
  pthread_cond_init(&version->changed, &monotonic);
  pthread_condattr_destroy(&monotonic);
  version->last = &version->first;
}

enum status version_open(struct version **out, int64_t number, const char *folder, const char *file,
                         struct learner_options *options, const struct run *of,
                         const struct signature *signature, const struct version_limits *limits,
                         const struct version_metrics *metrics, struct error *error) {
  struct version *version = check_alloc(1, sizeof(*version));
  int slots = signature->remembers ? limits->max_sequences : 1;
  version->number = number;
  version->limits = *limits;
  version->metrics = metrics;
  version->busy = check_alloc((size_t)slots, sizeof(*version->busy));
  sequences_init(&version->sequences, slots);
  init_lock(version);
  enum status status = served_open(&version->served, folder, file, options, of, signature,
                                   limits->max_batch, slots, error);
  if (status != STATUS_OK) {
    deinit(version);
    return status;
  }
  warm_up(version);
  thread_start(&version->thread, "version", answer, version);
  *out = version;
  return STATUS_OK;
}

void version_close(struct version *version) {
  pthread_mutex_lock(&version->lock);
  version->closing = true;
  pthread_cond_signal(&version->changed);
  pthread_mutex_unlock(&version->lock);
  pthread_join(version->thread, NULL);
  deinit(version);
}

/* ---- requests */

/* Under the lock. */
static enum status enter_sequence(struct version *version, struct request *request,
                                  struct error *error) {
  bool evicted;
  request->slot = sequences_enter(&version->sequences, request->sequence, request->start,
                                  request->end, request->queued_us, &evicted);
  if (evicted) metric_add(version->metrics->evictions, 1);
  if (request->slot >= 0) {
    struct sequence *sequence = &version->sequences.slot[request->slot];
    if (!request->start) return STATUS_OK;
    sequence->superseded = false;
    snprintf(sequence->began, sizeof(sequence->began), "%s", request->choice);
    return STATUS_OK;
  }
  if (request->start)
    return status_fail(error, STATUS_EXHAUSTED,
                       "all %d sequences have a request in hand (--max_sequences): try again later",
                       version->sequences.capacity);
  return status_fail(error, STATUS_NOT_FOUND,
                     "sequence %s is not known: it has not begun, has ended, its version is gone, "
                     "or it was evicted as the one idle for longest of %d (--max_sequences); begin "
                     "it with sequence_start",
                     request->sequence, version->sequences.capacity);
}

enum status version_submit(struct version *version, struct request *request, struct error *error) {
  enum status status = served_check(&version->served, request, error);
  if (status != STATUS_OK) return status;
  request->queued_us = clock_now_us();
  pthread_mutex_lock(&version->lock);
  if (version->queued >= version->limits.max_queue)
    status = status_fail(error, STATUS_EXHAUSTED,
                         "the queue is full: %d requests wait (--max_queue); try again later",
                         version->queued);
  else if (version->served.signature->remembers)
    status = enter_sequence(version, request, error);
  if (status == STATUS_OK) {
    request->next = NULL;
    *version->last = request;
    version->last = &request->next;
    version->queued++;
    version->queued_rows += request->rows;
  }
  pthread_mutex_unlock(&version->lock);
  return status;
}

/* One batch here at most: its caller has other work. */
void version_begin(struct version *version) {
  pthread_mutex_lock(&version->lock);
  if (version->first && version->idle && !version->computing) {
    if (version->at_once) answer_batch(version);
    if (version->first) pthread_cond_signal(&version->changed);
  }
  pthread_mutex_unlock(&version->lock);
}

/* Under the lock. NULL: it is not here. */
static struct sequence *find(const struct version *version, const char *id) {
  int slot = version->served.signature->remembers ? sequences_find(&version->sequences, id) : -1;
  return slot >= 0 ? &version->sequences.slot[slot] : NULL;
}

int64_t version_used_us(struct version *version, const char *sequence, const char *choice) {
  int64_t used_us = -1;
  pthread_mutex_lock(&version->lock);
  const struct sequence *found = find(version, sequence);
  if (found &&
      (!choice || (!found->superseded && (!choice[0] || strcmp(found->began, choice) == 0))))
    used_us = found->used_us;
  pthread_mutex_unlock(&version->lock);
  return used_us;
}

void version_supersede(struct version *version, const char *sequence, int64_t since_us) {
  pthread_mutex_lock(&version->lock);
  struct sequence *found = find(version, sequence);
  if (found && found->used_us < since_us) found->superseded = true;
  pthread_mutex_unlock(&version->lock);
}

int version_sequences(struct version *version, int64_t since_us) {
  pthread_mutex_lock(&version->lock);
  sequences_expire(&version->sequences, since_us);
  int live = version->sequences.live;
  pthread_mutex_unlock(&version->lock);
  return live;
}
