/* What our server costs above the bare C core: many client processes with one stream each play
 * ping-pong with a server.
 *
 *   bench_rpc bare|ours [--procs=16] [--bytes=64] [--seconds=3]   one measurement; also
 *     [--reply_bytes=64] [--socket=PATH]                          of a UNIX socket
 *   bench_rpc copy [--bytes=64] [--seconds=3]                     bytes that memcpy copies in a
 *                                                               CPU second, a message at a time
 *   bench_rpc [--procs=16] [--seconds=3]                          both, and the median ratios
 *
 * "bare" is the shortest server that the C core allows; "ours" is rpc_server with an answer in
 * on_message. Both copy the message into an arena and answer; the clients are the same.
 * Server and clients each have a core of their own where there are two. gRPC must not have
 * started before a fork, so every measurement is a process. */
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/support/time.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/rpc/client.h"
#include "common/rpc/core.h"
#include "common/rpc/server.h"

enum {
  MAX_PROCS = 256,
  MAX_BYTES = 1 << 20,
  MAX_REPLY_BYTES = 1 << 16,
  WARM_UP_ROUNDS = 100,
  RUNS = 5
};

struct setup {
  bool ours;
  int procs;
  size_t bytes, reply_bytes;
  char address[128]; /* "unix:PATH", or "" */
  double seconds;
};

struct measured {
  double messages;
  double messages_per_s;
  double server_cpu_us; /* per message */
};

static uint8_t arena[MAX_BYTES];
static const uint8_t answer[MAX_REPLY_BYTES];
static struct setup setup = {
    .procs = 16, .bytes = 64, .reply_bytes = 64, .seconds = 3}; /* read-only while it is measured */

/* ---- the clock of a measurement: it starts when so many messages came that all are under way */

struct meter {
  double seconds;    /* to measure */
  uint64_t warm_up;  /* messages before that */
  uint64_t messages; /* so far */
  uint64_t first;    /* of them at the begin */
  int64_t begin_us, end_us;
  int64_t cpu_us; /* at the begin, then the difference */
  bool running;
};

/* True once the time is up. */
static bool meter_tick(struct meter *meter) {
  if (meter->messages < meter->warm_up) return false;
  int64_t now_us = clock_now_us();
  if (!meter->running) {
    meter->running = true;
    meter->begin_us = now_us;
    meter->end_us = now_us + (int64_t)(meter->seconds * 1e6);
    meter->cpu_us = clock_process_cpu_us();
    meter->first = meter->messages;
  }
  if (now_us < meter->end_us) return false;
  meter->end_us = now_us;
  meter->cpu_us = clock_process_cpu_us() - meter->cpu_us;
  return true;
}

static struct measured meter_result(const struct meter *meter) {
  CHECK(meter->messages > meter->first, "no message came in the measured time");
  double messages = (double)(meter->messages - meter->first);
  return (struct measured){messages, messages / ((double)(meter->end_us - meter->begin_us) / 1e6),
                           (double)meter->cpu_us / messages};
}

/* ---- the bare server: one queue, a tag per call, no care for ends */

struct bare_call {
  grpc_call *call;
  grpc_byte_buffer *received;
};

struct bare_server {
  grpc_server *server;
  grpc_completion_queue *queue;
  grpc_call *accepted;
  grpc_call_details details;
  grpc_metadata_array metadata;
};

static void bare_accept(struct bare_server *s) {
  grpc_call_details_init(&s->details);
  grpc_metadata_array_init(&s->metadata);
  grpc_server_request_call(s->server, &s->accepted, &s->details, &s->metadata, s->queue, s->queue,
                           NULL);
}

static void bare_open(struct bare_server *s) {
  struct bare_call *call = calloc(1, sizeof(*call));
  call->call = s->accepted;
  grpc_op ops[2] = {
      {.op = GRPC_OP_SEND_INITIAL_METADATA},
      {.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &call->received}};
  grpc_call_start_batch(call->call, ops, 2, call, NULL);
  bare_accept(s);
}

static void bare_answer(struct bare_call *call) {
  const grpc_slice_buffer *slices = &call->received->data.raw.slice_buffer;
  uint8_t *to = arena;
  for (size_t i = 0; i < slices->count; i++) {
    memcpy(to, GRPC_SLICE_START_PTR(slices->slices[i]), GRPC_SLICE_LENGTH(slices->slices[i]));
    to += GRPC_SLICE_LENGTH(slices->slices[i]);
  }
  grpc_byte_buffer_destroy(call->received);
  grpc_slice slice = grpc_slice_malloc(setup.reply_bytes);
  memcpy(GRPC_SLICE_START_PTR(slice), answer, setup.reply_bytes);
  grpc_byte_buffer *reply = grpc_raw_byte_buffer_create(&slice, 1);
  grpc_slice_unref(slice);
  grpc_op ops[2] = {
      {.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = reply},
      {.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &call->received}};
  grpc_call_start_batch(call->call, ops, 2, call, NULL);
  grpc_byte_buffer_destroy(reply);
}

static int bare_listen(struct bare_server *s) {
  core_init(); // with the switches that both sides share
  s->queue = grpc_completion_queue_create_for_next(NULL);
  s->server = grpc_server_create(NULL, NULL);
  grpc_server_register_completion_queue(s->server, s->queue, NULL);
  int port = grpc_server_add_http2_port(s->server, *setup.address ? setup.address : "127.0.0.1:0",
                                        grpc_insecure_server_credentials_create());
  grpc_server_start(s->server);
  bare_accept(s);
  return port;
}

static void bare_run(struct bare_server *s, struct meter *meter) {
  do {
    grpc_event event =
        grpc_completion_queue_next(s->queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
    struct bare_call *call = event.tag;
    if (!call) {
      bare_open(s);
    } else if (call->received) {
      meter->messages++;
      bare_answer(call);
    }
  } while (!meter_tick(meter));
}

/* ---- our server */

static void ours_message(void *context, struct rpc_stream *stream, const struct wire_span *spans,
                         int num_spans) {
  struct meter *meter = context;
  uint8_t *to = arena;
  for (int i = 0; i < num_spans; i++) {
    memcpy(to, spans[i].data, spans[i].bytes);
    to += spans[i].bytes;
  }
  meter->messages++;
  rpc_stream_reply(stream, NULL, 0, answer, setup.reply_bytes);
}

static void ours_run(struct rpc_server *server, struct meter *meter) {
  while (!meter_tick(meter)) rpc_server_poll(server, 0, clock_now_us() + 1000000);
}

/* ---- clients */

static void pin(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  if (sysconf(_SC_NPROCESSORS_ONLN) >= 2) sched_setaffinity(0, sizeof(set), &set);
}

static void ignore_reply(void *context, const struct wire_span *spans, int n) {
  (void)context, (void)spans, (void)n;
}

/* Reads the port from the pipe and talks until it is killed. */
_Noreturn static void run_client(int port_pipe) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  pin(0);
  int port;
  if (read(port_pipe, &port, sizeof(port)) != sizeof(port)) _exit(1);
  char address[32];
  snprintf(address, sizeof(address), "127.0.0.1:%d", port);
  struct rpc_channel *channel =
      rpc_channel_create(*setup.address ? setup.address : address, MAX_REPLY_BYTES, NULL);
  struct rpc_call *call = rpc_call_open(channel, "/bench/Play");
  bool ended = false;
  while (!ended) {
    struct rpc_result result =
        rpc_exchange(call, NULL, 0, arena, setup.bytes, ignore_reply, NULL, &ended);
    if (ended) fprintf(stderr, "a client's stream has ended: %d %s\n", result.code, result.text);
  }
  _exit(1);
}

static void start_clients(pid_t *pids, int *port_pipe) {
  CHECK(pipe(port_pipe) == 0, "no pipe");
  for (int i = 0; i < setup.procs; i++) {
    pids[i] = fork();
    CHECK(pids[i] >= 0, "no process %d", i);
    if (pids[i] == 0) run_client(port_pipe[0]);
  }
}

static void send_port(int port_pipe, int port, int procs) {
  for (int i = 0; i < procs; i++)
    CHECK(write(port_pipe, &port, sizeof(port)) == sizeof(port), "no pipe");
}

/* ---- one measurement, in this process */

static struct measured measure(void) {
  pid_t pids[MAX_PROCS];
  int port_pipe[2];
  start_clients(pids, port_pipe);
  pin(1);
  struct meter meter = {.seconds = setup.seconds,
                        .warm_up = (uint64_t)setup.procs * WARM_UP_ROUNDS};
  struct rpc_method method = {.path = "/bench/Play", .context = &meter, .on_message = ours_message};
  struct rpc_server_config config = {.address = *setup.address ? setup.address : "127.0.0.1:0",
                                     .num_queues = 1,
                                     .methods = &method,
                                     .num_methods = 1,
                                     .max_message_bytes = MAX_BYTES};
  struct bare_server bare = {0};
  struct rpc_server *server = NULL;
  struct error error;
  if (setup.ours && rpc_server_create(&server, &config, &error) != STATUS_OK) {
    fprintf(stderr, "%s\n", error.text);
    exit(1);
  }
  send_port(port_pipe[1], setup.ours ? rpc_server_port(server) : bare_listen(&bare), setup.procs);
  if (setup.ours)
    ours_run(server, &meter);
  else
    bare_run(&bare, &meter);
  for (int i = 0; i < setup.procs; i++) {
    kill(pids[i], SIGKILL);
    waitpid(pids[i], NULL, 0);
  }
  return meter_result(&meter);
}

/* In a process of its own, which prints its line. */
static struct measured measure_apart(void) {
  int ends[2];
  CHECK(pipe(ends) == 0, "no pipe");
  fflush(stdout);
  pid_t pid = fork();
  CHECK(pid >= 0, "no process");
  if (pid == 0) {
    struct measured m = measure();
    printf(
        "bench rpc mode=%s procs=%d bytes=%zu seconds=%g messages=%.0f messages_per_s=%.0f "
        "server_cpu_us=%.3f\n",
        setup.ours ? "ours" : "bare", setup.procs, setup.bytes, setup.seconds, m.messages,
        m.messages_per_s, m.server_cpu_us);
    fflush(stdout);
    _exit(write(ends[1], &m, sizeof(m)) == sizeof(m) ? 0 : 1);
  }
  close(ends[1]);
  struct measured m;
  CHECK(read(ends[0], &m, sizeof(m)) == sizeof(m), "the measurement failed");
  close(ends[0]);
  waitpid(pid, NULL, 0);
  return m;
}

/* ---- copying alone: from one buffer to another, as a message's rows are */

static void print_copy(void) {
  static uint8_t message[MAX_BYTES];
  double copied = 0;
  int64_t begin_us = clock_process_cpu_us(), cpu_us;
  memset(message, 1, sizeof(message));
  do {
    memcpy(arena, message, setup.bytes);
    __asm__ volatile("" ::: "memory"); /* each time anew */
    copied += (double)setup.bytes;
    cpu_us = clock_process_cpu_us() - begin_us;
  } while ((double)cpu_us < setup.seconds * 1e6);
  printf("bench rpc mode=copy bytes=%zu bytes_per_cpu_s=%.0f\n", setup.bytes,
         copied / (double)cpu_us * 1e6);
}

/* ---- both, interleaved */

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *values) {
  qsort(values, RUNS, sizeof(*values), by_value);
  return values[RUNS / 2];
}

static void compare(void) {
  double cpu[RUNS], rate[RUNS];
  for (int run = 0; run < RUNS; run++) {
    struct measured m[2];
    for (int i = 0; i < 2; i++) {
      int which = (run + i) % 2; /* each goes first in turn */
      setup.ours = which == 1;
      m[which] = measure_apart();
    }
    cpu[run] = m[1].server_cpu_us / m[0].server_cpu_us;
    rate[run] = m[1].messages_per_s / m[0].messages_per_s;
  }
  printf(
      "bench rpc_ratio procs=%d bytes=%zu runs=%d cpu_ours_over_bare=%.3f "
      "rate_ours_over_bare=%.3f\n",
      setup.procs, setup.bytes, RUNS, median(cpu), median(rate));
}

int main(int argc, char **argv) {
  char path[100];
  const char *mode = "";
  for (int i = 1; i < argc; i++) {
    if (sscanf(argv[i], "--procs=%d", &setup.procs) == 1 ||
        sscanf(argv[i], "--bytes=%zu", &setup.bytes) == 1 ||
        sscanf(argv[i], "--reply_bytes=%zu", &setup.reply_bytes) == 1 ||
        sscanf(argv[i], "--seconds=%lf", &setup.seconds) == 1)
      continue;
    if (sscanf(argv[i], "--socket=%99s", path) == 1) {
      snprintf(setup.address, sizeof(setup.address), "unix:%s", path);
      continue;
    }
    mode = argv[i];
  }
  bool copies = strcmp(mode, "copy") == 0;
  bool known = !*mode || copies || strcmp(mode, "bare") == 0 || strcmp(mode, "ours") == 0;
  if (!known || setup.procs < 1 || setup.procs > MAX_PROCS || setup.bytes > MAX_BYTES ||
      setup.reply_bytes > MAX_REPLY_BYTES || !(setup.seconds > 0)) {
    fprintf(stderr, "usage: %s [bare|ours|copy] [--procs=1..%d] [--bytes=0..%d] [--seconds=S]\n",
            argv[0], MAX_PROCS, MAX_BYTES);
    return 2;
  }
  if (copies) {
    print_copy();
    return 0;
  }
  if (*mode) {
    setup.ours = *mode == 'o';
    measure_apart();
    return 0;
  }
  static const size_t sizes[] = {64, 7000};
  for (int i = 0; i < 2; i++) {
    setup.bytes = sizes[i];
    compare();
  }
  return 0;
}
