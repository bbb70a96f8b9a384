/* DESIGN: a meeting is a message of MPI from each to each, with its weight as another one. Nothing
 * blocks but the start of MPI, which a thread bounds: requests are tested in turns, so that a
 * learner that is stopped is given up after the timeout. MPI does not report that a process has
 * ended: one that ends in order sends the others a note, and the launcher ends the job of one that
 * is killed. After an error some requests never complete, so their buffers are owned by this file
 * and not freed, and MPI is not ended: the launcher ends what is left. */
#include <errno.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/thread.h"
#include "learner/train/mpi_library.h"
#include "learner/train/peers_messages.h"

/* Requests to each learner; all but the last one are of a meeting. */
enum { SEND_WEIGHT, SEND_BODY, RECEIVE_WEIGHT, RECEIVE_BODY, RECEIVE_NOTE, NUM_KINDS };
enum { IN_MEETING = RECEIVE_NOTE };
enum { TAG_WEIGHT, TAG_BODY, TAG_NOTE };
/* In a note: rank + 1 of the one that the sender gives up, or that the sender leaves: after a
 * failure, or with all written that it had to write. */
enum { LEAVES = 0, LEAVES_WELL = -1 };
/* Others that write a checkpoint are waited for as long as a supervisor waits. */
enum { SPINS = 50, REST_US = 20, MOST_REST_US = 1000, LEAVE_US = 120 * 1000 * 1000 };
enum { EXIT_REFUSED = 2 };

_Static_assert((int)NUM_KINDS *(int)PEERS_MAX <= (int)MPI_PLUGIN_REQUESTS, "room for all requests");

struct mpi {
  struct peers_messages messages; /* first */
  const struct mpi_plugin *plugin;
  bool has_left;
  bool is_gone[PEERS_MAX];   /* it was given up, or has left */
  bool left_well[PEERS_MAX]; /* and nothing of its is missing */
  unsigned waits[PEERS_MAX]; /* a bit for each kind of a meeting's requests that waits */
  int note[PEERS_MAX], leaves, gives_up;
  double weight[PEERS_MAX];
  char *in[PEERS_MAX]; /* where the present meeting receives */
  char *copy;
  size_t copy_bytes;
};

static struct mpi *mpi_of(struct peers *peers) {
  return (struct mpi *)peers;
}

static int learners_of(const struct mpi *self) {
  return self->messages.peers.of_device.learners;
}

static bool is_other(const struct mpi *self, int rank) {
  return rank != self->messages.peers.of_device.rank;
}

static int place_of(int rank, int kind) {
  return rank * NUM_KINDS + kind;
}

/* Spins shortly, then sleeps in steps that grow. */
static void rest(int looks) {
  int over = looks - SPINS;
  if (over < 0)
    sched_yield();
  else
    clock_sleep_us(over * REST_US < MOST_REST_US ? REST_US + over * REST_US : MOST_REST_US);
}

/* ---- one that is missing */

static void tell_all(struct mpi *self, const int *number) {
  for (int r = 0; r < learners_of(self); r++)
    if (is_other(self, r)) self->plugin->tell(number, r, TAG_NOTE);
}

static enum status give_up(struct mpi *self, int rank, enum peers_loss loss) {
  self->is_gone[rank] = true;
  self->gives_up = rank + 1;
  tell_all(self, &self->gives_up);
  return peers_lose(&self->messages.peers, rank, loss);
}

static void await_note(struct mpi *self, int rank) {
  self->plugin->receive(place_of(rank, RECEIVE_NOTE), &self->note[rank], sizeof(int), rank,
                        TAG_NOTE);
}

/* Of a request that fails nothing is known but that the other one cannot be reached. */
static bool is_done(struct mpi *self, int rank, int kind) {
  struct error error;
  enum mpi_request state = self->plugin->test(place_of(rank, kind), &error);
  if (state != REQUEST_FAILED) return state == REQUEST_DONE;
  log_warn("MPI, learner %d: %s", rank, error.text);
  if (self->messages.peers.status == STATUS_OK) (void)!give_up(self, rank, PEERS_ENDED);
  self->is_gone[rank] = true;
  return false;
}

static void read_note(struct mpi *self, int rank) {
  if (self->is_gone[rank] || !is_done(self, rank, RECEIVE_NOTE)) return;
  int missing = self->note[rank] - 1;
  self->is_gone[rank] = missing < 0;
  self->left_well[rank] = self->note[rank] == LEAVES_WELL;
  if (missing < 0) return;
  await_note(self, rank);
  if (missing >= learners_of(self)) return;
  self->is_gone[missing] = true;
  if (self->messages.peers.status == STATUS_OK)
    (void)!peers_lose(&self->messages.peers, missing, PEERS_TOLD);
}

/* ---- one meeting */

/* Memory of a caller may be gone while a request still has it: such messages go by a copy. */
static bool is_kept(const struct mpi *self, const char *bytes) {
  return bytes >= self->messages.mine && bytes < self->messages.mine + 3 * PEERS_MESSAGES_BYTES;
}

static char *take(char **rest, size_t bytes) {
  char *taken = *rest;
  *rest += bytes;
  return taken;
}

static void make_room(struct mpi *self) {
  size_t bytes = 0;
  for (int r = 0; r < learners_of(self); r++)
    bytes += self->messages.message[r].out_bytes + self->messages.message[r].in_bytes;
  if (bytes <= self->copy_bytes) return;
  free(self->copy);
  self->copy = check_alloc(1, bytes);
  self->copy_bytes = bytes;
}

static void begin(struct mpi *self) {
  char *rest = self->copy;
  for (int r = 0; r < learners_of(self); r++) {
    struct peers_message *message = &self->messages.message[r];
    if (!is_other(self, r)) continue;
    self->in[r] = is_kept(self, message->in) ? message->in : take(&rest, message->in_bytes);
    const char *out = message->out;
    if (!is_kept(self, out)) out = memcpy(take(&rest, message->out_bytes), out, message->out_bytes);
    self->plugin->receive(place_of(r, RECEIVE_WEIGHT), &self->weight[r], sizeof(double), r,
                          TAG_WEIGHT);
    self->plugin->receive(place_of(r, RECEIVE_BODY), self->in[r], message->in_bytes, r, TAG_BODY);
    self->plugin->send(place_of(r, SEND_WEIGHT), &self->messages.weight, sizeof(double), r,
                       TAG_WEIGHT);
    self->plugin->send(place_of(r, SEND_BODY), out, message->out_bytes, r, TAG_BODY);
    self->waits[r] = (1 << IN_MEETING) - 1;
  }
}

static void end(struct mpi *self) {
  for (int r = 0; r < learners_of(self); r++) {
    struct peers_message *message = &self->messages.message[r];
    if (!is_other(self, r)) continue;
    if (self->in[r] != message->in) memcpy(message->in, self->in[r], message->in_bytes);
    message->in_weight = self->weight[r];
  }
}

/* Whether a request of that learner's has been done. Its note comes after all that it has sent. */
static bool look_at(struct mpi *self, int rank) {
  unsigned before = self->waits[rank];
  if (!is_other(self, rank)) return false;
  read_note(self, rank);
  for (int kind = 0; kind < IN_MEETING && self->messages.peers.status == STATUS_OK; kind++)
    if (self->waits[rank] & 1U << kind && is_done(self, rank, kind))
      self->waits[rank] &= ~(1U << kind);
  if (self->is_gone[rank] && self->waits[rank] && self->messages.peers.status == STATUS_OK)
    (void)!give_up(self, rank, PEERS_ENDED);
  return self->waits[rank] != before;
}

static enum status meet(struct peers_messages *messages) {
  struct mpi *self = (struct mpi *)messages;
  struct peers *peers = &messages->peers;
  int64_t timeout_us = peers->config.timeout_ms * (int64_t)1000;
  struct clock_wait wait = clock_wait_begin();
  make_room(self);
  begin(self);
  for (int looks = 0, first = 0; first >= 0 && peers->status == STATUS_OK; looks++) {
    bool is_late = clock_waited_us(&wait) > timeout_us; /* before the look at what has come */
    bool moved = looks == 0;
    first = -1;
    for (int r = 0; r < learners_of(self) && peers->status == STATUS_OK; r++) {
      moved |= look_at(self, r);
      if (first < 0 && self->waits[r]) first = r;
    }
    if (moved) wait = clock_wait_begin(), looks = 0;
    if (first < 0 || peers->status != STATUS_OK) break;
    if (!moved && is_late) return give_up(self, first, PEERS_SILENT);
    rest(looks);
  }
  if (peers->status == STATUS_OK) end(self);
  return peers->status;
}

/* ---- opened and closed */

struct watch {
  const struct peers_config *config;
  sem_t has_started;
};

/* MPI starts once all processes have come, or never, and cannot be interrupted. */
static void *watch_start(void *context) {
  struct watch *self = context;
  int timeout_ms = self->config->timeout_ms;
  struct timespec end;
  clock_gettime(CLOCK_MONOTONIC, &end);
  end.tv_sec += timeout_ms / 1000;
  end.tv_nsec += timeout_ms % 1000 * 1000000L;
  if (end.tv_nsec >= 1000000000L) end.tv_sec++, end.tv_nsec -= 1000000000L;
  int failure;
  while ((failure = sem_clockwait(&self->has_started, CLOCK_MONOTONIC, &end)) && errno == EINTR) {
  }
  if (failure == 0) return NULL;
  log_error(
      "learner %d of %d: MPI has not started all %d processes within %g s: look at the logs "
      "of the others, or raise --learners_timeout_s",
      self->config->rank, self->config->learners, self->config->learners, timeout_ms / 1e3);
  _exit(EXIT_REFUSED);
}

static enum status start(struct mpi *self, int *rank, int *size, struct error *error) {
  struct watch watch = {.config = &self->messages.peers.config};
  pthread_t thread;
  sem_init(&watch.has_started, 0, 0);
  thread_start(&thread, "mpi-start", watch_start, &watch);
  enum status status = self->plugin->open(rank, size, error);
  sem_post(&watch.has_started);
  pthread_join(thread, NULL);
  sem_destroy(&watch.has_started);
  return status;
}

/* Libraries of MPI set actions of signals, also of those that are ignored (nohup): the learner's
 * stay. UCX would print backtraces in place of a core. */
static enum status load_and_start(struct mpi *self, int *rank, int *size, struct error *error) {
  static const int signals[] = {SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
  enum { NUM_SIGNALS = sizeof(signals) / sizeof(*signals) };
  struct sigaction action[NUM_SIGNALS];
  for (int i = 0; i < NUM_SIGNALS; i++) sigaction(signals[i], NULL, &action[i]);
  setenv("UCX_HANDLE_ERRORS", "none", 0);
  enum status status = mpi_library_load(&self->plugin, error);
  if (status == STATUS_OK) status = start(self, rank, size, error);
  for (int i = 0; i < NUM_SIGNALS; i++) sigaction(signals[i], &action[i], NULL);
  return status;
}

static enum status open_mpi(struct peers *peers, struct error *error) {
  struct mpi *self = mpi_of(peers);
  int rank, size;
  peers_messages_init(&self->messages, meet);
  enum status status = load_and_start(self, &rank, &size, error);
  if (status != STATUS_OK) self->plugin = NULL;
  if (status != STATUS_OK) return status;
  if (rank != peers->config.rank || size != peers->config.learners) {
    self->plugin = NULL;
    return status_fail(error, STATUS_MISMATCH,
                       "--learners_mpi: MPI makes this process %d of %d, and its launcher's "
                       "variables or --learner_rank make it %d of %d: start it by the mpiexec or "
                       "srun of the MPI that libacorn_mpi.so was built with",
                       rank, size, peers->config.rank, peers->config.learners);
  }
  log_info("learner %d of the %d of an MPI job", rank, size);
  for (int r = 0; r < size; r++)
    if (is_other(self, r)) await_note(self, r);
  return STATUS_OK;
}

static bool has_gone(struct mpi *self, int rank) {
  if (is_other(self, rank)) read_note(self, rank);
  return self->is_gone[rank];
}

/* One that ended well is no loss: what it had to write is there. */
static bool is_gone(struct peers *peers, int rank) {
  struct mpi *self = mpi_of(peers);
  return has_gone(self, rank) && !self->left_well[rank];
}

static enum status give_up_gone(struct peers *peers, int rank) {
  return give_up(mpi_of(peers), rank, PEERS_ENDED);
}

/* The end of a process, in whatever way, ends those of the others that have not ended MPI: none
 * ends before all have written what they write. After an error one that hangs may not have been
 * noticed by all, so the wait is the timeout; how long a survivor's checkpoint takes is not known,
 * and is not added. */
static void leave(struct peers *peers, bool well) {
  struct mpi *self = mpi_of(peers);
  int64_t timeout_us = peers->config.timeout_ms * (int64_t)1000;
  int64_t end_us = clock_now_us() + (peers->status == STATUS_OK ? LEAVE_US : timeout_us);
  if (!self->plugin || self->has_left) return;
  self->has_left = true;
  self->leaves = well ? LEAVES_WELL : LEAVES;
  tell_all(self, &self->leaves);
  for (int r = 0; r < learners_of(self) && !peers->is_given_up; r++)
    while (is_other(self, r) && !has_gone(self, r) && clock_now_us() < end_us)
      clock_sleep_us(MOST_REST_US);
}

static void close_mpi(struct peers *peers) {
  struct mpi *self = mpi_of(peers);
  leave(peers, false);
  if (self->plugin && peers->status != STATUS_OK) return;
  if (self->plugin) self->plugin->close();
  peers_messages_deinit(&self->messages);
  free(self->copy);
  free(self);
}

static const struct peers_way by_mpi = {.area_bytes = PEERS_MESSAGES_BYTES,
                                        .open = open_mpi,
                                        .gather = peers_messages_gather,
                                        .broadcast = peers_messages_broadcast,
                                        .mean = peers_messages_mean,
                                        .is_gone = is_gone,
                                        .give_up = give_up_gone,
                                        .leave = leave,
                                        .close = close_mpi};

struct peers *peers_mpi_create(void) {
  struct mpi *self = check_alloc(1, sizeof(*self));
  self->messages.peers.way = &by_mpi;
  return &self->messages.peers;
}
