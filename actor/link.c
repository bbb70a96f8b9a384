#include "actor/link.h"

#include <netdb.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/shared_rows.h"
#include "common/cluster/host_port.h"
#include "common/rpc/address.h"

enum {
  BACKOFF_MIN_US = 100000,
  BACKOFF_MAX_US = 2000000,
  JOIN_WAIT_MIN_MS =
      2000, /* for an answer: first short, so that an absent learner is reported soon; */
  JOIN_WAIT_MAX_MS =
      30000, /* then long, as a learner may collect all Joins before it answers one */
  MESSAGE_SLACK_BYTES = 65536, /* gRPC's limit counts more than our fields */
  SHARED_BYTES = 16384,        /* in a message fewer cost no more */
};

struct link {
  /* read-only after create */
  char *address;
  struct wire_join_request request;
  struct wire_layout layout;
  int64_t reconnect_us;
  size_t observation_bytes, action_bytes;

  /* worker's thread only */
  struct rpc_channel *channel;
  struct wire_join_reply lease;
  struct shared_rows shared; /* of this lease */
  struct error unshared;     /* why there is none, as logged; "": there is */
  uint8_t *header;
  size_t header_room;
  void *actions; /* where the running exchange wants them */
  enum status received;
  struct error *receive_error;
  int64_t lost_us;    /* since when there has been no exchange */
  int64_t backoff_us; /* before the next attempt */
  bool exchanged;     /* the present stream has carried rows */
  bool answered;      /* the learner has, to the last Join that did not run out of time */

  /* guarded by lock */
  pthread_mutex_t lock;
  pthread_cond_t changed;
  struct rpc_call *call; /* NULL between streams */
  bool cancelling;       /* link_cancel is at work on `call`, which must stay open */
  bool cancelled;
};

enum link_verdict link_verdict(enum rpc_code code, int at_join) {
  switch (code) {
    case RPC_OK:
      return LINK_DONE;
    case RPC_UNAVAILABLE:
    case RPC_CANCELLED:
    case RPC_DEADLINE_EXCEEDED: // one of the two was held up
      return LINK_RETRY;
    // Another lease has to end before there is room.
    case RPC_RESOURCE_EXHAUSTED:
      return at_join ? LINK_RETRY : LINK_REFUSE;
    default:
      return LINK_REFUSE;
  }
}

/* ---- create */

struct link *link_create(const struct link_config *config) {
  struct link *link = check_alloc(1, sizeof *link);
  int K = config->layout->num_environments;
  link->address = check_copy(config->address);
  link->request = *config->request;
  link->layout = *config->layout;
  link->reconnect_us = config->reconnect_us;
  link->observation_bytes = config->layout->wire_bytes * (size_t)K;
  link->request.shared_rows = config->shared_rows && address_is_local(config->address) &&
                              link->observation_bytes >= SHARED_BYTES;
  link->action_bytes = (size_t)space_action_bytes(&config->request->space) * (size_t)K;
  link->header_room = wire_steps_header_bound(K, K);
  link->header = check_alloc(link->header_room, 1);
  size_t max_bytes =
      link->observation_bytes + link->header_room + link->action_bytes + MESSAGE_SLACK_BYTES;
  link->channel = rpc_channel_create(config->address, max_bytes, config->credentials);
  pthread_mutex_init(&link->lock, NULL);
  pthread_condattr_t monotonic;
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_cond_init(&link->changed, &monotonic);
  pthread_condattr_destroy(&monotonic);
  return link;
}

/* ---- the call, which two threads know */

static bool is_cancelled(struct link *link) {
  pthread_mutex_lock(&link->lock);
  bool cancelled = link->cancelled;
  pthread_mutex_unlock(&link->lock);
  return cancelled;
}

static void close_call(struct link *link) {
  pthread_mutex_lock(&link->lock);
  while (link->cancelling) pthread_cond_wait(&link->changed, &link->lock);
  struct rpc_call *call = link->call;
  link->call = NULL;
  pthread_mutex_unlock(&link->lock);
  if (call) rpc_call_close(call);
}

static void open_call(struct link *link) {
  struct rpc_call *call = rpc_call_open(link->channel, "/acorn.Acorn/Play");
  pthread_mutex_lock(&link->lock);
  link->call = call;
  pthread_mutex_unlock(&link->lock);
}

void link_cancel(struct link *link) {
  pthread_mutex_lock(&link->lock);
  link->cancelled = true;
  struct rpc_call *call = link->call;
  link->cancelling = call != NULL;
  pthread_cond_broadcast(&link->changed);
  pthread_mutex_unlock(&link->lock);
  if (!call) return;

  rpc_call_cancel(call);
  pthread_mutex_lock(&link->lock);
  link->cancelling = false;
  pthread_cond_broadcast(&link->changed);
  pthread_mutex_unlock(&link->lock);
}

/* Sleeps, or less if link_cancel comes. */
static void wait_us(struct link *link, int64_t us) {
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  int64_t ns = until.tv_nsec + us % 1000000 * 1000;
  until.tv_sec += us / 1000000 + ns / 1000000000;
  until.tv_nsec = ns % 1000000000;
  pthread_mutex_lock(&link->lock);
  while (!link->cancelled && pthread_cond_timedwait(&link->changed, &link->lock, &until) == 0)
    continue;
  pthread_mutex_unlock(&link->lock);
}

void link_destroy(struct link *link) {
  if (!link) return;
  close_call(link);
  rpc_channel_destroy(link->channel);
  wire_join_reply_deinit(&link->lease);
  shared_rows_deinit(&link->shared);
  pthread_cond_destroy(&link->changed);
  pthread_mutex_destroy(&link->lock);
  free(link->header);
  free(link->address);
  free(link);
}

/* ---- Join */

static enum status refuse(const struct link *link, const struct rpc_result *result,
                          struct error *error) {
  return status_fail(error, STATUS_MISMATCH, "the learner at %s refused: %s", link->address,
                     *result->text ? result->text : "it gave no reason");
}

/* The lease that the reply grants must be the one asked for. */
static enum status take_lease(struct link *link, const uint8_t *bytes, size_t size,
                              struct error *error) {
  wire_join_reply_deinit(&link->lease);
  enum status status = wire_unpack_join_reply(&link->lease, bytes, size, error);
  if (status != STATUS_OK) return status;
  if (link->lease.num_environments == link->request.num_environments) return STATUS_OK;
  return status_fail(error, STATUS_MISMATCH,
                     "the learner at %s leased %d environments, %d were asked for", link->address,
                     link->lease.num_environments, link->request.num_environments);
}

/* Each Join asks anew: a learner that has no descriptor to spare now may have one then. */
static void open_shared_rows(struct link *link) {
  shared_rows_deinit(&link->shared);
  if (!link->request.shared_rows) return;
  const struct wire_join_reply *lease = &link->lease;
  struct error error = {"the learner offers no shared memory"};
  if (lease->shared_process &&
      shared_rows_open(&link->shared, lease->shared_process, lease->shared_file,
                       link->observation_bytes, lease->run_id, &error) == STATUS_OK) {
    link->unshared.text[0] = '\0';
    return;
  }
  if (strcmp(error.text, link->unshared.text) == 0) return;
  log_info("%s: observations go in messages: %s", link->request.name, error.text);
  link->unshared = error;
}

/* A finished learner answers a Join with an empty reply: nothing is leased. */
static bool is_empty_reply(const struct rpc_result *result, size_t reply_bytes) {
  return result->code == RPC_OK && reply_bytes == 0;
}

/* Looks the learner's host up, whose absence a call only answers with a timeout. */
static enum status check_host(const struct link *link, struct error *error) {
  struct addrinfo *found;
  if (host_port_path(link->address)) return STATUS_OK;
  int failure = host_port_find(&found, link->address);
  if (failure)
    return status_fail(error, STATUS_UNAVAILABLE, "the host of %s cannot be found: %s",
                       link->address, gai_strerror(failure));
  freeaddrinfo(found);
  return STATUS_OK;
}

/* One Join. UNAVAILABLE: it may be tried again. */
static enum status try_join(struct link *link, int wait_ms, struct error *error) {
  size_t request_bytes, reply_bytes = 0;
  uint8_t *request = wire_pack_join_request(&link->request, &request_bytes), *reply = NULL;
  struct rpc_result result = rpc_unary(link->channel, "/acorn.Acorn/Join", request, request_bytes,
                                       &reply, &reply_bytes, wait_ms);
  free(request);
  if (result.code != RPC_DEADLINE_EXCEEDED)
    link->answered = result.code == RPC_OK || result.code == RPC_RESOURCE_EXHAUSTED;
  enum status status = STATUS_DONE;
  if (is_empty_reply(&result, reply_bytes)) {
    log_debug("the learner at %s leases nothing any more: the run is over", link->address);
  } else if (result.code == RPC_OK) {
    status = take_lease(link, reply, reply_bytes, error);
  } else if (result.code == RPC_DEADLINE_EXCEEDED) {
    status = check_host(link, error);
    if (status == STATUS_OK)
      status =
          status_fail(error, STATUS_UNAVAILABLE, "no answer in %d ms: %s", wait_ms, result.text);
  } else if (link_verdict(result.code, 1) == LINK_RETRY) {
    status = status_fail(error, STATUS_UNAVAILABLE, "%s", *result.text ? result.text : "no answer");
  } else if (link_verdict(result.code, 1) == LINK_REFUSE) {
    status = refuse(link, &result, error);
  }
  free(reply);
  return status;
}

/* What the end of the stream means. */
static enum status end_of_stream(const struct link *link, const struct rpc_result *result,
                                 struct error *error) {
  switch (link_verdict(result->code, 0)) {
    case LINK_DONE:
      return STATUS_DONE;
    case LINK_RETRY:
      return status_fail(error, STATUS_UNAVAILABLE, "the learner at %s went away: %s",
                         link->address, *result->text ? result->text : "it gave no reason");
    case LINK_REFUSE:
      break;
  }
  return refuse(link, result, error);
}

static void ignore(void *context, const struct wire_span *spans, int num_spans) {
  (void)context, (void)spans, (void)num_spans;
}

/* Ties the lease to the stream by a message without rows, which is answered by one without actions.
 * So the lease lasts while environments are reset, however long that takes: without a stream the
 * learner keeps it for 30 s. */
static enum status bind_lease(struct link *link, struct error *error) {
  if (is_cancelled(link)) return STATUS_DONE;
  uint8_t message[WIRE_RUN_ID_BYTES];
  size_t bytes = wire_encode_run_id(message, link->lease.run_id);
  bool ended = false;
  struct rpc_result result = rpc_exchange(link->call, message, bytes, "", 0, ignore, NULL, &ended);
  if (result.code == RPC_OK && !ended) return STATUS_OK;
  return end_of_stream(link, &result, error);
}

/* One Join and the opening of its stream. Errors: as try_join. */
static enum status try_lease(struct link *link, int wait_ms, struct error *error) {
  close_call(link);
  rpc_channel_renew(link->channel);
  enum status status = try_join(link, wait_ms, error);
  if (status != STATUS_OK) return status;
  open_shared_rows(link);
  open_call(link);
  return bind_lease(link, error);
}

static enum status give_up(const struct link *link, struct error *error) {
  struct error last = *error;
  return status_fail(error, STATUS_UNAVAILABLE,
                     "no lease from the learner at %s for %lld s (%.400s); %s--reconnect_s sets "
                     "how long to try",
                     link->address, (long long)(link->reconnect_us / 1000000), last.text,
                     link->answered ? "" : "is it running there? ");
}

/* Waits longer before every attempt that follows a failed one. */
static void back_off(struct link *link) {
  if (link->backoff_us) wait_us(link, link->backoff_us);
  link->backoff_us = link->backoff_us ? link->backoff_us * 2 : BACKOFF_MIN_US;
  if (link->backoff_us > BACKOFF_MAX_US) link->backoff_us = BACKOFF_MAX_US;
}

static enum status join_with_patience(struct link *link, struct error *error) {
  for (int wait_ms = JOIN_WAIT_MIN_MS;; wait_ms *= 2) {
    back_off(link);
    if (is_cancelled(link)) return STATUS_DONE;
    if (wait_ms > JOIN_WAIT_MAX_MS) wait_ms = JOIN_WAIT_MAX_MS;
    int64_t left_ms = (link->lost_us + link->reconnect_us - clock_now_us()) / 1000;
    enum status status = try_lease(link,
                                   left_ms < 100       ? 100
                                   : left_ms < wait_ms ? (int)left_ms
                                                       : wait_ms,
                                   error);
    if (is_cancelled(link)) return STATUS_DONE;
    if (status != STATUS_UNAVAILABLE) return status;
    if (clock_now_us() >= link->lost_us + link->reconnect_us) return give_up(link, error);
    if (wait_ms == JOIN_WAIT_MIN_MS) {
      log_info("no lease from the learner at %s yet (%s): trying again", link->address,
               error->text);
    }
  }
}

enum status link_join(struct link *link, const struct wire_join_reply **lease,
                      struct error *error) {
  // A learner that leases but ends every stream at once does not start the clock anew.
  if (link->exchanged || !link->lost_us) {
    link->lost_us = clock_now_us();
    link->backoff_us = 0;
    link->exchanged = false;
  }
  enum status status = join_with_patience(link, error);
  if (status != STATUS_OK) return status;
  *lease = &link->lease;
  return STATUS_OK;
}

/* ---- Play */

static void receive(void *context, const struct wire_span *spans, int num_spans) {
  struct link *link = context;
  link->received =
      wire_decode_actions(link->actions, link->action_bytes, spans, num_spans, link->receive_error);
}

uint8_t *link_shared_rows(struct link *link) {
  return link->shared.data;
}

enum status link_exchange(struct link *link, void *actions, const struct env_pool_rows *rows,
                          struct error *error) {
  if (is_cancelled(link)) return STATUS_DONE;
  bool is_shared = rows->observation == link->shared.data;
  size_t observation_bytes = is_shared ? 0 : link->observation_bytes;
  size_t header_bytes = wire_encode_steps_header(link->header, link->header_room, 0, rows->reward,
                                                 rows->flags, rows->episodes, rows->num_episodes,
                                                 link->layout.num_environments, observation_bytes);
  link->actions = actions;
  link->receive_error = error;
  link->received = STATUS_OK;
  bool ended = false;
  struct rpc_result result = rpc_exchange(link->call, link->header, header_bytes, rows->observation,
                                          observation_bytes, receive, link, &ended);
  if (result.code == RPC_OK && !ended) {
    link->exchanged = true;
    return link->received;
  }
  return is_cancelled(link) ? STATUS_DONE : end_of_stream(link, &result, error);
}
