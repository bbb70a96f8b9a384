#include "common/rpc/address.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static const char unix_prefix[] = "unix:";
enum { UNIX_PREFIX_BYTES = sizeof(unix_prefix) - 1, HOST_BYTES = 256 };

bool address_is_unix(const char *address) {
  return strncmp(address, unix_prefix, UNIX_PREFIX_BYTES) == 0;
}

/* ---- unix:PATH */

static bool somebody_listens(const struct sockaddr_un *place) {
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  bool listens =
      connect(fd, (const struct sockaddr *)place, sizeof(*place)) == 0 || errno == EAGAIN;
  close(fd);
  return listens;
}

static enum status prepare_unix(const char *path, struct error *error) {
  struct sockaddr_un place = {.sun_family = AF_UNIX};
  size_t length = strlen(path);
  if (length == 0 || length >= sizeof(place.sun_path))
    return status_fail(
        error, STATUS_INVALID,
        "listen address 'unix:%s': the path has %zu bytes, a socket's may have 1..%zu", path,
        length, sizeof(place.sun_path) - 1);
  memcpy(place.sun_path, path, length + 1);
  struct stat info;
  if (lstat(path, &info) != 0)
    return STATUS_OK; /* nothing there; a missing folder shows when binding */
  if (!S_ISSOCK(info.st_mode))
    return status_fail(error, STATUS_INVALID,
                       "listen address 'unix:%s': there is a file that is no socket; choose "
                       "another path",
                       path);
  if (somebody_listens(&place))
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

/* Splits at the last colon; an IPv6 host stands in brackets, which are taken off. */
static bool split(const char *address, char host[HOST_BYTES], const char **port) {
  const char *colon = strrchr(address, ':');
  if (!colon || colon == address) return false;
  size_t length = (size_t)(colon - address);
  bool bracketed = address[0] == '[' && colon[-1] == ']';
  if (bracketed) {
    address++;
    length -= 2;
  }
  if (length == 0 || length >= HOST_BYTES || (!bracketed && memchr(address, ':', length)))
    return false;
  memcpy(host, address, length);
  host[length] = 0;
  *port = colon + 1;
  return true;
}

static bool is_port(const char *text) {
  size_t digits = strspn(text, "0123456789");
  return digits > 0 && digits <= 5 && text[digits] == 0 && atoi(text) <= 65535;
}

static enum status prepare_tcp(const char *address, struct error *error) {
  char host[HOST_BYTES];
  const char *port;
  if (split(address, host, &port) && is_port(port)) return STATUS_OK;
  return status_fail(
      error, STATUS_INVALID,
      "listen address '%s' is not HOST:PORT, [IPV6]:PORT or unix:PATH (for example 0.0.0.0:8686)",
      address);
}

enum status address_prepare(const char *address, struct error *error) {
  return address_is_unix(address) ? prepare_unix(address + UNIX_PREFIX_BYTES, error)
                                  : prepare_tcp(address, error);
}

/* ---- why it failed: try it without gRPC and read errno */

static int try_bind(const struct addrinfo *info) {
  int fd = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return errno;
  int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  int result = bind(fd, info->ai_addr, info->ai_addrlen) == 0 && listen(fd, 1) == 0 ? 0 : errno;
  close(fd);
  return result;
}

static enum status explain_tcp(const char *address, struct error *error) {
  char host[HOST_BYTES];
  const char *port = "";
  struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV},
                  *found = NULL;
  int failure = split(address, host, &port) ? getaddrinfo(host, port, &hints, &found) : EAI_NONAME;
  if (failure != 0)
    return status_fail(error, STATUS_INVALID, "listen address '%s': the host is unknown: %s",
                       address, gai_strerror(failure));
  int reason = 0;
  for (const struct addrinfo *info = found; info && reason == 0; info = info->ai_next)
    reason = try_bind(info);
  freeaddrinfo(found);
  if (reason == EADDRINUSE)
    return status_fail(error, STATUS_EXISTS,
                       "listen address '%s': the port is in use; stop the other program or choose "
                       "another port (0: any free one)",
                       address);
  return status_fail(error, STATUS_INVALID, "listen address '%s': cannot listen there: %s", address,
                     reason ? strerror(reason) : "refused by gRPC");
}

enum status address_explain(const char *address, struct error *error) {
  if (!address_is_unix(address)) return explain_tcp(address, error);
  return status_fail(error, STATUS_INVALID,
                     "%s: cannot make this socket; does the folder exist, and may you write to it?",
                     address);
}
