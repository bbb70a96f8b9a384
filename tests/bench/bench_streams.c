/* Many light actors in one process: streams that play CartPole's shapes without an environment, a
 * thread each, and sleep between two messages as a simulator would step.
 *
 *   bench_streams ADDRESS --streams=100 [--shared=1] [--step_ms=50] [--seconds=10] [--name=light]
 *     [--bytes=0]
 *
 * --shared: streams of one connection. --bytes: of an observation, those of synthetic. Prints when
 * all have joined, then how long they waited for actions. SIGTERM ends it early. Usage:
 * tests/bench/streams.sh, tests/bench/replay_save.sh */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/metrics/histogram.h"
#include "common/rpc/client.h"

enum { MAX_STREAMS = 2048, STACK_BYTES = 256 << 10, JOIN_WAIT_MS = 60000, MESSAGE_BYTES = 256 };

struct light {
  pthread_t thread;
  int index;
  struct rpc_channel *channel; /* may be shared */
  struct app *app;
};

struct app {
  const char *address;
  char name[32];
  int streams, shared, step_ms, seconds, bytes;
  struct wire_join_request request; /* but for the name */
  void *observation;
  int64_t start_us;
  atomic_int joined, failed;
  atomic_bool stop;
  struct histogram wait_us;
  struct light light[MAX_STREAMS];
};

static bool join(const struct light *light, uint64_t *run_id) {
  struct wire_join_request request = light->app->request;
  snprintf(request.name, sizeof(request.name), "%s/0/%d", light->app->name, light->index);
  size_t bytes, reply_bytes;
  uint8_t *packed = wire_pack_join_request(&request, &bytes), *reply;
  struct rpc_result result = rpc_unary(light->channel, "/acorn.Acorn/Join", packed, bytes, &reply,
                                       &reply_bytes, JOIN_WAIT_MS);
  free(packed);
  struct wire_join_reply lease = {0};
  struct error error = {""};
  bool ok = result.code == RPC_OK &&
            wire_unpack_join_reply(&lease, reply, reply_bytes, &error) == STATUS_OK;
  if (!ok) fprintf(stderr, "no lease: %d %s %s\n", result.code, result.text, error.text);
  *run_id = lease.run_id;
  wire_join_reply_deinit(&lease);
  free(reply);
  return ok;
}

static void ignore(void *context, const struct wire_span *spans, int n) {
  (void)context, (void)spans, (void)n;
}

/* One exchange after another until the time is up. */
static void play(struct light *light, uint64_t run_id) {
  struct app *app = light->app;
  struct rpc_call *call = rpc_call_open(light->channel, "/acorn.Acorn/Play");
  uint8_t flags = STEP_FIRST, header[MESSAGE_BYTES];
  const float reward = 0;
  /* Not all in step with each other. */
  clock_sleep_us((int64_t)light->index * app->step_ms * 1000 / app->streams);
  size_t row_bytes = space_tensor_bytes(&app->request.space.tensor[0]);
  for (bool ended = false; !atomic_load(&app->stop);) {
    size_t bytes = wire_encode_steps_header(header, sizeof(header), run_id, &reward, &flags, NULL,
                                            0, 1, row_bytes);
    int64_t sent_us = clock_now_us();
    struct rpc_result result =
        rpc_exchange(call, header, bytes, app->observation, row_bytes, ignore, NULL, &ended);
    if (ended) {
      if (!atomic_load(&app->stop)) {
        fprintf(stderr, "a stream has ended: %d %s\n", result.code, result.text);
        atomic_fetch_add(&app->failed, 1);
      }
      break;
    }
    histogram_record(&app->wait_us, (double)(clock_now_us() - sent_us));
    flags = 0;
    run_id = 0;
    clock_sleep_us(app->step_ms * 1000);
  }
  rpc_call_close(call);
}

static void *run(void *argument) {
  struct light *light = argument;
  struct app *app = light->app;
  uint64_t run_id;
  if (!join(light, &run_id)) {
    atomic_fetch_add(&app->failed, 1);
    return NULL;
  }
  if (atomic_fetch_add(&app->joined, 1) + 1 == app->streams) {
    printf("streams name=%s joined=%d join_ms=%lld\n", app->name, app->streams,
           (long long)((clock_now_us() - app->start_us) / 1000));
    fflush(stdout);
  }
  play(light, run_id);
  return NULL;
}

/* ---- */

static void make_request(struct app *app) {
  struct wire_join_request *request = &app->request;
  *request = (struct wire_join_request){
      .protocol = WIRE_PROTOCOL,
      .environment = "cartpole",
      .space = {.num_tensors = 1, .tensor = {{"state", DTYPE_FLOAT32, 1, {4}}}, .discrete = 2},
      .num_environments = 1};
  if (app->bytes) {
    snprintf(request->environment, sizeof(request->environment), "synthetic(bytes=%d)", app->bytes);
    request->space.tensor[0] = (struct space_tensor){"bytes", DTYPE_UINT8, 1, {app->bytes}};
    request->space.discrete = 4;
  }
  app->observation = check_alloc(space_tensor_bytes(&request->space.tensor[0]), 1);
}

static void start(struct app *app) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, STACK_BYTES);
  app->start_us = clock_now_us();
  for (int i = 0; i < app->streams; i++) {
    struct light *light = &app->light[i];
    bool first = i % app->shared == 0;
    *light = (struct light){.index = i, .app = app};
    light->channel = first ? rpc_channel_create(app->address, 1 << 16, NULL) : (light - 1)->channel;
    int failed = pthread_create(&light->thread, &attributes, run, light);
    CHECK(!failed, "no thread %d: error %d", i, failed);
  }
  pthread_attr_destroy(&attributes);
}

static void finish(struct app *app) {
  static struct histogram_snapshot waits;
  atomic_store(&app->stop, true);
  for (int i = 0; i < app->streams; i++) pthread_join(app->light[i].thread, NULL);
  for (int i = 0; i < app->streams; i += app->shared) rpc_channel_destroy(app->light[i].channel);
  histogram_snapshot(&app->wait_us, &waits);
  printf(
      "streams name=%s messages=%llu wait_p50_us=%.0f wait_p99_us=%.0f wait_max_us=%.0f "
      "failed=%d\n",
      app->name, (unsigned long long)waits.count, histogram_quantile(&waits, 0.5),
      histogram_quantile(&waits, 0.99), waits.max, atomic_load(&app->failed));
}

static bool parse(struct app *app, int argc, char **argv) {
  for (int i = 2; i < argc; i++)
    if (sscanf(argv[i], "--streams=%d", &app->streams) != 1 &&
        sscanf(argv[i], "--shared=%d", &app->shared) != 1 &&
        sscanf(argv[i], "--step_ms=%d", &app->step_ms) != 1 &&
        sscanf(argv[i], "--seconds=%d", &app->seconds) != 1 &&
        sscanf(argv[i], "--bytes=%d", &app->bytes) != 1 &&
        sscanf(argv[i], "--name=%31s", app->name) != 1)
      return false;
  return argc >= 2 && app->streams >= 1 && app->streams <= MAX_STREAMS && app->shared >= 1;
}

int main(int argc, char **argv) {
  static struct app app = {
      .name = "light", .streams = 100, .shared = 1, .step_ms = 50, .seconds = 10};
  if (!parse(&app, argc, argv)) {
    fprintf(stderr,
            "usage: bench_streams ADDRESS [--streams=100] [--shared=1] [--step_ms=50] "
            "[--seconds=10] [--name=light] [--bytes=0]\n");
    return 2;
  }
  app.address = argv[1];
  make_request(&app);
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &ends, NULL);
  start(&app);
  struct timespec limit = {app.seconds, 0};
  while (sigtimedwait(&ends, NULL, &limit) < 0 && errno == EINTR) continue; /* by SIGCONT */
  finish(&app);
  return atomic_load(&app.failed) > 0;
}
