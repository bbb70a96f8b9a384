#include "deploy/probe.h"

#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static bool accepts(int family, const struct sockaddr *address, socklen_t bytes) {
  int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  bool accepted = connect(fd, address, bytes) == 0;
  close(fd);
  return accepted;
}

static bool unix_accepts(const char *path) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  if (strlen(path) >= sizeof(address.sun_path)) return false;
  memcpy(address.sun_path, path, strlen(path));
  return accepts(AF_UNIX, (const struct sockaddr *)&address, sizeof(address));
}

// Splits HOST:PORT; an IPv6 host stands in brackets.
static bool split(const char *address, char host[256], char port[16]) {
  const char *colon = strrchr(address, ':');
  if (!colon) return false;
  const char *end = colon;
  if (address[0] == '[' && colon > address && colon[-1] == ']') address++, end--;
  if (end - address >= 256 || strlen(colon + 1) >= 16) return false;
  snprintf(host, 256, "%.*s", (int)(end - address), address);
  snprintf(port, 16, "%s", colon + 1);
  return true;
}

bool probe_accepts(const char *address) {
  char host[256], port[16];
  if (strncmp(address, "unix:", 5) == 0) return unix_accepts(address + 5);
  if (!split(address, host, port)) return false;

  struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list;
  // This machine has an address even where nobody has written down its names.
  bool is_local = !host[0] || strcmp(host, "localhost") == 0;
  if (getaddrinfo(is_local ? NULL : host, port, &hints, &list) != 0) return false;
  bool accepted = false;
  for (const struct addrinfo *at = list; at && !accepted; at = at->ai_next)
    accepted = accepts(at->ai_family, at->ai_addr, at->ai_addrlen);
  freeaddrinfo(list);
  return accepted;
}
