/* The machine that ACORN_EMULATED_CUDA asks for, and its errors. */
#include <map>

#include "internal.h"

enum { SHARED_BYTES = 48 << 10 };

static struct hidden_lock lock;
static struct machine machine;
static bool is_read;
static uint32_t broken;
static thread_local cudaError_t last_error;
static thread_local int current_gpu;

/* Of a launch, as WORD:NUMBER[:KERNEL]; false: it is another word. */
static bool read_failure(const char *word, const char *name, cudaError_t error) {
  if (strncmp(word, name, strlen(name)) != 0) return false;
  const char *kernel = strchr(word + strlen(name), ':');
  machine.failing_launch = atol(word + strlen(name));
  machine.failure = error;
  snprintf(machine.failing_kernel, sizeof machine.failing_kernel, "%s", kernel ? kernel + 1 : "");
  return true;
}

static void read_word(const char *word) {
  long number = 0;
  if (const char *colon = strchr(word, ':')) number = atol(colon + 1);
  if (strcmp(word, "no_driver") == 0) {
    machine.without_device = cudaErrorInsufficientDriver;
    machine.driver = 0;
  } else if (strcmp(word, "old_driver") == 0) {
    machine.without_device = cudaErrorInsufficientDriver;
    machine.driver = 11080;
  } else if (strcmp(word, "no_device") == 0) {
    machine.without_device = cudaErrorNoDevice;
  } else if (strcmp(word, "busy") == 0) {
    machine.without_context = cudaErrorDevicesUnavailable;
  } else if (strcmp(word, "no_graphs") == 0) {
    machine.without_graphs = true;
  } else if (strcmp(word, "no_captures") == 0) {
    machine.without_captures = true;
  } else if (strcmp(word, "no_blas") == 0) {
    machine.without_blas = true;
  } else if (strncmp(word, "blas_version:", 13) == 0) {
    machine.blas_version = (int)number;
  } else if (strncmp(word, "blas_lacks:", 11) == 0) {
    machine.blas_lacks = (uint64_t)number;
  } else if (strncmp(word, "gpus:", 5) == 0) {
    machine.gpus = (int)number;
  } else if (strncmp(word, "memory:", 7) == 0) {
    machine.memory = (size_t)number << 20;
  } else if (strcmp(word, "order:reversed") == 0) {
    machine.order = -1;
  } else if (strncmp(word, "order:", 6) == 0 && number > 0) {
    machine.order = number;
  } else if (strcmp(word, "races") == 0) {
    machine.races = true;
  } else if (strncmp(word, "shared:", 7) == 0 && number >= SHARED_BYTES >> 10) {
    machine.shared = (size_t)number << 10;
  } else if (strncmp(word, "processors:", 11) == 0 && number > 0) {
    machine.processors = (int)number;
  } else if (read_failure(word, "kernel_error:", cudaErrorIllegalAddress) ||
             read_failure(word, "kernel_traps:", cudaErrorLaunchFailure) ||
             read_failure(word, "gpu_lost:", cudaErrorECCUncorrectable)) {
  } else if (*word && strcmp(word, "no_dnn") != 0 && strncmp(word, "dnn_refuses:", 12) != 0 &&
             strncmp(word, "dnn_lacks:", 10) != 0) {
    /* those are cudnn.cc's */
    EMULATED_FAIL("ACORN_EMULATED_CUDA: what is '%s'?", word);
  }
}

static void read_machine() {
  machine = (struct machine){.without_device = cudaSuccess,
                             .without_context = cudaSuccess,
                             .without_graphs = false,
                             .without_captures = false,
                             .without_blas = false,
                             .blas_version = 13,
                             .blas_lacks = 0,
                             .driver = CUDART_VERSION,
                             .gpus = 1,
                             .memory = (size_t)8 << 30,
                             .order = 0,
                             .races = false,
                             .shared = (size_t)160 << 10,
                             .processors = 4,
                             .failing_launch = 0,
                             .failure = cudaSuccess,
                             .failing_kernel = ""};
  const char *text = getenv("ACORN_EMULATED_CUDA");
  char copy[256];
  snprintf(copy, sizeof copy, "%s", text ? text : "");
  char *rest;
  for (char *word = strtok_r(copy, ",", &rest); word; word = strtok_r(NULL, ",", &rest))
    read_word(word);
  const char *visible = getenv("CUDA_VISIBLE_DEVICES");
  if (visible && !*visible) machine.without_device = cudaErrorNoDevice;
}

const struct machine *machine_get() {
  hidden_take(&lock);
  if (!is_read) read_machine();
  is_read = true;
  hidden_give(&lock);
  return &machine;
}

cudaError_t machine_error(cudaError_t error) {
  if (error != cudaSuccess && error != cudaErrorNotReady) last_error = error;
  return error;
}

void machine_break() {
  __atomic_store_n(&broken, 1, __ATOMIC_RELAXED);
}

cudaError_t machine_broken() {
  return __atomic_load_n(&broken, __ATOMIC_RELAXED) ? machine.failure : cudaSuccess;
}

/* ---- the calls about errors and devices */

const char *cudaGetErrorName(cudaError_t error) {
  switch (error) {
#define ERROR_NAME(name, number, sentence) \
  case name:                               \
    return #name;
    EMULATED_ERRORS(ERROR_NAME)
#undef ERROR_NAME
  }
  return "unrecognized error code";
}

const char *cudaGetErrorString(cudaError_t error) {
  switch (error) {
#define ERROR_SENTENCE(name, number, sentence) \
  case name:                                   \
    return sentence;
    EMULATED_ERRORS(ERROR_SENTENCE)
#undef ERROR_SENTENCE
  }
  return "unrecognized error code";
}

cudaError_t cudaPeekAtLastError() {
  return machine_broken() != cudaSuccess ? machine_broken() : last_error;
}

cudaError_t cudaGetLastError() {
  cudaError_t error = cudaPeekAtLastError();
  last_error = cudaSuccess;
  return error;
}

cudaError_t cudaDriverGetVersion(int *version) {
  *version = machine_get()->driver;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *count) {
  cudaError_t error = machine_get()->without_device;
  *count = error == cudaSuccess ? machine_get()->gpus : 0;
  return machine_error(error);
}

static cudaError_t check_gpu(int gpu) {
  int count;
  cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess) return error;
  return machine_error(gpu >= 0 && gpu < count ? cudaSuccess : cudaErrorInvalidDevice);
}

cudaError_t cudaGetDevice(int *gpu) {
  *gpu = current_gpu;
  return check_gpu(0);
}

cudaError_t cudaSetDevice(int gpu) {
  cudaError_t error = check_gpu(gpu);
  if (error == cudaSuccess) error = machine_error(machine_get()->without_context);
  if (error == cudaSuccess) current_gpu = gpu;
  return error;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int gpu) {
  cudaError_t error = check_gpu(gpu);
  if (error != cudaSuccess) return error;
  *properties = (struct cudaDeviceProp){"emulated GPU",
                                        machine_get()->memory,
                                        SHARED_BYTES,
                                        machine_get()->shared,
                                        9,
                                        0,
                                        machine_get()->processors,
                                        2048,
                                        1 << 20,
                                        {{(char)gpu}}};
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int gpu) {
  struct cudaDeviceProp properties;
  cudaError_t error = cudaGetDeviceProperties(&properties, gpu);
  if (error != cudaSuccess) return error;
  switch (attribute) {
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = (int)properties.sharedMemPerBlockOptin;
      return cudaSuccess;
    case cudaDevAttrMultiProcessorCount:
      *value = properties.multiProcessorCount;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor:
      *value = properties.major;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
      *value = properties.minor;
      return cudaSuccess;
  }
  return machine_error(cudaErrorInvalidValue);
}

/* ---- shared memory */

static struct hidden_lock shared_lock;
static std::map<const void *, size_t> shared_bytes; /* by kernel, where it was set */

static size_t shared_of(const void *kernel) {
  auto found = shared_bytes.find(kernel);
  return found == shared_bytes.end() ? (size_t)SHARED_BYTES : found->second;
}

cudaError_t emulated_set_shared(const void *kernel, int bytes) {
  if (bytes < 0 || (size_t)bytes > machine_get()->shared)
    return machine_error(cudaErrorInvalidValue);
  hidden_take(&shared_lock);
  if ((size_t)bytes < shared_of(kernel) && shared_of(kernel) > SHARED_BYTES)
    EMULATED_FAIL("cudaFuncSetAttribute: a kernel's shared memory is made less, %zu to %d bytes",
                  shared_of(kernel), bytes);
  shared_bytes[kernel] = (size_t)bytes;
  hidden_give(&shared_lock);
  return cudaSuccess;
}

size_t machine_shared(const void *kernel) {
  hidden_take(&shared_lock);
  size_t bytes = shared_of(kernel);
  hidden_give(&shared_lock);
  return bytes;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}
