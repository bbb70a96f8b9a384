/* The CUDA runtime as far as the plugin uses it, on the CPU: for tests of the plugin's kernels and
 * of its order of streams and events where there is no GPU. Same names and meaning as NVIDIA's
 * header, of which it takes the place in the include path.
 *
 * A stream is a thread. Between the host and streams, and between streams, happens-before flows as
 * on a GPU and no other way: into a stream by each call that gives it work, out of it by an event
 * or a synchronisation. So ThreadSanitizer reports a missing event as a data race. Blocks run one
 * after another; the threads of a block run one after another too, as fibers, which change only
 * at barriers and warp functions. Those that do not reach a barrier that others wait at end the
 * process with the kernel's name. Device memory is ordinary memory, filled with 0xff (NaN);
 * AddressSanitizer checks its bounds. There is no default stream: it is refused.
 *
 * ACORN_EMULATED_CUDA, a list with commas, chooses a machine or a fault: no_driver, old_driver,
 * no_device, busy (of another process alone), no_dnn, dnn_refuses:PASS and dnn_lacks:PASS
 * (cudnn.h), no_blas, blas_version:N and blas_lacks:N (cublasLt.h), no_graphs (captures fail),
 * no_captures (none can begin), gpus:N, memory:MIB, shared:KIB (of a block), processors:N,
 * order:reversed and order:SEED (of blocks, and of the threads of a block between two barriers:
 * results may not depend on it), races (ThreadSanitizer looks for those of a block's threads),
 * kernel_error:N[:KERNEL] (launch N fails, counted from 1, of all kernels or of those that have
 * KERNEL in their names); in the same way kernel_traps (ends itself) and gpu_lost (an error of
 * the GPU's own). CUDA_VISIBLE_DEVICES= shows no GPU; CUDA_LAUNCH_BLOCKING=1 waits for each
 * kernel. */
#ifndef ACORN_TESTS_EMULATED_CUDA_RUNTIME_H
#define ACORN_TESTS_EMULATED_CUDA_RUNTIME_H

#include <stddef.h>
#include <stdint.h>

#define CUDART_VERSION 13000

/* X(name, number, sentence) */
#define EMULATED_ERRORS(X)                                                                      \
  X(cudaSuccess, 0, "no error")                                                                 \
  X(cudaErrorInvalidValue, 1, "invalid argument")                                               \
  X(cudaErrorMemoryAllocation, 2, "out of memory")                                              \
  X(cudaErrorInvalidConfiguration, 9, "invalid configuration argument")                         \
  X(cudaErrorInsufficientDriver, 35,                                                            \
    "CUDA driver version is insufficient for CUDA runtime version")                             \
  X(cudaErrorDevicesUnavailable, 46, "CUDA-capable device(s) is/are busy or unavailable")       \
  X(cudaErrorNoDevice, 100, "no CUDA-capable device is detected")                               \
  X(cudaErrorInvalidDevice, 101, "invalid device ordinal")                                      \
  X(cudaErrorInvalidResourceHandle, 400, "invalid resource handle")                             \
  X(cudaErrorECCUncorrectable, 214, "uncorrectable ECC error encountered")                      \
  X(cudaErrorNotReady, 600, "device not ready")                                                 \
  X(cudaErrorIllegalAddress, 700, "an illegal memory access was encountered")                   \
  X(cudaErrorLaunchFailure, 719, "unspecified launch failure")                                  \
  X(cudaErrorStreamCaptureUnsupported, 900, "operation not permitted when stream is capturing") \
  X(cudaErrorStreamCaptureInvalidated, 901,                                                     \
    "operation failed due to a previous error during capture")

typedef enum cudaError {
#define EMULATED_ENUM(name, number, sentence) name = number,
  EMULATED_ERRORS(EMULATED_ENUM)
#undef EMULATED_ENUM
} cudaError_t;

typedef struct emulated_stream *cudaStream_t;
typedef struct emulated_event *cudaEvent_t;
typedef struct emulated_graph *cudaGraph_t;
typedef struct emulated_graph *cudaGraphExec_t;
typedef void (*cudaHostFn_t)(void *);

enum cudaMemcpyKind {
  cudaMemcpyHostToHost,
  cudaMemcpyHostToDevice,
  cudaMemcpyDeviceToHost,
  cudaMemcpyDeviceToDevice,
  cudaMemcpyDefault
};
enum cudaStreamCaptureMode {
  cudaStreamCaptureModeGlobal,
  cudaStreamCaptureModeThreadLocal,
  cudaStreamCaptureModeRelaxed
};
enum cudaStreamCaptureStatus {
  cudaStreamCaptureStatusNone,
  cudaStreamCaptureStatusActive,
  cudaStreamCaptureStatusInvalidated
};
enum cudaFuncAttribute {
  cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
  cudaFuncAttributePreferredSharedMemoryCarveout = 9
};
enum cudaDeviceAttr {
  cudaDevAttrMaxSharedMemoryPerBlockOptin = 97,
  cudaDevAttrMultiProcessorCount = 16,
  cudaDevAttrComputeCapabilityMajor = 75,
  cudaDevAttrComputeCapabilityMinor = 76
};

#define cudaStreamNonBlocking 1u
#define cudaEventBlockingSync 1u
#define cudaEventDisableTiming 2u
#define cudaHostAllocDefault 0u
#define cudaHostAllocPortable 1u
#define cudaHostAllocMapped 2u
#define cudaHostAllocWriteCombined 4u

struct cudaDeviceProp {
  char name[256];
  size_t totalGlobalMem, sharedMemPerBlock, sharedMemPerBlockOptin;
  int major, minor, multiProcessorCount, maxThreadsPerMultiProcessor, l2CacheSize;
  struct {
    char bytes[16];
  } uuid;
};

extern "C" {
const char *cudaGetErrorName(cudaError_t error);
const char *cudaGetErrorString(cudaError_t error);
cudaError_t cudaGetLastError(void);
cudaError_t cudaPeekAtLastError(void);

cudaError_t cudaDriverGetVersion(int *version);
cudaError_t cudaGetDeviceCount(int *count);
cudaError_t cudaGetDevice(int *device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device);
cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device);
cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest);
cudaError_t cudaDeviceSynchronize(void);

cudaError_t cudaMemGetInfo(size_t *free, size_t *total);
cudaError_t cudaFree(void *memory);
cudaError_t cudaFreeHost(void *memory);
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream);
cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                              size_t width, size_t height, enum cudaMemcpyKind kind,
                              cudaStream_t stream);
cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream);

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags = 0);
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *argument);

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventQuery(cudaEvent_t event);

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph);
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph,
                                 unsigned long long flags = 0);
cudaError_t cudaGraphUpload(cudaGraphExec_t graph, cudaStream_t stream);
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph);

/* For tests, which look them up in the plugin. */
#define EMULATED_EXPORT __attribute__((visibility("default")))
/* Streams do not run what they are given from the hold on until they are let go; what they are
 * given after the spare is not held. */
EMULATED_EXPORT void emulated_hold(void);
EMULATED_EXPORT void emulated_spare(void);
EMULATED_EXPORT void emulated_let_go(void);
/* The nodes of the graphs that were launched since the last call: their number, and the names of
 * the first `most`. */
EMULATED_EXPORT size_t emulated_take_nodes(const char **names, size_t most);

cudaError_t emulated_malloc(void **memory, size_t bytes);
cudaError_t emulated_host_alloc(void **memory, size_t bytes);
/* How much dynamic shared memory launches of a kernel may have. Ends the process where it is made
 * less, which could fail a launch of another thread. */
cudaError_t emulated_set_shared(const void *kernel, int bytes);
}

template <typename T>
cudaError_t cudaMalloc(T **memory, size_t bytes) {
  return emulated_malloc((void **)memory, bytes);
}
template <typename T>
cudaError_t cudaHostAlloc(T **memory, size_t bytes, unsigned) {
  return emulated_host_alloc((void **)memory, bytes);
}
template <typename T>
cudaError_t cudaMallocHost(T **memory, size_t bytes) {
  return emulated_host_alloc((void **)memory, bytes);
}
template <typename F>
cudaError_t cudaFuncSetAttribute(F *kernel, enum cudaFuncAttribute attribute, int value) {
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
  return emulated_set_shared((const void *)kernel, value);
}
template <typename F>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, F *, int, size_t) {
  *blocks = 1;
  return cudaSuccess;
}

#include "kernel.h"

#endif
