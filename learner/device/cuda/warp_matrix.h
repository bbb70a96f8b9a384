/* The matrix instructions of a warp (sm_80 and later): 16 x 8 products of bf16 or tf32, summed in
 * float, and the loads that bring their operands from shared memory. In their terms a lane is in
 * group lane / 4 and holds the columns 2 (lane % 4) and the next one.
 *
 *   acc[0..1]: row group, acc[2..3]: row group + 8, columns 2 (lane % 4) and the next
 *
 * Upstream: lstm_steps.cu, conv_tiles.cu, product_tiles.cu. */
#ifndef ACORN_LEARNER_DEVICE_CUDA_WARP_MATRIX_H
#define ACORN_LEARNER_DEVICE_CUDA_WARP_MATRIX_H

#include "learner/device/cuda/portable.h"

#ifdef __CUDACC__

DEVICE unsigned shared_address(const void *at) {
  return (unsigned)__cvta_generic_to_shared(at);
}

/* Four 8 x 8 matrices; lane l gives the address of row l % 8 (16 bytes, aligned) of matrix l / 8.
 * Of each a lane gets the two numbers of row lane / 4 that it holds. */
DEVICE void load_matrices(unsigned y[4], const bf16 *row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(y[0]), "=r"(y[1]), "=r"(y[2]), "=r"(y[3])
               : "r"(shared_address(row))
               : "memory");
}

/* The same of the transposed matrices. */
DEVICE void load_transposed(unsigned y[4], const bf16 *row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(y[0]), "=r"(y[1]), "=r"(y[2]), "=r"(y[3])
               : "r"(shared_address(row))
               : "memory");
}

/* sum (16, 8) += a (16, 16) b (16, 8). */
DEVICE void multiply_add(float sum[4], const unsigned a[4], const unsigned b[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
      "{%8,%9}, {%0,%1,%2,%3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/* A float with 10 bits behind the point. */
DEVICE unsigned to_tf32(float x) {
  unsigned y;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(y) : "f"(x));
  return y;
}

/* sum (16, 8) += a (16, 8) b (8, 8). Of a, a lane has rows group and group + 8, columns lane % 4
 * and that + 4, a column after the other; of b the same places of column group. */
DEVICE void multiply_add_tf32(float sum[4], const unsigned a[4], const unsigned b[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
      "{%8,%9}, {%0,%1,%2,%3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/* Two numbers as a word; `low` has the lower address. */
DEVICE unsigned pack_bf16(float low, float high) {
  unsigned y;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
  return y;
}

/* ---- between the blocks of one launch that are on the GPU together */

/* Past the first-level cache, which does not see what other blocks wrote. */
DEVICE uint4 load_from_grid(const void *at) {
  return __ldcg((const uint4 *)at);
}

/* All that this block wrote before is visible to blocks that see the count. One thread. */
DEVICE void arrive(unsigned *count) {
  asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(count) : "memory");
}

/* A poll takes some 0.5 us. A wait without an end would keep the GPU from other processes too:
 * after some eight seconds the kernel fails. */
enum { MOST_POLLS = 1 << 24 };

DEVICE void wait_for(unsigned *count, unsigned goal) {
  unsigned now;
  for (int polls = 0; polls < MOST_POLLS; polls++) {
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(count) : "memory");
    if (now >= goal) return;
  }
  __trap();
}

/* Blocks of a kernel that are on the GPU together where it has nothing else to do; 0: they cannot
 * be launched so. */
template <typename K>
static unsigned blocks_together(const struct cudaDeviceProp *gpu, K kernel, unsigned block,
                                size_t bytes) {
  int number, possible = 0, each = 0;
  CUDA_CHECK(cudaGetDevice(&number));
  CUDA_CHECK(cudaDeviceGetAttribute(&possible, cudaDevAttrCooperativeLaunch, number));
  if (!possible || bytes > gpu->sharedMemPerBlockOptin) return 0;
  allow_shared(kernel, bytes);
  CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, kernel, (int)block, bytes));
  return (unsigned)(each * gpu->multiProcessorCount);
}

/* A launch of which all blocks run at the same time, or none does. */
#define LAUNCH_TOGETHER(kernel, grid, block, bytes, stream, argument)           \
  do {                                                                          \
    void *together_arguments[] = {(void *)&(argument)};                         \
    CUDA_CHECK(cudaLaunchCooperativeKernel((const void *)(kernel), grid, block, \
                                           together_arguments, bytes, stream)); \
  } while (0)

#else
#include "warp_matrix_emulated.h"
#endif

#endif
