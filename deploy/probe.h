/* Whether somebody listens at an address of this machine.
 * Upstream: deploy/launch.c (is it free?), deploy/supervisor.c (is the learner ready?). Thread:
 * any. */
#ifndef ACORN_DEPLOY_PROBE_H
#define ACORN_DEPLOY_PROBE_H

#include <stdbool.h>

/* Connects to "unix:PATH" or "HOST:PORT" and hangs up at once; false as well for what is no
 * address. A HOST that stands for all interfaces (0.0.0.0, [::]) is tried on this machine. Blocks
 * only to look HOST up. */
bool probe_accepts(const char *address);

#endif
