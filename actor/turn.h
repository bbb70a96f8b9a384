/* Tells whether a thread's environments run or wait for the Python interpreter's lock.
 *
 * Environments in Python share one interpreter: when one hangs, the other threads wait, too, and
 * the error must name the one that hangs.
 * envs/bridge.h's acorn_bridge_waits is defined here.
 * Upstream: gymnasium.so. Downstream: actor/worker.c. */
#ifndef ACORN_ACTOR_TURN_H
#define ACORN_ACTOR_TURN_H

#include <stdatomic.h>

/* From here on *waits says whether this thread's environments wait.
 * Owner: keeps `waits` until the thread ends. */
void turn_watch(atomic_bool *waits);

#endif
