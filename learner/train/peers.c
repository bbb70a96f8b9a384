/* What learners do together, by any way: decide, add up, agree, and end with the first error. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "learner/train/peers_way.h"

enum { LINE_BYTES = 256, SUM_BLOCK = 1024 };

/* ---- the first error */

enum status peers_lose(struct peers *peers, int rank, enum peers_loss loss) {
  int learners = peers->of_device.learners;
  double timeout_s = peers->config.timeout_ms / 1e3;
  peers->is_given_up = rank == peers->of_device.rank;
  peers->lost = rank + 1;
  if (peers->is_given_up)
    return peers->status =
               status_fail(&peers->error, STATUS_UNAVAILABLE,
                           "the others have not heard from this learner, %d of %d, within "
                           "%g s, and go on to end without it",
                           rank, learners, timeout_s);
  if (peers->config.lost && (loss == PEERS_ENDED || loss == PEERS_SILENT))
    peers->config.lost(peers->config.context, rank, loss == PEERS_SILENT);
  if (loss == PEERS_TOLD)
    return peers->status =
               status_fail(&peers->error, STATUS_UNAVAILABLE,
                           "learner %d of %d is missing, and the run ends; its log has the reason",
                           rank, learners);
  if (loss == PEERS_ENDED)
    return peers->status = status_fail(
               &peers->error, STATUS_UNAVAILABLE,
               "learner %d of %d has ended, and the run with it; its log has the reason", rank,
               learners);
  return peers->status = status_fail(
             &peers->error, STATUS_UNAVAILABLE,
             "learner %d of %d %s within %g s: look at its log, or raise --learners_timeout_s",
             rank, learners, loss == PEERS_SILENT ? "did not answer" : "has not come", timeout_s);
}

enum status peers_status(const struct peers *peers, struct error *error) {
  if (peers->status != STATUS_OK) *error = peers->error;
  return peers->status;
}

/* ---- sums */

/* An array that is read or written is what a reduction costs: a sum is made in blocks that stay in
 * the nearest cache, and written once to where it belongs. A product by 1 is exact. */
#define SUMS_OF(NUMBER)                                                                        \
  static void scale_##NUMBER(char *to, const char *numbers, size_t begin, size_t end,          \
                             double weight) {                                                  \
    NUMBER *y = (NUMBER *)to, factor = (NUMBER)weight;                                         \
    const NUMBER *x = (const NUMBER *)numbers;                                                 \
    for (size_t i = begin; i < end; i++) y[i] = factor * x[i];                                 \
  }                                                                                            \
  static void add_##NUMBER(const struct device_peers *peers, const struct peers_sum *s,        \
                           size_t begin, size_t end, double weight, double weights) {          \
    NUMBER sum[SUM_BLOCK], factor = (NUMBER)(1 / weights);                                     \
    for (size_t at = begin, n; at < end; at += n) {                                            \
      n = end - at < SUM_BLOCK ? end - at : SUM_BLOCK;                                         \
      for (int r = 0; r < peers->learners; r++) {                                              \
        bool own = r == peers->rank;                                                           \
        const NUMBER *x = (const NUMBER *)(own ? s->numbers : s->part[r]) + at;                \
        NUMBER times = own ? (NUMBER)weight : 1;                                               \
        for (size_t i = 0; i < n; i++) sum[i] = r == 0 ? times * x[i] : sum[i] + times * x[i]; \
      }                                                                                        \
      for (size_t i = 0; i < n; i++) sum[i] *= factor;                                         \
      memcpy((NUMBER *)s->sum + at, sum, n * sizeof(NUMBER));                                  \
      memcpy((NUMBER *)s->numbers + at, sum, n * sizeof(NUMBER));                              \
    }                                                                                          \
  }
SUMS_OF(float)
SUMS_OF(double)

struct peers_share peers_share(const struct peers *peers, int rank, size_t n) {
  size_t learners = (size_t)peers->of_device.learners;
  return (struct peers_share){n * (size_t)rank / learners, n * (size_t)(rank + 1) / learners};
}

static size_t within(struct peers_share share, size_t at) {
  return at < share.begin ? share.begin : at < share.end ? at : share.end;
}

void peers_scale(char *to, const char *numbers, struct peers_share share, size_t scaled,
                 size_t real_bytes, double weight) {
  size_t middle = within(share, scaled);
  (real_bytes == sizeof(double) ? scale_double : scale_float)(to, numbers, share.begin, middle,
                                                              weight);
  memcpy(to + middle * real_bytes, numbers + middle * real_bytes,
         (share.end - middle) * real_bytes);
}

void peers_add(const struct peers *peers, const struct peers_sum *sum, struct peers_share share,
               size_t scaled, size_t real_bytes, double weight, double weights) {
  size_t middle = within(share, scaled);
  void (*add)(const struct device_peers *, const struct peers_sum *, size_t, size_t, double,
              double) = real_bytes == sizeof(double) ? add_double : add_float;
  add(&peers->of_device, sum, share.begin, middle, weight, weights > 0 ? weights : 1);
  add(&peers->of_device, sum, middle, share.end, 1, 1);
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
  size_t most = peers->way->area_bytes / real_bytes, count = P + sums;
  for (size_t at = 0, n; at < count && peers->status == STATUS_OK; at += n) {
    n = count - at < most ? count - at : most;
    size_t scaled = at >= P ? 0 : P - at < n ? P - at : n;
    (void)!peers->way->mean(peers, (char *)numbers + at * real_bytes, n, scaled, real_bytes,
                            weight);
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

/* After an error no meeting takes place. */
static enum status gather(struct peers *peers, void *all, const void *mine, size_t bytes) {
  CHECK(bytes <= peers->way->area_bytes, "%zu bytes", bytes);
  return peers->status == STATUS_OK ? peers->way->gather(peers, all, mine, bytes) : peers->status;
}

enum status peers_exchange(struct peers *peers, double *all, const double *mine, int n,
                           struct error *error) {
  CHECK(n <= PEERS_WORDS, "%d words", n);
  (void)!gather(peers, all, mine, (size_t)n * sizeof(*mine));
  return peers_status(peers, error);
}

enum status peers_broadcast(struct peers *peers, void *bytes, size_t count, struct error *error) {
  for (size_t at = 0, n; at < count && peers->status == STATUS_OK; at += n) {
    n = count - at < peers->way->area_bytes ? count - at : peers->way->area_bytes;
    (void)!peers->way->broadcast(peers, (char *)bytes + at, n);
  }
  return peers_status(peers, error);
}

int peers_rank(const struct peers *peers) {
  return peers->of_device.rank;
}

int peers_learners(const struct peers *peers) {
  return peers->of_device.learners;
}

static bool all_run(struct device_peers *self) {
  struct peers *peers = (struct peers *)self;
  for (int r = 0; r < self->learners && peers->status == STATUS_OK; r++)
    if (r != self->rank && peers->way->is_gone(peers, r)) (void)!peers->way->give_up(peers, r);
  return peers->status == STATUS_OK;
}

enum status peers_look(struct peers *peers, int64_t waited_us, struct error *error) {
  const struct peers_config *config = &peers->config;
  int learners = peers->of_device.learners;
  if (all_run(&peers->of_device) && waited_us > config->timeout_ms * (int64_t)1000) {
    peers->status = status_fail(&peers->error, STATUS_UNAVAILABLE,
                                "the devices of %d learners have not added up within %g s: look at "
                                "the logs of all, or raise --learners_timeout_s",
                                learners, config->timeout_ms / 1e3);
    if (config->lost) config->lost(config->context, learners, true);
  }
  return peers_status(peers, error);
}

void peers_fail(struct peers *peers, const struct error *error) {
  if (peers->status != STATUS_OK) return;
  peers->status = STATUS_UNAVAILABLE;
  peers->error = *error;
}

/* Twice: by memory another learner that looks holds the lock for a moment. One that was given up
 * may be killed only now. */
bool peers_is_first(struct peers *peers) {
  enum { KILLED_MS = 1000 };
  if (peers->is_given_up) return false;
  for (int r = 0; r < peers->of_device.rank; r++) {
    int looks = r + 1 == peers->lost ? KILLED_MS : 1;
    for (; looks > 0 && !peers->way->is_gone(peers, r); looks--) clock_sleep_us(1000);
    if (looks == 0 && !peers->way->is_gone(peers, r)) return false;
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
  return *ours || *theirs;
}

/* Room for the longest text of all, with its end; 0 after an error. */
static size_t room_for_texts(struct peers *peers, const char *about) {
  uint64_t mine = strlen(about) + 1, all[PEERS_MAX], most = 0;
  if (gather(peers, all, &mine, sizeof(mine)) != STATUS_OK) return 0;
  for (int r = 0; r < peers->of_device.learners; r++) most = all[r] > most ? all[r] : most;
  return most < peers->way->area_bytes ? most : peers->way->area_bytes;
}

/* All see all, so that all end with the same error. */
static enum status compare(struct peers *peers, const char *about, struct error *error) {
  char line[2][LINE_BYTES];
  int learners = peers->of_device.learners;
  size_t room = room_for_texts(peers, about);
  if (room == 0) return peers_status(peers, error);
  char *all = check_alloc((size_t)learners, room), *mine = check_alloc(1, room);
  snprintf(mine, room, "%s", about);
  (void)!gather(peers, all, mine, room);
  for (int r = 1; r < learners && peers->status == STATUS_OK; r++) {
    all[(size_t)(r + 1) * room - 1] = '\0';
    if (differ(all, all + (size_t)r * room, line))
      peers->status = status_fail(&peers->error, STATUS_MISMATCH,
                                  "learners 0 and %d disagree: '%s' and '%s'; all of a run need "
                                  "the same environment, options and version",
                                  r, line[0], line[1]);
  }
  free(all);
  free(mine);
  return peers_status(peers, error);
}

enum status peers_open(struct peers **out, const struct peers_config *config, struct error *error) {
  *out = NULL;
  CHECK(config->rank >= 0 && config->rank < config->learners && config->learners <= PEERS_MAX,
        "rank %d of %d", config->rank, config->learners);
  struct peers *peers = config->by_mpi ? peers_mpi_create()
                        : config->at   ? peers_net_create()
                                       : peers_memory_create();
  peers->of_device =
      (struct device_peers){config->rank, config->learners, false, false, add_up, all_run};
  peers->config = *config;
  enum status status = peers->way->open(peers, error);
  if (status == STATUS_OK) status = compare(peers, config->about, error);
  if (status == STATUS_OK)
    *out = peers;
  else
    peers_close(peers);
  return status;
}

void peers_leave(struct peers *peers, bool well) {
  if (peers && peers->way->leave) peers->way->leave(peers, well);
}

void peers_close(struct peers *peers) {
  if (peers) peers->way->close(peers);
}
