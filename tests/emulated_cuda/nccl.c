/* A libnccl.so.2 for the emulated CUDA device: communicators whose ranks are processes of one host
 * that share memory. Sums are made in the order of ranks, by a call on the stream, so that they are
 * captured in graphs as NCCL's are. Calls return "in progress" first, as those of a communicator
 * that does not block; one that is used before it has settled is an abort of the test, as is a
 * configuration that NCCL would refuse. In the environment ACORN_EMULATED_NCCL=VERSION names
 * another version than 22803, and ACORN_EMULATED_NCCL_SIGNAL=RANK:SUM:SIGNAL sends that rank's
 * process a signal in the middle of a sum, counted from 1, that the others wait in, or for 0 before
 * its first call of ncclAllReduce, which is in progress until all ranks have called it; and
 * ACORN_EMULATED_NCCL_FAIL=RANK:CALL lets that call fail. A sum that is not of the same call on all
 * ranks is an abort, too, as NCCL wants the same graphs of all. */
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))

enum { SUCCESS = 0, INTERNAL = 3, INVALID = 4, IN_PROGRESS = 7 };
enum { MOST_RANKS = 8, CHUNK = 1 << 14, FLOAT = 7, SUM = 0, ID_BYTES = 128 };

struct id {
  char bytes[ID_BYTES];
};

struct config {
  size_t size;
  unsigned magic, version;
  int blocking;
};

struct shared {
  _Atomic int came;
  _Atomic uint64_t step[MOST_RANKS]; /* that a rank has come to */
  _Atomic int call[MOST_RANKS];      /* of ncclAllReduce that its present sum is of */
  _Atomic int called;                /* ranks that have called it */
  float part[MOST_RANKS][CHUNK];
};

struct comm {
  struct shared *shared;
  struct id id;
  int ranks, rank;
  uint64_t step; /* the stream's thread only, */
  int sums;      /* so far */
  atomic_bool is_aborted;
  int calls;    /* of ncclAllReduce */
  bool settles; /* a call is in progress */
};

struct sum {
  struct comm *comm;
  const float *from;
  float *to;
  size_t n;
  int call;
};

static void check(bool holds, const char *what) {
  if (holds) return;
  fprintf(stderr, "emulated NCCL: %s\n", what);
  abort();
}

static void pause_for(long us) {
  nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL);
}

EXPORTED const char *ncclGetErrorString(int result) {
  return result == SUCCESS ? "no error" : result == INVALID ? "invalid argument" : "internal error";
}

EXPORTED int ncclGetVersion(int *version) {
  const char *named = getenv("ACORN_EMULATED_NCCL");
  *version = named && *named ? atoi(named) : 22803;
  return SUCCESS;
}

/* ---- communicators */

EXPORTED int ncclGetUniqueId(struct id *id) {
  static int count;
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  memset(id, 0, sizeof(*id));
  snprintf(id->bytes, sizeof(id->bytes), "/acorn-nccl-%d-%d-%lld", (int)getpid(), count++,
           (long long)now.tv_nsec);
  return SUCCESS;
}

EXPORTED int ncclCommInitRankConfig(void **out, int ranks, struct id id, int rank,
                                    struct config *config) {
  check(config->size == sizeof(*config) && config->magic == 0xcafebeef &&
            config->version == 21400 && config->blocking == 0,
        "a configuration that is not of 2.14, or blocks");
  if (ranks > MOST_RANKS || rank < 0 || rank >= ranks || id.bytes[0] != '/') return INVALID;
  int fd = shm_open(id.bytes, O_RDWR | O_CREAT, 0600);
  if (fd < 0 || ftruncate(fd, sizeof(struct shared)) != 0) return INTERNAL;
  struct comm *comm = calloc(1, sizeof(*comm));
  comm->shared = mmap(NULL, sizeof(struct shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  comm->id = id;
  comm->ranks = ranks;
  comm->rank = rank;
  comm->settles = true;
  atomic_fetch_add(&comm->shared->came, 1);
  *out = comm;
  return IN_PROGRESS;
}

EXPORTED int ncclCommGetAsyncError(void *given, int *state) {
  struct comm *comm = given;
  bool all = atomic_load(&comm->shared->came) >= comm->ranks &&
             (comm->calls == 0 || atomic_load(&comm->shared->called) >= comm->ranks);
  if (all) {
    shm_unlink(comm->id.bytes);
    comm->settles = false;
  }
  *state = all ? SUCCESS : IN_PROGRESS;
  return SUCCESS;
}

EXPORTED int ncclCommAbort(void *given) {
  struct comm *comm = given;
  shm_unlink(comm->id.bytes);
  atomic_store(&comm->is_aborted, true); /* the stream may still read it, so it stays */
  return SUCCESS;
}

/* ---- the sum */

/* False: aborted. */
static bool meet(struct comm *comm) {
  struct shared *shared = comm->shared;
  atomic_store(&shared->step[comm->rank], ++comm->step);
  for (int r = 0; r < comm->ranks; r++)
    while (atomic_load(&shared->step[r]) < comm->step) {
      if (atomic_load(&comm->is_aborted)) return false;
      pause_for(5);
    }
  return true;
}

/* Until the other ranks are in the sum that this one is about to begin, behind all they did
 * before. False: aborted. */
static bool wait_for_others(struct comm *comm) {
  for (int r = 0; r < comm->ranks; r++)
    while (r != comm->rank && atomic_load(&comm->shared->step[r]) <= comm->step) {
      if (atomic_load(&comm->is_aborted)) return false;
      pause_for(5);
    }
  return true;
}

/* This thread goes on where the signal has stopped it and another one lets it. */
static void send_signal(struct comm *comm, int sum) {
  int rank, number, kind;
  const char *named = getenv("ACORN_EMULATED_NCCL_SIGNAL");
  if (!named || sscanf(named, "%d:%d:%d", &rank, &number, &kind) != 3 || rank != comm->rank ||
      number != sum)
    return;
  if (sum == 0 || wait_for_others(comm)) raise(kind);
}

static void run_sum(void *context) {
  const struct sum *sum = context;
  struct comm *comm = sum->comm;
  send_signal(comm, ++comm->sums);
  atomic_store(&comm->shared->call[comm->rank], sum->call);
  for (size_t at = 0, n; at < sum->n; at += n) {
    n = sum->n - at < CHUNK ? sum->n - at : CHUNK;
    memcpy(comm->shared->part[comm->rank], sum->from + at, n * sizeof(float));
    if (!meet(comm)) return;
    for (int r = 0; r < comm->ranks; r++)
      check(atomic_load(&comm->shared->call[r]) == sum->call, "ranks play different graphs");
    for (size_t i = 0; i < n; i++) {
      float y = comm->shared->part[0][i];
      for (int r = 1; r < comm->ranks; r++) y += comm->shared->part[r][i];
      sum->to[at + i] = y;
    }
    if (!meet(comm)) return;
  }
}

/* The runtime that the plugin has for itself. */
static int launch(void *stream, void (*call)(void *), void *argument) {
  static int (*function)(void *, void (*)(void *), void *);
  if (!function) {
    void *plugin = dlopen(getenv("ACORN_CUDA_PLUGIN"), RTLD_NOW | RTLD_NOLOAD);
    check(plugin, "ACORN_CUDA_PLUGIN is not loaded");
    *(void **)&function = dlsym(plugin, "emulated_launch_host");
    check(function, "the plugin is no emulated one");
  }
  return function(stream, call, argument);
}

static bool fails(const struct comm *comm) {
  int rank, number;
  const char *named = getenv("ACORN_EMULATED_NCCL_FAIL");
  return named && sscanf(named, "%d:%d", &rank, &number) == 2 && rank == comm->rank &&
         number == comm->calls;
}

EXPORTED int ncclAllReduce(const void *from, void *to, size_t n, int type, int how, void *given,
                           void *stream) {
  struct comm *comm = given;
  check(!comm->settles, "a call before the last one has settled");
  check(!atomic_load(&comm->is_aborted), "a sum of what was aborted");
  comm->calls++;
  if (type != FLOAT || how != SUM) return INVALID;
  if (fails(comm)) return INTERNAL;
  if (comm->calls == 1) {
    send_signal(comm, 0);
    atomic_fetch_add(&comm->shared->called, 1);
  }
  struct sum *sum = calloc(1, sizeof(*sum)); /* a graph may run it at any time, so it stays */
  *sum = (struct sum){comm, from, to, n, comm->calls};
  comm->settles = true;
  return launch(stream, run_sum, sum) == 0 ? IN_PROGRESS : INTERNAL;
}
