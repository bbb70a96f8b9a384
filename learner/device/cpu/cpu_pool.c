/* DESIGN. The parts of an operation are taken one by one from a counter, so that a thread that the
 * kernel does not run delays nothing but a part that it has taken. What the parts are is written
 * before the counter, read after a part has been taken, and stays until all of them are done: a
 * late thread takes a part of the operation in hand, or none. */
#include "learner/device/cpu/cpu_pool.h"

#include <immintrin.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/thread.h"

enum {
  SPIN_US = 100,   /* longer than a network's operations are apart */
  SPINS_LOOK = 64, /* between looks at the clock */
  CACHE_LINE = 64
};

struct cpu_pool {
  pthread_t *helper; /* read-only after create */
  int num_helpers;
  pthread_mutex_t lock;
  pthread_cond_t has_work; /* or the end has come */
  atomic_int num_asleep;   /* changed under the lock */
  atomic_bool ends;
  cpu_pool_part *part; /* of the operation in hand, its context, and how many there are */
  void *context;
  int num_parts;
  unsigned rounding;      /* MXCSR of the caller: how tiny numbers are treated, too */
  char apart[CACHE_LINE]; /* what follows is written by all, in cache lines of its own */
  atomic_int num_left;    /* parts of it that are still to be taken */
  char apart_too[CACHE_LINE];
  atomic_int num_done; /* parts of it */
};

/* Takes a part, the first first, and does it; whether there was one. */
static bool do_part(struct cpu_pool *self) {
  int left = atomic_load_explicit(&self->num_left, memory_order_relaxed);
  do
    if (left == 0) return false;
  while (!atomic_compare_exchange_weak_explicit(&self->num_left, &left, left - 1,
                                                memory_order_acq_rel, memory_order_relaxed));
  _mm_setcsr(self->rounding);
  self->part(self->context, self->num_parts - left);
  atomic_fetch_add_explicit(&self->num_done, 1, memory_order_release);
  return true;
}

/* ---- the threads */

/* cpu_pool_run writes the counter, then looks whether any is asleep; here it is the other way
 * round: one of the two sees the other. */
static void sleep_until_work(struct cpu_pool *self) {
  pthread_mutex_lock(&self->lock);
  atomic_fetch_add(&self->num_asleep, 1);
  while (atomic_load(&self->num_left) == 0 && !atomic_load(&self->ends))
    pthread_cond_wait(&self->has_work, &self->lock);
  atomic_fetch_sub(&self->num_asleep, 1);
  pthread_mutex_unlock(&self->lock);
}

static void wake_all(struct cpu_pool *self) {
  pthread_mutex_lock(&self->lock);
  pthread_cond_broadcast(&self->has_work);
  pthread_mutex_unlock(&self->lock);
}

static void *help(void *self_) {
  struct cpu_pool *self = self_;
  thread_computes();
  while (!atomic_load(&self->ends)) {
    int64_t until = clock_now_us() + SPIN_US;
    bool found = false;
    while (!found && clock_now_us() < until)
      for (int spin = 0; !found && spin < SPINS_LOOK; spin++) {
        found = do_part(self);
        _mm_pause();
      }
    if (!found) sleep_until_work(self);
  }
  return NULL;
}

struct cpu_pool *cpu_pool_create(int threads) {
  CHECK(threads > 1, "a pool of %d threads", threads);
  struct cpu_pool *self = check_alloc(1, sizeof(*self));
  self->num_helpers = threads - 1;
  self->helper = check_alloc((size_t)self->num_helpers, sizeof(*self->helper));
  pthread_mutex_init(&self->lock, NULL);
  pthread_cond_init(&self->has_work, NULL);
  for (int i = 0; i < self->num_helpers; i++) thread_start(&self->helper[i], "compute", help, self);
  return self;
}

void cpu_pool_destroy(struct cpu_pool *self) {
  if (!self) return;
  atomic_store(&self->ends, true);
  wake_all(self);
  for (int i = 0; i < self->num_helpers; i++) pthread_join(self->helper[i], NULL);
  pthread_cond_destroy(&self->has_work);
  pthread_mutex_destroy(&self->lock);
  free(self->helper);
  free(self);
}

int cpu_pool_threads(const struct cpu_pool *self) {
  return self->num_helpers + 1;
}

/* ---- an operation */

/* A helper that the kernel does not run may want this core. */
static void wait_for_parts(struct cpu_pool *self, int parts) {
  for (int spin = 1; atomic_load_explicit(&self->num_done, memory_order_acquire) < parts; spin++)
    if (spin % (16 * SPINS_LOOK) == 0)
      sched_yield();
    else
      _mm_pause();
}

void cpu_pool_run(struct cpu_pool *self, cpu_pool_part *part, void *context, int parts) {
  if (!self) {
    for (int i = 0; i < parts; i++) part(context, i);
    return;
  }
  self->part = part;
  self->context = context;
  self->num_parts = parts;
  self->rounding = _mm_getcsr();
  atomic_store_explicit(&self->num_done, 0, memory_order_relaxed);
  atomic_store(&self->num_left, parts);
  if (atomic_load(&self->num_asleep) > 0) wake_all(self);
  while (do_part(self)) {
  }
  wait_for_parts(self, parts);
}
