#include "actor/turn.h"

#include <stddef.h>

#include "envs/bridge.h"

static _Thread_local atomic_bool *watched;

void turn_watch(atomic_bool *waits) {
  watched = waits;
}

void acorn_bridge_waits(int waits) {
  if (watched) atomic_store_explicit(watched, waits != 0, memory_order_relaxed);
}
