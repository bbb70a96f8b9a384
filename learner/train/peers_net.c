/* DESIGN: a connection between each two learners. A meeting is one message from each to each, with
 * the number of the meeting, so it ends once all have come; reading and writing go on together, so
 * that full buffers hold nothing up.
 * A connection that ends tells of a process that has ended; where nothing comes for the timeout, a
 * host or a network has. The one that sees it first tells the others whom it has given up. */
#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "learner/train/peers_links.h"
#include "learner/train/peers_messages.h"

enum { LOOK_MS = 50 };

struct head {
  uint32_t meeting;
  uint32_t missing; /* rank + 1 that the sender has given up: no message follows; 0: none */
  double weight;
};

struct link {
  int fd;       /* -1: none */
  bool is_gone; /* it was given up */
  struct head out_head, in_head;
  const struct peers_message *message; /* of the present meeting */
  size_t sent, received;               /* with the heads */
};

struct net {
  struct peers_messages messages; /* first */
  struct link link[PEERS_MAX];
  uint32_t meeting;
};

static struct net *net_of(struct peers *peers) {
  return (struct net *)peers;
}

/* ---- one that is missing */

static bool has_sent(const struct link *link) {
  return link->sent == sizeof(link->out_head) + link->message->out_bytes;
}

static bool has_received(const struct link *link) {
  return link->received == sizeof(link->in_head) + link->message->in_bytes;
}

/* The others read it where they expect a message, so not those that have half of one. */
static enum status give_up(struct net *self, int rank, enum peers_loss loss) {
  const struct head head = {.meeting = self->meeting, .missing = (uint32_t)rank + 1};
  self->link[rank].is_gone = true;
  for (int r = 0; r < self->messages.peers.of_device.learners; r++) {
    const struct link *link = &self->link[r];
    if (link->fd >= 0 && (link->sent == 0 || has_sent(link)))
      (void)!send(link->fd, &head, sizeof(head), MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  return peers_lose(&self->messages.peers, rank, loss);
}

/* ---- one meeting */

/* The parts of a message from byte `at` on. */
static int parts_from(struct iovec part[2], void *head, const void *body, size_t bytes, size_t at) {
  int count = 0;
  size_t skipped = at < sizeof(struct head) ? 0 : at - sizeof(struct head);
  if (at < sizeof(struct head))
    part[count++] = (struct iovec){(char *)head + at, sizeof(struct head) - at};
  if (bytes > skipped) part[count++] = (struct iovec){(char *)body + skipped, bytes - skipped};
  return count;
}

/* To one that has ended nothing more is sent; what it sent before may still be here. Returns
 * whether bytes have moved. */
static bool send_some(struct link *link) {
  struct iovec part[2];
  if (has_sent(link)) return false;
  int count =
      parts_from(part, &link->out_head, link->message->out, link->message->out_bytes, link->sent);
  const struct msghdr message = {.msg_iov = part, .msg_iovlen = (size_t)count};
  ssize_t n = sendmsg(link->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (n < 0 && errno != EAGAIN && errno != EINTR)
    link->sent = sizeof(link->out_head) + link->message->out_bytes;
  if (n > 0) link->sent += (size_t)n;
  return n > 0;
}

static bool receive_some(struct net *self, int rank) {
  struct link *link = &self->link[rank];
  struct iovec part[2];
  if (has_received(link)) return false;
  int count =
      parts_from(part, &link->in_head, link->message->in, link->message->in_bytes, link->received);
  struct msghdr message = {.msg_iov = part, .msg_iovlen = (size_t)count};
  ssize_t n = recvmsg(link->fd, &message, MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (n > 0) link->received += (size_t)n;
  bool knows = n > 0 && link->received >= sizeof(link->in_head);
  int missing = (int)link->in_head.missing - 1;
  if (knows && missing >= 0 && missing < self->messages.peers.of_device.learners) {
    self->link[missing].is_gone = true;
    (void)!peers_lose(&self->messages.peers, missing, PEERS_TOLD);
  } else if (n <= 0 || (knows && link->in_head.meeting != self->meeting)) {
    (void)!give_up(self, rank, PEERS_ENDED);
  }
  return true;
}

/* Sends and receives what can be at once, and lists what has to be waited for. Returns whether
 * bytes have moved. */
static bool move_some(struct net *self, struct pollfd *wait, int *waits, int *first) {
  bool moved = false;
  *waits = 0;
  for (int r = 0;
       r < self->messages.peers.of_device.learners && self->messages.peers.status == STATUS_OK;
       r++) {
    struct link *link = &self->link[r];
    if (r == self->messages.peers.of_device.rank) continue;
    moved |= send_some(link);
    moved |= receive_some(self, r);
    if (has_sent(link) && has_received(link)) continue;
    if (*waits == 0) *first = r;
    short events = (short)((has_sent(link) ? 0 : POLLOUT) | (has_received(link) ? 0 : POLLIN));
    wait[(*waits)++] = (struct pollfd){.fd = link->fd, .events = events};
  }
  return moved;
}

/* Each sends what its link has, and receives so much as it expects. */
static enum status meet(struct peers_messages *messages) {
  struct net *self = (struct net *)messages;
  struct pollfd look[PEERS_MAX];
  int64_t timeout_us = self->messages.peers.config.timeout_ms * (int64_t)1000;
  struct clock_wait wait = clock_wait_begin();
  self->meeting++;
  for (int r = 0; r < self->messages.peers.of_device.learners; r++) {
    self->link[r].out_head = (struct head){.meeting = self->meeting, .weight = messages->weight};
    self->link[r].sent = self->link[r].received = 0;
  }
  for (int waits = 1, first = 0; self->messages.peers.status == STATUS_OK;) {
    bool is_late = clock_waited_us(&wait) > timeout_us; /* before the look at what has come */
    bool moved = move_some(self, look, &waits, &first);
    if (waits == 0 || self->messages.peers.status != STATUS_OK) break;
    if (moved)
      wait = clock_wait_begin();
    else if (is_late)
      return give_up(self, first, PEERS_SILENT);
    else
      (void)!poll(look, (nfds_t)waits, LOOK_MS);
  }
  for (int r = 0; r < messages->peers.of_device.learners; r++)
    messages->message[r].in_weight = self->link[r].in_head.weight;
  return self->messages.peers.status;
}

/* ---- opened and closed */

static enum status open_links(struct peers *peers, struct error *error) {
  struct net *self = net_of(peers);
  int fd[PEERS_MAX];
  peers_messages_init(&self->messages, meet);
  enum status status = peers_links_open(fd, &peers->config, error);
  for (int r = 0; r < PEERS_MAX; r++)
    self->link[r] = (struct link){.fd = fd[r], .message = &self->messages.message[r]};
  return status;
}

/* The other end of the connection is closed, though what came before may be unread. */
static bool is_gone(struct peers *peers, int rank) {
  const struct link *link = &net_of(peers)->link[rank];
  struct pollfd look = {.fd = link->fd, .events = POLLRDHUP};
  return link->is_gone || poll(&look, 1, 0) > 0;
}

static enum status give_up_gone(struct peers *peers, int rank) {
  return give_up(net_of(peers), rank, PEERS_ENDED);
}

static void close_links(struct peers *peers) {
  struct net *self = net_of(peers);
  for (int r = 0; r < PEERS_MAX; r++)
    if (self->link[r].fd >= 0) close(self->link[r].fd);
  peers_messages_deinit(&self->messages);
  free(self);
}

static const struct peers_way by_net = {.area_bytes = PEERS_MESSAGES_BYTES,
                                        .open = open_links,
                                        .gather = peers_messages_gather,
                                        .broadcast = peers_messages_broadcast,
                                        .mean = peers_messages_mean,
                                        .is_gone = is_gone,
                                        .give_up = give_up_gone,
                                        .close = close_links};

struct peers *peers_net_create(void) {
  struct net *self = check_alloc(1, sizeof(*self));
  self->messages.peers.way = &by_net;
  return &self->messages.peers;
}
