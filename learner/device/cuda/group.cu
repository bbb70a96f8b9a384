/* Sums over the GPUs of several learners by NCCL, which is looked for when they are asked for: the
 * program runs without it. Its interface is declared here, as of version 2.14, so that building
 * needs no header of it; later ones read the configuration by its size and version.
 *
 * A communicator does not block: its calls return IN_PROGRESS, and are waited for up to a time. A
 * sum whose others are missing ends by ncclCommAbort alone, and leaves any numbers. Behind each sum
 * a kernel makes them NaN where the device has left the group, so that the optimiser skips them. */
#include <dlfcn.h>
#include <stdio.h>
#include <time.h>

#include "learner/device/cuda/cuda.h"

#define NCCL_LIBRARY "libnccl.so.2"

enum nccl_result { NCCL_SUCCESS = 0, NCCL_IN_PROGRESS = 7 };
enum { NCCL_FLOAT = 7, NCCL_SUM = 0, NCCL_LEAST = 21400, NCCL_NEXT_MAJOR = 30000 };

struct nccl_id {
  char bytes[DEVICE_GROUP_ID_BYTES];
};

struct nccl_config {
  size_t size;
  unsigned magic, version;
  int blocking;
};

/* X(name, parameters); each returns an nccl_result. */
#define NCCL_FUNCTIONS(X)                                                                       \
  X(ncclGetVersion, (int *version))                                                             \
  X(ncclGetUniqueId, (struct nccl_id * id))                                                     \
  X(ncclCommInitRankConfig,                                                                     \
    (void **comm, int learners, struct nccl_id id, int rank, struct nccl_config *config))       \
  X(ncclCommGetAsyncError, (void *comm, int *state))                                            \
  X(ncclAllReduce,                                                                              \
    (const void *from, void *to, size_t n, int type, int how, void *comm, cudaStream_t stream)) \
  X(ncclCommAbort, (void *comm))

struct group {
#define NCCL_MEMBER(name, parameters) int(*name) parameters;
  NCCL_FUNCTIONS(NCCL_MEMBER)
#undef NCCL_MEMBER
  const char *(*ncclGetErrorString)(int result);
  int version; /* 0: there is none */
  void *comm;  /* NULL: not joined */
  int timeout_ms;
  int failed;         /* the result of the first sum that failed: none after it is asked for */
  uint32_t *left;     /* memory of alloc_host, which kernels read: 1 once it has left */
  real *left_by_then; /* memory of the device: what a sum's end has read there */
  bool is_leaving;
  pthread_t leaving; /* which ncclCommAbort may hold up until recordings are forgotten */
};

/* ---- finding it */

/* The one that the library lacks; NULL: none. */
static const char *find_functions(struct group *group, void *library) {
#define NCCL_FIND(name, parameters) \
  if (!(group->name = (decltype(group->name))dlsym(library, #name))) return #name;
  NCCL_FUNCTIONS(NCCL_FIND)
#undef NCCL_FIND
  group->ncclGetErrorString =
      (decltype(group->ncclGetErrorString))dlsym(library, "ncclGetErrorString");
  return group->ncclGetErrorString ? NULL : "ncclGetErrorString";
}

static enum status load(struct group *group, struct error *error) {
  int version = 0;
  void *library = cuda_library(NCCL_LIBRARY);
  if (!library)
    return status_fail(error, STATUS_UNAVAILABLE,
                       NCCL_LIBRARY
                       " is in none of LD_LIBRARY_PATH, CUDA's folder and pip's: "
                       "`.venv/bin/python3 -m pip install nvidia-nccl-cu%d` installs it",
                       CUDART_VERSION / 1000);
  const char *lacks = find_functions(group, library);
  if (group->ncclGetVersion) (void)group->ncclGetVersion(&version);
  if (group->ncclGetVersion && (version < NCCL_LEAST || version >= NCCL_NEXT_MAJOR))
    return status_fail(error, STATUS_MISMATCH,
                       NCCL_LIBRARY
                       " is NCCL %d.%d, and this program needs 2.14 or a later 2: "
                       "`.venv/bin/python3 -m pip install nvidia-nccl-cu%d` installs it, and "
                       "ACORN_CUDA_WITHOUT=nccl does without",
                       version < 10000 ? version / 1000 : version / 10000,
                       version < 10000 ? version % 1000 / 100 : version % 10000 / 100,
                       CUDART_VERSION / 1000);
  if (lacks)
    return status_fail(error, STATUS_MISMATCH,
                       NCCL_LIBRARY
                       " has no %s: install NCCL again, or leave it out by "
                       "ACORN_CUDA_WITHOUT=nccl",
                       lacks);
  group->version = version;
  return STATUS_OK;
}

/* FNV-1a, of the bits that a double holds. */
static uint64_t number_of_gpu(const struct cuda *cuda) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (size_t i = 0; i < sizeof cuda->properties.uuid.bytes; i++)
    hash = (hash ^ (uint8_t)cuda->properties.uuid.bytes[i]) * 0x100000001b3u;
  return hash >> 12;
}

static enum status cuda_group_find(struct device *d, struct device_library *library,
                                   struct error *error) {
  struct cuda *cuda = cuda_of(d);
  enum status status = STATUS_OK;
  if (cuda->without[CUDA_NCCL])
    return status_fail(error, STATUS_UNAVAILABLE, "ACORN_CUDA_WITHOUT names nccl");
  if (!cuda->group) cuda->group = (struct group *)check_alloc(1, sizeof *cuda->group);
  if (!cuda->group->version) status = load(cuda->group, error);
  if (status != STATUS_OK) return status;
  int version = cuda->group->version;
  library->version = version;
  library->gpu = number_of_gpu(cuda);
  snprintf(library->name, sizeof library->name, "NCCL %d.%d.%d", version / 10000,
           version % 10000 / 100, version % 100);
  return STATUS_OK;
}

/* ---- joined and left */

static enum status fail(const struct group *group, const char *call, int result, int timeout_ms,
                        struct error *error) {
  static const char hint[] = "; NCCL_DEBUG=INFO in the environment logs the reason";
  if (result == NCCL_IN_PROGRESS)
    return status_fail(error, STATUS_UNAVAILABLE, "%s has not ended within %g s%s", call,
                       timeout_ms / 1e3, hint);
  return status_fail(error, STATUS_UNAVAILABLE, "%s: %s%s", call, group->ncclGetErrorString(result),
                     hint);
}

static enum status cuda_group_make_id(struct device *d, char id[DEVICE_GROUP_ID_BYTES],
                                      struct error *error) {
  struct group *group = cuda_of(d)->group;
  struct nccl_id made;
  int result = group->ncclGetUniqueId(&made);
  if (result != NCCL_SUCCESS) return fail(group, "ncclGetUniqueId", result, 0, error);
  memcpy(id, made.bytes, sizeof made.bytes);
  return STATUS_OK;
}

static int64_t now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * (int64_t)1000 + now.tv_nsec / 1000000;
}

/* The result of a call that returned `result`: IN_PROGRESS once the time is over, or another
 * learner, for which such a call would wait, has ended. Of a time in which this process was
 * stopped, maybe with all others, most_ms count. */
static int settle(struct device *d, int result, int timeout_ms) {
  enum { LOOK_EVERY = 100 };
  const int64_t most_ms = 200;
  const struct timespec pause = {0, 100 * 1000};
  const struct group *group = cuda_of(d)->group;
  int64_t waited_ms = 0, last_ms = now_ms(), since_ms;
  for (int i = 1; result == NCCL_IN_PROGRESS && waited_ms < timeout_ms; i++) {
    int state = NCCL_SUCCESS;
    if (i % LOOK_EVERY == 0 && !d->peers->all_run(d->peers)) break;
    result = group->ncclCommGetAsyncError(group->comm, &state);
    if (result == NCCL_SUCCESS) result = state;
    if (result == NCCL_IN_PROGRESS) nanosleep(&pause, NULL);
    since_ms = now_ms() - last_ms;
    last_ms += since_ms;
    waited_ms += since_ms < most_ms ? since_ms : most_ms;
  }
  return result;
}

static enum status cuda_group_join(struct device *d, const char id[DEVICE_GROUP_ID_BYTES], int rank,
                                   int learners, int timeout_ms, struct error *error) {
  struct cuda *cuda = cuda_of(d);
  struct group *group = cuda->group;
  struct nccl_config config = {sizeof config, 0xcafebeef, NCCL_LEAST, 0};
  struct nccl_id of_all;
  memcpy(of_all.bytes, id, sizeof of_all.bytes);
  group->timeout_ms = timeout_ms;
  group->left = (uint32_t *)d->ops->alloc_host(d, sizeof *group->left);
  group->left_by_then = (real *)d->ops->alloc(d, sizeof *group->left);
  int result = group->ncclCommInitRankConfig(&group->comm, learners, of_all, rank, &config);
  result = settle(d, result, timeout_ms / 2);
  if (result == NCCL_SUCCESS) return STATUS_OK;
  cuda_group.leave(d);
  return fail(group, "ncclCommInitRankConfig", result, timeout_ms / 2, error);
}

static void *abort_comm(void *context) {
  struct cuda *cuda = (struct cuda *)context;
  CUDA_CHECK(cudaSetDevice(cuda->gpu));
  (void)cuda->group->ncclCommAbort(cuda->group->comm);
  return NULL;
}

/* What is behind a sum in the stream sees that it has been left before the sum ends. */
static void cuda_group_leave(struct device *d) {
  struct cuda *cuda = cuda_of_waiting(d);
  struct group *group = cuda->group;
  if (!group->comm || group->is_leaving) return;
  __atomic_store_n(group->left, 1, __ATOMIC_SEQ_CST);
  group->is_leaving = pthread_create(&group->leaving, NULL, abort_comm, cuda) == 0;
  CHECK(group->is_leaving, "device cuda: no thread to leave a group by");
}

/* Its recordings have been forgotten. What ncclCommAbort still needs after the time stays. */
void cuda_group_destroy(struct cuda *cuda) {
  enum { MOST_S = 5 };
  struct group *group = cuda->group;
  if (!group) return;
  cuda_group_leave(&cuda->device);
  struct timespec end;
  clock_gettime(CLOCK_REALTIME, &end);
  end.tv_sec += MOST_S;
  if (group->is_leaving && pthread_timedjoin_np(group->leaving, NULL, &end) != 0) return;
  if (group->left) cuda->device.ops->release_host(&cuda->device, group->left);
  if (group->left_by_then) cuda->device.ops->release(&cuda->device, group->left_by_then);
  free(group);
  cuda->group = NULL;
}

/* ---- the sum */

/* One thread reads it for all, so that all see the same. */
KERNEL read_left(float *by_then, const uint32_t *left) {
  if (grid_first() == 0) *by_then = READ_NOW(left) ? 1.0f : 0.0f;
}

KERNEL check_left(float *numbers, size_t n, const float *left) {
  if (*left == 0) return;
  for (size_t i = grid_first(); i < n; i += grid_step()) numbers[i] = NAN;
}

static void cuda_group_add_up(struct device *d, real *numbers, size_t n) {
  struct cuda *cuda = cuda_of(d);
  struct group *group = cuda->group;
  if (!group->is_leaving && group->failed == NCCL_SUCCESS) {
    int result =
        group->ncclAllReduce(numbers, numbers, n, NCCL_FLOAT, NCCL_SUM, group->comm, cuda->stream);
    group->failed = settle(d, result, group->timeout_ms);
  }
  LAUNCH(read_left, 1, 1, cuda->stream, (float *)group->left_by_then, group->left);
  LAUNCH(check_left, blocks_for(n), BLOCK, cuda->stream, (float *)numbers, n,
         (const float *)group->left_by_then);
}

/* NCCL's threads may fail while a sum runs. */
static enum status cuda_group_check(struct device *d, struct error *error) {
  const struct group *group = cuda_of_waiting(d)->group;
  int state = NCCL_SUCCESS;
  if (group->failed != NCCL_SUCCESS)
    return fail(group, "ncclAllReduce", group->failed, group->timeout_ms, error);
  if (group->is_leaving) return STATUS_OK;
  int result = group->ncclCommGetAsyncError(group->comm, &state);
  if (result == NCCL_SUCCESS) result = state;
  if (result == NCCL_SUCCESS || result == NCCL_IN_PROGRESS) return STATUS_OK;
  return fail(group, "NCCL has failed in a sum", result, 0, error);
}

const struct device_group_ops cuda_group = {cuda_group_find,  cuda_group_make_id,
                                            cuda_group_join,  cuda_group_add_up,
                                            cuda_group_check, cuda_group_leave};
