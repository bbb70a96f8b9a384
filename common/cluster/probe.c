#include "common/cluster/probe.h"

#include <errno.h>
#include <netdb.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/cluster/host_port.h"

enum { LOCAL_MS = 1000 }; // this machine answers at once; an address may be another's, by mistake

static int connect_to(int family, const struct sockaddr *address, socklen_t bytes, int timeout_ms) {
  int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  struct timeval timeout = {timeout_ms / 1000, timeout_ms % 1000 * 1000};
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
  if (connect(fd, address, bytes) == 0) return fd;
  int reason = errno;
  close(fd);
  errno = reason;
  return -1;
}

static int connect_unix(const char *path, int timeout_ms) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  errno = ENAMETOOLONG;
  if (strlen(path) >= sizeof(address.sun_path)) return -1;
  memcpy(address.sun_path, path, strlen(path));
  return connect_to(AF_UNIX, (const struct sockaddr *)&address, sizeof(address), timeout_ms);
}

int probe_connect(const char *address, int timeout_ms) {
  const char *path = host_port_path(address);
  if (path) return connect_unix(path, timeout_ms);

  struct addrinfo *list;
  int unknown = host_port_find(&list, address);
  errno = 0;
  if (unknown != 0) return -1;
  int fd = -1;
  for (const struct addrinfo *at = list; at && fd < 0; at = at->ai_next)
    fd = connect_to(at->ai_family, at->ai_addr, at->ai_addrlen, timeout_ms);
  int reason = errno;
  freeaddrinfo(list);
  errno = reason;
  return fd;
}

bool probe_accepts(const char *address) {
  int fd = probe_connect(address, LOCAL_MS);
  if (fd >= 0) close(fd);
  return fd >= 0;
}
