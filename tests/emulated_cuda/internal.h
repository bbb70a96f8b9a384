/* What the files of the emulation share. They are compiled without ThreadSanitizer's
 * instrumentation, and synchronise by futexes, which it does not see: the edges of happens-before
 * that a GPU has are the ones marked here, and those alone. */
#ifndef ACORN_TESTS_EMULATED_CUDA_INTERNAL_H
#define ACORN_TESTS_EMULATED_CUDA_INTERNAL_H

#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>

#ifdef EMULATED_TSAN
extern "C" {
uint64_t __tsan_atomic64_load(const volatile uint64_t *p, int order);
void __tsan_atomic64_store(volatile uint64_t *p, uint64_t x, int order);
void __tsan_read_range(void *p, size_t bytes);
void __tsan_write_range(void *p, size_t bytes);
void *__tsan_get_current_fiber();
void *__tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void *fiber);
void __tsan_switch_to_fiber(void *fiber, unsigned flags);
void __tsan_acquire(void *p);
void __tsan_release(void *p);
}
#else
#define __tsan_acquire(p) ((void)(p))
#define __tsan_release(p) ((void)(p))
#define __tsan_read_range(p, bytes) ((void)(p), (void)(bytes))
#define __tsan_write_range(p, bytes) ((void)(p), (void)(bytes))
#endif

/* What happened before edge_release(p) happens before what follows edge_acquire(p). The caller has
 * made sure that the release came first. */
static inline void edge_release(uint64_t *p) {
#ifdef EMULATED_TSAN
  __tsan_atomic64_store(p, 1, __ATOMIC_RELEASE);
#else
  __atomic_store_n(p, 1, __ATOMIC_RELEASE);
#endif
}
static inline void edge_acquire(uint64_t *p) {
#ifdef EMULATED_TSAN
  __tsan_atomic64_load(p, __ATOMIC_ACQUIRE);
#else
  (void)__atomic_load_n(p, __ATOMIC_ACQUIRE);
#endif
}

#define EMULATED_FAIL(...)              \
  do {                                  \
    fprintf(stderr, "emulated CUDA: "); \
    fprintf(stderr, __VA_ARGS__);       \
    fprintf(stderr, "\n");              \
    abort();                            \
  } while (0)

/* ---- calls.cc: how often each function of the runtime was called */

struct call {
  const char *name;
  long count;
  struct call *next;
};
void call_count(struct call *call);
/* The first line of a function of the runtime. */
#define COUNT_CALL(name)                                  \
  do {                                                    \
    static struct call counted_call = {name, 0, nullptr}; \
    call_count(&counted_call);                            \
  } while (0)

/* Calls of that name so far, by all threads; NULL: of all names. "work": a kernel, a copy or a
 * product that is given to a stream, or captured; "spin": a wait for an event that keeps a core
 * busy on a GPU. For tests, which look it up in the plugin. */
extern "C" __attribute__((visibility("default"))) long emulated_cuda_calls(const char *name);

/* ---- futex.cc: locks that no sanitizer sees */

struct hidden_lock {
  uint32_t word;
};
void hidden_take(struct hidden_lock *lock);
void hidden_give(struct hidden_lock *lock);
/* Waits while *word is `value`. */
void hidden_wait(uint32_t *word, uint32_t value);
void hidden_wake(uint32_t *word);

/* ---- machine.cc: ACORN_EMULATED_CUDA, errors */

struct machine {
  cudaError_t without_device;  /* what the first call returns; cudaSuccess */
  cudaError_t without_context; /* what the first use of a GPU returns; cudaSuccess */
  bool without_graphs;         /* what is captured is invalid */
  bool without_captures;       /* none can begin */
  bool without_blas;           /* cuBLASLt is not found */
  int blas_version;            /* its major one */
  uint64_t blas_lacks;         /* columns of products that it has no algorithm for; 0: none */
  int driver, gpus;
  size_t memory;
  long order;    /* of threads in a block and of blocks: 0, as they are numbered; -1, the other way
                 round; else any, by this seed */
  bool races;    /* threads of a block are threads to ThreadSanitizer */
  size_t shared; /* bytes that a block may have */
  int processors;
  long failing_launch;     /* 0: none */
  cudaError_t failure;     /* what every call returns from it on */
  char failing_kernel[64]; /* whose launches are counted; "": those of all */
};
const struct machine *machine_get();
/* Returns the error, and keeps it as the thread's last. */
cudaError_t machine_error(cudaError_t error);
/* Of a kernel: from now on every call fails. */
void machine_break();
cudaError_t machine_broken();
/* Bytes of dynamic shared memory that a launch of the kernel may have. */
size_t machine_shared(const void *kernel);

/* ---- fibers.cc: all blocks of a kernel, on the calling thread; and the end of that thread */
void fibers_run(struct emulated_work *work);
void fibers_end();

/* ---- streams.cc */
/* The host waits for all streams. */
cudaError_t streams_synchronize();
/* cudaErrorStreamCaptureUnsupported where the calling thread captures: such a call waits or
 * allocates. */
cudaError_t streams_refuse_capture();

/* ---- memory.cc */
/* Fails unless `bytes` from p on lie in one block: of the device, or of the host, whose
 * memory need not be pinned. */
void memory_check(const void *p, size_t bytes, bool on_device, const char *call);
bool memory_is_on_device(const void *p);
/* Whether it is the device's or pinned. */
bool memory_is_known(const void *p);

#endif
