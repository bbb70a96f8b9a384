/* What a kernel sees: its place in the grid, barriers, warp functions, atomics, vector types; and
 * how a kernel is launched. Included by cuda_runtime.h alone. */
#ifndef ACORN_TESTS_EMULATED_CUDA_KERNEL_H
#define ACORN_TESTS_EMULATED_CUDA_KERNEL_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <tuple>

#define __global__
#define __grid_constant__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((unused))
#define __launch_bounds__(...)
/* Blocks of one stream run one after another, and a stream is a thread. */
#define __shared__ static thread_local

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
struct uint3 {
  unsigned x, y, z;
};

/* Of the thread that runs, set before each time that it goes on. */
struct emulated_place {
  uint3 thread = {}, block = {};
  dim3 threads = {}, blocks = {};
};
extern __thread struct emulated_place emulated_here;
#define threadIdx (emulated_here.thread)
#define blockIdx (emulated_here.block)
#define blockDim (emulated_here.threads)
#define gridDim (emulated_here.blocks)

void *emulated_dynamic_shared();

/* ---- barriers and warp functions. Each waits for all threads of the block, or for the lanes of
 * the mask. */

void emulated_barrier();
/* Ends the process: the calling kernel waits for a count that is not reached. */
[[noreturn]] void emulated_endless_wait(unsigned now, unsigned goal);
/* Whether any of the block's threads gave not 0. */
int emulated_barrier_any(int value);
/* The value that lane `source` gave to the same call; its own where the source is no lane. */
uint64_t emulated_exchange(unsigned mask, uint64_t value, int source);
int emulated_lane();
/* As the others, and what the lanes did before it is done for those of the mask. */
void emulated_sync_warp(unsigned mask);

static inline void __syncthreads() {
  emulated_barrier();
}
static inline int __syncthreads_or(int value) {
  return emulated_barrier_any(value);
}
static inline void __syncwarp(unsigned mask = 0xffffffffu) {
  emulated_sync_warp(mask);
}

template <typename T>
static inline T emulated_shuffle(unsigned mask, T value, int source) {
  static_assert(sizeof(T) <= sizeof(uint64_t), "a shuffle moves at most 8 bytes");
  uint64_t bits = 0;
  memcpy(&bits, &value, sizeof value);
  bits = emulated_exchange(mask, bits, source);
  memcpy(&value, &bits, sizeof value);
  return value;
}
/* Lanes of one group of `width`; a source outside of it is the lane itself. */
template <typename T>
static inline T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32) {
  int lane = emulated_lane(), source = lane ^ bits;
  return emulated_shuffle(mask, value, source / width > lane / width ? lane : source);
}
template <typename T>
static inline T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32) {
  int lane = emulated_lane();
  return emulated_shuffle(mask, value, lane % width < (int)by ? lane : lane - (int)by);
}

/* ---- atomics; relaxed, as on the GPU */

template <typename T>
static inline T atomicAdd(T *p, T x) {
  T old, sum;
  __atomic_load(p, &old, __ATOMIC_RELAXED);
  do {
    sum = old + x;
  } while (!__atomic_compare_exchange(p, &old, &sum, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
  return old;
}

/* An exchange on a word that all fences share: ThreadSanitizer knows no other fence. */
inline void __threadfence() {
  static int shared;
  __atomic_fetch_add(&shared, 0, __ATOMIC_SEQ_CST);
}

/* ---- arithmetic */

static inline int __popc(unsigned x) {
  return __builtin_popcount(x);
}

static inline uint32_t __float_as_uint(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}
static inline float __uint_as_float(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}
template <typename T>
static inline T min(T x, T y) {
  return y < x ? y : x;
}
template <typename T>
static inline T max(T x, T y) {
  return x < y ? y : x;
}

/* ---- vector types; a misaligned access is a finding of UBSan */

#define EMULATED_VECTORS(T, name)                                   \
  struct alignas(2 * sizeof(T)) name##2 {                           \
    T x, y;                                                         \
  };                                                                \
  struct alignas(4 * sizeof(T) > 16 ? 16 : 4 * sizeof(T)) name##4 { \
    T x, y, z, w;                                                   \
  };                                                                \
  static inline name##2 make_##name##2(T x, T y) {                  \
    return name##2 {x, y};                                          \
  }                                                                 \
  static inline name##4 make_##name##4(T x, T y, T z, T w) {        \
    return name##4 {x, y, z, w};                                    \
  }
EMULATED_VECTORS(float, float)
EMULATED_VECTORS(int, int)
EMULATED_VECTORS(unsigned, uint)
EMULATED_VECTORS(short, short)
EMULATED_VECTORS(unsigned short, ushort)
EMULATED_VECTORS(signed char, char)
EMULATED_VECTORS(unsigned char, uchar)
EMULATED_VECTORS(double, double)
#undef EMULATED_VECTORS

/* ---- launches */

/* Work of a stream, which a graph may run more than once. Owner: those with a reference. */
struct emulated_work {
  const char *name;
  const void *kernel;                      /* NULL: none */
  void (*run)(struct emulated_work *work); /* of a kernel: one thread */
  void (*destroy)(struct emulated_work *work);
  int references;
  bool is_kernel;
  dim3 grid, block;
  size_t shared_bytes;
  uint64_t edge; /* from its last run to the thread that frees it */
};

/* Fills it with NaN, in the stream's order. Counts as no call, and stands in a graph too. */
void emulated_poison(cudaStream_t stream, void *memory, size_t bytes);

/* Takes the work. */
void emulated_enqueue_kernel(cudaStream_t stream, struct emulated_work *work);
/* End the process unless a kernel may be given this pointer: memory of the device, pinned memory,
 * or NULL; and unless the words of a struct that look like pointers to memory are. */
void emulated_check_argument(const char *kernel, int index, const void *pointer);
void emulated_check_struct(const char *kernel, int index, const void *bytes, size_t count);

template <typename T>
static inline void emulated_check_value(const char *kernel, int index, const T &value) {
  T copy = value; /* what was in the padding may look like a pointer */
  __builtin_clear_padding(&copy);
  emulated_check_struct(kernel, index, &copy, sizeof copy);
}
template <typename T>
static inline void emulated_check_value(const char *kernel, int index, T *const &pointer) {
  emulated_check_argument(kernel, index, (const void *)pointer);
}

template <typename... P>
struct emulated_kernel {
  struct emulated_work work;
  void (*kernel)(P...);
  std::tuple<P...> arguments;

  static void run(struct emulated_work *work) {
    emulated_kernel *self = (emulated_kernel *)work;
    std::apply(self->kernel, self->arguments);
  }
  static void destroy(struct emulated_work *work) {
    delete (emulated_kernel *)work;
  }
};

template <typename... P, typename... A>
void emulated_launch(const char *name, void (*kernel)(P...), dim3 grid, dim3 block, size_t bytes,
                     cudaStream_t stream, A... arguments) {
  static_assert(sizeof...(P) == sizeof...(A), "a kernel is given as many arguments as it has");
  static_assert((sizeof(P) + ... + 0) <= 4096, "a kernel's arguments fit in 4 KiB");
  emulated_kernel<P...> *made =
      new emulated_kernel<P...>{{name, (const void *)kernel, emulated_kernel<P...>::run,
                                 emulated_kernel<P...>::destroy, 1, true, grid, block, bytes, 0},
                                kernel,
                                std::tuple<P...>(arguments...)};
  int index = 0;
  std::apply([&](const P &...value) { (emulated_check_value(name, index++, value), ...); },
             made->arguments);
  emulated_enqueue_kernel(stream, &made->work);
}

#endif
