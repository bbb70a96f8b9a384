/* A machine of 512 MiB, as libuv tells of it. For LD_PRELOAD. Upstream: replay.sh. */
#include <stdint.h>

uint64_t uv_get_total_memory(void) {
  return UINT64_C(512) << 20;
}
