/* Addresses to listen on: their form, stale socket files, the sockets, and why there are none.
 * Upstream: server.c. Thread: any. */
#ifndef ACORN_COMMON_RPC_ADDRESS_H
#define ACORN_COMMON_RPC_ADDRESS_H

#include <stdbool.h>

#include "common/base/status.h"

enum { ADDRESS_MAX_SOCKETS = 8 };

/* The sockets of one address: a host name may stand for several. */
struct address_sockets {
  int fd[ADDRESS_MAX_SOCKETS];
  int count;
  int port; /* that was bound; 0 on a Unix socket */
};

/* Whether only this machine can reach it: a Unix socket, or a loopback address. */
bool address_is_local(const char *address);

/* Listens on "HOST:PORT", "[IPV6]:PORT" or "unix:PATH"; 0.0.0.0 is every interface, [::] too. A
 * stale socket file is cleared away. The sockets do not block. Errors: INVALID; EXISTS: another
 * program listens there. */
MUST_CHECK enum status address_listen(struct address_sockets *sockets, const char *address,
                                      struct error *error);

/* Where a socket that is none of Unix is bound, but with that port: "[::1]:8686". What resolves
 * names by itself (gRPC) takes it without a resolver. */
enum { ADDRESS_NUMERIC_BYTES = 272 };
void address_numeric(char text[ADDRESS_NUMERIC_BYTES], int fd, int port);

/* "10.0.0.7:4711" or "[fe80::1]:4711", of a connected socket. False: it is none of IP. */
bool address_of_peer(char text[ADDRESS_NUMERIC_BYTES], int fd);

/* Closes them, and removes the socket file. */
void address_close(struct address_sockets *sockets);

#endif
