#include "tests/devices/guarded_memory.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/base/check.h"

/* Addresses, not memory: pages exist once they are written. */
static const size_t REGION_BYTES = (size_t)1 << 36;
enum { MAX_BLOCKS = 4096 };

/* Blocks follow each other from the start of the region on. */
struct block {
  size_t offset, bytes;
  bool used;
};

static struct {
  pthread_mutex_t lock; /* guards all of it */
  uint8_t *start;       /* NULL before the first block */
  size_t bytes;         /* up to the end of the last block */
  struct block block[MAX_BLOCKS];
  int num_blocks;
  int open; /* operations that run */
} region = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void protect(size_t offset, size_t bytes, int access) {
  if (bytes == 0) return;
  CHECK(mprotect(region.start + offset, bytes, access) == 0, "mprotect of %zu bytes", bytes);
}

static void reserve(void) {
  if (region.start) return;
  void *start =
      mmap(NULL, REGION_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  CHECK(start != MAP_FAILED, "device guarded: no %zu bytes of addresses", REGION_BYTES);
  region.start = start;
}

/* A free block with room for so many bytes, or a new one. */
static struct block *find_block(size_t bytes) {
  for (int i = 0; i < region.num_blocks; i++)
    if (!region.block[i].used && region.block[i].bytes >= bytes) return &region.block[i];
  CHECK(region.num_blocks < MAX_BLOCKS && region.bytes + bytes <= REGION_BYTES,
        "device guarded: %zu bytes in %d blocks, and %zu more", region.bytes, region.num_blocks,
        bytes);
  struct block *block = &region.block[region.num_blocks++];
  *block = (struct block){.offset = region.bytes, .bytes = bytes};
  region.bytes += bytes;
  if (region.open) protect(block->offset, bytes, PROT_READ | PROT_WRITE);
  return block;
}

void *guarded_alloc(size_t bytes) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  pthread_mutex_lock(&region.lock);
  reserve();
  struct block *block = find_block(bytes ? (bytes + page - 1) / page * page : page);
  block->used = true;
  void *memory = region.start + block->offset;
  pthread_mutex_unlock(&region.lock);
  return memory;
}

/* Free blocks at the end are given up, so that the next ones need not have their sizes. */
static void drop_last_blocks(void) {
  while (region.num_blocks > 0 && !region.block[region.num_blocks - 1].used) {
    const struct block *last = &region.block[--region.num_blocks];
    protect(last->offset, last->bytes, PROT_NONE);
    region.bytes = last->offset;
  }
}

void guarded_release(void *memory) {
  if (!memory) return;
  pthread_mutex_lock(&region.lock);
  struct block *block = region.block;
  while (block < region.block + region.num_blocks && region.start + block->offset != memory)
    block++;
  CHECK(block < region.block + region.num_blocks && block->used,
        "device guarded: released what was not allocated");
  block->used = false;
  /* The pages read as zeros when they are next used. */
  CHECK(madvise(memory, block->bytes, MADV_DONTNEED) == 0, "madvise of %zu bytes", block->bytes);
  drop_last_blocks();
  pthread_mutex_unlock(&region.lock);
}

void guarded_open(void) {
  pthread_mutex_lock(&region.lock);
  if (region.open++ == 0) protect(0, region.bytes, PROT_READ | PROT_WRITE);
  pthread_mutex_unlock(&region.lock);
}

void guarded_close(void) {
  pthread_mutex_lock(&region.lock);
  if (--region.open == 0) protect(0, region.bytes, PROT_NONE);
  pthread_mutex_unlock(&region.lock);
}

void guarded_check(const void *const *pointer, int count, const char *operation) {
  pthread_mutex_lock(&region.lock);
  uintptr_t start = (uintptr_t)region.start, bytes = region.bytes;
  pthread_mutex_unlock(&region.lock);
  for (int i = 0; i < count; i++)
    CHECK(!pointer[i] || (uintptr_t)pointer[i] - start < bytes,
          "device guarded: array %d of %s is not the device's memory", i, operation);
}
