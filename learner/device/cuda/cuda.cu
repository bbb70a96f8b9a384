/* The CUDA device: its life, memory, transfers, marks and table. Operations are in the files beside
 * this one. */
#include "learner/device/cuda/cuda.h"

#include <stdio.h>

#include "learner/device/cuda/blas.h"
#include "learner/device/cuda/small.h"

enum { LEAST_SCRATCH_BYTES = 1 << 20, MAX_GPUS = 64 };
/* What scratch memory may grow to: cuDNN's workspace or a matrix of columns, 256 MiB each, and the
 * blocks before it; or this share of the memory, with which sizes are smaller, too. */
static const size_t PLANNED_SCRATCH_BYTES = (size_t)512 << 20, PLANNED_SCRATCH_SHARE = 16;
static const double MIB = 1 << 20;

/* Of all devices of this process on a GPU, which share its memory; in bytes. */
static size_t memory_used[MAX_GPUS];

static cudaError_t set_gpu(int gpu) {
  static thread_local int gpu_of_thread = -1;
  cudaError_t failure = gpu == gpu_of_thread ? cudaSuccess : cudaSetDevice(gpu);
  if (failure == cudaSuccess) gpu_of_thread = gpu;
  return failure;
}

struct cuda *cuda_of_waiting(struct device *d) {
  struct cuda *cuda = (struct cuda *)d;
  CUDA_CHECK(set_gpu(cuda->gpu));
  return cuda;
}

struct cuda *cuda_of(struct device *d) {
  struct cuda *cuda = cuda_of_waiting(d);
  small_launch(cuda);
  return cuda;
}

/* ---- memory. What operations work on, by address: */

struct block {
  void *memory;
  size_t bytes; /* of the GPU's memory; 0: it is the host's */
  struct block *next;
};

static void give_up_memory(const struct cuda *cuda, size_t bytes) {
  size_t free_bytes = 0, total = 0;
  (void)cudaGetLastError();
  CUDA_CHECK(cudaMemGetInfo(&free_bytes, &total));
  check_give_up(
      "GPU %d has no room for %.1f MiB more: of its %.0f MiB %.0f are free, this process takes "
      "%.1f and may take %.0f. Give a smaller --replay_steps (or --replay_mib), --num_envs, "
      "--batch_size or --unroll_length, --observation_memory=host, or raise --gpu_memory_mib if it "
      "is set",
      cuda->gpu, (double)bytes / MIB, (double)total / MIB, (double)free_bytes / MIB,
      (double)__atomic_load_n(&memory_used[cuda->gpu], __ATOMIC_RELAXED) / MIB,
      (double)cuda->device.memory_bytes / MIB);
}

static void *take_memory(struct cuda *cuda, size_t bytes) {
  void *memory = NULL;
  CHECK(!cuda->is_recording,
        "device cuda: %zu bytes are allocated in a recording: run its operations once before",
        bytes);
  size_t used = __atomic_add_fetch(&memory_used[cuda->gpu], bytes, __ATOMIC_RELAXED);
  if (used > cuda->device.memory_bytes || cudaMalloc(&memory, bytes) != cudaSuccess) {
    __atomic_sub_fetch(&memory_used[cuda->gpu], bytes, __ATOMIC_RELAXED);
    give_up_memory(cuda, bytes);
  }
  return memory;
}

/* Devices of one GPU share memory: one frees what another allocated. */
static pthread_mutex_t blocks_lock = PTHREAD_MUTEX_INITIALIZER;
static struct block *blocks; /* under the lock */

static void keep_block(void *memory, size_t bytes) {
  struct block *block = (struct block *)check_alloc(1, sizeof *block);
  block->memory = memory;
  block->bytes = bytes;
  pthread_mutex_lock(&blocks_lock);
  block->next = blocks;
  blocks = block;
  pthread_mutex_unlock(&blocks_lock);
}

static void *cuda_alloc(struct device *d, size_t bytes) {
  struct cuda *cuda = cuda_of(d);
  if (bytes == 0) bytes = 1;
  void *memory = take_memory(cuda, bytes);
  CUDA_CHECK(cudaMemsetAsync(memory, 0, bytes, cuda->stream));
  CUDA_CHECK(cudaStreamSynchronize(cuda->stream));
  keep_block(memory, bytes);
  return memory;
}

/* Zeroed memory of the host that has one address on both sides (unified addressing), or NULL. */
static void *pin(size_t bytes) {
  void *memory = NULL;
  if (cudaHostAlloc(&memory, bytes, cudaHostAllocPortable | cudaHostAllocMapped) != cudaSuccess) {
    (void)cudaGetLastError();
    return NULL;
  }
  return memset(memory, 0, bytes);
}

static void *cuda_alloc_spilled(struct device *d, size_t bytes) {
  cuda_of(d);
  void *memory = pin(bytes ? bytes : 1);
  if (!memory)
    check_give_up(
        "no %.1f MiB of the host's memory can be pinned for --observation_memory=host: see "
        "ulimit -l, or give a smaller --replay_steps (or --replay_mib)",
        (double)bytes / MIB);
  keep_block(memory, 0);
  return memory;
}

static void cuda_release(struct device *d, void *memory) {
  struct cuda *cuda = cuda_of(d);
  if (!memory) return;
  pthread_mutex_lock(&blocks_lock);
  struct block **link = &blocks;
  while (*link && (*link)->memory != memory) link = &(*link)->next;
  struct block *block = *link;
  if (block) *link = block->next;
  pthread_mutex_unlock(&blocks_lock);
  CHECK(block, "device cuda: released what was not allocated");
  if (block->bytes)
    CUDA_CHECK(cudaFree(memory));
  else
    CUDA_CHECK(cudaFreeHost(memory));
  __atomic_sub_fetch(&memory_used[cuda->gpu], block->bytes, __ATOMIC_RELAXED);
  free(block);
}

static void *cuda_alloc_host(struct device *d, size_t bytes) {
  cuda_of(d);
  void *memory = pin(bytes ? bytes : 1);
  if (!memory)
    check_give_up(
        "no %.1f MiB of the host's memory can be pinned for transfers to the GPU: see "
        "ulimit -l, or give a smaller --num_envs or --batch_size",
        (double)bytes / MIB);
  return memory;
}

static void cuda_release_host(struct device *d, void *memory) {
  cuda_of(d);
  if (memory) CUDA_CHECK(cudaFreeHost(memory));
}

/* More than there is so far. */
static void grow_scratch(struct cuda *cuda, size_t bytes) {
  int last = cuda->num_scratch - 1;
  CHECK(cuda->num_scratch < CUDA_MAX_SCRATCH, "device cuda: scratch memory grew %d times",
        CUDA_MAX_SCRATCH);
  /* By a half at least, so that it grows a few times only. */
  size_t least = last < 0 ? (size_t)LEAST_SCRATCH_BYTES : cuda->scratch[last].bytes / 2 * 3;
  bytes = bytes < least ? least : bytes;
  cuda->scratch[cuda->num_scratch].memory = take_memory(cuda, bytes);
  cuda->scratch[cuda->num_scratch++].bytes = bytes;
}

void *cuda_scratch(struct cuda *cuda, size_t bytes) {
  if (cuda->num_scratch == 0 || bytes > cuda->scratch[cuda->num_scratch - 1].bytes)
    grow_scratch(cuda, bytes);
  void *memory = cuda->scratch[cuda->num_scratch - 1].memory;
  POISON_SCRATCH(cuda->stream, memory, bytes);
  return memory;
}

/* ---- transfers. Device memory may be spilled: the driver finds out by the address (Default). */

/* Read by any thread. */
static void add_traffic(struct device_traffic *to, const struct device_traffic *more) {
  __atomic_fetch_add(&to->bytes_up, more->bytes_up, __ATOMIC_RELAXED);
  __atomic_fetch_add(&to->bytes_down, more->bytes_down, __ATOMIC_RELAXED);
  __atomic_fetch_add(&to->transfers, more->transfers, __ATOMIC_RELAXED);
}

static void count_transfer(struct cuda *cuda, size_t up, size_t down) {
  struct device_traffic one = {(int64_t)up, (int64_t)down, 1};
  add_traffic(cuda->is_recording ? &cuda->recorded : &cuda->device.traffic, &one);
}

static void cuda_upload_bytes(struct device *d, void *y, const void *host, size_t bytes) {
  struct cuda *cuda = cuda_of(d);
  if (bytes == 0) return;
  CUDA_CHECK(cudaMemcpyAsync(y, host, bytes, cudaMemcpyDefault, cuda->stream));
  count_transfer(cuda, bytes, 0);
}

static void cuda_download_bytes(struct device *d, void *host, const void *x, size_t bytes) {
  struct cuda *cuda = cuda_of(d);
  if (bytes == 0) return;
  CUDA_CHECK(cudaMemcpyAsync(host, x, bytes, cudaMemcpyDefault, cuda->stream));
  count_transfer(cuda, 0, bytes);
}

static void cuda_finish(struct device *d) {
  CUDA_CHECK(cudaStreamSynchronize(cuda_of(d)->stream));
}

static void cuda_upload(struct device *d, real *y, const float *host, size_t n) {
  cuda_upload_bytes(d, y, host, n * sizeof *host);
  cuda_finish(d);
}

static void cuda_download(struct device *d, float *host, const real *x, size_t n) {
  cuda_download_bytes(d, host, x, n * sizeof *host);
  cuda_finish(d);
}

static uint64_t cuda_mark(struct device *d) {
  struct cuda *cuda = cuda_of(d);
  CHECK(!cuda->is_recording, "device cuda: it is recording");
  uint64_t mark = ++cuda->marks;
  CUDA_CHECK(cudaEventRecord(cuda->mark_event[mark % CUDA_MARKS], cuda->stream));
  return mark;
}

static void cuda_follow(struct device *d, struct device *other, uint64_t mark) {
  struct cuda *cuda = cuda_of(d), *leader = (struct cuda *)other;
  CHECK(!cuda->is_recording, "device cuda: it is recording");
  CUDA_CHECK(cudaStreamWaitEvent(cuda->stream, leader->mark_event[mark % CUDA_MARKS], 0));
}

/* By any thread. An event that was never recorded is done. */
static void cuda_wait(struct device *d, uint64_t mark) {
  struct cuda *cuda = cuda_of_waiting(d);
  CUDA_CHECK(cudaEventSynchronize(cuda->mark_event[mark % CUDA_MARKS]));
}

static bool cuda_is_done(struct device *d, uint64_t mark) {
  struct cuda *cuda = cuda_of_waiting(d);
  cudaError_t state = cudaEventQuery(cuda->mark_event[mark % CUDA_MARKS]);
  if (state != cudaErrorNotReady) CUDA_CHECK(state);
  return state == cudaSuccess;
}

/* ---- recordings: captured graphs */

struct device_recording {
  cudaGraphExec_t graph;
  struct device_traffic traffic; /* of playing it once */
};

/* Nothing of it has run. Copies of weights that were to be made in it are not there. */
static void give_up_recording(struct cuda *cuda, cudaError_t failure) {
  static bool warned;
  (void)cudaGetLastError();
  CUDA_CHECK(cudaGetLastError()); /* a kernel's error stays */
  cuda_weights_changed(&cuda->device);
  cuda_warn_once(&warned,
                 "device cuda: operations cannot be recorded (%s: %s): they are given one by one, "
                 "which is slower where they are small",
                 cudaGetErrorName(failure), cudaGetErrorString(failure));
}

static bool cuda_record(struct device *d) {
  struct cuda *cuda = cuda_of(d);
  CHECK(!cuda->is_recording, "device cuda: a recording within a recording");
  cudaError_t failure = cudaStreamBeginCapture(cuda->stream, cudaStreamCaptureModeThreadLocal);
  cuda->is_recording = failure == cudaSuccess;
  cuda->recorded = {};
  if (!cuda->is_recording) give_up_recording(cuda, failure);
  return cuda->is_recording;
}

static struct device_recording *cuda_recorded(struct device *d) {
  struct cuda *cuda = cuda_of(d);
  CHECK(cuda->is_recording, "device cuda: nothing is recorded");
  struct device_recording *recording = (struct device_recording *)check_alloc(1, sizeof *recording);
  cudaGraph_t graph = NULL;
  cudaError_t failure = cudaStreamEndCapture(cuda->stream, &graph);
  cuda->is_recording = false;
  recording->traffic = cuda->recorded;
  if (failure == cudaSuccess) failure = cudaGraphInstantiate(&recording->graph, graph, 0);
  if (graph) CUDA_CHECK(cudaGraphDestroy(graph));
  if (failure != cudaSuccess) {
    free(recording);
    give_up_recording(cuda, failure);
    return NULL;
  }
  CUDA_CHECK(cudaGraphUpload(recording->graph, cuda->stream));
  return recording;
}

static void cuda_play(struct device *d, const struct device_recording *recording) {
  CUDA_CHECK(cudaGraphLaunch(recording->graph, cuda_of(d)->stream));
  add_traffic(&d->traffic, &recording->traffic);
}

static void cuda_forget(struct device *d, struct device_recording *recording) {
  if (!recording) return;
  CUDA_CHECK(cudaStreamSynchronize(cuda_of(d)->stream));
  CUDA_CHECK(cudaGraphExecDestroy(recording->graph));
  free(recording);
}

/* ---- operations on numbers */

KERNEL copy_rows_kernel(float *y, int y_stride, const float *x, int x_stride, int B, int n) {
  for (size_t i = grid_first(); i < (size_t)B * (size_t)n; i += grid_step()) {
    size_t b = i / (size_t)n, k = i % (size_t)n;
    y[b * (size_t)y_stride + k] = x[b * (size_t)x_stride + k];
  }
}

void cuda_copy_rows(struct device *d, real *y, int y_stride, const real *x, int x_stride, int B,
                    int n) {
  struct cuda *cuda = cuda_of(d);
  size_t count = (size_t)B * (size_t)n;
  if (count == 0) return;
  LAUNCH(copy_rows_kernel, blocks_for(count), BLOCK, cuda->stream, (float *)y, y_stride,
         (const float *)x, x_stride, B, n);
}

/* ---- the table */

static void cuda_destroy(struct device *d) {
  struct cuda *cuda = cuda_of(d);
  cuda_group_destroy(cuda);
  CUDA_CHECK(cudaStreamSynchronize(cuda->stream));
  cuda_release(d, cuda->arrived);
  cuda_linear_destroy(cuda);
  cuda_conv_destroy(cuda);
  for (int i = 0; i < cuda->num_scratch; i++) {
    __atomic_sub_fetch(&memory_used[cuda->gpu], cuda->scratch[i].bytes, __ATOMIC_RELAXED);
    CUDA_CHECK(cudaFree(cuda->scratch[i].memory));
  }
  for (int i = 0; i < CUDA_MARKS; i++) CUDA_CHECK(cudaEventDestroy(cuda->mark_event[i]));
  CUDA_CHECK(cudaStreamDestroy(cuda->stream));
  free(cuda->chain);
  free(cuda);
}

/* Every function of the table, under the name that it has there. */
static struct device_ops functions(void) {
  struct device_ops ops = {};
#define OPERATION(name) ops.name = cuda_##name
  OPERATION(destroy);
  OPERATION(alloc);
  OPERATION(release);
  OPERATION(alloc_spilled);
  OPERATION(alloc_host);
  OPERATION(release_host);
  OPERATION(upload);
  OPERATION(download);
  OPERATION(upload_bytes);
  OPERATION(download_bytes);
  OPERATION(mark);
  OPERATION(wait);
  OPERATION(is_done);
  OPERATION(follow);
  OPERATION(record);
  OPERATION(recorded);
  OPERATION(play);
  OPERATION(forget);
  OPERATION(copy_rows);
  OPERATION(gather_rows);
  OPERATION(scatter_rows);
  OPERATION(scatter_steps);
  OPERATION(gather_steps);
  OPERATION(embed);
  OPERATION(linear_forward);
  OPERATION(linear_backward);
  OPERATION(linear_pixels_forward);
  OPERATION(linear_pixels_backward);
  OPERATION(image);
  OPERATION(conv_forward);
  OPERATION(conv_backward);
  OPERATION(pool_forward);
  OPERATION(pool_backward);
  OPERATION(conv_pool_backward);
  OPERATION(relu);
  OPERATION(relu_backward);
  OPERATION(weights_changed);
  OPERATION(lstm_forward);
  OPERATION(lstm_backward);
  OPERATION(random_uniforms);
  OPERATION(trace);
  OPERATION(n_step);
  OPERATION(run_rule);
  OPERATION(factor_noise);
  OPERATION(noisy_forward);
  OPERATION(noisy_backward);
  OPERATION(global_norm);
  OPERATION(require_finite);
  OPERATION(adam);
  OPERATION(rmsprop);
#undef OPERATION
  return ops;
}

static const char *const WAY_NAMES[CUDA_WAYS] = {"dnn",    "blas",  "together", "waits",
                                                 "graphs", "tiles", "nccl"};

/* Of ACORN_CUDA_WITHOUT. Returns whether it names ways alone; else `unknown`, if not NULL, is from
 * the first other word on. */
static bool find_ways(bool without[CUDA_WAYS], const char **unknown) {
  const char *at = getenv("ACORN_CUDA_WITHOUT");
  for (int way = 0; way < CUDA_WAYS; way++) without[way] = false;
  for (size_t length; at && *at; at += length + (at[length] == ',')) {
    int way = 0;
    length = strcspn(at, ",");
    while (way < CUDA_WAYS &&
           (strlen(WAY_NAMES[way]) != length || strncmp(at, WAY_NAMES[way], length) != 0))
      way++;
    if (way == CUDA_WAYS) {
      if (unknown) *unknown = at;
      return false;
    }
    without[way] = true;
  }
  return true;
}

static struct device_ops make_ops(size_t pixel_bytes) {
  struct device_ops ops = functions();
  ops.name = "cuda";
  ops.real_bytes = sizeof(float);
  ops.pixel_bytes = pixel_bytes;
  ops.asynchronous = true;
  ops.group = &cuda_group;
  ops.images = 1 << 20; /* all of a batch together */
  bool without[CUDA_WAYS];
  if (!find_ways(without, NULL) || without[CUDA_GRAPHS]) ops.record = NULL;
  /* A recording would hide which of its kernels failed, which this variable is set to find. */
  const char *blocking = getenv("CUDA_LAUNCH_BLOCKING");
  if (blocking && strcmp(blocking, "1") == 0) ops.record = NULL;
  return ops;
}

static const struct device_ops OPS = make_ops(sizeof(float)), OPS_OF_BF16 = make_ops(sizeof(bf16));

/* ---- create */

static enum status set_precision(struct cuda *cuda, const char *precision, struct error *error) {
  cuda->bf16 = strcmp(precision, "bf16") == 0 || strcmp(precision, "auto") == 0;
  cuda->tf32 = strcmp(precision, "tf32") == 0;
  cuda->device.ops = cuda->bf16 ? &OPS_OF_BF16 : &OPS;
  if (cuda->bf16 || cuda->tf32 || strcmp(precision, "float32") == 0) return STATUS_OK;
  return status_fail(error, STATUS_INVALID,
                     "--precision=%s: device cuda computes in float32, tf32 or bf16", precision);
}

static enum status set_ways(struct cuda *cuda, struct error *error) {
  const char *unknown;
  if (find_ways(cuda->without, &unknown)) return STATUS_OK;
  return status_fail(
      error, STATUS_INVALID,
      "ACORN_CUDA_WITHOUT: '%s': the ways are dnn, blas, together, waits, graphs, tiles and nccl, "
      "with commas between them",
      unknown);
}

static size_t planned_scratch(size_t memory_bytes) {
  size_t share = memory_bytes / PLANNED_SCRATCH_SHARE;
  return share < PLANNED_SCRATCH_BYTES ? share : PLANNED_SCRATCH_BYTES;
}

static enum status check_gpu(struct cuda *cuda, const struct device_options *options,
                             struct error *error) {
  size_t free_bytes = 0, total = 0;
  cuda_of(&cuda->device);
  CUDA_CHECK(cudaGetDeviceProperties(&cuda->properties, cuda->gpu));
  CUDA_CHECK(cudaMemGetInfo(&free_bytes, &total));
  size_t asked = (size_t)options->memory_mib << 20;
  size_t mine = __atomic_load_n(&memory_used[cuda->gpu], __ATOMIC_RELAXED);
  cuda->device.memory_bytes = asked ? asked : free_bytes + mine;
  cuda->device.own_bytes = BLAS_WORKSPACE_BYTES + planned_scratch(cuda->device.memory_bytes);
  if (cuda->properties.major < 8)
    return status_fail(error, STATUS_UNAVAILABLE,
                       "GPU %d (%s) has compute capability %d.%d, the plugin needs 8.0 or newer",
                       cuda->gpu, cuda->properties.name, cuda->properties.major,
                       cuda->properties.minor);
  if (asked <= free_bytes + mine) return STATUS_OK;
  return status_fail(
      error, STATUS_INVALID,
      "--gpu_memory_mib=%lld: GPU %d (%s) has %.0f MiB, of which %.0f are free: give "
      "fewer, or end what else runs on it",
      (long long)options->memory_mib, cuda->gpu, cuda->properties.name, (double)total / MIB,
      (double)(free_bytes + mine) / MIB);
}

/* Other processes may have the GPU for themselves, or all of its memory. */
static enum status open_gpu(struct cuda *cuda, struct error *error) {
  cudaError_t failure = set_gpu(cuda->gpu);
  if (failure == cudaSuccess) failure = cudaFree(NULL); /* makes the context where there is none */
  (void)cudaGetLastError();
  if (failure == cudaSuccess) return STATUS_OK;
  return status_fail(error, STATUS_UNAVAILABLE,
                     "GPU %d cannot be used: %s: %s: nvidia-smi shows its processes and its "
                     "compute mode",
                     cuda->gpu, cudaGetErrorName(failure), cudaGetErrorString(failure));
}

static void make_streams(struct cuda *cuda, bool urgent) {
  int least, greatest;
  CUDA_CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  CUDA_CHECK(cudaStreamCreateWithPriority(&cuda->stream, cudaStreamNonBlocking,
                                          urgent ? greatest : least));
  /* A wait that is not urgent leaves its core to other threads; waking up takes microseconds. */
  unsigned flags = cudaEventDisableTiming | (urgent ? 0 : cudaEventBlockingSync);
  for (int i = 0; i < CUDA_MARKS; i++)
    CUDA_CHECK(cudaEventCreateWithFlags(&cuda->mark_event[i], flags));
}

enum status cuda_create(struct device **out, const struct device_options *options,
                        struct error *error) {
  *out = NULL;
  CHECK(options->gpu < MAX_GPUS, "GPU %d of at most %d", options->gpu, MAX_GPUS);
  struct cuda *cuda = (struct cuda *)check_alloc(1, sizeof *cuda);
  cuda->gpu = options->gpu;
  enum status status = open_gpu(cuda, error);
  if (status == STATUS_OK) status = set_precision(cuda, options->precision, error);
  if (status == STATUS_OK) status = set_ways(cuda, error);
  if (status == STATUS_OK) status = check_gpu(cuda, options, error);
  if (status != STATUS_OK) {
    free(cuda);
    return status;
  }
  snprintf(cuda->description, sizeof cuda->description, "cuda (%.80s%s)", cuda->properties.name,
           cuda->bf16   ? ", bf16"
           : cuda->tf32 ? ", tf32"
                        : "");
  cuda->device.description = cuda->description;
  make_streams(cuda, options->urgent);
  cuda->arrived = (unsigned *)cuda_alloc(&cuda->device, sizeof *cuda->arrived);
  *out = &cuda->device;
  return STATUS_OK;
}
