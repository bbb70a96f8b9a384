/* Tests whether a program listens at an address.
 * Upstream: deploy/launch/launch.c, deploy/launch/task.c, common/rpc/address.c (is it free?),
 * deploy/launch/supervisor.c (is the learner ready?), deploy/inspect/learner_place.c (who is it?).
 * Thread: any. */
#ifndef ACORN_COMMON_CLUSTER_PROBE_H
#define ACORN_COMMON_CLUSTER_PROBE_H

#include <stdbool.h>

/* Connects to "unix:PATH" or "HOST:PORT" and hangs up at once; false as well for what is no
 * address. A HOST that stands for all interfaces (0.0.0.0, [::]) is tried on this machine. Blocks
 * to look HOST up, and up to a second for each of its addresses that does not answer. */
bool probe_accepts(const char *address);

/* The same, but does not hang up. Returns the connection's descriptor, whose reads and writes give
 * up after `timeout_ms`, as connecting does; or -1 with errno, 0 where the host is not known.
 * Owner: the caller closes it. */
int probe_connect(const char *address, int timeout_ms);

#endif
