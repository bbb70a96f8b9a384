#include "actor/resolve.h"

#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

enum { HOST_BYTES = 256 };

enum status resolve_check(const char *address, struct error *error) {
  const char *end = strrchr(address, ':');
  if (strncmp(address, "unix:", 5) == 0 || !end) return STATUS_OK;
  if (address[0] == '[' && end[-1] == ']') address++, end--;
  char host[HOST_BYTES];
  snprintf(host, sizeof(host), "%.*s", (int)(end - address), address);
  struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
  int failure = getaddrinfo(host, NULL, &hints, &found);
  if (failure == 0) {
    freeaddrinfo(found);
    return STATUS_OK;
  }
  return status_fail(error, STATUS_UNAVAILABLE, "the host '%s' cannot be found: %s", host,
                     gai_strerror(failure));
}
