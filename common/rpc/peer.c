#include "common/rpc/peer.h"

#include <grpc/support/alloc.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

/* "fd:N": of a connection that acceptor.c took. */
static bool name_descriptor(char text[RPC_PEER_BYTES], int fd) {
  struct sockaddr_storage place;
  socklen_t bytes = sizeof(place);
  char host[64], port[8];
  if (getpeername(fd, (struct sockaddr *)&place, &bytes) != 0 || place.ss_family == AF_UNIX ||
      getnameinfo((struct sockaddr *)&place, bytes, host, sizeof(host), port, sizeof(port),
                  NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return false;
  snprintf(text, RPC_PEER_BYTES, place.ss_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host, port);
  return true;
}

/* "ipv4:10.0.0.7:4711", "ipv6:%5B::1%5D:4711": of a connection that gRPC took. */
static void name_uri(char text[RPC_PEER_BYTES], const char *uri) {
  size_t length = 0;
  for (const char *from = strchr(uri, ':') + 1; *from && length + 1 < RPC_PEER_BYTES; from++) {
    bool opens = strncasecmp(from, "%5B", 3) == 0, closes = strncasecmp(from, "%5D", 3) == 0;
    text[length++] = opens ? '[' : closes ? ']' : *from;
    if (opens || closes) from += 2;
  }
  text[length] = '\0';
}

void peer_name(char text[RPC_PEER_BYTES], grpc_call *call) {
  char *uri = grpc_call_get_peer(call);
  int fd;
  if (strncmp(uri, "ipv4:", 5) == 0 || strncmp(uri, "ipv6:", 5) == 0)
    name_uri(text, uri);
  else if (sscanf(uri, "fd:%d", &fd) != 1 || !name_descriptor(text, fd))
    snprintf(text, RPC_PEER_BYTES, "this machine");
  gpr_free(uri);
}
