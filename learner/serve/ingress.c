#include "learner/serve/ingress.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "learner/serve/refusals.h"
#include "learner/serve/reply.h"
#include "learner/serve/rules.h"

enum { NUM_METHODS = 4, MESSAGE_SLACK_BYTES = 65536 };

struct ingress {
  struct ingress_config config; /* read-only after create */
  struct leases *leases;
  struct batcher *batcher;
  struct progress *progress;
  struct rpc_method method[NUM_METHODS];
  struct wire_episode **episodes; /* (num_queues) scratch of each queue thread, one for each slot */
  int max_episodes;

  struct refusals refusals;

  atomic_bool stopping; /* then stop_code and stop_text stand */
  enum rpc_code stop_code;
  char stop_text[128];

  const struct wire_status *status; /* of the control queue's thread, as is the next */
  struct players *players;
};

/* ---- Join */

static void answer_error(struct rpc_stream *stream, enum status status, const struct error *error) {
  enum rpc_code code = status == STATUS_MISMATCH    ? RPC_FAILED_PRECONDITION
                       : status == STATUS_EXHAUSTED ? RPC_RESOURCE_EXHAUSTED
                       : status == STATUS_NOT_FOUND ? RPC_UNAVAILABLE
                                                    : RPC_INVALID_ARGUMENT;
  rpc_stream_finish(stream, code, error->text, NULL, 0);
}

/* Refuses a peer that has no lease, and so no name, yet. */
static void refuse_unnamed(struct ingress *self, struct rpc_stream *stream, enum refusal kind,
                           enum status status, const struct error *error) {
  char peer[RPC_PEER_BYTES];
  rpc_stream_peer(stream, peer);
  refusals_note(&self->refusals, kind, peer, error->text, clock_now_us());
  answer_error(stream, status, error);
}

/* Protocol, environment and space, ours against theirs. */
static enum status check_join(const struct ingress *self, const struct wire_join_request *request,
                              struct error *error) {
  const struct ingress_config *config = &self->config;
  if (request->protocol != WIRE_PROTOCOL)
    return status_fail(error, STATUS_MISMATCH,
                       "protocol %d here, %d there: build actor and learner from one version",
                       WIRE_PROTOCOL, request->protocol);
  if (strcmp(request->environment, config->environment) != 0)
    return status_fail(error, STATUS_MISMATCH,
                       "the learner trains '%s', actor %s plays '%s': give both the same --env and "
                       "--env_args",
                       config->environment, request->name, request->environment);
  if (config->evaluate && request->role != WIRE_ROLE_EVAL)
    return status_fail(error, STATUS_MISMATCH,
                       "the learner evaluates and trains nobody: start actor %s with --role=eval",
                       request->name);
  return space_compare(&config->space, "at the learner", &request->space, "at the actor", error);
}

/* Its first environment, as an id of its role. */
static int first_of(const struct ingress *self, const struct lease *lease) {
  return lease->first_slot - (lease->role == WIRE_ROLE_EVAL ? self->config.num_train_slots : 0);
}

static void grant(struct ingress *self, struct rpc_stream *stream,
                  const struct wire_join_request *request) {
  struct error error;
  struct lease *lease;
  struct rpc_stream *superseded;
  enum status status =
      leases_join(self->leases, &lease, &superseded, request, clock_now_us(), &error);
  if (superseded) {
    log_warn("%s joined again: its older stream is ended", request->name);
    rpc_stream_cancel(superseded, RPC_ABORTED, "superseded by a newer actor of the same name");
    rpc_stream_unref(superseded);
  }
  if (status != STATUS_OK) {
    refuse_unnamed(self, stream, REFUSED_JOIN, status, &error);
    return;
  }
  log_debug("%s plays environments %d..%d", lease->name, lease->first_slot,
            lease->first_slot + lease->num_environments - 1);
  uint64_t *seeds = check_alloc((size_t)lease->num_environments, sizeof(*seeds));
  uint64_t stride = leases_seed_stride(self->leases);
  leases_seeds(self->leases, lease, seeds);
  for (int i = 0; i < lease->num_environments && stride; i++) /* what was counted is not repeated */
    seeds[i] += stride * (uint64_t)progress_played(self->progress, first_of(self, lease) + i);
  struct wire_join_reply reply = {
      .run_id = lease->run_id,
      .first_environment = (uint32_t)lease->first_slot,
      .num_environments = lease->num_environments,
      .environment_seed = seeds,
      .episode_seed_stride = stride,
      .shared_process = lease->shared_file ? (uint32_t)getpid() : 0,
      .shared_file = (uint32_t)lease->shared_file,
  };
  size_t size;
  uint8_t *bytes = wire_pack_join_reply(&reply, &size);
  rpc_stream_finish(stream, RPC_OK, "", bytes, size);
  free(bytes);
  free(seeds);
}

static bool refuse_when_stopping(struct ingress *self, struct rpc_stream *stream,
                                 const void *payload) {
  if (!atomic_load(&self->stopping)) return false;
  rpc_stream_finish(stream, self->stop_code, self->stop_text, payload, 0);
  return true;
}

/* An empty JoinReply: the run is over, nothing is leased. */
static const char empty_reply[] = "";

/* Deterministic mode: the Join waits until all are there. If the wait has ended meanwhile, it
 * is answered here. */
static void collect(struct ingress *self, struct rpc_stream *stream,
                    const struct wire_join_request *request) {
  struct rpc_stream *replaced, *waiting;
  struct wire_join_request next;
  struct error error;
  bool complete;
  enum status status = leases_wait(self->leases, &complete, &replaced, request, stream, &error);
  if (status == STATUS_DONE) {
    if (!refuse_when_stopping(self, stream, empty_reply)) grant(self, stream, request);
    return;
  }
  if (status != STATUS_OK) {
    refuse_unnamed(self, stream, REFUSED_JOIN, status, &error);
    return;
  }
  if (replaced) rpc_stream_finish(replaced, RPC_ABORTED, "superseded by a newer Join", NULL, 0);
  if (!complete) return;
  while (leases_next_waiting(self->leases, &next, &waiting)) grant(self, waiting, &next);
}

/* A Join that waits for the others loses its place with its peer. */
static void join_close(void *context, struct rpc_stream *stream) {
  struct ingress *self = context;
  if (leases_forget_waiting(self->leases, stream))
    rpc_stream_finish(stream, RPC_CANCELLED, "the peer has gone", NULL, 0);
}

static void join_message(void *context, struct rpc_stream *stream, const struct wire_span *spans,
                         int num_spans) {
  struct ingress *self = context;
  if (refuse_when_stopping(self, stream, empty_reply)) return;
  size_t size;
  uint8_t *bytes = wire_gather(spans, num_spans, &size);
  struct wire_join_request request;
  struct error error;
  enum status status = wire_unpack_join_request(&request, bytes, size, &error);
  if (status == STATUS_OK) status = check_join(self, &request, &error);
  if (status != STATUS_OK) {
    refuse_unnamed(self, stream, REFUSED_JOIN, status, &error);
  } else if (self->config.deterministic) {
    collect(self, stream, &request);
  } else {
    grant(self, stream, &request);
  }
  free(bytes);
}

/* ---- Play */

/* Without the port, which changes with each connection. */
static void name_host(struct ingress *self, struct lease *lease, struct rpc_stream *stream) {
  char peer[RPC_PEER_BYTES];
  rpc_stream_peer(stream, peer);
  char *port = strrchr(peer, ':');
  if (port) *port = '\0';
  leases_name_host(self->leases, lease, peer);
}

/* The first message of a stream: its run id names the lease. If it has nothing else, it only ties
 * the lease to the stream, while the client resets its environments, and is answered by an empty
 * Actions. Returns NULL if the stream is answered, else the lease, whose rows the message has. */
static struct lease *begin_play(struct ingress *self, struct rpc_stream *stream,
                                const struct wire_span *spans, int num_spans) {
  uint64_t run_id = 0;
  bool alone = false;
  struct lease *lease;
  struct error error;
  enum status status = wire_peek_run_id(&run_id, &alone, spans, num_spans, &error);
  if (status == STATUS_OK) status = leases_play(self->leases, &lease, run_id, stream, &error);
  if (status != STATUS_OK) {
    refuse_unnamed(self, stream, REFUSED_PLAY, status, &error);
    return NULL;
  }
  rpc_stream_set_user(stream, lease);
  name_host(self, lease, stream);
  if (!alone) return lease;
  rpc_stream_reply(stream, "", 0, "", 0);
  return NULL;
}

/* With its first rows a lease takes part in batches: from then on they wait for it. */
static void begin_stepping(struct ingress *self, const struct lease *lease) {
  bool eval = lease->role == WIRE_ROLE_EVAL;
  batcher_add(self->batcher, lease->client, lease->num_environments, lease->first_slot, lease->life,
              eval, !eval || self->config.evaluate, clock_now_us());
}

static void report_episodes(struct ingress *self, const struct lease *lease,
                            const struct wire_rows *rows) {
  bool eval = lease->role == WIRE_ROLE_EVAL;
  int first = first_of(self, lease);
  for (int i = 0; i < rows->num_episodes; i++) {
    const struct wire_episode *wire = &rows->episodes[i];
    struct progress_episode episode = {.eval = eval,
                                       .environment = first + (int)wire->environment,
                                       .episode_return = wire->episode_return,
                                       .length = wire->length,
                                       .actor = lease->name,
                                       .number = wire->number,
                                       .num_numbers = wire->num_numbers};
    if (self->config.deterministic && !eval)
      progress_keep_episode(self->progress, &episode);
    else
      progress_add_episode(self->progress, &episode);
  }
}

/* Decodes and checks one message into its segment. *kind: what a failure is counted as. */
static enum status decode(struct ingress *self, struct lease *lease, struct wire_rows *rows,
                          const struct wire_span *spans, int num_spans, enum refusal *kind,
                          struct error *error) {
  enum status status = wire_decode_steps(rows, spans, num_spans, &lease->layout, error);
  if (status == STATUS_OK && rows->run_id != 0 && rows->run_id != lease->run_id)
    status = status_fail(error, STATUS_INVALID, "the run id changed within the stream");
  if (status == STATUS_OK)
    status = rules_check_flags(rows->flags, rows->reward, lease->last_flags,
                               lease->num_environments, lease->started, error);
  if (status == STATUS_OK)
    status = rules_check_episodes(rows->episodes, rows->num_episodes, rows->flags,
                                  lease->last_flags, lease->num_environments, error);
  if (status == STATUS_OK)
    status = rules_check_mask(rows->flags, rows->observation, &lease->layout, &self->config.space,
                              error);
  *kind = REFUSED_MESSAGE;
  if (status != STATUS_OK) return status;
  *kind = REFUSED_NOT_FINITE;
  return rules_check_finite(rows->flags, rows->reward, rows->observation, &lease->layout,
                            &self->config.space, error);
}

/* Rows that need an action. */
static uint64_t count_steps(const uint8_t *flags, int K) {
  int steps = 0;
  for (int i = 0; i < K; i++) steps += !(flags[i] & (STEP_TRUNCATED | STEP_ABSENT));
  return (uint64_t)steps;
}

static void play_message(void *context, struct rpc_stream *stream, const struct wire_span *spans,
                         int num_spans) {
  struct ingress *self = context;
  if (refuse_when_stopping(self, stream, NULL)) return;
  struct lease *lease = rpc_stream_user(stream);
  if (!lease && !(lease = begin_play(self, stream, spans, num_spans))) return;
  if (!lease->started) begin_stepping(self, lease);

  int segment;
  int64_t now_us = clock_now_us();
  struct row_batch *batch = batcher_reserve(self->batcher, lease->client, &segment, now_us);
  if (!batch) {
    rpc_stream_finish(stream, RPC_UNAVAILABLE, "too many dead actors' rows wait: try again", NULL,
                      0);
    return;
  }
  size_t first = (size_t)batch->segment[segment].first_row;
  struct wire_rows rows = {.observation = batch->observation + first * lease->layout.row_stride,
                           .reward = batch->reward + first,
                           .flags = batch->flags + first,
                           .episodes = self->episodes[rpc_stream_queue(stream)],
                           .max_episodes = self->max_episodes,
                           .shared = lease->shared.data};
  struct error error;
  enum refusal kind;
  if (decode(self, lease, &rows, spans, num_spans, &kind, &error) != STATUS_OK) {
    batcher_cancel(self->batcher, batch, segment);
    refusals_note(&self->refusals, kind, lease->name, error.text, now_us);
    rpc_stream_finish(stream, RPC_INVALID_ARGUMENT, error.text, NULL, 0);
    return;
  }
  atomic_store_explicit(&lease->started, true, memory_order_relaxed);
  atomic_fetch_add_explicit(&lease->steps, count_steps(rows.flags, lease->num_environments),
                            memory_order_relaxed);
  report_episodes(self, lease, &rows);
  batcher_commit(self->batcher, batch, segment, stream, now_us);
}

static void play_close(void *context, struct rpc_stream *stream) {
  struct ingress *self = context;
  struct lease *lease = rpc_stream_user(stream);
  if (!lease) return;
  batcher_remove(self->batcher, lease->client);
  log_debug("%s has left", lease->name);
  leases_end(self->leases, lease, atomic_load(&self->stopping));
}

/* ---- Status and health */

static void status_message(void *context, struct rpc_stream *stream, const struct wire_span *spans,
                           int num_spans) {
  struct ingress *self = context;
  (void)spans, (void)num_spans;
  struct wire_status status = *self->status;
  if (atomic_load(&self->stopping)) snprintf(status.state, sizeof(status.state), "stopping");
  status.environment_steps = (uint64_t)progress_steps(self->progress);
  status.train_environments = status.eval_environments = 0;
  status.players = players_list(self->players, &status.num_players, clock_now_us());
  for (int i = 0; i < status.num_players; i++) {
    const struct wire_player *player = &status.players[i];
    bool eval = player->role == WIRE_ROLE_EVAL;
    *(eval ? &status.eval_environments : &status.train_environments) += player->num_environments;
    status.late_environments += player->late_environments;
  }
  size_t size;
  uint8_t *bytes = wire_pack_status(&status, &size);
  rpc_stream_finish(stream, RPC_OK, "", bytes, size);
  free(bytes);
  free(status.players);
}

/* HealthCheckResponse {status: SERVING = 1, NOT_SERVING = 2}. */
static void health_message(void *context, struct rpc_stream *stream, const struct wire_span *spans,
                           int num_spans) {
  struct ingress *self = context;
  (void)spans, (void)num_spans;
  const uint8_t response[] = {0x08, atomic_load(&self->stopping) ? 2 : 1};
  rpc_stream_finish(stream, RPC_OK, "", response, sizeof(response));
}

/* ---- */

struct ingress *ingress_create(const struct ingress_config *config, struct leases *leases,
                               struct batcher *batcher, struct progress *progress) {
  struct ingress *self = check_alloc(1, sizeof(*self));
  self->config = *config;
  self->leases = leases;
  self->batcher = batcher;
  self->progress = progress;
  self->max_episodes = leases_num_slots(leases);
  self->episodes = check_alloc((size_t)config->num_queues, sizeof(*self->episodes));
  for (int i = 0; i < config->num_queues; i++)
    self->episodes[i] = check_alloc((size_t)self->max_episodes, sizeof(struct wire_episode));
  refusals_init(&self->refusals);
  self->method[0] =
      (struct rpc_method){"/acorn.Acorn/Play", self, NULL, play_message, play_close, false, false};
  self->method[1] =
      (struct rpc_method){"/acorn.Acorn/Join", self, NULL, join_message, join_close, true, false};
  self->method[2] =
      (struct rpc_method){"/acorn.Acorn/Status", self, NULL, status_message, NULL, true, false};
  self->method[3] = (struct rpc_method){
      "/grpc.health.v1.Health/Check", self, NULL, health_message, NULL, true, false};
  return self;
}

void ingress_destroy(struct ingress *self) {
  if (!self) return;
  for (int i = 0; i < self->config.num_queues; i++) free(self->episodes[i]);
  free(self->episodes);
  refusals_deinit(&self->refusals);
  free(self);
}

const struct rpc_method *ingress_methods(struct ingress *self, int *count) {
  *count = NUM_METHODS;
  return self->method;
}

void ingress_stop(struct ingress *self, enum rpc_code code, const char *text) {
  self->stop_code = code;
  snprintf(self->stop_text, sizeof(self->stop_text), "%s", text);
  atomic_store(&self->stopping, true);
  struct wire_join_request request;
  struct rpc_stream *waiting;
  leases_end_collecting(self->leases); /* a stream that closes now is not answered twice */
  while (leases_next_waiting(self->leases, &request, &waiting))
    rpc_stream_finish(waiting, code, text, empty_reply, 0);
}

void ingress_end_batch(struct ingress *self, struct row_batch *batch) {
  reply_finish(batch, self->stop_code, self->stop_text);
}

void ingress_set_status(struct ingress *self, const struct wire_status *status,
                        struct players *players) {
  self->status = status;
  self->players = players;
}

int64_t ingress_refused(const struct ingress *ingress, enum refusal kind) {
  return atomic_load_explicit(&ingress->refusals.log[kind].count, memory_order_relaxed);
}

size_t ingress_max_message_bytes(const struct space *space, int max_environments) {
  struct wire_layout layout;
  wire_layout_of_space(&layout, space, max_environments);
  size_t per_row = layout.wire_bytes + 16 + sizeof(struct wire_episode) + 64;
  return per_row * (size_t)max_environments + MESSAGE_SLACK_BYTES;
}
