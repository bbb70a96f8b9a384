#include "learner/episodes/progress.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"

/* The last `room` returns and lengths of one set, in a ring. */
struct window {
  double *episode_return;
  uint32_t *length;
  int room;
  int64_t count;
};

/* An episode that waits to be counted; length 0: none. */
struct kept {
  struct progress_episode episode; /* its actor and number point to those below */
  char actor[WIRE_MAX_PLAYER_NAME];
  struct wire_number number[WIRE_MAX_EPISODE_NUMBERS];
};

struct progress {
  struct progress_config config; /* read-only after create */
  _Atomic int64_t steps;
  _Atomic int reason; /* enum stop_reason */
  pthread_mutex_t lock;
  bool closed;                      /* guarded by lock: the steps stay as they are */
  int64_t counted_at;               /* guarded by lock: the step of the last episode that counted */
  struct window set[PROGRESS_SETS]; /* guarded by lock */
  struct numbers *numbers;          /* guarded by lock */
  struct kept *kept;                /* (max_kept), guarded by lock */
  int64_t elsewhere;                /* guarded by lock: before a resume, of other learners */
  int64_t *played;                  /* (E) evaluate mode: episodes counted of each environment */
  struct window copy;               /* thread main only: of a window, as large as the largest one */
};

const char *stop_reason_name(enum stop_reason reason) {
  static const char *const names[] = {"none",          "total_steps", "target_return", "episodes",
                                      "episode_steps", "signal",      "no_actors",     "error"};
  return names[reason];
}

static void window_create(struct window *window, int room) {
  window->room = room;
  window->episode_return = check_alloc((size_t)room, sizeof(double));
  window->length = check_alloc((size_t)room, sizeof(uint32_t));
}

static void window_destroy(struct window *window) {
  free(window->episode_return);
  free(window->length);
}

static void window_add(struct window *window, double episode_return, uint32_t length) {
  int place = (int)(window->count++ % window->room);
  window->episode_return[place] = episode_return;
  window->length[place] = length;
}

struct progress *progress_create(const struct progress_config *config) {
  struct progress *progress = check_alloc(1, sizeof(*progress));
  progress->config = *config;
  pthread_mutex_init(&progress->lock, NULL);
  int eval_room = config->quota_episodes ? (int)config->quota_episodes : PROGRESS_WINDOW;
  for (int set = 0; set < PROGRESS_SETS; set++)
    window_create(&progress->set[set], set == PROGRESS_EVAL    ? eval_room
                                       : set == PROGRESS_FIRST ? PROGRESS_FIRST_EPISODES
                                                               : PROGRESS_WINDOW);
  progress->numbers = numbers_create(PROGRESS_WINDOW, eval_room);
  window_create(&progress->copy, eval_room > PROGRESS_WINDOW ? eval_room : PROGRESS_WINDOW);
  progress->kept = check_alloc((size_t)config->max_kept, sizeof(struct kept));
  progress->played = check_alloc((size_t)config->quota_environments + 1, sizeof(int64_t));
  return progress;
}

void progress_destroy(struct progress *progress) {
  if (!progress) return;
  for (int set = 0; set < PROGRESS_SETS; set++) window_destroy(&progress->set[set]);
  window_destroy(&progress->copy);
  numbers_destroy(progress->numbers);
  free(progress->kept);
  free(progress->played);
  pthread_mutex_destroy(&progress->lock);
  free(progress);
}

void progress_add_steps(struct progress *progress, int64_t steps) {
  const struct progress_config *config = &progress->config;
  pthread_mutex_lock(&progress->lock);
  if (progress->closed) steps = 0;
  int64_t now = atomic_fetch_add_explicit(&progress->steps, steps, memory_order_relaxed) + steps;
  int64_t waited = now - progress->counted_at;
  pthread_mutex_unlock(&progress->lock);
  if (config->total_steps && now >= config->total_steps) progress_stop(progress, STOP_TOTAL_STEPS);
  if (config->episode_steps && waited / config->quota_environments >= config->episode_steps)
    progress_stop(progress, STOP_EPISODE_STEPS);
}

void progress_close(struct progress *progress) {
  pthread_mutex_lock(&progress->lock);
  progress->closed = true;
  pthread_mutex_unlock(&progress->lock);
}

int64_t progress_steps(const struct progress *progress) {
  return atomic_load_explicit(&progress->steps, memory_order_relaxed);
}

void progress_restore(struct progress *progress, int64_t steps, int64_t episodes) {
  progress->steps = steps;
  progress->elsewhere = episodes;
}

void progress_add_episodes(struct progress *progress, int64_t episodes) {
  pthread_mutex_lock(&progress->lock);
  progress->elsewhere += episodes;
  pthread_mutex_unlock(&progress->lock);
}

int64_t progress_episodes(struct progress *progress) {
  pthread_mutex_lock(&progress->lock);
  int64_t episodes = progress->set[PROGRESS_TRAIN].count + progress->elsewhere;
  pthread_mutex_unlock(&progress->lock);
  return episodes;
}

int64_t progress_played(struct progress *progress, int environment) {
  if (environment >= progress->config.quota_environments) return 0;
  pthread_mutex_lock(&progress->lock);
  int64_t played = progress->played[environment];
  pthread_mutex_unlock(&progress->lock);
  return played;
}

/* Whether this episode belongs to the quota; counts it if so. */
static bool quota_admits(struct progress *progress, int environment) {
  int64_t episodes = progress->config.quota_episodes;
  int environments = progress->config.quota_environments;
  if (environment >= environments) return false;
  int64_t number = environment + progress->played[environment] * environments;
  if (number >= episodes) return false;
  progress->played[environment]++;
  return true;
}

static int window_size(const struct window *window) {
  return window->count < window->room ? (int)window->count : window->room;
}

/* In long double, so that the digits do not depend on the order in which episodes came. */
static double window_mean(const struct window *window) {
  int n = window_size(window);
  long double sum = 0;
  for (int i = 0; i < n; i++) sum += window->episode_return[i];
  return n ? (double)(sum / n) : NAN;
}

/* The caller holds the lock. */
static bool over_eval(const struct progress *progress) {
  enum progress_over over = progress->config.over;
  return over == OVER_EVAL || (over == OVER_AUTO && progress->set[PROGRESS_EVAL].count > 0);
}

bool progress_over_eval(struct progress *progress) {
  pthread_mutex_lock(&progress->lock);
  bool over = over_eval(progress);
  pthread_mutex_unlock(&progress->lock);
  return over;
}

/* A training episode, for the sets that are apart. The caller holds the lock. */
static void add_by_exploration(struct progress *progress, const struct progress_episode *episode) {
  const struct progress_config *config = &progress->config;
  if (episode->environment < config->most_random)
    window_add(&progress->set[PROGRESS_MOST_RANDOM], episode->episode_return, episode->length);
  if (config->least_random && episode->environment >= config->least_random)
    window_add(&progress->set[PROGRESS_LEAST_RANDOM], episode->episode_return, episode->length);
}

/* Counts an episode. The caller holds the lock. */
static void add(struct progress *progress, const struct progress_episode *episode) {
  double number[NUMBERS_MAX];
  progress->counted_at = progress_steps(progress);
  window_add(&progress->set[episode->eval ? PROGRESS_EVAL : PROGRESS_TRAIN],
             episode->episode_return, episode->length);
  if (!episode->eval) add_by_exploration(progress, episode);
  struct window *first = &progress->set[PROGRESS_FIRST];
  if (!episode->eval && first->count < first->room)
    window_add(first, episode->episode_return, episode->length);
  numbers_add(progress->numbers, episode->eval, episode->number, episode->num_numbers, number);
  if (progress->config.log)
    episode_log_add(progress->config.log, episode, progress_steps(progress), number);
}

/* Whether the run should end now, after an episode of that kind. The caller holds the lock. */
static enum stop_reason reason_to_stop(const struct progress *progress, bool eval) {
  const struct progress_config *config = &progress->config;
  const struct window *window = &progress->set[eval ? PROGRESS_EVAL : PROGRESS_TRAIN];
  /* An evaluation that ended at the target of its run would end while it is lucky. */
  if (eval && config->quota_episodes)
    return window->count >= config->quota_episodes ? STOP_EPISODES : STOP_NONE;
  bool enough = window->count >= PROGRESS_WINDOW && eval == over_eval(progress);
  return enough && window_mean(window) >= config->target_return ? STOP_TARGET_RETURN : STOP_NONE;
}

void progress_add_episode(struct progress *progress, const struct progress_episode *episode) {
  enum stop_reason reason = STOP_NONE;
  if (progress_stopped(progress) != STOP_NONE) return;
  pthread_mutex_lock(&progress->lock);
  if (!episode->eval || !progress->config.quota_episodes ||
      quota_admits(progress, episode->environment)) {
    add(progress, episode);
    reason = reason_to_stop(progress, episode->eval);
  }
  pthread_mutex_unlock(&progress->lock);
  if (reason != STOP_NONE) progress_stop(progress, reason);
}

void progress_keep_episode(struct progress *progress, const struct progress_episode *episode) {
  CHECK(episode->environment < progress->config.max_kept, "an episode of environment %d",
        episode->environment);
  struct kept *kept = &progress->kept[episode->environment];
  pthread_mutex_lock(&progress->lock);
  kept->episode = *episode;
  snprintf(kept->actor, sizeof(kept->actor), "%s", episode->actor ? episode->actor : "");
  for (int i = 0; i < episode->num_numbers; i++) kept->number[i] = episode->number[i];
  pthread_mutex_unlock(&progress->lock);
}

void progress_count_kept(struct progress *progress) {
  for (int i = 0; i < progress->config.max_kept; i++) {
    pthread_mutex_lock(&progress->lock);
    struct kept kept = progress->kept[i];
    progress->kept[i].episode.length = 0;
    pthread_mutex_unlock(&progress->lock);
    if (!kept.episode.length) continue;
    kept.episode.actor = kept.actor;
    kept.episode.number = kept.number;
    progress_add_episode(progress, &kept.episode);
  }
}

static int compare_doubles(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void window_copy(struct window *copy, const struct window *window) {
  int n = window_size(window);
  memcpy(copy->episode_return, window->episode_return, (size_t)n * sizeof(double));
  memcpy(copy->length, window->length, (size_t)n * sizeof(uint32_t));
  copy->count = n;
}

/* Fills the statistics of a window that has n > 0 returns; sorts them. */
static void window_statistics(struct progress_returns *out, struct window *window, int n) {
  long double squares = 0, length = 0;
  double *sorted = window->episode_return;
  out->mean = window_mean(window);
  qsort(sorted, (size_t)n, sizeof(double), compare_doubles);
  for (int i = 0; i < n; i++) {
    squares += ((long double)sorted[i] - out->mean) * ((long double)sorted[i] - out->mean);
    length += window->length[i];
  }
  out->std = (double)sqrtl(squares / n);
  out->length_mean = (double)(length / n);
  out->min = sorted[0];
  out->max = sorted[n - 1];
  out->median = n % 2 ? sorted[n / 2] : 0.5 * (sorted[n / 2 - 1] + sorted[n / 2]);
}

struct progress_returns progress_returns(struct progress *progress, enum progress_set set) {
  struct progress_returns out = {
      .mean = NAN, .std = NAN, .min = NAN, .max = NAN, .median = NAN, .length_mean = NAN};
  struct window *copy = &progress->copy;
  pthread_mutex_lock(&progress->lock);
  window_copy(copy, &progress->set[set]);
  out.count = progress->set[set].count + (set == PROGRESS_TRAIN ? progress->elsewhere : 0);
  pthread_mutex_unlock(&progress->lock);
  /* Queues' threads add episodes meanwhile. */
  out.window = window_size(copy);
  if (out.window) window_statistics(&out, copy, out.window);
  return out;
}

int progress_numbers(struct progress *progress, struct progress_number out[NUMBERS_MAX],
                     const char **dropped) {
  pthread_mutex_lock(&progress->lock);
  int count = numbers_count(progress->numbers);
  for (int i = 0; i < count; i++)
    out[i] = (struct progress_number){numbers_name(progress->numbers, i),
                                      numbers_mean(progress->numbers, false, i),
                                      numbers_mean(progress->numbers, true, i)};
  *dropped = numbers_dropped(progress->numbers);
  pthread_mutex_unlock(&progress->lock);
  return count;
}

int progress_last_returns(struct progress *progress, bool eval, double *returns) {
  pthread_mutex_lock(&progress->lock);
  const struct window *window = &progress->set[eval ? PROGRESS_EVAL : PROGRESS_TRAIN];
  int room = window->room < PROGRESS_WINDOW ? window->room : PROGRESS_WINDOW;
  int count = window->count < room ? (int)window->count : room;
  memcpy(returns, window->episode_return, (size_t)count * sizeof(double));
  pthread_mutex_unlock(&progress->lock);
  return count;
}

void progress_stop(struct progress *progress, enum stop_reason reason) {
  int none = STOP_NONE;
  if (!atomic_compare_exchange_strong(&progress->reason, &none, (int)reason)) return;
  if (progress->config.on_stop) progress->config.on_stop(progress->config.context);
}

void progress_fail(struct progress *progress) {
  atomic_store(&progress->reason, STOP_ERROR);
}

enum stop_reason progress_stopped(const struct progress *progress) {
  return (enum stop_reason)atomic_load(&progress->reason);
}
