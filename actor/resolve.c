#include "actor/resolve.h"

#include <netdb.h>
#include <string.h>
#include <sys/socket.h>

#include "common/cluster/host_port.h"

enum status resolve_check(const char *address, struct error *error) {
  char host[HOST_PORT_HOST_BYTES];
  const char *port;
  if (strncmp(address, "unix:", 5) == 0 || !host_port_split(host, &port, address)) return STATUS_OK;
  struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
  int failure = getaddrinfo(host_port_node(host), port, &hints, &found);
  if (failure == 0) {
    freeaddrinfo(found);
    return STATUS_OK;
  }
  return status_fail(error, STATUS_UNAVAILABLE, "the host '%s' cannot be found: %s", host,
                     gai_strerror(failure));
}
