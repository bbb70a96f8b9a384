/* The emulation that the CUDA device's tests stand on: barriers, warp functions, streams, events,
 * graphs; and that it finds what would go wrong on a GPU. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

extern "C" {
#include <cmocka.h>

#include "tests/unit/support/aborts.h"
}

#include "learner/device/cuda/portable.h"
#include "learner/device/cuda/warp_matrix.h"
#include "tests/unit/support/skip.h"

void cuda_failed(const char *file, int line, const char *call, const char *name,
                 const char *sentence) {
  fprintf(stderr, "%s:%d: %s: %s: %s\n", file, line, call, name, sentence);
  abort();
}

/* ---- arrays and streams of a test */

static cudaStream_t make_stream() {
  cudaStream_t stream;
  CUDA_CHECK(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0));
  return stream;
}

static cudaEvent_t make_event() {
  cudaEvent_t event;
  CUDA_CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  return event;
}

static float *make_array(size_t n) {
  float *x;
  CUDA_CHECK(cudaMalloc(&x, n * sizeof *x));
  return x;
}

static float *make_pinned(size_t n) {
  float *x;
  CUDA_CHECK(cudaHostAlloc(&x, n * sizeof *x, cudaHostAllocPortable));
  return x;
}

/* Waits. Owner: the caller, with cudaFreeHost. */
static float *back(cudaStream_t stream, const float *x, size_t n) {
  float *host = make_pinned(n);
  CUDA_CHECK(cudaMemcpyAsync(host, x, n * sizeof *x, cudaMemcpyDeviceToHost, stream));
  CUDA_CHECK(cudaStreamSynchronize(stream));
  return host;
}

static void expect(cudaStream_t stream, const float *x, size_t n, float (*expected)(int i)) {
  float *host = back(stream, x, n);
  for (size_t i = 0; i < n; i++)
    if (host[i] != expected((int)i))
      fail_msg("element %zu is %g, not %g", i, (double)host[i], (double)expected((int)i));
  CUDA_CHECK(cudaFreeHost(host));
}

/* ---- kernels */

KERNEL add_to(float *y, float value, size_t n) {
  for (size_t i = grid_first(); i < n; i += grid_step()) y[i] += value;
}

KERNEL number(float *y, size_t n) {
  for (size_t i = grid_first(); i < n; i += grid_step()) y[i] = (float)i;
}

KERNEL reverse(float *y, int rounds) {
  SHARED float x[BLOCK];
  float mine = (float)threadIdx.x;
  for (int i = 0; i < rounds; i++) {
    x[threadIdx.x] = mine;
    __syncthreads();
    mine = x[blockDim.x - 1 - threadIdx.x] + 1;
    __syncthreads();
  }
  y[grid_first()] = mine;
}

KERNEL reverse_dynamic(float *y) {
  DYNAMIC_SHARED(float, x);
  x[threadIdx.x] = (float)threadIdx.x;
  __syncthreads();
  y[grid_first()] = x[blockDim.x - 1 - threadIdx.x];
}

KERNEL sums(float *y) {
  float sum = block_sum((float)threadIdx.x), largest = warp_max((float)threadIdx.x);
  y[threadIdx.x] = sum + block_sum(largest);
}

/* Only the last of the blocks sees what all have added. */
KERNEL count_blocks(float *y, unsigned *counter) {
  unsigned before = 0;
  if (threadIdx.x == 0) before = atomicAdd(counter, 1u);
  int is_last = __syncthreads_or(threadIdx.x == 0 && before == gridDim.x - 1);
  if (is_last) y[threadIdx.x] = (float)(before + 1);
}

KERNEL shuffles(float *y) {
  int lane = (int)threadIdx.x % WARP;
  float x = (float)lane;
  float other = __shfl_xor_sync(ALL_LANES, x, 4), up = __shfl_up_sync(ALL_LANES, x, 1);
  y[threadIdx.x] = other + 100 * up;
}

struct arguments {
  int unused;
  const float *x;
};

KERNEL copy_first(float *y, struct arguments a) {
  if (threadIdx.x == 0) y[0] = a.x[0];
}

KERNEL half_meet(float *y) {
  if (threadIdx.x < BLOCK / 2) __syncthreads();
  y[threadIdx.x] = 1;
}

KERNEL half_shuffle(float *y) {
  if (threadIdx.x % WARP < 16) y[threadIdx.x] = __shfl_xor_sync(ALL_LANES, 1.0f, 1);
}

KERNEL wrong_lane(float *y) {
  if (threadIdx.x % WARP < 16) y[threadIdx.x] = __shfl_xor_sync(0x0000ffffu, 1.0f, 16);
}

/* ---- kernels run as on a GPU */

static float reversed(int i) {
  int lane = i % BLOCK;
  return (float)(BLOCK - 1 - lane) + 3;
}
static float reversed_once(int i) {
  return (float)(63 - i);
}
static float summed(int) {
  return 256.0f * 255 / 2 + 32 * (32 * 28 + 8 * 31); /* eight warps: 31, 63, ... 255 */
}
static float counted(int) {
  return 7;
}
static float shuffled(int i) {
  int lane = i % WARP, up = lane < 1 ? lane : lane - 1;
  return (float)((lane ^ 4) + 100 * up);
}

static void test_kernels(void **) {
  cudaStream_t stream = make_stream();
  float *y = make_array(4 * BLOCK);
  LAUNCH(reverse, 4, BLOCK, stream, y, 3);
  expect(stream, y, 4 * BLOCK, reversed);
  LAUNCH_SHARED(reverse_dynamic, 1, 64, 64 * sizeof(float), stream, y);
  expect(stream, y, 64, reversed_once);
  LAUNCH(sums, 1, BLOCK, stream, y);
  expect(stream, y, BLOCK, summed);
  LAUNCH(shuffles, 1, 2 * WARP, stream, y);
  expect(stream, y, 2 * WARP, shuffled);
  CUDA_CHECK(cudaMemsetAsync(y, 0, 4, stream));
  LAUNCH(count_blocks, 7, 32, stream, y + 1, (unsigned *)y);
  expect(stream, y + 7 - 6, 1, counted);
  CUDA_CHECK(cudaFree(y));
  CUDA_CHECK(cudaStreamDestroy(stream));
}

static void test_configuration(void **) {
  cudaStream_t stream = make_stream();
  float *y = make_array(1);
  emulated_launch("add_to", add_to, 1, 2048, 0, stream, y, 1.0f, (size_t)1);
  assert_int_equal(cudaGetLastError(), cudaErrorInvalidConfiguration);
  assert_int_equal(cudaGetLastError(), cudaSuccess);
  CUDA_CHECK(cudaFree(y));
  CUDA_CHECK(cudaStreamDestroy(stream));
}

static void test_memory(void **) {
  cudaStream_t stream = make_stream();
  float *x = make_array(3), *host = back(stream, x, 3);
  for (int i = 0; i < 3; i++) assert_true(isnan(host[i]));
  size_t free_bytes, before, total;
  CUDA_CHECK(cudaMemGetInfo(&before, &total));
  float *more;
  assert_int_equal(cudaMalloc(&more, total), cudaErrorMemoryAllocation);
  assert_int_equal(cudaGetLastError(), cudaErrorMemoryAllocation);
  CUDA_CHECK(cudaFree(x));
  CUDA_CHECK(cudaMemGetInfo(&free_bytes, &total));
  assert_int_equal(free_bytes, before + 3 * sizeof(float));
  CUDA_CHECK(cudaFreeHost(host));
  CUDA_CHECK(cudaStreamDestroy(stream));
}

/* ---- streams and graphs */

static float as_index(int i) {
  return (float)i;
}
static float one_more(int i) {
  return (float)i + 1;
}
static float five_more(int i) {
  return (float)i + 5;
}
static float six_more(int i) {
  return (float)i + 6;
}

/* The second stream reads what the first writes, and waits for it. */
static void test_events(void **) {
  enum { N = 100000 };
  cudaStream_t a = make_stream(), b = make_stream();
  cudaEvent_t event = make_event();
  float *x = make_array(N), *y = make_array(N);
  for (int i = 0; i < 20; i++) {
    LAUNCH(number, 100, BLOCK, a, x, (size_t)N);
    CUDA_CHECK(cudaEventRecord(event, a));
    CUDA_CHECK(cudaStreamWaitEvent(b, event));
    CUDA_CHECK(cudaMemcpyAsync(y, x, N * sizeof *x, cudaMemcpyDeviceToDevice, b));
    LAUNCH(add_to, 100, BLOCK, b, y, 1.0f, (size_t)N);
    CUDA_CHECK(cudaEventRecord(event, b));
    CUDA_CHECK(cudaEventSynchronize(event));
    assert_int_equal(cudaEventQuery(event), cudaSuccess);
  }
  expect(a, x, N, as_index);
  expect(b, y, N, one_more);
  CUDA_CHECK(cudaFree(x));
  CUDA_CHECK(cudaFree(y));
  CUDA_CHECK(cudaEventDestroy(event));
  CUDA_CHECK(cudaStreamDestroy(a));
  CUDA_CHECK(cudaStreamDestroy(b));
}

static void test_graph(void **) {
  enum { N = 1000 };
  cudaStream_t stream = make_stream();
  float *x = make_array(N), *y = make_array(N), *more;
  LAUNCH(number, 4, BLOCK, stream, x, (size_t)N);
  CUDA_CHECK(cudaStreamSynchronize(stream));
  CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  LAUNCH(add_to, 4, BLOCK, stream, x, 1.0f, (size_t)N);
  CUDA_CHECK(cudaMemcpyAsync(y, x, N * sizeof *x, cudaMemcpyDeviceToDevice, stream));
  LAUNCH(add_to, 4, BLOCK, stream, x, 1.0f, (size_t)N);
  assert_int_equal(cudaMalloc(&more, 4), cudaErrorStreamCaptureUnsupported);
  assert_int_equal(cudaStreamSynchronize(stream), cudaErrorStreamCaptureUnsupported);
  (void)cudaGetLastError();
  cudaGraph_t graph;
  CUDA_CHECK(cudaStreamEndCapture(stream, &graph));
  expect(stream, x, N, as_index); /* nothing has run */
  cudaGraphExec_t instance;
  CUDA_CHECK(cudaGraphInstantiate(&instance, graph));
  CUDA_CHECK(cudaGraphDestroy(graph));
  for (int i = 0; i < 3; i++) CUDA_CHECK(cudaGraphLaunch(instance, stream));
  expect(stream, x, N, six_more);
  expect(stream, y, N, five_more);
  CUDA_CHECK(cudaGraphExecDestroy(instance));
  CUDA_CHECK(cudaFree(x));
  CUDA_CHECK(cudaFree(y));
  CUDA_CHECK(cudaStreamDestroy(stream));
}

/* ---- what would go wrong on a GPU */

enum misuse {
  HALF_MEETS,
  HALF_SHUFFLES,
  WRONG_LANE,
  HOST_POINTER,
  HOST_POINTER_IN_STRUCT,
  NO_STREAM,
  COPY_TOO_LONG,
  COPY_FROM_HOST_AS_DEVICE,
  CAPTURED_COPY_OF_HOST,
  FREED_TWICE,
  MISUSES
};

static void misuse(void *, int what) {
  static float on_host[BLOCK];
  cudaStream_t stream = make_stream();
  float *y = make_array(BLOCK);
  struct arguments arguments = {0, on_host};
  if (what == HALF_MEETS) LAUNCH(half_meet, 1, BLOCK, stream, y);
  if (what == HALF_SHUFFLES) LAUNCH(half_shuffle, 1, BLOCK, stream, y);
  if (what == WRONG_LANE) LAUNCH(wrong_lane, 1, BLOCK, stream, y);
  if (what == HOST_POINTER) LAUNCH(number, 1, BLOCK, stream, on_host, (size_t)BLOCK);
  if (what == HOST_POINTER_IN_STRUCT) LAUNCH(copy_first, 1, BLOCK, stream, y, arguments);
  if (what == NO_STREAM) LAUNCH(number, 1, BLOCK, 0, y, (size_t)BLOCK);
  if (what == COPY_TOO_LONG) CUDA_CHECK(cudaMemsetAsync(y, 0, BLOCK * sizeof *y + 1, stream));
  if (what == COPY_FROM_HOST_AS_DEVICE)
    CUDA_CHECK(cudaMemcpyAsync(y, on_host, 4, cudaMemcpyDeviceToDevice, stream));
  if (what == CAPTURED_COPY_OF_HOST) {
    CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    CUDA_CHECK(cudaMemcpyAsync(y, on_host, 4, cudaMemcpyDefault, stream));
    return;
  }
  if (what == FREED_TWICE) {
    CUDA_CHECK(cudaFree(y));
    CUDA_CHECK(cudaFree(y));
  }
  CUDA_CHECK(cudaStreamSynchronize(stream));
}

static void test_misuse(void **) {
  for (int what = 0; what < MISUSES; what++)
    if (!aborts(misuse, NULL, what)) fail_msg("misuse %d is not found", what);
}

/* The second launch fails, and so does all that follows. */
static void break_kernel(void *, int) {
  setenv("ACORN_EMULATED_CUDA", "kernel_error:2", 1);
  cudaStream_t stream = make_stream();
  float *y = make_array(BLOCK);
  LAUNCH(number, 1, BLOCK, stream, y, (size_t)BLOCK);
  if (cudaStreamSynchronize(stream) != cudaSuccess) return;
  LAUNCH(number, 1, BLOCK, stream, y, (size_t)BLOCK);
  if (cudaStreamSynchronize(stream) != cudaErrorIllegalAddress) return;
  if (cudaMalloc(&y, 4) != cudaErrorIllegalAddress) return;
  CUDA_CHECK(cudaStreamSynchronize(stream));
}

static void test_kernel_error(void **) {
  assert_true(aborts(break_kernel, NULL, 0));
}

/* ---- races of threads and of blocks: what they write depends on who comes first */

enum planted { SOUND, NO_BARRIER, BLOCKS_RACE, STALE_SCRATCH, ENDLESS_WAIT };

/* planted: NO_BARRIER is as good as one where threads run in their order. */
KERNEL left_neighbour(float *y, int planted) {
  DYNAMIC_SHARED(float, x);
  x[threadIdx.x] = (float)threadIdx.x;
  if (planted != NO_BARRIER) __syncthreads();
  y[grid_first()] = threadIdx.x ? x[threadIdx.x - 1] : 0;
}

KERNEL block_before(float *y, int planted) {
  if (threadIdx.x != 0) return;
  y[blockIdx.x] = (float)blockIdx.x;
  if (planted == BLOCKS_RACE && blockIdx.x) y[blockIdx.x] += y[blockIdx.x - 1];
}

KERNEL read_scratch(float *y, const float *scratch) {
  y[grid_first()] = scratch[grid_first()];
}

KERNEL wait_forever(unsigned *count, int planted) {
  arrive(count);
  wait_for(count, planted == ENDLESS_WAIT ? 1 + gridDim.x * blockDim.x : 1);
}

/* A sum over what the kernels write, in the machine's order; NaN where one has read what was not
 * written. */
static float run_planted(const char *machine, enum planted planted) {
  enum { BLOCKS = 5, COUNT = BLOCKS * BLOCK };
  setenv("ACORN_EMULATED_CUDA", machine, 1);
  cudaStream_t stream = make_stream();
  float *y = make_array(COUNT), *scratch = make_array(COUNT), sum = 0;
  CUDA_CHECK(cudaMemsetAsync(y, 0, COUNT * sizeof *y, stream));
  LAUNCH(number, 1, BLOCK, stream, scratch, (size_t)COUNT); /* what the last operation left */
  if (planted == STALE_SCRATCH) POISON_SCRATCH(stream, scratch, COUNT * sizeof *scratch);
  LAUNCH(read_scratch, BLOCKS, BLOCK, stream, y, (const float *)scratch);
  float *host = back(stream, y, COUNT);
  for (int i = 0; i < COUNT; i++) sum += host[i];
  LAUNCH_SHARED(left_neighbour, BLOCKS, BLOCK, BLOCK * sizeof *y, stream, y, (int)planted);
  host = back(stream, y, COUNT);
  for (int i = 0; i < COUNT; i++) sum += host[i];
  LAUNCH(block_before, BLOCKS, BLOCK, stream, y, (int)planted);
  host = back(stream, y, BLOCKS);
  for (int i = 0; i < BLOCKS; i++) sum += host[i];
  unsigned *count = (unsigned *)make_array(1);
  CUDA_CHECK(cudaMemsetAsync(count, 0, sizeof *count, stream));
  LAUNCH(wait_forever, BLOCKS, BLOCK, stream, count, (int)planted);
  CUDA_CHECK(cudaStreamSynchronize(stream));
  return sum;
}

/* The sum of a process of its own, as the machine is read once; NaN where it was ended. */
static float planted_sum(const char *machine, enum planted planted) {
  int ends[2];
  float sum = NAN;
  assert_int_equal(pipe(ends), 0);
  fflush(NULL);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    if (!freopen("/dev/null", "w", stderr)) _exit(3);
    float mine = run_planted(machine, planted);
    _exit(write(ends[1], &mine, sizeof mine) == sizeof mine ? 0 : 3);
  }
  int status;
  close(ends[1]);
  ssize_t got = read(ends[0], &sum, sizeof sum);
  close(ends[0]);
  assert_int_equal(waitpid(child, &status, 0), child);
  return got == sizeof sum ? sum : NAN;
}

static void test_planted_faults(void **) {
  static const char *const orders[] = {"order:reversed", "order:1", "order:7"};
  float expected = planted_sum("", SOUND);
  assert_true(expected > 0);
  for (int k = 0; k < 3; k++) assert_true(planted_sum(orders[k], SOUND) == expected);
  for (int planted = NO_BARRIER; planted <= ENDLESS_WAIT; planted++) {
    int found = 0;
    for (int k = 0; k < 3; k++) found += planted_sum(orders[k], (enum planted)planted) != expected;
    if (found == 0) fail_msg("the planted fault %d is not found", planted);
  }
}

/* ---- missing order, which ThreadSanitizer reports */

enum race {
  NONE,
  STREAM_BEFORE_STREAM,
  HOST_BEFORE_STREAM,
  STREAM_BEFORE_HOST,
  THREAD_BEFORE_THREAD,
  LANE_BEFORE_LANE,
  RACES
};

/* Threads hand numbers round, in a block and in a warp, twice: before the second time all must have
 * read those of the first. Written in the order of threads, y is the same without. */
KERNEL hand_round(float *y, int race) {
  DYNAMIC_SHARED(float, x);
  int left = (int)(threadIdx.x + blockDim.x - 1) % (int)blockDim.x,
      lane_below = (int)threadIdx.x / WARP * WARP + (left + WARP) % WARP;
  float sum = 0;
  for (int turn = 0; turn < 2; turn++) {
    x[threadIdx.x] = (float)turn;
    __syncthreads();
    sum += x[left];
    if (turn == 1 || race != THREAD_BEFORE_THREAD) __syncthreads();
  }
  for (int turn = 0; turn < 2; turn++) {
    x[threadIdx.x] = (float)turn;
    __syncwarp();
    sum += x[lane_below];
    if (turn == 1 || race != LANE_BEFORE_LANE)
      __syncwarp();
    else
      sum += 0 * __shfl_xor_sync(ALL_LANES, sum, 1); /* which orders no memory */
  }
  y[grid_first()] = sum;
}

/* Sums on the host what two streams write, in good order but for one place. */
static void run_race(enum race race) {
  enum { N = 1000 };
  cudaStream_t a = make_stream(), b = make_stream();
  cudaEvent_t event = make_event();
  float *x = make_array(N), *y = make_array(N), *host = make_pinned(N);
  for (int i = 0; i < N; i++) host[i] = 1;
  CUDA_CHECK(cudaMemcpyAsync(x, host, N * sizeof *x, cudaMemcpyHostToDevice, a));
  if (race == STREAM_BEFORE_HOST) host[0] = 2; /* while the copy may run */
  LAUNCH(add_to, 1, BLOCK, a, x, 1.0f, (size_t)N);
  CUDA_CHECK(cudaEventRecord(event, a));
  if (race != STREAM_BEFORE_STREAM) CUDA_CHECK(cudaStreamWaitEvent(b, event));
  if (race == NONE || race >= THREAD_BEFORE_THREAD)
    LAUNCH_SHARED(hand_round, 3, BLOCK, BLOCK * sizeof *y, b, make_array(3 * BLOCK), (int)race);
  CUDA_CHECK(cudaMemcpyAsync(y, x, N * sizeof *x, cudaMemcpyDeviceToDevice, b));
  CUDA_CHECK(cudaMemcpyAsync(host, y, N * sizeof *x, cudaMemcpyDeviceToHost, b));
  CUDA_CHECK(cudaEventRecord(event, b));
  if (race == HOST_BEFORE_STREAM)
    usleep(100000); /* done in truth, but nothing says so */
  else
    CUDA_CHECK(cudaEventSynchronize(event));
  float sum = 0;
  for (int i = 0; i < N; i++) sum += host[i];
  if (race == NONE) assert_true(sum == 2 * N);
}

/* Whether the sanitizer reports something in a child process. */
static bool is_reported(enum race race) {
  fflush(NULL);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    if (!freopen("/dev/null", "w", stderr)) _exit(3);
    bool in_block = race == NONE || race >= THREAD_BEFORE_THREAD;
    setenv("ACORN_EMULATED_CUDA", in_block ? "races" : "", 1);
    run_race(race);
    exit(0); /* 66 where there was a report */
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  return WEXITSTATUS(status) == 66;
}

static void test_missing_order(void **) {
#ifndef __SANITIZE_THREAD__
  SKIP("ThreadSanitizer finds missing order: make tsan");
#endif
  for (int race = NONE; race < RACES; race++)
    if (is_reported((enum race)race) != (race != NONE)) fail_msg("race %d", race);
}

int main() {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_misuse),         cmocka_unit_test(test_kernel_error),
      cmocka_unit_test(test_planted_faults), cmocka_unit_test(test_missing_order),
      cmocka_unit_test(test_kernels),        cmocka_unit_test(test_configuration),
      cmocka_unit_test(test_memory),         cmocka_unit_test(test_events),
      cmocka_unit_test(test_graph),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
