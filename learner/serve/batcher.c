#include "learner/serve/batcher.h"

#include <pthread.h>
#include <stdlib.h>

#include "common/base/check.h"
#include "common/base/clock.h"

enum {
  TURNAROUNDS = 64,
  LATE_MIN_US = 20000,
  LATE_MEDIANS = 10,
  FOREVER_US = 100000,
  MANY_MESSAGES = 8, /* whose wake-ups cost more than one sleep */
  RECENT_BATCHES = 4 /* over which their sizes are averaged: rows come in lumps */
};

enum client_state { CLIENT_NONE, CLIENT_STEPPING, CLIENT_QUEUED, CLIENT_RUNNING };

struct client {
  enum client_state state;
  int num_rows, first_slot;
  uint32_t life;
  bool eval;
  bool live;     /* may be waited for */
  bool late;     /* is not, at present */
  bool answered; /* at least once: it steps since then */
  int64_t since_us;
  /* for Status, see struct batcher_client */
  int64_t messages, answers, step_us, wait_us, message_us;
};

struct batcher {
  struct batcher_config config; /* read-only after create */
  pthread_mutex_t lock;
  pthread_cond_t changed;
  bool closed;
  struct client *client; /* (max_clients) */
  struct row_batch batch[BATCHER_MAX_RUNNING + 1];
  int num_batches;              /* that there are: one more than may run */
  int running;                  /* now */
  struct row_batch *filling;    /* one that does not run */
  int live_rows, stepping_rows; /* of live clients that are not late */
  int late_clients;
  double recent_messages, recent_rows; /* of a batch: running means */
  int64_t next_late_scan_us;
  /* the last turnarounds, answer to next message, and what follows from them */
  int64_t turnaround[TURNAROUNDS];
  int num_turnarounds;
  int64_t late_us;
};

/* Clients that came and went while a batch waited leave dead segments behind: twice as many have
 * room. */
static int max_segments(const struct batcher *batcher) {
  return 2 * batcher->config.max_clients;
}

struct batcher *batcher_create(const struct batcher_config *config) {
  struct batcher *batcher = check_alloc(1, sizeof(*batcher));
  batcher->config = *config;
  batcher->client = check_alloc((size_t)config->max_clients, sizeof(*batcher->client));
  CHECK(config->running >= 0 && config->running <= BATCHER_MAX_RUNNING, "%d batches at a time",
        config->running);
  batcher->num_batches = (config->running ? config->running : 1) + 1;
  for (int i = 0; i < batcher->num_batches; i++) {
    row_batch_init(&batcher->batch[i], config->device, config->max_rows, max_segments(batcher),
                   config->row_stride);
    row_batch_clear(&batcher->batch[i], config->barrier_rows);
  }
  batcher->filling = &batcher->batch[0];
  if (!config->late_min_us) batcher->config.late_min_us = LATE_MIN_US;
  batcher->late_us = config->late_us ? config->late_us : batcher->config.late_min_us;
  pthread_mutex_init(&batcher->lock, NULL);
  pthread_condattr_t monotonic;
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_cond_init(&batcher->changed, &monotonic);
  pthread_condattr_destroy(&monotonic);
  return batcher;
}

void batcher_destroy(struct batcher *batcher) {
  if (!batcher) return;
  for (int i = 0; i < batcher->num_batches; i++) row_batch_deinit(&batcher->batch[i]);
  free(batcher->client);
  pthread_cond_destroy(&batcher->changed);
  pthread_mutex_destroy(&batcher->lock);
  free(batcher);
}

/* ---- clients. A client counts as live while it is waited for: live and not late. */

static bool counts(const struct client *client) {
  return client->live && !client->late;
}

void batcher_add(struct batcher *batcher, int client, int num_rows, int first_slot, uint32_t life,
                 bool eval, bool live, int64_t now_us) {
  pthread_mutex_lock(&batcher->lock);
  struct client *c = &batcher->client[client];
  CHECK(c->state == CLIENT_NONE, "client %d is already there", client);
  *c = (struct client){.state = CLIENT_STEPPING,
                       .num_rows = num_rows,
                       .first_slot = first_slot,
                       .life = life,
                       .eval = eval,
                       .live = live,
                       .since_us = now_us};
  if (live) {
    batcher->live_rows += num_rows;
    batcher->stepping_rows += num_rows;
  }
  pthread_mutex_unlock(&batcher->lock);
}

void batcher_remove(struct batcher *batcher, int client) {
  pthread_mutex_lock(&batcher->lock);
  struct client *c = &batcher->client[client];
  if (c->state != CLIENT_NONE) {
    if (counts(c)) {
      batcher->live_rows -= c->num_rows;
      if (c->state == CLIENT_STEPPING) batcher->stepping_rows -= c->num_rows;
    }
    if (c->late) batcher->late_clients--;
    if (c->state == CLIENT_QUEUED && batcher->filling) row_batch_kill(batcher->filling, client);
    *c = (struct client){.state = CLIENT_NONE};
    pthread_cond_signal(&batcher->changed);
  }
  pthread_mutex_unlock(&batcher->lock);
}

static int compare_times(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

/* Remembers a turnaround; every TURNAROUNDS of them the bound for being late follows their median.
 */
static void note_turnaround(struct batcher *batcher, int64_t us) {
  if (batcher->config.late_us) return;
  batcher->turnaround[batcher->num_turnarounds++] = us;
  if (batcher->num_turnarounds < TURNAROUNDS) return;
  qsort(batcher->turnaround, TURNAROUNDS, sizeof(int64_t), compare_times);
  int64_t late_us = LATE_MEDIANS * batcher->turnaround[TURNAROUNDS / 2];
  batcher->late_us = late_us > batcher->config.late_min_us ? late_us : batcher->config.late_min_us;
  batcher->num_turnarounds = 0;
}

/* The client's message is here: it no longer steps, and is no longer late. */
static void client_answered(struct batcher *batcher, struct client *c, int64_t now_us) {
  if (c->live) note_turnaround(batcher, now_us - c->since_us);
  c->messages++;
  c->step_us += now_us - c->since_us;
  c->message_us = now_us;
  if (c->late) {
    c->late = false;
    batcher->late_clients--;
    if (c->live) batcher->live_rows += c->num_rows;
  } else if (c->live) {
    batcher->stepping_rows -= c->num_rows;
  }
  c->state = CLIENT_QUEUED;
}

/* ---- rows in */

/* Where the client's rows stand in the batch. */
static int place_rows(const struct batcher *batcher, struct row_batch *batch,
                      const struct client *c) {
  if (!batcher->config.barrier_rows) return batch->num_rows;
  if (c->live) return c->first_slot;
  int row = batch->next_eval_row;
  batch->next_eval_row += c->num_rows;
  return row;
}

struct row_batch *batcher_reserve(struct batcher *batcher, int client, int *segment,
                                  int64_t now_us) {
  pthread_mutex_lock(&batcher->lock);
  struct client *c = &batcher->client[client];
  struct row_batch *batch = batcher->filling;
  CHECK(c->state == CLIENT_STEPPING, "client %d sent a message while one is in hand", client);
  int first_row = place_rows(batcher, batch, c);
  if (first_row + c->num_rows > batcher->config.max_rows ||
      batch->num_segments == max_segments(batcher)) {
    pthread_mutex_unlock(&batcher->lock);
    return NULL;
  }
  client_answered(batcher, c, now_us);
  *segment = batch->num_segments++;
  batch->segment[*segment] =
      (struct batch_segment){.client = client,
                             .first_row = first_row,
                             .num_rows = c->num_rows,
                             .first_slot = c->first_slot,
                             .life = c->life,
                             .eval = c->eval,
                             .live = c->live,
                             .queued_us = now_us,
                             .step_us = c->answered ? now_us - c->since_us : -1};
  if (first_row + c->num_rows > batch->num_rows) batch->num_rows = first_row + c->num_rows;
  batch->uncommitted++;
  pthread_mutex_unlock(&batcher->lock);
  return batch;
}

void batcher_commit(struct batcher *batcher, struct row_batch *batch, int segment,
                    struct rpc_stream *stream, int64_t now_us) {
  pthread_mutex_lock(&batcher->lock);
  batch->segment[segment].stream = stream;
  row_batch_commit(batch, segment);
  if (now_us < batch->oldest_us) batch->oldest_us = now_us;
  pthread_cond_signal(&batcher->changed);
  pthread_mutex_unlock(&batcher->lock);
}

void batcher_cancel(struct batcher *batcher, struct row_batch *batch, int segment) {
  pthread_mutex_lock(&batcher->lock);
  batch->segment[segment].dead = true;
  batch->uncommitted--;
  pthread_cond_signal(&batcher->changed);
  pthread_mutex_unlock(&batcher->lock);
}

/* ---- batches out */

/* Marks the clients that have been stepping for too long; sets when to look again. */
static void scan_late(struct batcher *batcher, int64_t now_us) {
  if (now_us < batcher->next_late_scan_us || batcher->stepping_rows == 0) return;
  for (int i = 0; i < batcher->config.max_clients; i++) {
    struct client *c = &batcher->client[i];
    if (c->state != CLIENT_STEPPING || !counts(c) || now_us - c->since_us <= batcher->late_us)
      continue;
    c->late = true;
    batcher->late_clients++;
    batcher->live_rows -= c->num_rows;
    batcher->stepping_rows -= c->num_rows;
  }
  batcher->next_late_scan_us = now_us + batcher->late_us / 8;
}

static int target_rows(const struct batcher *batcher) {
  int target = batcher->config.target_rows;
  return target ? target : (batcher->live_rows + 1) / 2;
}

/* Whether all have come that it is to have. */
static bool is_full(const struct batcher *batcher, const struct row_batch *batch) {
  int barrier = batcher->config.barrier_rows;
  if (barrier)
    return batch->live_rows >= barrier || (batch->live_rows == 0 && batcher->live_rows == 0);
  return batch->queued_rows - batch->guest_rows >= target_rows(batcher) ||
         batcher->stepping_rows == 0;
}

/* When its oldest row will have waited; a barrier waits for as long as it takes. */
static int64_t expiry(const struct batcher *batcher, const struct row_batch *batch) {
  return batcher->config.barrier_rows ? INT64_MAX : batch->oldest_us + batcher->config.max_wait_us;
}

static bool should_run(const struct batcher *batcher, const struct row_batch *batch,
                       int64_t now_us) {
  if (batch->uncommitted > 0 || batch->queued_rows == 0) return false;
  return is_full(batcher, batch) || now_us >= expiry(batcher, batch);
}

/* When time alone could change should_run. */
static int64_t next_deadline(const struct batcher *batcher, const struct row_batch *batch,
                             int64_t now_us) {
  int64_t deadline = now_us + FOREVER_US;
  if (batch->queued_rows == 0) return deadline;
  if (expiry(batcher, batch) < deadline) deadline = expiry(batcher, batch);
  if (batcher->stepping_rows > 0 && batcher->next_late_scan_us < deadline)
    deadline = batcher->next_late_scan_us;
  return deadline > now_us ? deadline : now_us + 1;
}

/* Hands out the filling batch; another buffer, which is free then, fills from now on. */
static struct row_batch *take_locked(struct batcher *batcher) {
  struct row_batch *batch = batcher->filling;
  batch->running = true;
  for (int i = 0; i < batch->num_segments; i++)
    if (!batch->segment[i].dead) batcher->client[batch->segment[i].client].state = CLIENT_RUNNING;
  if (batcher->config.barrier_rows) row_batch_sort(batch);
  batcher->running++;
  int other = 0;
  while (batcher->batch[other].running) other++;
  batcher->filling = &batcher->batch[other];
  return batch;
}

/* Another buffer must be there to fill. */
static bool may_take(const struct batcher *batcher) {
  return batcher->running < batcher->num_batches - 1;
}

static void remember_size(struct batcher *batcher, const struct row_batch *batch) {
  double share = batcher->recent_messages > 0 ? 1.0 / RECENT_BATCHES : 1;
  batcher->recent_messages += (batch->num_segments - batcher->recent_messages) * share;
  batcher->recent_rows += (batch->queued_rows - batcher->recent_rows) * share;
}

struct row_batch *batcher_try_take(struct batcher *batcher, int64_t now_us, int64_t *deadline_us) {
  struct row_batch *taken = NULL;
  pthread_mutex_lock(&batcher->lock);
  scan_late(batcher, now_us);
  struct row_batch *batch = batcher->filling;
  if (may_take(batcher) && should_run(batcher, batch, now_us)) {
    remember_size(batcher, batch);
    taken = take_locked(batcher);
  } else {
    *deadline_us = next_deadline(batcher, batch, now_us);
  }
  pthread_mutex_unlock(&batcher->lock);
  return taken;
}

bool batcher_waits_out(struct batcher *batcher) {
  pthread_mutex_lock(&batcher->lock);
  int target = target_rows(batcher);
  if (target > batcher->live_rows) target = batcher->live_rows;
  bool waits = !batcher->config.barrier_rows && batcher->filling->queued_rows > 0 &&
               batcher->recent_messages >= MANY_MESSAGES && 2 * batcher->recent_rows <= target;
  pthread_mutex_unlock(&batcher->lock);
  return waits;
}

struct row_batch *batcher_take(struct batcher *batcher) {
  struct row_batch *taken = NULL;
  pthread_mutex_lock(&batcher->lock);
  while (!batcher->closed) {
    int64_t now_us = clock_now_us();
    scan_late(batcher, now_us);
    if (may_take(batcher) && should_run(batcher, batcher->filling, now_us)) {
      taken = take_locked(batcher);
      break;
    }
    int64_t until = next_deadline(batcher, batcher->filling, now_us);
    struct timespec at = {until / 1000000, until % 1000000 * 1000};
    pthread_cond_timedwait(&batcher->changed, &batcher->lock, &at);
  }
  pthread_mutex_unlock(&batcher->lock);
  return taken;
}

struct row_batch *batcher_take_rest(struct batcher *batcher) {
  pthread_mutex_lock(&batcher->lock);
  struct row_batch *batch = batcher->filling;
  bool some = may_take(batcher) && batch->num_segments > 0 && batch->uncommitted == 0;
  struct row_batch *taken = some ? take_locked(batcher) : NULL;
  pthread_mutex_unlock(&batcher->lock);
  return taken;
}

void batcher_stepping(struct batcher *batcher, const struct row_batch *batch, int64_t now_us) {
  pthread_mutex_lock(&batcher->lock);
  for (int i = 0; i < batch->num_segments; i++) {
    const struct batch_segment *s = &batch->segment[i];
    struct client *c = &batcher->client[s->client];
    if (s->dead || c->state != CLIENT_RUNNING || c->life != s->life ||
        c->first_slot != s->first_slot)
      continue;
    c->state = CLIENT_STEPPING;
    c->answered = true;
    c->since_us = now_us;
    c->answers++;
    c->wait_us += now_us - s->queued_us;
    if (counts(c)) batcher->stepping_rows += c->num_rows;
  }
  pthread_mutex_unlock(&batcher->lock);
}

void batcher_recycle(struct batcher *batcher, struct row_batch *batch) {
  pthread_mutex_lock(&batcher->lock);
  row_batch_clear(batch, batcher->config.barrier_rows);
  batcher->running--;
  pthread_cond_signal(&batcher->changed);
  pthread_mutex_unlock(&batcher->lock);
}

void batcher_close(struct batcher *batcher) {
  pthread_mutex_lock(&batcher->lock);
  batcher->closed = true;
  pthread_cond_broadcast(&batcher->changed);
  pthread_mutex_unlock(&batcher->lock);
}

struct batcher_counts batcher_counts(struct batcher *batcher) {
  pthread_mutex_lock(&batcher->lock);
  struct batcher_counts counts = {batcher->live_rows, batcher->stepping_rows,
                                  batcher->filling->queued_rows, batcher->late_clients,
                                  batcher->late_us};
  pthread_mutex_unlock(&batcher->lock);
  return counts;
}

struct batcher_client batcher_client(struct batcher *batcher, int client) {
  static const char *const names[] = {"joined", "stepping", "queued", "running"};
  pthread_mutex_lock(&batcher->lock);
  const struct client *c = &batcher->client[client];
  struct batcher_client view = {.state = c->late ? "late" : names[c->state],
                                .late = c->late,
                                .messages = c->messages,
                                .answers = c->answers,
                                .step_us = c->step_us,
                                .wait_us = c->wait_us,
                                .message_us = c->message_us};
  pthread_mutex_unlock(&batcher->lock);
  return view;
}
