/* Counts of the runtime's calls, by name. */
#include "internal.h"

static struct call *calls; /* newest first; grows only */

void call_count(struct call *call) {
  if (__atomic_fetch_add(&call->count, 1, __ATOMIC_RELAXED) > 0) return;
  struct call *first = __atomic_load_n(&calls, __ATOMIC_RELAXED);
  do {
    call->next = first;
  } while (
      !__atomic_compare_exchange_n(&calls, &first, call, true, __ATOMIC_RELEASE, __ATOMIC_RELAXED));
}

long emulated_cuda_calls(const char *name) {
  long count = 0;
  for (struct call *call = __atomic_load_n(&calls, __ATOMIC_ACQUIRE); call; call = call->next)
    if (!name || strcmp(name, call->name) == 0)
      count += __atomic_load_n(&call->count, __ATOMIC_RELAXED);
  return count;
}
