/* Whether the environments of a thread are at work or wait for their turn. Those in Python share
 * one interpreter: when one hangs in it, the other threads stand still too, and are not to blame.
 * envs/bridge.h's acorn_bridge_waits is defined here.
 * Upstream: gymnasium.so. Downstream: actor/worker.c. */
#ifndef ACORN_ACTOR_TURN_H
#define ACORN_ACTOR_TURN_H

#include <stdatomic.h>

/* From here on *waits says whether this thread's environments wait.
 * Owner: keeps `waits` until the thread ends. */
void turn_watch(atomic_bool *waits);

#endif
