/* DESIGN: a file with a slot and an area for each learner, and an area for sums. A meeting is a
 * number that every learner raises in its own slot, and waits for in those of the others (a futex).
 * A learner holds the lock in its slot while it runs: the kernel marks the lock where its process
 * ends, however it does, so that a process number that is used again deceives nobody. Arrays go
 * through the areas in chunks that stay in the caches, and every learner adds up its share of each
 * chunk. */
#include "learner/train/peers.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/base/check.h"
#include "common/base/clock.h"

enum { AREA_BYTES = 1 << 18, LOOK_MS = 50, LINE_BYTES = 256 };

struct slot {
  pthread_mutex_t runs;     /* robust; held by the learner's main thread */
  _Atomic uint32_t meeting; /* that it has come to; 0: none yet */
  double weight;
  double word[PEERS_WORDS];
};

struct shared {
  uint32_t bytes; /* of this struct: other programs have another one */
  int32_t learners;
  _Atomic int missing; /* the first learner that another one gave up, + 1: the others stop by it */
  struct slot slot[PEERS_MAX];
};

struct peers {
  struct device_peers of_device; /* first */
  struct peers_config config;    /* path, about and what follows: until opened */
  struct shared *shared;
  char *area; /* (learners + 1, AREA_BYTES): the last one has the sums */
  size_t bytes;
  uint32_t meeting;
  bool came; /* its lock is held */
  enum status status;
  struct error error;
};

static char *area_of(const struct peers *peers, int rank) {
  return peers->area + (size_t)rank * AREA_BYTES;
}

/* ---- meetings */

/* Whether a learner that had come has ended. */
static bool is_gone(struct slot *slot) {
  int held = pthread_mutex_trylock(&slot->runs);
  if (held == EOWNERDEAD) pthread_mutex_consistent(&slot->runs);
  if (held == 0 || held == EOWNERDEAD) pthread_mutex_unlock(&slot->runs);
  return held != EBUSY;
}

/* Numbers of meetings wrap, past 0. */
static bool has_come(uint32_t seen, uint32_t meeting) {
  return seen != 0 && (int32_t)(seen - meeting) >= 0;
}

static uint32_t next_meeting(struct peers *peers) {
  if (++peers->meeting == 0) peers->meeting = 1;
  return peers->meeting;
}

static bool has_left(struct peers *peers, int rank) {
  struct slot *slot = &peers->shared->slot[rank];
  if (atomic_load(&slot->meeting) > 0) return is_gone(slot);
  return peers->config.has_ended && peers->config.has_ended(peers->config.context, rank);
}

/* All name the one that was missed first, not those that have stopped because of it. */
static enum status give_up(struct peers *peers, int rank, bool left) {
  int none = 0, learners = peers->of_device.learners;
  uint32_t seen = atomic_load(&peers->shared->slot[rank].meeting);
  if (!atomic_compare_exchange_strong(&peers->shared->missing, &none, rank + 1) && none != rank + 1)
    return status_fail(&peers->error, STATUS_UNAVAILABLE,
                       "learner %d of %d is missing, and the run ends; its log says why", none - 1,
                       learners);
  if (left)
    return status_fail(&peers->error, STATUS_UNAVAILABLE,
                       "learner %d of %d has ended, and the run with it; its log says why", rank,
                       learners);
  return status_fail(&peers->error, STATUS_UNAVAILABLE,
                     "learner %d of %d %s within %g s: look at its log, or raise "
                     "--learners_timeout_s",
                     rank, learners, seen ? "did not answer" : "has not come",
                     peers->config.timeout_ms / 1e3);
}

static enum status wait_for(struct peers *peers, int rank) {
  struct slot *slot = &peers->shared->slot[rank];
  const struct timespec look = {.tv_nsec = LOOK_MS * 1000 * 1000};
  int64_t end_us = clock_now_us() + peers->config.timeout_ms * (int64_t)1000;
  for (uint32_t seen; !has_come(seen = atomic_load(&slot->meeting), peers->meeting);) {
    syscall(SYS_futex, &slot->meeting, FUTEX_WAIT, seen, &look, NULL, 0);
    /* It may have come, and ended then. */
    bool left = has_left(peers, rank);
    if (has_come(atomic_load(&slot->meeting), peers->meeting)) break;
    if (left || clock_now_us() > end_us || atomic_load(&peers->shared->missing))
      return give_up(peers, rank, left);
  }
  return STATUS_OK;
}

static enum status meet(struct peers *peers) {
  if (peers->status != STATUS_OK) return peers->status;
  struct slot *mine = &peers->shared->slot[peers->of_device.rank];
  atomic_store(&mine->meeting, next_meeting(peers));
  syscall(SYS_futex, &mine->meeting, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
  for (int r = 0; r < peers->of_device.learners && peers->status == STATUS_OK; r++)
    peers->status = wait_for(peers, r);
  return peers->status;
}

enum status peers_status(const struct peers *peers, struct error *error) {
  if (peers->status != STATUS_OK) *error = peers->error;
  return peers->status;
}

/* ---- sums */

/* Of the numbers from `begin` to `end`, the first `scaled` are multiplied. */
#define SUMS_OF(NUMBER)                                                                        \
  static void take_##NUMBER(char *area, const char *numbers, size_t n, size_t scaled,          \
                            double weight) {                                                   \
    NUMBER *y = (NUMBER *)area, factor = (NUMBER)weight;                                       \
    const NUMBER *x = (const NUMBER *)numbers;                                                 \
    for (size_t i = 0; i < scaled; i++) y[i] = factor * x[i];                                  \
    memcpy(y + scaled, x + scaled, (n - scaled) * sizeof(NUMBER));                             \
  }                                                                                            \
  static void add_##NUMBER(const struct peers *peers, size_t begin, size_t end, size_t scaled, \
                           double weights) {                                                   \
    int learners = peers->of_device.learners;                                                  \
    NUMBER *y = (NUMBER *)area_of(peers, learners), factor = (NUMBER)(1 / weights);            \
    memcpy(y + begin, (NUMBER *)area_of(peers, 0) + begin, (end - begin) * sizeof(*y));        \
    for (int r = 1; r < learners; r++) {                                                       \
      const NUMBER *x = (const NUMBER *)area_of(peers, r);                                     \
      for (size_t i = begin; i < end; i++) y[i] += x[i];                                       \
    }                                                                                          \
    for (size_t i = begin; i < end && i < scaled; i++) y[i] *= factor;                         \
  }
SUMS_OF(float)
SUMS_OF(double)

static double all_weights(const struct peers *peers) {
  double weights = 0;
  for (int r = 0; r < peers->of_device.learners; r++) weights += peers->shared->slot[r].weight;
  return weights > 0 ? weights : 1;
}

/* n numbers that an area has room for. */
static enum status mean_of_chunk(struct peers *peers, char *numbers, size_t n, size_t scaled,
                                 size_t real_bytes, double weight) {
  bool doubles = real_bytes == sizeof(double);
  int rank = peers->of_device.rank, learners = peers->of_device.learners;
  size_t begin = n * (size_t)rank / (size_t)learners;
  size_t end = n * (size_t)(rank + 1) / (size_t)learners;
  peers->shared->slot[rank].weight = weight;
  (doubles ? take_double : take_float)(area_of(peers, rank), numbers, n, scaled, weight);
  if (meet(peers) != STATUS_OK) return peers->status;
  (doubles ? add_double : add_float)(peers, begin, end, scaled, all_weights(peers));
  if (meet(peers) != STATUS_OK) return peers->status;
  memcpy(numbers, area_of(peers, learners), n * real_bytes);
  return STATUS_OK;
}

static void fill_nan(char *numbers, size_t n, size_t real_bytes) {
  for (size_t i = 0; i < n; i++)
    if (real_bytes == sizeof(double))
      ((double *)numbers)[i] = NAN;
    else
      ((float *)numbers)[i] = NAN;
}

void peers_mean(struct peers *peers, void *numbers, size_t P, size_t sums, size_t real_bytes,
                double weight) {
  size_t most = AREA_BYTES / real_bytes, count = P + sums;
  for (size_t at = 0, n; at < count && peers->status == STATUS_OK; at += n) {
    n = count - at < most ? count - at : most;
    size_t scaled = at >= P ? 0 : P - at < n ? P - at : n;
    (void)!mean_of_chunk(peers, (char *)numbers + at * real_bytes, n, scaled, real_bytes, weight);
  }
  if (peers->status != STATUS_OK) fill_nan(numbers, count, real_bytes);
}

static void add_up(struct device_peers *self, void *numbers, size_t n, size_t real_bytes) {
  peers_mean((struct peers *)self, numbers, 0, n, real_bytes, 1);
}

struct device_peers *peers_of_device(struct peers *peers) {
  return &peers->of_device;
}

/* ---- what is decided together */

enum status peers_exchange(struct peers *peers, double *all, const double *mine, int n,
                           struct error *error) {
  struct slot *slot = peers->shared->slot;
  CHECK(n <= PEERS_WORDS, "%d words", n);
  size_t bytes = (size_t)n * sizeof(*mine);
  memcpy(slot[peers->of_device.rank].word, mine, bytes);
  if (meet(peers) != STATUS_OK) return peers_status(peers, error);
  for (int r = 0; r < peers->of_device.learners; r++) memcpy(all + r * n, slot[r].word, bytes);
  if (meet(peers) != STATUS_OK) return peers_status(peers, error);
  return STATUS_OK;
}

enum status peers_broadcast(struct peers *peers, void *bytes, size_t count, struct error *error) {
  for (size_t at = 0, n; at < count; at += n) {
    n = count - at < AREA_BYTES ? count - at : AREA_BYTES;
    if (peers->of_device.rank == 0) memcpy(area_of(peers, 0), (char *)bytes + at, n);
    if (meet(peers) != STATUS_OK) return peers_status(peers, error);
    memcpy((char *)bytes + at, area_of(peers, 0), n);
    if (meet(peers) != STATUS_OK) return peers_status(peers, error);
  }
  return STATUS_OK;
}

int peers_rank(const struct peers *peers) {
  return peers->of_device.rank;
}

int peers_learners(const struct peers *peers) {
  return peers->of_device.learners;
}

/* Twice: another learner that looks holds the lock for a moment. */
bool peers_is_first(struct peers *peers) {
  for (int r = 0; r < peers->of_device.rank; r++) {
    struct slot *slot = &peers->shared->slot[r];
    bool gone = is_gone(slot);
    if (!gone) clock_sleep_us(1000);
    if (!gone && !is_gone(slot)) return false;
  }
  return true;
}

/* ---- opened */

/* The first line in which they differ; false: they agree. */
static bool differ(const char *ours, const char *theirs, char line[2][LINE_BYTES]) {
  while (*ours && *theirs) {
    size_t n = strcspn(ours, "\n"), m = strcspn(theirs, "\n");
    if (n != m || memcmp(ours, theirs, n) != 0) break;
    ours += n + (ours[n] == '\n');
    theirs += m + (theirs[m] == '\n');
  }
  snprintf(line[0], LINE_BYTES, "%.*s", (int)strcspn(ours, "\n"), ours);
  snprintf(line[1], LINE_BYTES, "%.*s", (int)strcspn(theirs, "\n"), theirs);
  return strcmp(line[0], line[1]) != 0;
}

/* All see all, so that all end with the same error. */
static enum status compare(struct peers *peers, const char *about, struct error *error) {
  char line[2][LINE_BYTES];
  snprintf(area_of(peers, peers->of_device.rank), AREA_BYTES, "%s", about);
  if (meet(peers) != STATUS_OK) return peers_status(peers, error);
  for (int r = 1; r < peers->of_device.learners && peers->status == STATUS_OK; r++)
    if (differ(area_of(peers, 0), area_of(peers, r), line))
      peers->status = status_fail(&peers->error, STATUS_MISMATCH,
                                  "learners 0 and %d disagree: '%s' and '%s'; all of a run need "
                                  "the same environment, options and version",
                                  r, line[0], line[1]);
  if (peers->status != STATUS_OK) return peers_status(peers, error);
  return meet(peers) == STATUS_OK ? STATUS_OK : peers_status(peers, error);
}

static void fill_file(struct shared *shared, int learners) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  for (int r = 0; r < learners; r++) pthread_mutex_init(&shared->slot[r].runs, &attributes);
  pthread_mutexattr_destroy(&attributes);
  shared->learners = learners;
  shared->bytes = sizeof(*shared);
}

static enum status check_file(struct peers *peers, struct error *error) {
  const struct shared *shared = peers->shared;
  const char *path = peers->config.path;
  int rank = peers->of_device.rank, learners = peers->of_device.learners;
  if (shared->bytes != sizeof(*shared))
    return status_fail(error, STATUS_MISMATCH,
                       "%s is of learners of another version of Acorn, or of none: start all "
                       "learners with the same one, on a new file",
                       path);
  if (shared->learners != learners)
    return status_fail(error, STATUS_MISMATCH,
                       "learner %d has --learners=%d, and %s is of %d: give all the same", rank,
                       learners, path, shared->learners);
  if (atomic_load(&shared->slot[rank].meeting) == 0) return STATUS_OK;
  return status_fail(error, STATUS_EXISTS,
                     "%s has a learner %d already: another run uses it, or has left it; give each "
                     "run a new file",
                     path, rank);
}

/* Under the file's lock, so that one learner fills it. */
static enum status map(struct peers *peers, int fd, struct error *error) {
  struct stat now;
  size_t areas = (sizeof(struct shared) + 4095) & ~(size_t)4095;
  peers->bytes = areas + (size_t)(peers->of_device.learners + 1) * AREA_BYTES;
  const char *path = peers->config.path;
  if (flock(fd, LOCK_EX) != 0 || fstat(fd, &now) != 0)
    return status_fail(error, STATUS_IO, "cannot lock %s: %s", path, strerror(errno));
  bool is_new = now.st_size == 0;
  if (is_new && ftruncate(fd, (off_t)peers->bytes) != 0)
    return status_fail(error, STATUS_IO, "cannot fill %s: %s", path, strerror(errno));
  if (!is_new && (size_t)now.st_size != peers->bytes)
    return status_fail(error, STATUS_MISMATCH,
                       "%s is of another number of learners than --learners=%d, or of another "
                       "version of Acorn: start all with the same, on a new file",
                       path, peers->of_device.learners);
  void *memory = mmap(NULL, peers->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED)
    return status_fail(error, STATUS_IO, "cannot map %s: %s", path, strerror(errno));
  peers->shared = memory;
  peers->area = (char *)memory + areas;
  if (is_new) fill_file(peers->shared, peers->of_device.learners);
  enum status status = check_file(peers, error);
  if (status != STATUS_OK) return status;
  pthread_mutex_lock(&peers->shared->slot[peers->of_device.rank].runs);
  peers->came = true;
  /* Under the lock still: a second learner of this rank sees it. */
  atomic_store(&peers->shared->slot[peers->of_device.rank].meeting, next_meeting(peers));
  return STATUS_OK;
}

enum status peers_open(struct peers **out, const struct peers_config *config, struct error *error) {
  *out = NULL;
  CHECK(config->rank >= 0 && config->rank < config->learners && config->learners <= PEERS_MAX,
        "rank %d of %d", config->rank, config->learners);
  int fd = open(config->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0)
    return status_fail(error, STATUS_IO, "cannot open %s: %s", config->path, strerror(errno));
  struct peers *peers = check_alloc(1, sizeof(*peers));
  *peers = (struct peers){.of_device = {config->rank, config->learners, add_up}, .config = *config};
  enum status status = map(peers, fd, error);
  flock(fd, LOCK_UN); /* what is mapped would keep it */
  close(fd);
  if (status == STATUS_OK && meet(peers) != STATUS_OK) status = peers_status(peers, error);
  if (status == STATUS_OK) status = compare(peers, config->about, error);
  if (status == STATUS_OK)
    *out = peers;
  else
    peers_close(peers);
  return status;
}

void peers_close(struct peers *peers) {
  if (!peers) return;
  if (peers->came) pthread_mutex_unlock(&peers->shared->slot[peers->of_device.rank].runs);
  if (peers->shared) munmap(peers->shared, peers->bytes);
  free(peers);
}
