#include "common/rpc/intake.h"

#include <linux/tcp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "common/base/check.h"
#include "common/base/log.h"

enum {
  /* beyond the limit: what gRPC still answers with a sentence, and calls that were given up */
  SLACK_BYTES = 1 << 20,
  /* forgiven at each look: an idle connection's pings and their answers, 34 bytes in 10 s. More,
   * and a message that trickles in would never count: this is 1.7 MB a day. */
  PING_BYTES = 4,
  FRAMING_BYTES = 512,    /* of one message or call, and one byte in 64 */
  TOTAL_BYTES = 64 << 20, /* of all connections together, or four at their limit if that is more */
};

struct connection {
  _Atomic uint64_t credit; /* bytes that are accounted for, since it was opened */
  /* the acceptor's thread only */
  bool open;
  uint64_t received_before, credit_before;
  int64_t pending; /* received and not accounted for */
};

struct intake {
  int room;
  int64_t limit_bytes;
  int highest;                   /* descriptor that ever was a connection */
  struct connection *connection; /* (room) */
};

struct intake *intake_create(int room, size_t limit_bytes) {
  struct intake *intake = check_alloc(1, sizeof(*intake));
  intake->room = room;
  intake->limit_bytes = (int64_t)limit_bytes + SLACK_BYTES;
  intake->highest = -1;
  intake->connection = check_alloc((size_t)room, sizeof(*intake->connection));
  return intake;
}

void intake_destroy(struct intake *intake) {
  if (!intake) return;
  free(intake->connection);
  free(intake);
}

void intake_open(struct intake *intake, int fd) {
  struct connection *connection = &intake->connection[fd];
  connection->open = true;
  connection->received_before = 0;
  connection->credit_before = atomic_load_explicit(&connection->credit, memory_order_relaxed);
  connection->pending = 0;
  if (fd > intake->highest) intake->highest = fd;
}

void intake_credit(struct intake *intake, int fd, size_t bytes) {
  if (fd < 0 || fd >= intake->room) return;
  atomic_fetch_add_explicit(&intake->connection[fd].credit, bytes + bytes / 64 + FRAMING_BYTES,
                            memory_order_relaxed);
}

/* False: it is no TCP connection any more. */
static bool bytes_received(int fd, uint64_t *bytes) {
  struct tcp_info info = {0};
  socklen_t size = sizeof(info);
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return false;
  *bytes = info.tcpi_bytes_received;
  return true;
}

static void cut(struct connection *connection, int fd) {
  char peer[INTAKE_PEER_BYTES];
  intake_peer(fd, peer);
  log_warn("%s has sent %lld bytes of messages that do not end; its connection is closed", peer,
           (long long)connection->pending);
  shutdown(fd, SHUT_RDWR);
  connection->open = false;
}

static void check_one(const struct intake *intake, int fd) {
  struct connection *connection = &intake->connection[fd];
  uint64_t received = 0;
  /* gRPC closes connections; another file may have the number since. */
  if (!bytes_received(fd, &received) || received < connection->received_before) {
    connection->open = false;
    return;
  }
  uint64_t credit = atomic_load_explicit(&connection->credit, memory_order_relaxed);
  connection->pending += (int64_t)(received - connection->received_before) -
                         (int64_t)(credit - connection->credit_before) - PING_BYTES;
  if (connection->pending < 0) connection->pending = 0;
  connection->received_before = received;
  connection->credit_before = credit;
  if (connection->pending <= intake->limit_bytes) return;
  cut(connection, fd);
}

/* The open connection with the most bytes in hand; the sum of all in *total. */
static int largest(const struct intake *intake, int64_t *total) {
  int found = -1;
  *total = 0;
  for (int fd = 0; fd <= intake->highest; fd++) {
    const struct connection *connection = &intake->connection[fd];
    if (!connection->open) continue;
    *total += connection->pending;
    if (found < 0 || connection->pending > intake->connection[found].pending) found = fd;
  }
  return found;
}

void intake_check(struct intake *intake) {
  for (int fd = 0; fd <= intake->highest; fd++)
    if (intake->connection[fd].open) check_one(intake, fd);
  int64_t bound = 4 * intake->limit_bytes, total;
  if (bound < TOTAL_BYTES) bound = TOTAL_BYTES;
  for (int fd = largest(intake, &total); total > bound; fd = largest(intake, &total))
    cut(&intake->connection[fd], fd);
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
