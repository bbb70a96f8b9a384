#include "learner/serve/leases.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/random.h"
#include "learner/serve/waiting.h"

enum {
  /* Leases with a descriptor that waits for its Play, which follows the Join of a legitimate client
   * within milliseconds; so Joins that nothing follows do not take the place of connections. */
  MAX_UNOPENED = 64,
  WARN_PAUSE_US = 10 * 1000 * 1000, /* between two lines of a kind that clients cause */
};

struct leases {
  struct leases_config config; /* read-only after create */
  int num_slots;               /* max_train + max_eval */
  pthread_mutex_t lock;
  struct lease *lease;                  /* (num_slots): every lease has at least one slot */
  uint8_t *slot_taken;                  /* (num_slots) */
  uint32_t *lives;                      /* (num_slots) leases that a slot has had */
  uint32_t joins;                       /* in all, for run ids */
  char (*absent)[WIRE_MAX_PLAYER_NAME]; /* (num_slots) names that lost their connection */
  int num_absent;
  int64_t lost; /* training leases that ended before the run; and the first one's name */
  char first_lost[WIRE_MAX_PLAYER_NAME];
  struct waiting waiting; /* deterministic mode: Joins that wait for the others */
  bool collecting;
  int64_t next_warn_us; /* of memory that is not shared */
};

struct leases *leases_create(const struct leases_config *config) {
  struct leases *leases = check_alloc(1, sizeof(*leases));
  leases->config = *config;
  leases->num_slots = config->max_train + config->max_eval;
  size_t slots = (size_t)leases->num_slots;
  leases->lease = check_alloc(slots, sizeof(*leases->lease));
  leases->slot_taken = check_alloc(slots, 1);
  leases->lives = check_alloc(slots, sizeof(*leases->lives));
  leases->absent = check_alloc(slots, sizeof(*leases->absent));
  waiting_init(&leases->waiting, leases->num_slots);
  leases->collecting = config->deterministic_envs > 0;
  for (int i = 0; i < leases->num_slots; i++) leases->lease[i].client = i;
  pthread_mutex_init(&leases->lock, NULL);
  return leases;
}

void leases_destroy(struct leases *leases) {
  if (!leases) return;
  for (int i = 0; i < leases->num_slots; i++) {
    free(leases->lease[i].last_flags);
    shared_rows_deinit(&leases->lease[i].shared);
  }
  free(leases->lease);
  free(leases->slot_taken);
  free(leases->lives);
  free(leases->absent);
  waiting_deinit(&leases->waiting);
  pthread_mutex_destroy(&leases->lock);
  free(leases);
}

/* The lowest `count` consecutive free slots of [begin, end), or -1. */
static int find_slots(const struct leases *leases, int begin, int end, int count) {
  int run = 0;
  for (int slot = begin; slot < end; slot++) {
    run = leases->slot_taken[slot] ? 0 : run + 1;
    if (run == count) return slot - count + 1;
  }
  return -1;
}

static struct lease *find_name(struct leases *leases, const char *name) {
  for (int i = 0; i < leases->num_slots; i++)
    if (leases->lease[i].used && !leases->lease[i].ended &&
        strcmp(leases->lease[i].name, name) == 0)
      return &leases->lease[i];
  return NULL;
}

static struct lease *find_unused(struct leases *leases) {
  for (int i = 0; i < leases->num_slots; i++)
    if (!leases->lease[i].used) return &leases->lease[i];
  return NULL;
}

static void forget_absent(struct leases *leases, const char *name) {
  for (int i = 0; i < leases->num_absent; i++) {
    if (strcmp(leases->absent[i], name) != 0) continue;
    memmove(leases->absent[i], leases->absent[--leases->num_absent], sizeof(leases->absent[i]));
    return;
  }
}

static void mark_slots(struct leases *leases, const struct lease *lease, uint8_t taken) {
  memset(leases->slot_taken + lease->first_slot, taken, (size_t)lease->num_environments);
}

/* A training lease ends before the run does. */
static void note_lost(struct leases *leases, const struct lease *lease) {
  if (lease->role != WIRE_ROLE_TRAIN) return;
  if (leases->lost++ == 0) memcpy(leases->first_lost, lease->name, sizeof(lease->name));
}

/* Its ids are free from now on. */
static void free_slots(struct leases *leases, struct lease *lease) {
  if (!lease->ended) mark_slots(leases, lease, 0);
  lease->ended = true;
}

/* The struct is free from now on; its stream's reference goes to the caller. */
static struct rpc_stream *forget(struct leases *leases, struct lease *lease) {
  struct rpc_stream *stream = lease->stream;
  free_slots(leases, lease);
  free(lease->last_flags);
  lease->last_flags = NULL;
  shared_rows_deinit(&lease->shared);
  lease->stream = NULL;
  lease->used = false;
  return stream;
}

/* Ends a lease from outside its stream: gone at once if it never played; else its stream is handed
 * back to be cancelled, and the struct stays until that has closed. */
static struct rpc_stream *revoke(struct leases *leases, struct lease *lease) {
  note_lost(leases, lease);
  if (!lease->playing) return forget(leases, lease);
  free_slots(leases, lease);
  rpc_stream_ref(lease->stream);
  return lease->stream;
}

/* Lives of the slots advance together, so that all rows of a lease carry one number. */
static uint32_t next_life(struct leases *leases, int first_slot, int count) {
  uint32_t life = 0;
  for (int i = 0; i < count; i++)
    if (leases->lives[first_slot + i] > life) life = leases->lives[first_slot + i];
  life++;
  for (int i = 0; i < count; i++) leases->lives[first_slot + i] = life;
  return leases->config.first_life + life;
}

static enum status try_share(const struct leases *leases, struct lease *lease,
                             struct error *error) {
  int unopened = 0;
  for (int i = 0; i < leases->num_slots; i++) unopened += leases->lease[i].shared.file != 0;
  if (unopened >= MAX_UNOPENED)
    return status_fail(error, STATUS_EXHAUSTED,
                       "%d leases with memory to share have sent no message yet", unopened);
  size_t bytes = lease->layout.wire_bytes * (size_t)lease->num_environments;
  return shared_rows_create(&lease->shared, bytes, lease->run_id, error);
}

/* Without it the actor sends its observations in messages. */
static void share_rows(struct leases *leases, struct lease *lease, int64_t now_us) {
  struct error error;
  enum status status = try_share(leases, lease, &error);
  lease->shared_file = lease->shared.file;
  if (status == STATUS_OK || now_us < leases->next_warn_us) return;
  log_warn("%s sends its observations in messages: %s", lease->name, error.text);
  leases->next_warn_us = now_us + WARN_PAUSE_US;
}

static void fill_lease(struct leases *leases, struct lease *lease,
                       const struct wire_join_request *request, int first_slot, int64_t now_us) {
  int count = request->num_environments;
  memset(leases->slot_taken + first_slot, 1, (size_t)count);
  memcpy(lease->name, request->name, sizeof(lease->name));
  lease->first_slot = first_slot;
  lease->num_environments = count;
  lease->role = request->role;
  lease->life = next_life(leases, first_slot, count);
  uint64_t time_bits = (uint64_t)now_us;
  lease->run_id = random_bits(leases->config.seed ^ time_bits, (uint32_t)first_slot, lease->life,
                              leases->joins++, RANDOM_RUN_ID) |
                  1; /* never 0: that means "not sent" on the wire */
  wire_layout_of_space(&lease->layout, &request->space, count);
  lease->shared_file = 0;
  if (request->shared_rows) share_rows(leases, lease, now_us);
  lease->last_flags = check_alloc((size_t)count, 1);
  lease->started = false;
  lease->steps = 0;
  lease->playing = false;
  lease->host[0] = '\0';
  lease->joined_us = now_us;
  lease->stream = NULL;
  lease->ended = false;
  lease->used = true;
}

/* The ids that a role may have. */
static void range_of(const struct leases *leases, enum wire_role role, int *begin, int *end) {
  *begin = role == WIRE_ROLE_EVAL ? leases->config.max_train : 0;
  *end = role == WIRE_ROLE_EVAL ? leases->num_slots : leases->config.max_train;
}

static const char *role_word(const struct wire_join_request *request) {
  return request->role == WIRE_ROLE_EVAL ? "evaluation" : "training";
}

static const char *role_option(const struct wire_join_request *request) {
  return request->role == WIRE_ROLE_EVAL ? "--num_eval_envs" : "--max_envs";
}

/* Whether there could be room at all. */
static enum status check_request(const struct leases *leases,
                                 const struct wire_join_request *request, struct error *error) {
  int begin, end;
  range_of(leases, request->role, &begin, &end);
  if (request->num_environments <= end - begin) return STATUS_OK;
  return status_fail(error, STATUS_MISMATCH,
                     "%s asks for %d %s environments, the learner holds %d at most: give the actor "
                     "fewer --envs, or the learner a larger %s",
                     request->name, request->num_environments, role_word(request), end - begin,
                     role_option(request));
}

/* Why there is no room: `first`: the ids that would do, -1: none. */
static enum status refuse_full(const struct leases *leases, const struct wire_join_request *request,
                               int first, struct error *error) {
  int begin, end, taken = 0, ending = 0;
  for (int i = 0; i < leases->num_slots; i++)
    ending += leases->lease[i].used && leases->lease[i].ended;
  if (first >= 0)
    return status_fail(error, STATUS_EXHAUSTED,
                       "no room for %s yet: the streams of %d actors that were replaced by newer "
                       "ones of the same name have not ended; try again",
                       request->name, ending);
  range_of(leases, request->role, &begin, &end);
  for (int i = begin; i < end; i++) taken += leases->slot_taken[i];
  bool scattered = end - begin - taken >= request->num_environments;
  return status_fail(error, STATUS_EXHAUSTED,
                     "no room for %d more %s environments: %d of %d are taken%s; start the learner "
                     "with a larger %s",
                     request->num_environments, role_word(request), taken, end - begin,
                     scattered ? " and the others do not lie side by side" : "",
                     role_option(request));
}

/* An older lease of the name makes room, and ends only if that is enough. */
static enum status try_join(struct leases *leases, struct lease **out,
                            struct rpc_stream **superseded, const struct wire_join_request *request,
                            int64_t now_us, struct error *error) {
  int begin, end;
  range_of(leases, request->role, &begin, &end);
  struct lease *old = find_name(leases, request->name);
  if (old) mark_slots(leases, old, 0);
  int first = find_slots(leases, begin, end, request->num_environments);
  bool has_entry = find_unused(leases) || (old && !old->playing);
  if (first < 0 || !has_entry) {
    if (old) mark_slots(leases, old, 1);
    return refuse_full(leases, request, first, error);
  }
  if (old) *superseded = revoke(leases, old);
  struct lease *lease = *out = find_unused(leases);
  CHECK(lease, "an entry that was there is gone");
  fill_lease(leases, lease, request, first, now_us);
  forget_absent(leases, request->name);
  return STATUS_OK;
}

enum status leases_join(struct leases *leases, struct lease **out, struct rpc_stream **superseded,
                        const struct wire_join_request *request, int64_t now_us,
                        struct error *error) {
  *superseded = NULL;
  enum status status = check_request(leases, request, error);
  if (status != STATUS_OK) return status;
  pthread_mutex_lock(&leases->lock);
  status = try_join(leases, out, superseded, request, now_us, error);
  pthread_mutex_unlock(&leases->lock);
  return status;
}

enum status leases_play(struct leases *leases, struct lease **out, uint64_t run_id,
                        struct rpc_stream *stream, struct error *error) {
  enum status status =
      status_fail(error, STATUS_NOT_FOUND,
                  "no lease has the run id %llx: it has ended or is already playing; Join again",
                  (unsigned long long)run_id);
  pthread_mutex_lock(&leases->lock);
  for (int i = 0; i < leases->num_slots; i++) {
    struct lease *lease = &leases->lease[i];
    if (!lease->used || lease->playing || lease->run_id != run_id) continue;
    lease->playing = true;
    lease->stream = stream;
    rpc_stream_ref(stream);
    shared_rows_close_file(&lease->shared);
    *out = lease;
    status = STATUS_OK;
    break;
  }
  pthread_mutex_unlock(&leases->lock);
  return status;
}

void leases_end(struct leases *leases, struct lease *lease, bool finished) {
  pthread_mutex_lock(&leases->lock);
  bool came_back = lease->ended;
  bool is_evaluator = lease->role == WIRE_ROLE_EVAL && leases->config.max_train > 0;
  if (!finished && !came_back) note_lost(leases, lease);
  struct rpc_stream *stream = forget(leases, lease);
  if (!finished && !came_back && !is_evaluator && leases->num_absent < leases->num_slots)
    memcpy(leases->absent[leases->num_absent++], lease->name, sizeof(lease->name));
  pthread_mutex_unlock(&leases->lock);
  if (stream) rpc_stream_unref(stream);
}

/* How long a lease in its present state may last, counted from its Join. */
static int64_t limit_us(const struct lease *lease) {
  if (!lease->playing) return LEASE_PLAY_WAIT_US;
  return lease->started ? INT64_MAX : LEASE_ROWS_WAIT_US;
}

struct rpc_stream *leases_expire(struct leases *leases, int64_t now_us) {
  struct rpc_stream *silent = NULL;
  pthread_mutex_lock(&leases->lock);
  for (int i = 0; i < leases->num_slots && !silent; i++) {
    struct lease *lease = &leases->lease[i];
    if (!lease->used || lease->ended || now_us - lease->joined_us <= limit_us(lease)) continue;
    log_warn("%s joined %d s ago and has sent no %s: its lease has ended", lease->name,
             (int)(limit_us(lease) / 1000000), lease->playing ? "rows" : "message on a Play");
    silent = revoke(leases, lease);
  }
  pthread_mutex_unlock(&leases->lock);
  return silent;
}

void leases_seeds(const struct leases *leases, const struct lease *lease, uint64_t *seeds) {
  const struct leases_config *config = &leases->config;
  int first_of_role = lease->role == WIRE_ROLE_EVAL ? config->max_train : 0;
  for (int i = 0; i < lease->num_environments; i++) {
    int slot = lease->first_slot + i;
    seeds[i] = config->seed_stride
                   ? config->seed_base + (uint64_t)(slot - first_of_role)
                   : random_bits(config->seed, random_environment(config->rank, (uint32_t)slot),
                                 lease->life, 0, RANDOM_ENV_SEED) >>
                         1;
  }
}

struct leases_count leases_count(struct leases *leases) {
  struct leases_count count = {0};
  pthread_mutex_lock(&leases->lock);
  for (int i = 0; i < leases->num_slots; i++) {
    const struct lease *lease = &leases->lease[i];
    if (!lease->used || lease->ended) continue;
    count.players++;
    if (lease->role == WIRE_ROLE_EVAL)
      count.eval_envs += lease->num_environments;
    else
      count.train_envs += lease->num_environments;
  }
  count.absent = leases->num_absent;
  count.lost = leases->lost;
  memcpy(count.first_lost, leases->first_lost, sizeof(count.first_lost));
  pthread_mutex_unlock(&leases->lock);
  return count;
}

uint64_t leases_seed_stride(const struct leases *leases) {
  return leases->config.seed_stride;
}

int leases_num_slots(const struct leases *leases) {
  return leases->num_slots;
}

int leases_view(struct leases *leases, struct lease_view *views, int room) {
  int count = 0;
  pthread_mutex_lock(&leases->lock);
  for (int i = 0; i < leases->num_slots && count < room; i++) {
    const struct lease *lease = &leases->lease[i];
    if (!lease->used || lease->ended) continue;
    struct lease_view *view = &views[count++];
    *view = (struct lease_view){.client = lease->client,
                                .run_id = lease->run_id,
                                .first_slot = lease->first_slot,
                                .num_environments = lease->num_environments,
                                .role = lease->role,
                                .steps = lease->steps,
                                .playing = lease->playing,
                                .joined_us = lease->joined_us};
    memcpy(view->name, lease->name, sizeof(view->name));
    memcpy(view->host, lease->host, sizeof(view->host));
  }
  pthread_mutex_unlock(&leases->lock);
  return count;
}

void leases_name_host(struct leases *leases, struct lease *lease, const char *host) {
  pthread_mutex_lock(&leases->lock);
  snprintf(lease->host, sizeof(lease->host), "%s", host);
  pthread_mutex_unlock(&leases->lock);
}

/* ---- deterministic mode */

bool leases_collecting(struct leases *leases) {
  pthread_mutex_lock(&leases->lock);
  bool collecting = leases->collecting;
  pthread_mutex_unlock(&leases->lock);
  return collecting;
}

int leases_waiting(struct leases *leases) {
  pthread_mutex_lock(&leases->lock);
  int environments =
      leases->collecting ? waiting_environments(&leases->waiting, WIRE_ROLE_TRAIN, NULL) : 0;
  pthread_mutex_unlock(&leases->lock);
  return environments;
}

/* An actor that lost patience asks again under the same name: its older Join does not count. */
static enum status check_waiting(const struct leases *leases,
                                 const struct wire_join_request *request, struct error *error) {
  int begin, end;
  range_of(leases, request->role, &begin, &end);
  int others = waiting_environments(&leases->waiting, request->role, request->name);
  if (others + request->num_environments <= end - begin) return STATUS_OK;
  return status_fail(error, STATUS_EXHAUSTED,
                     "no room for %d more %s environments: others that wait have asked for %d of "
                     "%d; give the actors fewer --envs, or the learner a larger %s",
                     request->num_environments, role_word(request), others, end - begin,
                     role_option(request));
}

enum status leases_wait(struct leases *leases, bool *complete, struct rpc_stream **replaced,
                        const struct wire_join_request *request, struct rpc_stream *stream,
                        struct error *error) {
  *complete = false;
  *replaced = NULL;
  enum status status = check_request(leases, request, error);
  if (status != STATUS_OK) return status;
  pthread_mutex_lock(&leases->lock);
  status = leases->collecting ? check_waiting(leases, request, error)
                              : status_fail(error, STATUS_DONE, "Joins wait for nobody any more");
  if (status == STATUS_OK) {
    *replaced = waiting_keep(&leases->waiting, request, stream);
    *complete = waiting_environments(&leases->waiting, WIRE_ROLE_TRAIN, NULL) >=
                leases->config.deterministic_envs;
  }
  if (*complete) {
    leases->collecting = false;
    waiting_sort(&leases->waiting);
  }
  pthread_mutex_unlock(&leases->lock);
  return status;
}

bool leases_forget_waiting(struct leases *leases, const struct rpc_stream *stream) {
  pthread_mutex_lock(&leases->lock);
  bool found = leases->collecting && waiting_forget(&leases->waiting, stream);
  pthread_mutex_unlock(&leases->lock);
  return found;
}

void leases_end_collecting(struct leases *leases) {
  pthread_mutex_lock(&leases->lock);
  leases->collecting = false;
  pthread_mutex_unlock(&leases->lock);
}

bool leases_next_waiting(struct leases *leases, struct wire_join_request *request,
                         struct rpc_stream **stream) {
  pthread_mutex_lock(&leases->lock);
  bool found = waiting_next(&leases->waiting, request, stream);
  pthread_mutex_unlock(&leases->lock);
  return found;
}
