/* One source for two compilers: nvcc, and g++ with the emulation of the CUDA runtime that tests use
 * (tests/emulated_cuda, first in the include path). The only file of the plugin that tells the two
 * apart. Also here: bf16, and sums over warps and blocks.
 *
 *   template <typename P> KERNEL twice(P *y, const P *x, size_t n) {
 *     for (size_t i = grid_first(); i < n; i += grid_step())
 *       y[i] = from_float<P>(2 * to_float(x[i]));
 *   }
 *   LAUNCH(twice<float>, blocks_for(n), BLOCK, cuda->stream, y, x, n);
 *
 * A template with several arguments goes in parentheses: LAUNCH((f<float, 4>), ...).
 * Every thread of a block must meet the same __syncthreads() and the same warp functions: threads
 * that have nothing to do take part with zeros instead of returning early. Blocks have a multiple
 * of 32 threads where a warp function is used.
 * Upstream: cuda.h. */
#ifndef ACORN_LEARNER_DEVICE_CUDA_PORTABLE_H
#define ACORN_LEARNER_DEVICE_CUDA_PORTABLE_H

#include <cuda_runtime.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define KERNEL static __global__ void
#define DEVICE static __device__ __forceinline__
#define HOST_AND_DEVICE static __host__ __device__ __forceinline__
#define SHARED __shared__
#define PARAMETER const __grid_constant__ /* of a kernel, which is read where it lies */

/* Before a loop of constant length: nvcc unrolls it. */
#ifdef __CUDACC__
#define UNROLL _Pragma("unroll")
#else
#define UNROLL
#endif

/* A word that the host writes while a kernel runs. */
#ifdef __CUDACC__
#define READ_NOW(word) (*(const volatile uint32_t *)(word))
#else
#define READ_NOW(word) __atomic_load_n(word, __ATOMIC_ACQUIRE)
#endif

/* Fatal: names the call, the file and CUDA's error. */
#define CUDA_CHECK(call) CUDA_CHECK_NAMED(call, #call)
#define CUDA_CHECK_NAMED(call, name)                                            \
  do {                                                                          \
    cudaError_t cuda_check_error = (call);                                      \
    if (cuda_check_error != cudaSuccess)                                        \
      cuda_failed(__FILE__, __LINE__, name, cudaGetErrorName(cuda_check_error), \
                  cudaGetErrorString(cuda_check_error));                        \
  } while (0)
[[noreturn]] void cuda_failed(const char *file, int line, const char *call, const char *name,
                              const char *sentence);

/* Lets launches of a kernel have so much shared memory: all that the GPU has for a block, since the
 * limit is the kernel's in the whole process, and another thread may be about to launch it with
 * more. */
template <typename K>
static inline void allow_shared(K kernel, size_t bytes) {
  int gpu, most;
  if (bytes <= 48 << 10) return;
  CUDA_CHECK(cudaGetDevice(&gpu));
  CUDA_CHECK(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, gpu));
  CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, most));
}

/* LAUNCH(kernel, grid, block, stream, arguments...); with LAUNCH_SHARED the kernel has `bytes` of
 * shared memory, which it gets at by DYNAMIC_SHARED(type, name). Where that is more than 48 KiB the
 * kernel has no other shared memory, and a GPU that has less for a block fails the launch. */
#define LAUNCH(kernel, grid, block, stream, ...) \
  LAUNCH_SHARED(kernel, grid, block, 0, stream, __VA_ARGS__)
#ifdef __CUDACC__
#define LAUNCH_SHARED(kernel, grid, block, bytes, stream, ...) \
  do {                                                         \
    allow_shared(kernel, bytes);                               \
    kernel<<<grid, block, bytes, stream>>>(__VA_ARGS__);       \
    CUDA_CHECK_NAMED(cudaGetLastError(), "kernel " #kernel);   \
  } while (0)
#define DYNAMIC_SHARED(type, name)            \
  extern __shared__ float4 dynamic_shared_[]; \
  type *name = (type *)dynamic_shared_
#else
#define LAUNCH_SHARED(kernel, grid, block, bytes, stream, ...)                           \
  do {                                                                                   \
    allow_shared(kernel, bytes);                                                         \
    emulated_launch(#kernel, kernel, grid, block, (size_t)(bytes), stream, __VA_ARGS__); \
    CUDA_CHECK_NAMED(cudaGetLastError(), "kernel " #kernel);                             \
  } while (0)
#define DYNAMIC_SHARED(type, name) type *name = (type *)emulated_dynamic_shared()
#endif

/* What an operation finds in its scratch memory is NaN in the emulation. */
#ifdef __CUDACC__
#define POISON_SCRATCH(stream, memory, bytes) ((void)0)
#else
#define POISON_SCRATCH(stream, memory, bytes) emulated_poison(stream, memory, bytes)
#endif

enum { WARP = 32, BLOCK = 256, MAX_BLOCKS = 8 * 132 };
#define ALL_LANES 0xffffffffu

/* ---- loops over n elements with any number of blocks: for (i = grid_first(); i < n; i +=
 * grid_step()) */

DEVICE size_t grid_first() {
  return (size_t)blockIdx.x * blockDim.x + threadIdx.x;
}

DEVICE size_t grid_step() {
  return (size_t)gridDim.x * blockDim.x;
}

/* Blocks for n elements: as many as fill the largest GPU, and no more than have work. */
static inline unsigned blocks_for(size_t n, size_t block = BLOCK, size_t most = MAX_BLOCKS) {
  size_t blocks = (n + block - 1) / block;
  return (unsigned)(blocks < 1 ? 1 : blocks > most ? most : blocks);
}

/* ---- bf16: the upper half of a float */

struct bf16 {
  uint16_t bits;
};

HOST_AND_DEVICE float to_float(float x) {
  return x;
}

HOST_AND_DEVICE float to_float(bf16 x) {
  uint32_t bits = (uint32_t)x.bits << 16;
  float y;
  memcpy(&y, &bits, sizeof y);
  return y;
}

/* The nearest, ties to even; NaN stays one. */
HOST_AND_DEVICE bf16 to_bf16(float x) {
#ifdef __CUDA_ARCH__
  bf16 y;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
  return y;
#endif
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return bf16{(uint16_t)(bits >> 16 | 0x40)};
  return bf16{(uint16_t)((bits + 0x7fffu + (bits >> 16 & 1)) >> 16)};
}

template <typename P>
DEVICE P from_float(float x);
template <>
__device__ __forceinline__ float from_float<float>(float x) {
  return x;
}
template <>
__device__ __forceinline__ bf16 from_float<bf16>(float x) {
  return to_bf16(x);
}

/* ---- sums and largest numbers, in an order that depends on the block's size only; every thread
 * gets the result */

DEVICE float warp_sum(float x) {
  for (int lane = WARP / 2; lane > 0; lane /= 2) x += __shfl_xor_sync(ALL_LANES, x, lane);
  return x;
}

/* A NaN is passed over, as by fmaxf. */
DEVICE float warp_max(float x) {
  for (int lane = WARP / 2; lane > 0; lane /= 2) x = fmaxf(x, __shfl_xor_sync(ALL_LANES, x, lane));
  return x;
}

/* Of one-dimensional blocks. May be called several times in a row. */
DEVICE float block_sum(float x) {
  SHARED float part[WARP];
  x = warp_sum(x);
  __syncthreads();
  if (threadIdx.x % WARP == 0) part[threadIdx.x / WARP] = x;
  __syncthreads();
  return warp_sum(threadIdx.x % WARP < blockDim.x / WARP ? part[threadIdx.x % WARP] : 0);
}

/* Whether this block is the last of its grid that comes here: it may then read what the first
 * threads of all others wrote before. count: 0, and 0 again afterwards. */
DEVICE bool is_last_block(unsigned *count) {
  bool is_last = false;
  if (threadIdx.x == 0) {
    __threadfence();
    is_last = atomicAdd(count, 1u) == gridDim.x - 1;
    __threadfence();
    if (is_last) *count = 0;
  }
  return __syncthreads_or(is_last);
}

#endif
