/* Memory of the device and pinned memory of the host, and the copies between them. */
#include <sys/mman.h>

#include <map>

#include "internal.h"

struct block {
  size_t bytes;
  bool on_device;
};

static struct hidden_lock lock;
static std::map<uintptr_t, struct block> blocks; /* by address */
static size_t device_bytes;

static cudaError_t allocate(void **memory, size_t bytes, bool on_device) {
  *memory = NULL;
  cudaError_t error = machine_get()->without_device;
  if (error == cudaSuccess) error = machine_broken();
  if (error == cudaSuccess) error = streams_refuse_capture();
  if (error != cudaSuccess) return machine_error(error);
  if (bytes == 0) return cudaSuccess;
  hidden_take(&lock);
  if (on_device && (bytes > machine_get()->memory || device_bytes > machine_get()->memory - bytes))
    error = cudaErrorMemoryAllocation;
  /* Of exactly the size, so that AddressSanitizer sees its end. */
  if (error == cudaSuccess && posix_memalign(memory, 256, bytes) != 0)
    error = cudaErrorMemoryAllocation;
  if (error == cudaSuccess) {
    memset(*memory, 0xff, bytes);
    blocks[(uintptr_t)*memory] = {bytes, on_device};
    if (on_device) device_bytes += bytes;
  }
  hidden_give(&lock);
  return machine_error(error);
}

static cudaError_t release(void *memory, bool on_device) {
  if (!memory) return cudaSuccess;
  cudaError_t error = streams_refuse_capture();
  if (error == cudaSuccess) error = streams_synchronize();
  if (error == cudaErrorStreamCaptureUnsupported) return error;
  hidden_take(&lock);
  auto found = blocks.find((uintptr_t)memory);
  if (found == blocks.end() || found->second.on_device != on_device)
    EMULATED_FAIL("%s: %p was not allocated", on_device ? "cudaFree" : "cudaFreeHost", memory);
  if (on_device) device_bytes -= found->second.bytes;
  blocks.erase(found);
  hidden_give(&lock);
  free(memory);
  return error;
}

cudaError_t emulated_malloc(void **memory, size_t bytes) {
  COUNT_CALL("cudaMalloc");
  return allocate(memory, bytes, true);
}

cudaError_t emulated_host_alloc(void **memory, size_t bytes) {
  COUNT_CALL("cudaHostAlloc");
  return allocate(memory, bytes, false);
}

cudaError_t cudaFree(void *memory) {
  COUNT_CALL("cudaFree");
  return release(memory, true);
}

cudaError_t cudaFreeHost(void *memory) {
  COUNT_CALL("cudaFreeHost");
  return release(memory, false);
}

cudaError_t cudaMemGetInfo(size_t *free, size_t *total) {
  hidden_take(&lock);
  *total = machine_get()->memory;
  *free = *total - device_bytes;
  hidden_give(&lock);
  return machine_error(machine_get()->without_device);
}

/* The block that holds p, or NULL. Under the lock. */
static const struct block *find(const void *p, uintptr_t *start) {
  auto after = blocks.upper_bound((uintptr_t)p);
  if (after == blocks.begin()) return NULL;
  --after;
  *start = after->first;
  return (uintptr_t)p < after->first + after->second.bytes ? &after->second : NULL;
}

void memory_check(const void *p, size_t bytes, bool on_device, const char *call) {
  if (bytes == 0) return;
  uintptr_t start = 0;
  hidden_take(&lock);
  const struct block *found = find(p, &start);
  bool fits = found && (uintptr_t)p + bytes <= start + found->bytes;
  bool is_right = found && found->on_device == on_device;
  hidden_give(&lock);
  if (found ? !fits || !is_right : on_device)
    EMULATED_FAIL("%s: %zu bytes at %p are not in one block of %s", call, bytes, p,
                  on_device ? "the device's memory" : "the host's memory");
}

bool memory_is_on_device(const void *p) {
  uintptr_t start = 0;
  hidden_take(&lock);
  const struct block *found = find(p, &start);
  bool is_on_device = found && found->on_device;
  hidden_give(&lock);
  return is_on_device;
}

bool memory_is_known(const void *pointer) {
  uintptr_t start;
  hidden_take(&lock);
  /* One behind the end, too: of an array with no elements. */
  bool found = find(pointer, &start) || find((const char *)pointer - 1, &start);
  hidden_give(&lock);
  return found;
}

void emulated_check_argument(const char *kernel, int index, const void *pointer) {
  if (pointer && !memory_is_known(pointer))
    EMULATED_FAIL("kernel %s: argument %d (%p) is memory of the host, which is not pinned", kernel,
                  index, pointer);
}

/* Where programs, their heaps, libraries and stacks lie: the upper half of two ints or floats that
 * look like such an address is rare, and that there is memory at it rarer. */
static bool is_memory(uintptr_t address) {
  if (address < (uintptr_t)0x550000000000 || address >= (uintptr_t)0x800000000000) return false;
  return msync((void *)(address & ~(uintptr_t)4095), 1, MS_ASYNC) == 0;
}

void emulated_check_struct(const char *kernel, int index, const void *bytes, size_t count) {
  for (size_t i = 0; i + sizeof(uintptr_t) <= count; i += alignof(void *)) {
    uintptr_t word;
    memcpy(&word, (const char *)bytes + i, sizeof word);
    if (is_memory(word) && !memory_is_known((const void *)word))
      EMULATED_FAIL("kernel %s: argument %d has a pointer (%p, at byte %zu) to memory of the host",
                    kernel, index, (void *)word, i);
  }
}
