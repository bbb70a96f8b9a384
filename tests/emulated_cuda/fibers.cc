/* Runs the blocks of a kernel one after another on the calling thread. A thread of a block is a
 * fiber from the moment that it has to wait for others; one that never waits is an iteration of a
 * loop. Blocks and threads begin in the order that the machine asks for: what depends on it is a
 * race, of blocks or of threads between two barriers. On a machine with `races` a fiber is a thread
 * of its own to ThreadSanitizer, and barriers, of warps too, a block's begin and its end are the
 * only order between them (and matrix instructions, whose emulation needs it): it reports a race of
 * two threads of a block in whatever order they have run, if they are on two fibers. That takes
 * five times as long; else a block is one thread to it. Of edges there are two each, used in turn
 * like the values beside them. */
#include <sys/mman.h>

#include "internal.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#else
#define __sanitizer_start_switch_fiber(fake, bottom, size) ((void)(bottom), (void)(size))
#define __sanitizer_finish_switch_fiber(fake, bottom, size) ((void)0)
#endif

enum { MAX_THREADS = 1024, LANES = 32, STACK_BYTES = 256 << 10, GUARD_BYTES = 4096 };

__thread struct emulated_place emulated_here;

struct fiber {
  void *stack_pointer;
  char *stack; /* lowest address behind the guard page; NULL: the scheduler's own */
  const void *bottom;
  size_t bytes;
  void *fake_stack, *tsan;
  uint3 thread; /* the one it runs */
  int number;   /* of that thread in the block */
};

/* The meetings of a warp. Values are kept twice: a lane that goes on to the next meeting must not
 * overwrite what a slower one has still to read. */
struct warp {
  unsigned mask; /* of the meeting that has begun */
  int arrived;
  unsigned meeting;
  uint64_t value[2][LANES];
  char edge[2];
  struct fiber *waiting[LANES];
};

/* The order of so many: number k is k * step + first, modulo n. */
struct order {
  unsigned n;
  uint64_t step, first;
};

/* One of each stream's thread. */
struct scheduler {
  struct emulated_work *work;
  int threads, started, finished;
  struct order of_threads;
  struct fiber main, *current;
  struct fiber *fiber[MAX_THREADS], *idle[MAX_THREADS], *ready[MAX_THREADS];
  int num_fibers, num_idle, first_ready, num_ready;
  struct fiber *at_barrier[MAX_THREADS];
  int num_at_barrier, vote, votes[2];
  char edge[2], begin, end;
  unsigned barriers;
  struct warp warp[MAX_THREADS / LANES];
  void *shared;
  size_t shared_bytes;
};

static thread_local struct scheduler *scheduler_of_thread;

/* ---- fibers */

extern "C" void emulated_switch(void **save, void *load);
asm(R"(
.text
.type emulated_switch, @function
.hidden emulated_switch
.globl emulated_switch
emulated_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size emulated_switch, . - emulated_switch
)");

/* With `races`; else s->main is unknown to ThreadSanitizer. */
static void release_edge(struct scheduler *s, char *edge) {
  if (s->main.tsan) __tsan_release(edge);
}
static void acquire_edge(struct scheduler *s, char *edge) {
  if (s->main.tsan) __tsan_acquire(edge);
}

static void switch_to(struct scheduler *s, struct fiber *next) {
  struct fiber *self = s->current;
  s->current = next;
  __sanitizer_start_switch_fiber(&self->fake_stack, next->bottom, next->bytes);
#ifdef EMULATED_TSAN
  if (next->tsan) __tsan_switch_to_fiber(next->tsan, 1); /* without an edge */
#endif
  emulated_switch(&self->stack_pointer, next->stack_pointer);
  __sanitizer_finish_switch_fiber(self->fake_stack, NULL, NULL);
  emulated_here.thread = s->current->thread;
}

static void run_threads(struct scheduler *s);

/* Where a fiber begins: it runs threads until none is left to start, and is idle until the next
 * block. */
static void fiber_main() {
  struct scheduler *s = scheduler_of_thread;
  __sanitizer_finish_switch_fiber(NULL, &s->main.bottom, &s->main.bytes);
  for (;;) {
    run_threads(s);
    s->idle[s->num_idle++] = s->current;
    switch_to(s, &s->main);
  }
}

static struct fiber *fiber_create(struct scheduler *s) {
  struct fiber *fiber = (struct fiber *)calloc(1, sizeof *fiber);
  char *stack = (char *)mmap(NULL, GUARD_BYTES + STACK_BYTES, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (stack == MAP_FAILED || mprotect(stack, GUARD_BYTES, PROT_NONE) != 0)
    EMULATED_FAIL("no stack for thread %d of a block", s->num_fibers);
  fiber->stack = stack + GUARD_BYTES;
  fiber->bottom = fiber->stack;
  fiber->bytes = STACK_BYTES;
#ifdef EMULATED_TSAN
  if (s->main.tsan) fiber->tsan = __tsan_create_fiber(0);
#endif
  /* As emulated_switch leaves a stack: six registers below the address to return to, which finds
   * the stack aligned as a call does. */
  void **top = (void **)(fiber->stack + STACK_BYTES) - 2;
  *top = (void *)fiber_main;
  fiber->stack_pointer = top - 6;
  s->fiber[s->num_fibers++] = fiber;
  return fiber;
}

/* When a stream's thread ends. */
static void scheduler_destroy(struct scheduler *s) {
  for (int i = 0; i < s->num_fibers; i++) {
#ifdef EMULATED_TSAN
    if (s->fiber[i]->tsan) __tsan_destroy_fiber(s->fiber[i]->tsan);
#endif
    munmap(s->fiber[i]->stack - GUARD_BYTES, GUARD_BYTES + STACK_BYTES);
    free(s->fiber[i]);
  }
  free(s->shared);
  free(s);
}

void fibers_end() {
  if (scheduler_of_thread) scheduler_destroy(scheduler_of_thread);
  scheduler_of_thread = NULL;
}

/* ---- the order */

static uint64_t common_divisor(uint64_t a, uint64_t b) {
  return b ? common_divisor(b, a % b) : a;
}

static struct order order_of(size_t n, long asked) {
  struct order order = {(unsigned)n, 1, 0};
  if (asked < 0) order.step = n - 1, order.first = n - 1;
  if (asked <= 0 || n < 3) return order;
  order.first = (uint64_t)asked * 0x9e3779b97f4a7c15u % n;
  order.step = (uint64_t)asked * 0xbf58476d1ce4e5b9u % n;
  while (common_divisor(order.step, n) != 1) order.step++;
  return order;
}

static unsigned ordered(const struct order *order, size_t k) {
  return (unsigned)((k * order->step + order->first) % order->n);
}

/* ---- a block */

static void run_threads(struct scheduler *s) {
  while (s->started < s->threads) {
    struct fiber *self = s->current;
    unsigned number = ordered(&s->of_threads, (size_t)s->started++), x = emulated_here.threads.x,
             y = emulated_here.threads.y;
    self->number = (int)number;
    self->thread = uint3{number % x, number / x % y, number / x / y};
    emulated_here.thread = self->thread;
    acquire_edge(s, &s->begin);
    s->work->run(s->work);
    release_edge(s, &s->end);
    s->finished++;
  }
}

[[noreturn]] static void fail_divergent(struct scheduler *s) {
  const char *name = s->work->name;
  if (s->num_at_barrier)
    EMULATED_FAIL("kernel %s: divergent barrier: %d of %d threads wait at it, %d have returned",
                  name, s->num_at_barrier, s->threads, s->finished);
  for (int w = 0; w * LANES < s->threads; w++)
    if (s->warp[w].arrived)
      EMULATED_FAIL("kernel %s: divergent warp function: %d lanes of warp %d wait for mask %08x",
                    name, s->warp[w].arrived, w, s->warp[w].mask);
  EMULATED_FAIL("kernel %s: threads wait for each other", name);
}

static void run_block(struct scheduler *s) {
  s->started = s->finished = 0;
  if (s->shared) memset(s->shared, 0xff, s->work->shared_bytes);
  release_edge(s, &s->begin);
  while (s->finished < s->threads) {
    struct fiber *next;
    if (s->num_ready) {
      next = s->ready[s->first_ready];
      s->first_ready = (s->first_ready + 1) % MAX_THREADS;
      s->num_ready--;
    } else if (s->started < s->threads) {
      next = s->num_idle ? s->idle[--s->num_idle] : fiber_create(s);
    } else {
      fail_divergent(s);
    }
    switch_to(s, next);
  }
  acquire_edge(s, &s->end);
}

static void prepare(struct scheduler *s, struct emulated_work *work) {
  s->work = work;
  s->threads = (int)(work->block.x * work->block.y * work->block.z);
  s->of_threads = order_of((size_t)s->threads, machine_get()->order);
  emulated_here.threads = work->block;
  emulated_here.blocks = work->grid;
  free(s->shared); /* of exactly the size, so that AddressSanitizer sees its end */
  s->shared = work->shared_bytes ? aligned_alloc(16, (work->shared_bytes + 15) / 16 * 16) : NULL;
#ifdef __SANITIZE_ADDRESS__
  if (work->shared_bytes % 16)
    ASAN_POISON_MEMORY_REGION((char *)s->shared + work->shared_bytes, 16 - work->shared_bytes % 16);
#endif
}

void fibers_run(struct emulated_work *work) {
  if (!scheduler_of_thread) {
    scheduler_of_thread = (struct scheduler *)calloc(1, sizeof(struct scheduler));
    scheduler_of_thread->current = &scheduler_of_thread->main;
#ifdef EMULATED_TSAN
    if (machine_get()->races) scheduler_of_thread->main.tsan = __tsan_get_current_fiber();
#endif
  }
  struct scheduler *s = scheduler_of_thread;
  prepare(s, work);
  dim3 grid = work->grid;
  size_t blocks = (size_t)grid.x * grid.y * grid.z;
  struct order of_blocks = order_of(blocks, machine_get()->order);
  for (size_t k = 0; k < blocks; k++) {
    unsigned number = ordered(&of_blocks, k);
    emulated_here.block =
        uint3{number % grid.x, number / grid.x % grid.y, number / grid.x / grid.y};
    run_block(s);
  }
}

/* ---- what a kernel calls */

void *emulated_dynamic_shared() {
  struct scheduler *s = scheduler_of_thread;
  if (!s->shared) EMULATED_FAIL("kernel %s: launched without shared memory", s->work->name);
  return s->shared;
}

void emulated_endless_wait(unsigned now, unsigned goal) {
  EMULATED_FAIL("kernel %s: waits for %u, and %u is all that comes",
                scheduler_of_thread->work->name, goal, now);
}

static void make_ready(struct scheduler *s, struct fiber *fiber) {
  s->ready[(s->first_ready + s->num_ready++) % MAX_THREADS] = fiber;
}

/* Votes are summed up; the sum of barrier k is kept while barrier k + 1 is met. */
static int meet_all(int vote) {
  struct scheduler *s = scheduler_of_thread;
  unsigned turn = s->barriers % 2;
  s->vote += vote;
  release_edge(s, &s->edge[turn]);
  if (s->num_at_barrier + 1 < s->threads) {
    s->at_barrier[s->num_at_barrier++] = s->current;
    switch_to(s, &s->main);
  } else {
    s->votes[turn] = s->vote;
    s->vote = 0;
    s->barriers++;
    for (int i = 0; i < s->num_at_barrier; i++) make_ready(s, s->at_barrier[i]);
    s->num_at_barrier = 0;
  }
  acquire_edge(s, &s->edge[turn]);
  return s->votes[turn];
}

void emulated_barrier() {
  meet_all(0);
}

int emulated_barrier_any(int value) {
  return meet_all(value != 0) > 0;
}

int emulated_lane() {
  return scheduler_of_thread->current->number % LANES;
}

/* Waits for the lanes of the mask; returns their values. Shuffles and votes order no memory. */
static const uint64_t *meet_warp(unsigned mask, uint64_t value, bool orders) {
  struct scheduler *s = scheduler_of_thread;
  int number = s->current->number, lane = number % LANES;
  struct warp *warp = &s->warp[number / LANES];
  int lanes = s->threads - number / LANES * LANES;
  unsigned present = lanes >= LANES ? 0xffffffffu : (1u << lanes) - 1;
  if (mask & ~present || !(mask >> lane & 1))
    EMULATED_FAIL("kernel %s: mask %08x of lane %d in a warp with lanes %08x", s->work->name, mask,
                  lane, present);
  if (warp->arrived && warp->mask != mask)
    EMULATED_FAIL("kernel %s: divergent warp function: masks %08x and %08x in one warp",
                  s->work->name, warp->mask, mask);
  warp->mask = mask;
  unsigned turn = warp->meeting % 2;
  uint64_t *values = warp->value[turn];
  values[lane] = value;
  if (orders) release_edge(s, &warp->edge[turn]);
  if (warp->arrived + 1 < __builtin_popcount(mask)) {
    warp->waiting[warp->arrived++] = s->current;
    switch_to(s, &s->main);
  } else {
    for (int i = 0; i < warp->arrived; i++) make_ready(s, warp->waiting[i]);
    warp->arrived = 0;
    warp->meeting++;
  }
  if (orders) acquire_edge(s, &warp->edge[turn]);
  return values;
}

void emulated_sync_warp(unsigned mask) {
  (void)meet_warp(mask, 0, true);
}

uint64_t emulated_exchange(unsigned mask, uint64_t value, int source) {
  const uint64_t *values = meet_warp(mask, value, false);
  if (source < 0 || source >= LANES || !(mask >> source & 1))
    EMULATED_FAIL("kernel %s: a shuffle reads lane %d, which is not in mask %08x",
                  scheduler_of_thread->work->name, source, mask);
  return values[source];
}
