#include "common/rpc/intake.h"

#include <netdb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/rpc/frames.h"
#include "common/rpc/tap.h"

enum {
  /* beyond the limit: what gRPC still answers with a sentence, and calls that were given up */
  SLACK_BYTES = 1 << 20,
  PREFIX_BYTES = 5,       /* in front of every message, and not part of it */
  TOTAL_BYTES = 64 << 20, /* of all connections together, or four at their limit if that is more */
  REASON_BYTES = 160,
  /* calls of one connection that may be on their way while those of all are too many */
  SCARCE_ON_THE_WAY = 8,
  LEAST_ON_THE_WAY = 1000, /* of all connections; and four of each environment */
  LINES_PER_SECOND = 10    /* of the log: who comes again and again must not fill it */
};

/* What may be printed. */
struct words {
  pthread_mutex_t lock;
  int64_t second; /* the present one; */
  int lines;      /* what it has printed, */
  int unsaid;     /* and not printed */
};

/* Made when its number is first used, kept for all connections that have it. */
struct connection {
  struct tap tap; /* first */
  struct intake *intake;
  int fd;
  pthread_mutex_t lock;
  /* guarded by the lock */
  bool open;
  bool cut; /* closed here */
  uint32_t life;
  uint64_t cookie; /* the kernel's name for the socket: numbers are used again, cookies are not */
  struct frames frames;
  uint64_t credit;   /* bytes of messages that are accounted for */
  uint64_t accepted; /* calls that came out */
  int calls;         /* of these, open */
  int waiting;       /* of these, for their peer */
  int64_t moved_us;  /* when a message came out of it, or it held nothing */
};

struct intake {
  /* read-only after create */
  int room;
  int64_t limit_bytes;
  int limit_calls;
  long limit_on_the_way;
  struct words words;
  atomic_long on_the_way;                 /* calls of all connections that have not come out */
  atomic_int highest;                     /* descriptor that ever was a connection */
  struct connection *_Atomic *connection; /* (room); NULL: that number never was one */
};

struct intake *intake_create(int room, size_t limit_bytes, int limit_calls) {
  struct intake *intake = check_alloc(1, sizeof(*intake));
  intake->room = room;
  intake->limit_bytes = (int64_t)limit_bytes + SLACK_BYTES;
  intake->limit_calls = limit_calls;
  intake->limit_on_the_way = LEAST_ON_THE_WAY + 4L * limit_calls;
  atomic_init(&intake->on_the_way, 0);
  pthread_mutex_init(&intake->words.lock, NULL);
  atomic_init(&intake->highest, -1);
  intake->connection = check_alloc((size_t)room, sizeof(*intake->connection));
  return intake;
}

void intake_destroy(struct intake *intake) {
  if (!intake) return;
  for (int fd = 0; fd <= intake->highest; fd++) {
    struct connection *connection = intake->connection[fd];
    if (!connection) continue;
    tap_end(fd, &connection->tap);
    pthread_mutex_destroy(&connection->lock);
    free(connection);
  }
  pthread_mutex_destroy(&intake->words.lock);
  free(intake->connection);
  free(intake);
}

/* ---- connections */

/* The socket's cookie; 0: it is no socket any more. */
static uint64_t cookie_of(int fd) {
  uint64_t cookie = 0;
  socklen_t size = sizeof(cookie);
  return getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &size) == 0 ? cookie : 0;
}

/* Calls that have been opened and have not come out. */
static uint64_t on_the_way(const struct connection *connection) {
  uint64_t opened = connection->frames.calls, accepted = connection->accepted;
  return opened > accepted ? opened - accepted : 0;
}

/* What is on its way here will not come out, or nobody waits for it any more. */
static void forget_calls(struct connection *connection) {
  uint64_t calls = on_the_way(connection);
  connection->accepted += calls;
  atomic_fetch_sub(&connection->intake->on_the_way, (long)calls);
}

static bool see(struct tap *tap, const uint8_t *data, size_t bytes);

static struct connection *make(struct intake *intake, int fd) {
  struct connection *connection = check_alloc(1, sizeof(*connection));
  connection->tap.see = see;
  connection->intake = intake;
  connection->fd = fd;
  pthread_mutex_init(&connection->lock, NULL);
  intake->connection[fd] = connection;
  if (fd > intake->highest) intake->highest = fd;
  return connection;
}

void intake_open(struct intake *intake, int fd) {
  struct connection *connection = intake->connection[fd];
  if (!connection) connection = make(intake, fd);
  pthread_mutex_lock(&connection->lock);
  forget_calls(connection);
  connection->open = true;
  connection->cut = false;
  connection->moved_us = clock_now_us();
  connection->life++;
  connection->cookie = cookie_of(fd);
  frames_init(&connection->frames);
  connection->credit = connection->accepted = 0;
  connection->calls = connection->waiting = 0;
  pthread_mutex_unlock(&connection->lock);
  tap_begin(fd, &connection->tap);
}

/* gRPC closes connections; another file may have the number since. */
static bool is_still_open(struct connection *connection, int fd) {
  if (connection->open && cookie_of(fd) != connection->cookie) {
    connection->open = false;
    forget_calls(connection);
  }
  return connection->open;
}

/* Bytes of messages that are not whole. */
static int64_t pending(const struct connection *connection) {
  return (int64_t)(connection->frames.data_bytes - connection->credit);
}

/* What this side counts ends a little after what the peer counts. */
static bool is_too_many(const struct intake *intake, uint64_t calls) {
  return intake->limit_calls > 0 && calls > 2 * (uint64_t)intake->limit_calls;
}

/* ---- closing */

static void say(struct words *words, const char *peer, const char *why) {
  int64_t second = clock_now_us() / 1000000;
  pthread_mutex_lock(&words->lock);
  int unsaid = 0;
  if (second != words->second) {
    unsaid = words->unsaid;
    words->second = second;
    words->lines = words->unsaid = 0;
  }
  bool print = words->lines < LINES_PER_SECOND;
  *(print ? &words->lines : &words->unsaid) += 1;
  pthread_mutex_unlock(&words->lock);
  if (unsaid) log_warn("%d more connections like these were closed", unsaid);
  if (print) log_warn("%s %s; its connection is closed", peer, why);
}

static void cut(struct intake *intake, struct connection *connection, int fd, const char *why) {
  char peer[INTAKE_PEER_BYTES];
  intake_peer(fd, peer);
  say(&intake->words, peer, why);
  shutdown(fd, SHUT_RDWR);
  connection->open = false;
  connection->cut = true;
  forget_calls(connection);
}

static void cut_unfinished(struct intake *intake, struct connection *connection, int fd) {
  char why[REASON_BYTES];
  snprintf(why, sizeof(why), "has sent %lld bytes of messages that do not end",
           (long long)pending(connection));
  cut(intake, connection, fd, why);
}

static void cut_calls(struct intake *intake, struct connection *connection, int fd,
                      uint64_t calls) {
  char why[REASON_BYTES];
  snprintf(why, sizeof(why), "has opened %llu calls at a time, %d are allowed",
           (unsigned long long)calls, intake->limit_calls);
  cut(intake, connection, fd, why);
}

/* ---- what comes in; thread: any that polls for gRPC */

/* Whether its calls may come in: before gRPC has seen them, which makes all of a read at once. */
static bool may_open(struct connection *connection) {
  struct intake *intake = connection->intake;
  uint64_t calls = on_the_way(connection);
  bool scarce = intake->limit_calls > 0 && calls > SCARCE_ON_THE_WAY &&
                atomic_load(&intake->on_the_way) > intake->limit_on_the_way;
  if (!scarce && !is_too_many(intake, calls)) return true;
  if (!is_still_open(connection, connection->fd)) return true;
  if (scarce)
    cut(intake, connection, connection->fd,
        "has opened calls faster than they can be taken, as others have");
  else
    cut_calls(intake, connection, connection->fd, calls);
  return false;
}

/* Counts. False: too many calls. */
static bool take(struct connection *connection, const uint8_t *data, size_t bytes) {
  uint64_t before = connection->frames.calls;
  frames_read(&connection->frames, data, bytes);
  uint64_t more = connection->frames.calls - before;
  atomic_fetch_add(&connection->intake->on_the_way, (long)more);
  return more == 0 || may_open(connection);
}

/* Of one that was cut what had come before is still there to read. */
static bool is_dead(const struct connection *connection) {
  return connection->cut && cookie_of(connection->fd) == connection->cookie;
}

static bool see(struct tap *tap, const uint8_t *data, size_t bytes) {
  struct connection *connection = (struct connection *)tap;
  pthread_mutex_lock(&connection->lock);
  bool passes = connection->open ? take(connection, data, bytes) : !is_dead(connection);
  pthread_mutex_unlock(&connection->lock);
  return passes;
}

/* ---- looking at all of them */

/* A connection without a call holds nothing: what a refused or broken call left unread is gone. */
static void settle(struct connection *connection) {
  bool none = connection->calls == 0 && connection->accepted == connection->frames.calls;
  if (none || pending(connection) < 0) connection->credit = connection->frames.data_bytes;
  if (pending(connection) == 0) connection->moved_us = clock_now_us();
}

/* Returns the bytes that it holds from now on. */
static int64_t check_one(struct intake *intake, struct connection *connection, int fd) {
  if (!is_still_open(connection, fd)) return 0;
  settle(connection);
  int64_t bytes = pending(connection);
  if (bytes > intake->limit_bytes) cut_unfinished(intake, connection, fd);
  return connection->open ? bytes : 0;
}

/* Of those that hold bytes the one from which no message has come out for the longest, or -1; the
 * sum of all in *total. Who is in earnest finishes messages, whatever their size. */
static int look_at_all(struct intake *intake, int64_t *total) {
  int found = -1;
  int64_t longest_us = INT64_MAX;
  *total = 0;
  for (int fd = 0; fd <= intake->highest; fd++) {
    struct connection *connection = intake->connection[fd];
    if (!connection) continue;
    pthread_mutex_lock(&connection->lock);
    int64_t bytes = check_one(intake, connection, fd), moved_us = connection->moved_us;
    pthread_mutex_unlock(&connection->lock);
    *total += bytes;
    if (bytes == 0 || moved_us >= longest_us) continue;
    longest_us = moved_us;
    found = fd;
  }
  return found;
}

void intake_check(struct intake *intake) {
  int64_t bound = 4 * intake->limit_bytes, total;
  if (bound < TOTAL_BYTES) bound = TOTAL_BYTES;
  for (int fd = look_at_all(intake, &total); total > bound; fd = look_at_all(intake, &total)) {
    struct connection *connection = intake->connection[fd];
    pthread_mutex_lock(&connection->lock);
    if (is_still_open(connection, fd) && pending(connection) > 0)
      cut_unfinished(intake, connection, fd);
    pthread_mutex_unlock(&connection->lock);
  }
}

/* ---- calls */

/* The connection with this number, locked; NULL: there is none. */
static struct connection *lock_number(struct intake *intake, int fd) {
  if (fd < 0 || fd >= intake->room || !intake->connection[fd]) return NULL;
  struct connection *connection = intake->connection[fd];
  pthread_mutex_lock(&connection->lock);
  return connection;
}

/* The call's connection, locked; NULL: it is gone. */
static struct connection *lock_of(struct intake *intake, struct intake_call call) {
  struct connection *connection = lock_number(intake, call.fd);
  if (!connection || connection->life == call.life) return connection;
  pthread_mutex_unlock(&connection->lock);
  return NULL;
}

struct intake_call intake_call_begin(struct intake *intake, int fd) {
  struct connection *connection = lock_number(intake, fd);
  if (!connection) return (struct intake_call){.fd = -1};
  if (on_the_way(connection) > 0) atomic_fetch_sub(&intake->on_the_way, 1);
  connection->accepted++;
  connection->calls++;
  struct intake_call call = {fd, connection->life};
  pthread_mutex_unlock(&connection->lock);
  return call;
}

void intake_call_end(struct intake *intake, struct intake_call call) {
  struct connection *connection = lock_of(intake, call);
  if (!connection) return;
  connection->calls--;
  pthread_mutex_unlock(&connection->lock);
}

void intake_message(struct intake *intake, struct intake_call call, size_t bytes) {
  struct connection *connection = lock_of(intake, call);
  if (!connection) return;
  connection->credit += bytes + PREFIX_BYTES;
  connection->moved_us = clock_now_us();
  pthread_mutex_unlock(&connection->lock);
}

static void count_waiting(struct intake *intake, struct intake_call call, int more) {
  struct connection *connection = lock_of(intake, call);
  if (!connection) return;
  connection->waiting += more;
  pthread_mutex_unlock(&connection->lock);
}

void intake_wait_begin(struct intake *intake, struct intake_call call) {
  count_waiting(intake, call, 1);
}

void intake_wait_end(struct intake *intake, struct intake_call call) {
  count_waiting(intake, call, -1);
}

bool intake_close_greedy(struct intake *intake, struct intake_call call, int waiting) {
  struct connection *connection = lock_of(intake, call);
  if (!connection) return false;
  bool open = is_still_open(connection, call.fd);
  if (open && is_too_many(intake, (uint64_t)connection->calls)) {
    cut_calls(intake, connection, call.fd, (uint64_t)connection->calls);
  } else if (open && connection->waiting > waiting) {
    char why[REASON_BYTES];
    snprintf(why, sizeof(why),
             "has %d calls that say nothing or do not read their answer, while calls are scarce",
             connection->waiting);
    cut(intake, connection, call.fd, why);
  }
  bool closed = !connection->open;
  pthread_mutex_unlock(&connection->lock);
  return closed;
}

void intake_peer(int fd, char text[INTAKE_PEER_BYTES]) {
  struct sockaddr_storage place;
  socklen_t bytes = sizeof(place);
  char host[64], port[8];
  bool known = fd >= 0 && getpeername(fd, (struct sockaddr *)&place, &bytes) == 0 &&
               place.ss_family != AF_UNIX &&
               getnameinfo((struct sockaddr *)&place, bytes, host, sizeof(host), port, sizeof(port),
                           NI_NUMERICHOST | NI_NUMERICSERV) == 0;
  if (known)
    snprintf(text, INTAKE_PEER_BYTES, place.ss_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host,
             port);
  else
    snprintf(text, INTAKE_PEER_BYTES, "this machine");
}
