#include "common/rpc/address.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/cluster/host_port.h"
#include "common/cluster/probe.h"

/* ---- unix:PATH */

static enum status prepare_unix(const char *address, struct error *error) {
  const char *path = host_port_path(address);
  size_t length = strlen(path), room = sizeof(((struct sockaddr_un *)0)->sun_path);
  if (length == 0 || length >= room)
    return status_fail(error, STATUS_INVALID,
                       "listen address '%s': the path has %zu bytes, a socket's may have 1..%zu",
                       address, length, room - 1);
  struct stat info;
  if (lstat(path, &info) != 0)
    return STATUS_OK; /* nothing there; a missing folder shows when binding */
  if (!S_ISSOCK(info.st_mode))
    return status_fail(error, STATUS_INVALID,
                       "listen address 'unix:%s': there is a file that is no socket; choose "
                       "another path",
                       path);
  if (probe_accepts(address))
    return status_fail(error, STATUS_EXISTS,
                       "listen address 'unix:%s': another program listens there; stop it or "
                       "choose another path",
                       path);
  if (unlink(path) != 0)
    return status_fail(error, STATUS_INVALID,
                       "listen address 'unix:%s': a stale socket cannot be removed: %s", path,
                       strerror(errno));
  return STATUS_OK;
}

/* ---- HOST:PORT */

static bool split(const char *address, char host[HOST_PORT_HOST_BYTES], const char **port) {
  return host_port_split(host, port, address) && host[0];
}

bool address_is_local(const char *address) {
  char host[HOST_PORT_HOST_BYTES];
  const char *port;
  if (host_port_path(address) || !split(address, host, &port)) return true;
  return strncmp(host, "127.", 4) == 0 || !host_port_node(host) || strcmp(host, "::1") == 0;
}

static enum status prepare_tcp(const char *address, struct error *error) {
  char host[HOST_PORT_HOST_BYTES];
  const char *port;
  if (split(address, host, &port) && host_port_is_port(port, 0)) return STATUS_OK;
  return status_fail(
      error, STATUS_INVALID,
      "listen address '%s' is not HOST:PORT, [IPV6]:PORT or unix:PATH (for example 0.0.0.0:8686)",
      address);
}

/* ---- listening */

/* Listens on one address; *port is chosen if it is 0. Returns the socket, or -1 with errno. */
static int listen_at(const struct sockaddr *place, socklen_t bytes) {
  int fd = socket(place->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  int on = 1, off = 0;
  if (place->sa_family != AF_UNIX) setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (place->sa_family == AF_INET6)
    setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)); /* [::] is IPv4 too */
  /* A connection is accepted with its first bytes, or after a second. */
  if (place->sa_family != AF_UNIX) setsockopt(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &on, sizeof(on));
  if (bind(fd, place, bytes) == 0 && listen(fd, SOMAXCONN) == 0) return fd;
  int reason = errno;
  close(fd);
  errno = reason;
  return -1;
}

static enum status listen_unix(struct address_sockets *sockets, const char *address,
                               struct error *error) {
  struct sockaddr_un place = {.sun_family = AF_UNIX};
  snprintf(place.sun_path, sizeof(place.sun_path), "%s", host_port_path(address));
  int fd = listen_at((const struct sockaddr *)&place, sizeof(place));
  if (fd < 0)
    return status_fail(error, STATUS_INVALID,
                       "%s: cannot make this socket (%s); does the folder exist, and may you write "
                       "to it?",
                       address, strerror(errno));
  sockets->fd[sockets->count++] = fd;
  return STATUS_OK;
}

union place {
  struct sockaddr any;
  struct sockaddr_in ipv4;
  struct sockaddr_in6 ipv6;
};

/* The port that a socket got, in host order. */
static int port_of(int fd) {
  union place place;
  socklen_t bytes = sizeof(place);
  if (getsockname(fd, &place.any, &bytes) != 0) return 0;
  return ntohs(place.any.sa_family == AF_INET6 ? place.ipv6.sin6_port : place.ipv4.sin_port);
}

/* Several addresses of one host share the port that the first one got. */
static void set_port(struct sockaddr *place, int port) {
  if (place->sa_family == AF_INET6)
    ((struct sockaddr_in6 *)(void *)place)->sin6_port = htons((uint16_t)port);
  else
    ((struct sockaddr_in *)(void *)place)->sin_port = htons((uint16_t)port);
}

static enum status explain(const char *address, int reason, struct error *error) {
  if (reason == EADDRINUSE)
    return status_fail(error, STATUS_EXISTS,
                       "listen address '%s': the port is in use; stop the other program or choose "
                       "another port (0: any free one)",
                       address);
  return status_fail(error, STATUS_INVALID, "listen address '%s': cannot listen there: %s", address,
                     strerror(reason));
}

/* "0.0.0.0" is every interface, IPv6's too where there is one, as it is for gRPC. */
static bool listen_everywhere(struct address_sockets *sockets, const char *host, const char *port) {
  union place place = {.ipv6 = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)atoi(port))}};
  int fd = strcmp(host, "0.0.0.0") == 0 ? listen_at(&place.any, sizeof(place.ipv6)) : -1;
  if (fd < 0) return false;
  sockets->fd[sockets->count++] = fd;
  sockets->port = port_of(fd);
  return true;
}

static enum status listen_tcp(struct address_sockets *sockets, const char *address,
                              struct error *error) {
  char host[HOST_PORT_HOST_BYTES];
  const char *port = "";
  struct addrinfo *found = NULL;
  if (split(address, host, &port) && listen_everywhere(sockets, host, port)) return STATUS_OK;
  int failure = host_port_find(&found, address); /* whose port is a number: prepare_tcp */
  if (failure != 0)
    return status_fail(error, STATUS_INVALID, "listen address '%s': the host is unknown: %s",
                       address, gai_strerror(failure));
  int reason = 0;
  for (const struct addrinfo *info = found; info && sockets->count < ADDRESS_MAX_SOCKETS;
       info = info->ai_next) {
    if (sockets->port) set_port(info->ai_addr, sockets->port);
    int fd = listen_at(info->ai_addr, info->ai_addrlen);
    if (fd < 0) reason = errno;
    if (fd < 0 && reason == EADDRINUSE) break;
    if (fd < 0) continue; /* a host may have an address of a family that this machine lacks */
    sockets->fd[sockets->count++] = fd;
    sockets->port = port_of(fd);
  }
  freeaddrinfo(found);
  if (sockets->count > 0 && reason != EADDRINUSE) return STATUS_OK;
  address_close(sockets);
  return explain(address, reason, error);
}

enum status address_listen(struct address_sockets *sockets, const char *address,
                           struct error *error) {
  sockets->count = sockets->port = 0;
  bool is_unix = host_port_path(address);
  enum status status = is_unix ? prepare_unix(address, error) : prepare_tcp(address, error);
  if (status != STATUS_OK) return status;
  return is_unix ? listen_unix(sockets, address, error) : listen_tcp(sockets, address, error);
}

void address_numeric(char text[ADDRESS_NUMERIC_BYTES], int fd, int port) {
  union place place;
  socklen_t bytes = sizeof(place);
  char host[HOST_PORT_HOST_BYTES] = "";
  if (getsockname(fd, &place.any, &bytes) == 0)
    getnameinfo(&place.any, bytes, host, sizeof(host), NULL, 0, NI_NUMERICHOST);
  bool is_ipv6 = strchr(host, ':') != NULL;
  snprintf(text, ADDRESS_NUMERIC_BYTES, is_ipv6 ? "[%s]:%d" : "%s:%d", host, port);
}

bool address_of_peer(char text[ADDRESS_NUMERIC_BYTES], int fd) {
  static const char mapped[] = "::ffff:"; /* IPv4, at a socket that is IPv6's too */
  union place place;
  socklen_t bytes = sizeof(place);
  char host[HOST_PORT_HOST_BYTES], port[8];
  if (getpeername(fd, &place.any, &bytes) != 0 || place.any.sa_family == AF_UNIX ||
      getnameinfo(&place.any, bytes, host, sizeof(host), port, sizeof(port),
                  NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return false;
  size_t skipped = strncmp(host, mapped, strlen(mapped)) == 0 ? strlen(mapped) : 0;
  bool is_ipv6 = strchr(host + skipped, ':') != NULL;
  snprintf(text, ADDRESS_NUMERIC_BYTES, is_ipv6 ? "[%s]:%s" : "%s:%s", host + skipped, port);
  return true;
}

void address_close(struct address_sockets *sockets) {
  for (int i = 0; i < sockets->count; i++) {
    struct sockaddr_un place = {0};
    socklen_t bytes = sizeof(place);
    if (getsockname(sockets->fd[i], (struct sockaddr *)&place, &bytes) == 0 &&
        place.sun_family == AF_UNIX)
      unlink(place.sun_path);
    close(sockets->fd[i]);
  }
  sockets->count = 0;
}
