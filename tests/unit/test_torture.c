/* Torture: a learner's ingress and an actor's link join and play over a socket, and the n-th
 * allocation of our own objects, or the n-th batch that is given to gRPC, fails; for every n there
 * is. The policy on both is to give up: exit code 1 and a sentence. Nothing may end by a signal,
 * hang, leak, or go wrong without a word. Each n is a process of its own, linked with --wrap. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above first */
#include <cmocka.h>
#include <grpc/grpc.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "actor/link.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "learner/serve/ingress.h"
#include "learner/serve/reply.h"

enum { K = 2, EXCHANGES = 3, HANG_S = 60, FAILED_QUIETLY = 3 };

enum kind { ALLOCATION, BATCH, KINDS };

/* ---- what fails */

static struct {
  _Atomic int calls[KINDS]; /* so far, of the whole run */
} * shared;                 /* with the parent */
static int fail_kind = -1, fail_at;

static bool fails(enum kind kind) {
  return shared && atomic_fetch_add(&shared->calls[kind], 1) + 1 == fail_at &&
         fail_kind == (int)kind;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
char *__real_strdup(const char *text);
grpc_call_error __real_grpc_call_start_batch(grpc_call *call, const grpc_op *ops, size_t count,
                                             void *tag, void *reserved);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
char *__wrap_strdup(const char *text);
grpc_call_error __wrap_grpc_call_start_batch(grpc_call *call, const grpc_op *ops, size_t count,
                                             void *tag, void *reserved);

void *__wrap_malloc(size_t size) {
  return fails(ALLOCATION) ? NULL : __real_malloc(size);
}
void *__wrap_calloc(size_t n, size_t size) {
  return fails(ALLOCATION) ? NULL : __real_calloc(n, size);
}
void *__wrap_realloc(void *p, size_t size) {
  return fails(ALLOCATION) ? NULL : __real_realloc(p, size);
}
void *__wrap_aligned_alloc(size_t alignment, size_t size) {
  return fails(ALLOCATION) ? NULL : __real_aligned_alloc(alignment, size);
}
char *__wrap_strdup(const char *text) {
  return fails(ALLOCATION) ? NULL : __real_strdup(text);
}
grpc_call_error __wrap_grpc_call_start_batch(grpc_call *call, const grpc_op *ops, size_t count,
                                             void *tag, void *reserved) {
  if (fails(BATCH)) return GRPC_CALL_ERROR_TOO_MANY_OPERATIONS;
  return __real_grpc_call_start_batch(call, ops, count, tag, reserved);
}

/* ---- the learner: everything of its join and play path; instead of inference, zeros */

struct learner {
  struct leases *leases;
  struct batcher *batcher;
  struct progress *progress;
  struct ingress *ingress;
  struct rpc_server *server;
  pthread_t thread, control;
};

/* Join has a queue of its own. */
static void *serve_control(void *argument) {
  struct learner *l = argument;
  while (rpc_server_poll(l->server, 1, clock_now_us() + 100000) >= 0) continue;
  return NULL;
}

static void *serve(void *argument) {
  struct learner *l = argument;
  static const int32_t zeros[2 * K];
  int64_t deadline_us = 0;
  while (rpc_server_poll(l->server, 0, deadline_us) >= 0) {
    deadline_us = clock_now_us() + 100000;
    struct row_batch *batch = batcher_try_take(l->batcher, clock_now_us(), &deadline_us);
    if (!batch) continue;
    batcher_stepping(l->batcher, batch, clock_now_us());
    reply_actions(batch, zeros, sizeof(int32_t));
    batcher_recycle(l->batcher, batch);
  }
  return NULL;
}

static void learner_start(struct learner *l, const char *address, const struct space *space) {
  struct leases_config leases = {.max_train = K, .max_eval = 1, .seed = 5};
  struct batcher_config batcher = {
      .max_clients = K + 1, .max_rows = 2 * (K + 1), .row_stride = 16, .max_wait_us = 1000};
  struct progress_config progress = {.target_return = NAN};
  struct ingress_config ingress = {
      .environment = "cartpole", .space = *space, .num_train_slots = K, .num_queues = 1};
  l->leases = leases_create(&leases);
  l->batcher = batcher_create(&batcher);
  l->progress = progress_create(&progress);
  l->ingress = ingress_create(&ingress, l->leases, l->batcher, l->progress);
  struct rpc_server_config server = {
      .address = address, .num_queues = 1, .max_message_bytes = 1 << 16};
  server.methods = ingress_methods(l->ingress, &server.num_methods);
  struct error error;
  enum status status = rpc_server_create(&l->server, &server, &error);
  CHECK(status == STATUS_OK, "%s", error.text);
  int failed = pthread_create(&l->thread, NULL, serve, l) |
               pthread_create(&l->control, NULL, serve_control, l);
  CHECK(!failed, "no thread");
}

static void learner_stop(struct learner *l) {
  rpc_server_shutdown(l->server);
  rpc_server_cancel_all(l->server);
  pthread_join(l->thread, NULL);
  pthread_join(l->control, NULL);
  rpc_server_destroy(l->server);
  ingress_destroy(l->ingress);
  batcher_destroy(l->batcher);
  leases_destroy(l->leases);
  progress_destroy(l->progress);
}

/* ---- the actor: joins, plays a few messages */

static enum status act(const char *address, const struct space *space, struct error *error) {
  struct wire_join_request request = {.protocol = WIRE_PROTOCOL,
                                      .name = "actor/0/0",
                                      .environment = "cartpole",
                                      .space = *space,
                                      .num_environments = K};
  struct wire_layout layout;
  wire_layout_of_space(&layout, space, K);
  struct link_config config = {address, NULL, &request, &layout, 2000000, false};
  struct link *link = link_create(&config);
  uint8_t observation[K * 16] = {0}, flags[K] = {STEP_FIRST, STEP_FIRST};
  float reward[K] = {0};
  int32_t actions[K];
  struct env_pool_rows rows = {.observation = observation, .reward = reward, .flags = flags};
  const struct wire_join_reply *lease;
  enum status status = link_join(link, &lease, error);
  for (int i = 0; i < EXCHANGES && status == STATUS_OK; i++) {
    status = link_exchange(link, actions, &rows, error);
    memset(flags, 0, sizeof(flags));
  }
  link_destroy(link);
  return status;
}

/* The child. */
_Noreturn static void run(void) {
  const struct space space = {
      .num_tensors = 1, .tensor = {{"state", DTYPE_FLOAT32, 1, {4}}}, .discrete = 2};
  char address[64];
  snprintf(address, sizeof(address), "unix:/tmp/acorn-torture-%d", (int)getpid());
  setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
  alarm(HANG_S);
  struct learner learner;
  struct error error = {""};
  learner_start(&learner, address, &space);
  enum status status = act(address, &space, &error);
  learner_stop(&learner);
  if (status == STATUS_OK) exit(0);
  fprintf(stderr, "%s\n", error.text);
  exit(error.text[0] ? 1 : FAILED_QUIETLY);
}

/* ---- the parent */

struct trial {
  pid_t pid;
  int n;
  FILE *said;
};

static struct trial start(enum kind kind, int n) {
  struct trial trial = {.n = n, .said = tmpfile()};
  memset(shared, 0, sizeof(*shared));
  fflush(NULL);
  trial.pid = fork();
  if (trial.pid == 0) {
    dup2(fileno(trial.said), STDERR_FILENO);
    fail_kind = (int)kind;
    fail_at = n;
    run();
  }
  return trial;
}

/* Returns whether the trial ended as the policy says; *went_on: nothing failed in it. */
static bool ended_well(struct trial *trial, const char *sentence, bool *went_on) {
  char said[4096] = {0};
  int status, saved = 0;
  waitpid(trial->pid, &status, 0);
  rewind(trial->said);
  saved = (int)fread(said, 1, sizeof(said) - 1, trial->said);
  fclose(trial->said);
  char path[64];
  snprintf(path, sizeof(path), "/tmp/acorn-torture-%d", (int)trial->pid);
  unlink(path);
  *went_on = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  bool named = WIFEXITED(status) && WEXITSTATUS(status) == 1 && saved && strstr(said, sentence);
  if (!*went_on && !named)
    print_error("n = %d: wait status %x, said: %s\n", trial->n, (unsigned)status, said);
  return *went_on || named;
}

static void torture(enum kind kind, const char *sentence) {
  bool went_on = false;
  int bad = 0, n = 0;
  for (bool reached = true; reached && n < 2000;) {
    struct trial trial = start(kind, ++n);
    bad += !ended_well(&trial, sentence, &went_on);
    reached = atomic_load(&shared->calls[kind]) >= n;
    assert_true(went_on || reached);
    if (reached && went_on) print_message("n = %d failed and nobody minded\n", n);
  }
  print_message("%d failures in turn\n", n - 1);
  assert_true(went_on); /* the last one: nothing was left to fail */
  assert_in_range(n, 10, 1999);
  assert_int_equal(bad, 0);
}

static void every_allocation_fails_once(void **state) {
  (void)state;
  torture(ALLOCATION, "error: out of memory: ");
}

static void every_batch_fails_once(void **state) {
  (void)state;
  torture(BATCH, "error: gRPC refused an operation: ");
}

static int create(void **state) {
  (void)state;
  shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return shared == MAP_FAILED ? -1 : 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_allocation_fails_once),
      cmocka_unit_test(every_batch_fails_once),
  };
  return cmocka_run_group_tests(tests, create, NULL);
}
