/* Bounds what a connection may pile up, and closes one that goes too far.
 *
 * Bytes: gRPC collects a message whole before it compares its size with the limit, so a peer that
 * announces gigabytes could fill the learner's memory. Here the bytes of messages that have come in
 * (frames.h) are compared with the messages that came out, which count for exactly what they take
 * there. What a peer sends besides them earns nothing and costs nothing, so there is no mixture
 * and no pace that gets a message which does not end past the limit.
 *
 * Calls: each holds some 60 KB until it is over. One that waits for its peer - that has sent no
 * message, or does not read its status - costs the peer nothing, so who has many is closed.
 *
 * Upstream: acceptor.c, stream.c. Downstream: tap.h. Connections are known by their file
 * descriptors, calls by the life of that number that they came in. */
#ifndef ACORN_COMMON_RPC_INTAKE_H
#define ACORN_COMMON_RPC_INTAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { INTAKE_CHECK_MS = 200 };

struct intake;

/* For descriptors below `room`. A connection may have sent so many bytes of messages that are not
 * whole yet, and may have so many calls open (0: any number). */
struct intake *intake_create(int room, size_t limit_bytes, int limit_calls);
void intake_destroy(struct intake *intake);

/* A new connection; before anybody reads from it. Thread: the acceptor's. */
void intake_open(struct intake *intake, int fd);

/* Looks at every connection and closes those beyond the limits. Thread: the acceptor's, every
 * INTAKE_CHECK_MS. */
void intake_check(struct intake *intake);

/* The connection of a call. fd -1: unknown; then all below do nothing. Plain data. */
struct intake_call {
  int fd;
  uint32_t life; /* connections that had this number before */
};

/* A call was opened on this connection, and is over. Thread: any. */
struct intake_call intake_call_begin(struct intake *intake, int fd);
void intake_call_end(struct intake *intake, struct intake_call call);

/* A whole message of so many bytes came out of it. Thread: any. */
void intake_message(struct intake *intake, struct intake_call call, size_t bytes);

/* From now on, until now, the call waits for its peer. Thread: any. */
void intake_wait_begin(struct intake *intake, struct intake_call call);
void intake_wait_end(struct intake *intake, struct intake_call call);

/* Closes the call's connection if more of its calls than `waiting` wait for their peer, or it has
 * twice as many open as it may; says so in the log. True: it is closed, and with it all its calls.
 * Thread: any. */
bool intake_close_greedy(struct intake *intake, struct intake_call call, int waiting);

/* "10.0.0.7:4711", or "this machine" on a Unix socket and where the connection is gone. */
enum { INTAKE_PEER_BYTES = 80 };
void intake_peer(int fd, char text[INTAKE_PEER_BYTES]);

#endif
