/* DESIGN: a file with a slot and an area for each learner, and an area for sums. A meeting is a
 * number that every learner raises in its own slot, and waits for in those of the others (a futex).
 * A learner holds the lock in its slot while it runs: the kernel marks the lock where its process
 * ends, however it does, so that a process number that is used again deceives nobody. Arrays go
 * through the areas in chunks that stay in the caches, and every learner adds up its share of each
 * chunk; a small one whole, for which no second meeting is needed. Of each area there are two, in
 * turn: a learner that writes into one has met all since they read it. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "learner/train/peers_way.h"

enum {
  AREA_BYTES = 1 << 19,
  WHOLE_BYTES = 1 << 19, /* of all learners: to add them up takes no longer than a meeting */
  LOOK_MS = 50
};

struct slot {
  pthread_mutex_t runs;     /* robust; held by the learner's main thread */
  _Atomic uint32_t meeting; /* that it has come to; 0: none yet */
  double weight[2];         /* as the areas */
};

struct shared {
  uint32_t bytes; /* of this struct: other programs have another one */
  int32_t learners;
  _Atomic int missing; /* the first learner that another one gave up, + 1: the others stop by it */
  struct slot slot[PEERS_MAX];
};

struct memory {
  struct peers peers; /* first */
  struct shared *shared;
  char *area; /* (learners + 1, 2, AREA_BYTES): the last ones have the sums */
  size_t bytes;
  int turn; /* of the areas that are in use */
  uint32_t meeting;
  bool came; /* its lock is held */
};

static struct memory *memory_of(struct peers *peers) {
  return (struct memory *)peers;
}

static char *area_of(const struct memory *self, int rank) {
  return self->area + (size_t)(2 * rank + self->turn) * AREA_BYTES;
}

/* ---- meetings */

/* Whether a learner that had come has ended. */
static bool has_ended(struct slot *slot) {
  int held = pthread_mutex_trylock(&slot->runs);
  if (held == EOWNERDEAD) pthread_mutex_consistent(&slot->runs);
  if (held == 0 || held == EOWNERDEAD) pthread_mutex_unlock(&slot->runs);
  return held != EBUSY;
}

static bool is_gone(struct peers *peers, int rank) {
  return has_ended(&memory_of(peers)->shared->slot[rank]);
}

/* Numbers of meetings wrap, past 0. */
static bool has_come(uint32_t seen, uint32_t meeting) {
  return seen != 0 && (int32_t)(seen - meeting) >= 0;
}

static uint32_t next_meeting(struct memory *self) {
  if (++self->meeting == 0) self->meeting = 1;
  return self->meeting;
}

static bool has_left(struct memory *self, int rank) {
  const struct peers_config *config = &self->peers.config;
  struct slot *slot = &self->shared->slot[rank];
  if (atomic_load(&slot->meeting) > 0) return has_ended(slot);
  return config->has_ended && config->has_ended(config->context, rank);
}

/* All name the one that was missed first, not those that have stopped because of it. */
static enum status give_up(struct memory *self, int rank, bool left) {
  int none = 0;
  uint32_t seen = atomic_load(&self->shared->slot[rank].meeting);
  if (!atomic_compare_exchange_strong(&self->shared->missing, &none, rank + 1) && none != rank + 1)
    return peers_lose(&self->peers, none - 1, PEERS_TOLD);
  return peers_lose(&self->peers, rank, left ? PEERS_ENDED : seen ? PEERS_SILENT : PEERS_NOT_COME);
}

static enum status give_up_gone(struct peers *peers, int rank) {
  return give_up(memory_of(peers), rank, true);
}

static enum status wait_for(struct memory *self, int rank) {
  struct slot *slot = &self->shared->slot[rank];
  const struct timespec look = {.tv_nsec = LOOK_MS * 1000 * 1000};
  int64_t timeout_us = self->peers.config.timeout_ms * (int64_t)1000;
  struct clock_wait wait = clock_wait_begin();
  for (uint32_t seen; !has_come(seen = atomic_load(&slot->meeting), self->meeting);) {
    syscall(SYS_futex, &slot->meeting, FUTEX_WAIT, seen, &look, NULL, 0);
    /* It may have come, and ended then. */
    bool left = has_left(self, rank);
    if (has_come(atomic_load(&slot->meeting), self->meeting)) break;
    if (left || clock_waited_us(&wait) > timeout_us || atomic_load(&self->shared->missing))
      return give_up(self, rank, left);
  }
  return STATUS_OK;
}

static enum status wait_for_all(struct memory *self) {
  for (int r = 0; r < self->peers.of_device.learners && self->peers.status == STATUS_OK; r++)
    (void)!wait_for(self, r);
  return self->peers.status;
}

static enum status meet(struct memory *self) {
  struct slot *mine = &self->shared->slot[self->peers.of_device.rank];
  atomic_store(&mine->meeting, next_meeting(self));
  syscall(SYS_futex, &mine->meeting, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
  return wait_for_all(self);
}

/* ---- what goes through the areas; each of these takes the other ones */

static enum status gather(struct peers *peers, void *all, const void *mine, size_t bytes) {
  struct memory *self = memory_of(peers);
  self->turn ^= 1;
  memcpy(area_of(self, peers->of_device.rank), mine, bytes);
  if (meet(self) != STATUS_OK) return peers->status;
  for (int r = 0; r < peers->of_device.learners; r++)
    memcpy((char *)all + (size_t)r * bytes, area_of(self, r), bytes);
  /* Else a decision to stop would hide the end of one that was killed after it had come. */
  return meet(self);
}

static enum status broadcast(struct peers *peers, void *bytes, size_t count) {
  struct memory *self = memory_of(peers);
  self->turn ^= 1;
  if (peers->of_device.rank == 0) memcpy(area_of(self, 0), bytes, count);
  if (meet(self) != STATUS_OK) return peers->status;
  memcpy(bytes, area_of(self, 0), count);
  return STATUS_OK;
}

/* Each adds up its share, or all, to the same bits. */
static enum status mean(struct peers *peers, char *numbers, size_t n, size_t scaled,
                        size_t real_bytes, double weight) {
  struct memory *self = memory_of(peers);
  int rank = peers->of_device.rank, learners = peers->of_device.learners;
  bool whole = n * real_bytes * (size_t)learners <= WHOLE_BYTES;
  struct peers_share own = whole ? (struct peers_share){0, n} : peers_share(peers, rank, n);
  self->turn ^= 1;
  char *sums = area_of(self, learners);
  const char *part[PEERS_MAX];
  double weights = 0;
  self->shared->slot[rank].weight[self->turn] = weight;
  for (int r = 0; r < learners; r++)
    if (whole || r != rank)
      peers_scale(area_of(self, rank), numbers, peers_share(peers, r, n), scaled, real_bytes,
                  weight);
  if (meet(self) != STATUS_OK) return peers->status;
  for (int r = 0; r < learners; r++) {
    weights += self->shared->slot[r].weight[self->turn];
    part[r] = area_of(self, r);
  }
  const struct peers_sum sum = {numbers, whole ? numbers : sums, part};
  peers_add(peers, &sum, own, scaled, real_bytes, weight, weights);
  if (whole || meet(self) != STATUS_OK) return peers->status;
  for (int r = 0; r < learners; r++) {
    struct peers_share share = peers_share(peers, r, n);
    if (r != rank)
      memcpy(numbers + share.begin * real_bytes, sums + share.begin * real_bytes,
             (share.end - share.begin) * real_bytes);
  }
  return STATUS_OK;
}

/* ---- opened */

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

static enum status check_file(struct memory *self, struct error *error) {
  const struct shared *shared = self->shared;
  const char *path = self->peers.config.path;
  int rank = self->peers.of_device.rank, learners = self->peers.of_device.learners;
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
static enum status map(struct memory *self, int fd, struct error *error) {
  struct stat now;
  size_t areas = (sizeof(struct shared) + 4095) & ~(size_t)4095;
  self->bytes = areas + (size_t)(self->peers.of_device.learners + 1) * 2 * AREA_BYTES;
  const char *path = self->peers.config.path;
  if (flock(fd, LOCK_EX) != 0 || fstat(fd, &now) != 0)
    return status_fail(error, STATUS_IO, "cannot lock %s: %s", path, strerror(errno));
  bool is_new = now.st_size == 0;
  /* Reserved: a page that there is no room for would be a SIGBUS when it is written. */
  int failed = is_new ? posix_fallocate(fd, 0, (off_t)self->bytes) : 0;
  if (failed)
    return status_fail(error, STATUS_IO,
                       "cannot reserve %zu bytes for %s: %s; give --learners_file a place with "
                       "that much room",
                       self->bytes, path, strerror(failed));
  if (!is_new && (size_t)now.st_size != self->bytes)
    return status_fail(error, STATUS_MISMATCH,
                       "%s is of another number of learners than --learners=%d, or of another "
                       "version of Acorn: start all with the same, on a new file",
                       path, self->peers.of_device.learners);
  void *memory = mmap(NULL, self->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED)
    return status_fail(error, STATUS_IO, "cannot map %s: %s", path, strerror(errno));
  self->shared = memory;
  self->area = (char *)memory + areas;
  if (is_new) fill_file(self->shared, self->peers.of_device.learners);
  enum status status = check_file(self, error);
  if (status != STATUS_OK) return status;
  pthread_mutex_lock(&self->shared->slot[self->peers.of_device.rank].runs);
  self->came = true;
  /* Under the lock still: a second learner of this rank sees it. */
  atomic_store(&self->shared->slot[self->peers.of_device.rank].meeting, next_meeting(self));
  return STATUS_OK;
}

static enum status open_file(struct peers *peers, struct error *error) {
  struct memory *self = memory_of(peers);
  const char *path = peers->config.path;
  int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return status_fail(error, STATUS_IO, "cannot open %s: %s", path, strerror(errno));
  enum status status = map(self, fd, error);
  flock(fd, LOCK_UN); /* what is mapped would keep it */
  close(fd);
  if (status != STATUS_OK) return status;
  (void)!meet(self);
  return peers_status(peers, error);
}

static void close_memory(struct peers *peers) {
  struct memory *self = memory_of(peers);
  if (self->came) pthread_mutex_unlock(&self->shared->slot[peers->of_device.rank].runs);
  if (self->shared) munmap(self->shared, self->bytes);
  free(self);
}

static const struct peers_way by_memory = {.area_bytes = AREA_BYTES,
                                           .open = open_file,
                                           .gather = gather,
                                           .broadcast = broadcast,
                                           .mean = mean,
                                           .is_gone = is_gone,
                                           .give_up = give_up_gone,
                                           .close = close_memory};

struct peers *peers_memory_create(void) {
  struct memory *self = check_alloc(1, sizeof(*self));
  self->peers.way = &by_memory;
  return &self->peers;
}
