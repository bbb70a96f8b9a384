/* Bounds what a connection may pile up. gRPC collects a message whole before it compares its size
 * with the limit, so a peer that announces gigabytes could fill the learner's memory. Here the
 * bytes that the kernel has received of each connection are compared with the messages that came
 * out of it; a connection that is far ahead of them is closed. Unix sockets, which do not count,
 * are left alone.
 * Upstream: acceptor.c, stream.c. Connections are known by their file descriptors. */
#ifndef ACORN_COMMON_RPC_INTAKE_H
#define ACORN_COMMON_RPC_INTAKE_H

#include <stddef.h>
#include <stdint.h>

enum { INTAKE_CHECK_MS = 200 };

struct intake;

/* For descriptors below `room`. A connection may have received so many bytes of messages that are
 * not whole yet. */
struct intake *intake_create(int room, size_t limit_bytes);
void intake_destroy(struct intake *intake);

/* A new connection. Thread: the acceptor's. */
void intake_open(struct intake *intake, int fd);

/* A whole message came out of it, or a call was opened on it. fd -1: unknown. Thread: any. */
void intake_credit(struct intake *intake, int fd, size_t bytes);

/* Looks at every connection and closes those beyond the limit. Thread: the acceptor's, every
 * INTAKE_CHECK_MS. */
void intake_check(struct intake *intake);

/* "10.0.0.7:4711", or "this machine" on a Unix socket and where the connection is gone. */
enum { INTAKE_PEER_BYTES = 80 };
void intake_peer(int fd, char text[INTAKE_PEER_BYTES]);

#endif
