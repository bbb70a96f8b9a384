#include "common/rpc/peer.h"

#include <grpc/support/alloc.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

/* Of a connection that acceptor.c took. */
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

void peer_name(char text[RPC_PEER_BYTES], grpc_call *call) {
  char *uri = grpc_call_get_peer(call); /* "fd:N": gRPC knows nothing else of a connection */
  int fd;
  if (sscanf(uri, "fd:%d", &fd) != 1 || !name_descriptor(text, fd))
    snprintf(text, RPC_PEER_BYTES, "this machine");
  gpr_free(uri);
}
