#include "common/rpc/acceptor.h"

#include <errno.h>
#include <fcntl.h>
#include <grpc/grpc_posix.h>
#include <grpc/grpc_security.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/files.h"
#include "common/base/log.h"
#include "common/base/thread.h"

enum {
  MAX_CONNECTIONS = 65536,
  ACCEPT_AT_ONCE = 64,
  FULL_PAUSE_US = 50000,
  TLS_HANDSHAKE = 0x16,
};

struct acceptor {
  grpc_server *server;
  grpc_server_credentials *plain;
  struct address_sockets sockets;
  int wake;  /* an eventfd: stop */
  int room;  /* descriptors from this number on are closed */
  int files; /* that the process may open */
  pthread_t thread;
  _Atomic int64_t next_full_log_us, next_tls_log_us;
};

int acceptor_room(void) {
  int room = files_room(files_limit());
  return room < MAX_CONNECTIONS ? room : MAX_CONNECTIONS;
}

/* A flood of connections must not fill the log as well. */
static void report_full(struct acceptor *acceptor) {
  if (!core_may_log(&acceptor->next_full_log_us, CORE_LOG_PAUSE_US)) return;
  log_warn(
      "no room for more connections: about %d are open, and this process may open %d files "
      "(ulimit -n); new ones are turned away until others end",
      acceptor->room, acceptor->files);
}

/* A client with TLS says so in its first byte, which has come (address.c). */
static bool begins_tls(int fd) {
  unsigned char first = 0;
  return recv(fd, &first, 1, MSG_PEEK | MSG_DONTWAIT) == 1 && first == TLS_HANDSHAKE;
}

static void report_tls(struct acceptor *acceptor) {
  if (!core_may_log(&acceptor->next_tls_log_us, CORE_LOG_PAUSE_US)) return;
  log_warn(
      "a connection was refused: a client with TLS (--tls_ca), and this learner has none: it "
      "needs --tls_cert and --tls_key");
}

/* ThreadSanitizer does not see gRPC close a descriptor (tests/tsan.supp), and would take the next
 * one of that number for the same: gRPC gets one that it has not seen opened. */
static int unseen(int fd) {
#ifdef __SANITIZE_THREAD__
  int seen = fd;
  fd = fcntl(seen, F_DUPFD_CLOEXEC, 0);
  close(seen);
#endif
  return fd;
}

/* The lowest free number is given to each new descriptor, so the number says how many there are. */
static void take(struct acceptor *acceptor, int fd) {
  if (fd >= acceptor->room) {
    close(fd);
    report_full(acceptor);
    return;
  }
  if (begins_tls(fd)) report_tls(acceptor); /* gRPC refuses it */
  int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)); /* fails on a Unix socket, rightly */
  grpc_server_add_channel_from_fd(acceptor->server, unseen(fd), acceptor->plain);
}

/* Takes those that wait at one socket, but no more at a time than lets the thread look around. */
static void accept_some(struct acceptor *acceptor, int socket) {
  for (int i = 0; i < ACCEPT_AT_ONCE; i++) {
    int fd = accept4(socket, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
      take(acceptor, fd);
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      report_full(acceptor);
      clock_sleep_us(FULL_PAUSE_US);
      return;
    } else if (errno != EINTR && errno != ECONNABORTED) {
      return; /* none is left */
    }
  }
}

static void *run(void *argument) {
  struct acceptor *acceptor = argument;
  struct pollfd watched[ADDRESS_MAX_SOCKETS + 1] = {{.fd = acceptor->wake, .events = POLLIN}};
  int count = acceptor->sockets.count;
  for (int i = 0; i < count; i++)
    watched[i + 1] = (struct pollfd){.fd = acceptor->sockets.fd[i], .events = POLLIN};
  while (!watched[0].revents) {
    if (poll(watched, (nfds_t)count + 1, -1) < 0) continue;
    for (int i = 1; i <= count; i++)
      if (watched[i].revents) accept_some(acceptor, watched[i].fd);
  }
  return NULL;
}

struct acceptor *acceptor_start(grpc_server *server, const struct address_sockets *sockets) {
  struct acceptor *acceptor = check_alloc(1, sizeof(*acceptor));
  acceptor->server = server;
  acceptor->sockets = *sockets;
  acceptor->room = acceptor_room();
  acceptor->files = files_limit();
  acceptor->plain = grpc_insecure_server_credentials_create();
  acceptor->wake = eventfd(0, EFD_CLOEXEC);
  CHECK(acceptor->wake >= 0, "no eventfd");
  thread_start(&acceptor->thread, "accept", run, acceptor);
  return acceptor;
}

void acceptor_stop(struct acceptor *acceptor) {
  if (!acceptor) return;
  CHECK(eventfd_write(acceptor->wake, 1) == 0, "no eventfd");
  pthread_join(acceptor->thread, NULL);
  address_close(&acceptor->sockets);
  close(acceptor->wake);
  grpc_server_credentials_release(acceptor->plain);
  free(acceptor);
}
