#include "learner/train/peers_links.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/cluster/host_port.h"
#include "common/rpc/address.h"
#include "learner/train/peers_hello.h"

enum {
  RETRY_US = 200 * 1000,
  TELL_US = 3 * 1000 * 1000,  /* of waiting, until the log has whom for */
  HELLO_US = 5 * 1000 * 1000, /* in which a connection proves itself */
  LOOK_MS = 50,
  MOST_CALLS = 2 * PEERS_MAX,
  MOST_REFUSALS = 20 /* that the log has */
};

/* A connection that has not proved itself. */
struct call {
  int fd, rank;                  /* of the other one; -1: not known yet */
  bool is_ours, connects, knows; /* knows: the other one's hello has come */
  int64_t end_us;
  struct peers_hello mine, theirs;
  size_t got;
  unsigned char bytes[sizeof(struct peers_hello) + sizeof(struct peers_proof)];
};

struct opening {
  const struct peers_config *config;
  int *fd; /* (learners) */
  struct address_sockets sockets;
  struct call call[MOST_CALLS];
  int calls, refusals;
  int tries[PEERS_MAX]; /* of calls to it */
  int token[PEERS_MAX]; /* the number of the one that the next call proves */
  int64_t next_us[PEERS_MAX];
  int64_t rests_us;             /* until then no name is looked up */
  char problem[PEERS_MAX][256]; /* of the last call to it */
  char refused[256];            /* why the last one that called was */
  enum status status;           /* what no other try mends */
  struct error error;
};

enum outcome { GOES_ON, LINKED, FAILED };

/* ---- calls of ours */

/* The caller's to free. NULL: `problem` says why. */
static struct addrinfo *look_up(const char *address, char *problem, size_t bytes) {
  struct addrinfo *list;
  int unknown = host_port_find(&list, address);
  if (unknown == 0) return list;
  snprintf(problem, bytes, "its name is not known: %s", gai_strerror(unknown));
  return NULL;
}

/* The addresses of a host are tried in turns. -1: `problem` says why. */
static int connect_to(const char *address, int tries, char *problem, size_t bytes) {
  struct addrinfo *list = look_up(address, problem, bytes);
  int count = 0;
  if (!list) return -1;
  for (const struct addrinfo *at = list; at; at = at->ai_next) count++;
  const struct addrinfo *at = list;
  for (int i = 0; i < tries % count; i++) at = at->ai_next;
  int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd >= 0 && connect(fd, at->ai_addr, at->ai_addrlen) != 0 && errno != EINPROGRESS) {
    snprintf(problem, bytes, "%s", strerror(errno));
    close(fd);
    fd = -1;
  }
  freeaddrinfo(list);
  return fd;
}

static bool is_called(const struct opening *o, int rank) {
  for (int i = 0; i < o->calls; i++)
    if (o->call[i].is_ours && o->call[i].rank == rank) return true;
  return false;
}

static void add_call(struct opening *o, int fd, int rank) {
  const struct peers_config *config = o->config;
  o->call[o->calls++] =
      (struct call){.fd = fd,
                    .rank = rank,
                    .is_ours = rank >= 0,
                    .connects = rank >= 0,
                    .end_us = clock_now_us() + HELLO_US,
                    .mine = peers_hello_make(config->rank, rank, config->learners)};
}

/* While a name is looked up nothing else goes on: after a slow one calls of others come first, for
 * as long as it took. */
static void call_others(struct opening *o) {
  for (int r = 0; r < o->config->rank; r++) {
    int64_t begin_us = clock_now_us();
    if (begin_us < o->rests_us) return;
    if (o->fd[r] >= 0 || is_called(o, r) || begin_us < o->next_us[r]) continue;
    int fd = connect_to(o->config->at[r], o->tries[r]++, o->problem[r], sizeof(o->problem[r]));
    int64_t now_us = clock_now_us();
    o->next_us[r] = now_us + RETRY_US;
    if (now_us - begin_us > RETRY_US) o->rests_us = 2 * now_us - begin_us;
    if (fd >= 0) add_call(o, fd, r);
  }
}

/* ---- what the log has of those that do not count */

/* `text`: why, with the address. */
static void log_refusal(struct opening *o, const struct call *call, const char *why,
                        char text[256]) {
  char from[ADDRESS_NUMERIC_BYTES];
  bool is_known = address_of_peer(from, call->fd);
  if (is_known) *strrchr(from, ':') = '\0';
  snprintf(text, 256, "a connection from %.60s was refused: %.150s", is_known ? from : "?", why);
  if (o->refusals++ < MOST_REFUSALS) log_warn("%s", text);
}

/* That says nothing about a learner, so errors do not name it. */
static void refuse_stranger(struct opening *o, const struct call *call, const char *why) {
  char text[256];
  log_refusal(o, call, why, text);
}

static void refuse(struct opening *o, const struct call *call, const char *why) {
  log_refusal(o, call, why, o->refused);
  if (call->is_ours) snprintf(o->problem[call->rank], sizeof(o->problem[0]), "%.150s", why);
}

/* ---- calls of others */

static void drop_call(struct opening *o, int i) {
  close(o->call[i].fd);
  memmove(&o->call[i], &o->call[i + 1], (size_t)(o->calls - i - 1) * sizeof(o->call[0]));
  o->calls--;
}

/* Where there are too many, the oldest one of another goes. */
static void accept_calls(struct opening *o) {
  for (int s = 0, fd; s < o->sockets.count; s++)
    while ((fd = accept4(o->sockets.fd[s], NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
      int oldest = 0;
      while (oldest < o->calls && o->call[oldest].is_ours) oldest++;
      if (o->calls >= MOST_CALLS - PEERS_MAX && oldest < o->calls) {
        refuse_stranger(o, &o->call[oldest], "there are too many that have not proved themselves");
        drop_call(o, oldest);
      }
      add_call(o, fd, -1);
    }
}

/* ---- both prove themselves */

/* All that is said before a connection counts fits into the socket's buffer. */
static void say(const struct call *call, const void *bytes, size_t count) {
  (void)!send(call->fd, bytes, count, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void say_proof(const struct opening *o, const struct call *call, int token) {
  struct peers_proof proof = peers_prove(o->config->tokens, token, &call->mine, &call->theirs);
  say(call, &proof, sizeof(proof));
}

static bool hear_hello(struct opening *o, struct call *call) {
  struct error error;
  const struct peers_config *config = o->config;
  if (peers_hello_read(&call->theirs, call->bytes, config->rank, &error) != STATUS_OK) {
    refuse(o, call, error.text);
    return false;
  }
  int rank = (int)call->theirs.from;
  if (call->is_ours ? rank != call->rank : rank < config->rank) {
    refuse(o, call,
           "it is another learner than was called: --learners_at has to be the same for all");
    return false;
  }
  call->rank = rank;
  call->mine.to = (uint32_t)rank;
  call->knows = true;
  if (call->is_ours)
    say_proof(o, call, o->token[rank]);
  else
    say(call, &call->mine, sizeof(call->mine));
  return true;
}

static bool is_alive(int fd) {
  char byte;
  ssize_t n = recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

static bool hear_proof(struct opening *o, struct call *call) {
  const struct peers_config *config = o->config;
  struct peers_proof proof;
  memcpy(&proof, call->bytes + sizeof(call->theirs), sizeof(proof));
  int token = peers_proves(&proof, config->tokens, &call->theirs, &call->mine);
  if (token < 0) {
    refuse(o, call, "it has another token: --token_file of all learners has to be the same");
    return false;
  }
  if (!call->is_ours) say_proof(o, call, token);
  if (call->theirs.learners == (uint32_t)config->learners && call->rank < config->learners)
    return true;
  o->status = status_fail(&o->error, STATUS_MISMATCH,
                          "learner %d has --learners=%d, and learner %d --learners=%u: give all "
                          "the same",
                          config->rank, config->learners, call->rank, call->theirs.learners);
  return false;
}

/* It closed the connection; where it has our proof, the token may be the one before. */
static void lose_call(struct opening *o, const struct call *call) {
  if (!call->is_ours) {
    refuse_stranger(o, call, "it closed the connection before it had proved itself");
    return;
  }
  if (call->knows) o->token[call->rank]++;
  snprintf(o->problem[call->rank], sizeof(o->problem[0]),
           "it closed the connection: its log has the reason, as where its token is another one");
}

/* Takes what has come. */
static enum outcome hear(struct opening *o, struct call *call) {
  ssize_t n = recv(call->fd, call->bytes + call->got, sizeof(call->bytes) - call->got, 0);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return GOES_ON;
  if (n <= 0) lose_call(o, call);
  if (n <= 0) return FAILED;
  call->got += (size_t)n;
  if (!call->knows && call->got >= sizeof(call->theirs) && !hear_hello(o, call)) return FAILED;
  if (call->got < sizeof(call->bytes)) return GOES_ON;
  return hear_proof(o, call) ? LINKED : FAILED;
}

/* What has come counts, however late this process looks. */
static enum outcome advance(struct opening *o, struct call *call, short events) {
  bool is_late = !events && clock_now_us() > call->end_us;
  if (is_late && call->is_ours)
    snprintf(o->problem[call->rank], sizeof(o->problem[0]), "it does not answer");
  else if (is_late)
    refuse_stranger(o, call, "it did not prove itself within 5 s");
  if (is_late) return FAILED;
  if (!events) return GOES_ON;
  if (!call->connects) return hear(o, call);
  int reason = 0;
  socklen_t bytes = sizeof(reason);
  getsockopt(call->fd, SOL_SOCKET, SO_ERROR, &reason, &bytes);
  if (reason) snprintf(o->problem[call->rank], sizeof(o->problem[0]), "%s", strerror(reason));
  if (reason) return FAILED;
  call->connects = false;
  say(call, &call->mine, sizeof(call->mine));
  return GOES_ON;
}

/* A learner that was started again takes the place of the one that has ended, also where its host
 * has lost power, which leaves a connection that looks alive. Probes of those find out, too, that
 * the other host has been started again since. */
static void take_link(struct opening *o, const struct call *call) {
  enum { PROBE_S = 2, MOST_PROBES = 127 };
  static const struct {
    int level, name, value;
  } options[] = {{IPPROTO_TCP, TCP_NODELAY, 1},
                 {SOL_SOCKET, SO_KEEPALIVE, 1},
                 {IPPROTO_TCP, TCP_KEEPIDLE, PROBE_S},
                 {IPPROTO_TCP, TCP_KEEPINTVL, PROBE_S},
                 {IPPROTO_TCP, TCP_KEEPCNT, MOST_PROBES}};
  int *fd = &o->fd[call->rank];
  if (*fd >= 0) {
    log_warn("learner %d has come again: its new connection replaces the one before", call->rank);
    close(*fd);
  }
  for (size_t i = 0; i < sizeof(options) / sizeof(*options); i++)
    setsockopt(call->fd, options[i].level, options[i].name, &options[i].value, sizeof(int));
  *fd = call->fd;
}

static void end_lost_links(struct opening *o) {
  for (int r = 0; r < o->config->learners; r++) {
    if (o->fd[r] < 0 || is_alive(o->fd[r])) continue;
    close(o->fd[r]);
    o->fd[r] = -1;
  }
}

/* ---- until all are there */

static void look(struct opening *o) {
  struct pollfd place[MOST_CALLS + ADDRESS_MAX_SOCKETS];
  nfds_t count = 0;
  for (; count < (nfds_t)o->calls; count++)
    place[count] = (struct pollfd){.fd = o->call[count].fd,
                                   .events = o->call[count].connects ? POLLOUT : POLLIN};
  for (int s = 0; s < o->sockets.count; s++)
    place[count++] = (struct pollfd){.fd = o->sockets.fd[s], .events = POLLIN};
  if (poll(place, count, LOOK_MS) < 0) return;
  end_lost_links(o);
  for (int i = o->calls - 1; i >= 0; i--) {
    enum outcome outcome = advance(o, &o->call[i], place[i].revents);
    if (outcome == GOES_ON) continue;
    if (outcome == LINKED) take_link(o, &o->call[i]);
    if (outcome == LINKED) o->call[i].fd = -1; /* it stays open */
    drop_call(o, i);
  }
  accept_calls(o);
}

static int first_missing(const struct opening *o) {
  for (int r = 0; r < o->config->learners; r++)
    if (r != o->config->rank && o->fd[r] < 0) return r;
  return -1;
}

/* One of a higher rank calls: what is known of it is its name, or why the last call was refused.
 * The name is looked up here, and not while there are calls to take, which would wait for that. */
static enum status give_up(struct opening *o, int rank, struct error *error) {
  const struct peers_config *config = o->config;
  char *problem = rank < config->rank ? o->problem[rank] : o->refused;
  if (!problem[0]) {
    struct addrinfo *list = look_up(config->at[rank], problem, sizeof(o->refused));
    if (list) freeaddrinfo(list);
  }
  return status_fail(error, STATUS_UNAVAILABLE,
                     "learner %d of %d, at %.270s, has not come within %g s%s%.250s: look at its "
                     "log, or raise --learners_timeout_s",
                     rank, config->learners, config->at[rank], config->timeout_ms / 1e3,
                     problem[0] ? "; " : "", problem);
}

static void tell_missing(const struct opening *o) {
  char text[512] = "";
  size_t length = 0;
  for (int r = 0; r < o->config->learners && length < sizeof(text); r++)
    if (r != o->config->rank && o->fd[r] < 0)
      length += (size_t)snprintf(text + length, sizeof(text) - length, "%s %d at %s",
                                 length ? "," : "", r, o->config->at[r]);
  log_info("learner %d waits for%s", o->config->rank, text);
}

static enum status wait_for_all(struct opening *o, struct error *error) {
  int64_t begin_us = clock_now_us(), timeout_us = o->config->timeout_ms * (int64_t)1000;
  bool has_told = false;
  for (int missing; (missing = first_missing(o)) >= 0;) {
    int64_t waited_us = clock_now_us() - begin_us;
    if (waited_us > timeout_us) return give_up(o, missing, error);
    if (waited_us > TELL_US && !has_told) tell_missing(o);
    has_told |= waited_us > TELL_US;
    call_others(o);
    look(o);
    if (o->status != STATUS_OK) *error = o->error;
    if (o->status != STATUS_OK) return o->status;
  }
  return STATUS_OK;
}

/* On all interfaces: a host may know itself by a loopback address. */
static enum status listen_for_others(struct opening *o, struct error *error) {
  char all[HOST_PORT_HOST_BYTES];
  const char *own = o->config->at[o->config->rank];
  host_port_bind_all(all, sizeof(all), own);
  return address_listen(&o->sockets, address_is_local(own) ? own : all, error);
}

enum status peers_links_open(int fd[PEERS_MAX], const struct peers_config *config,
                             struct error *error) {
  struct opening *o = check_alloc(1, sizeof(*o));
  o->config = config;
  o->fd = fd;
  for (int r = 0; r < PEERS_MAX; r++) fd[r] = -1;
  enum status status = listen_for_others(o, error);
  if (status == STATUS_OK) status = wait_for_all(o, error);
  while (o->calls > 0) drop_call(o, o->calls - 1);
  address_close(&o->sockets);
  free(o);
  return status;
}
