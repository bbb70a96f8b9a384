/* The CPU device's speed: `build/tests/bench/bench_kernels [seconds per figure]`. Prints, as
 * medians of runs on one thread, ns of one core per row for small networks' forward and
 * training, composed directly from device operations, and GFLOP/s of products.
 * ACORN_CPU=v2|v3|v4 chooses the kernel set. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "learner/device/create.h"
#include "tests/unit/learner/device/categorical_testing.h"
#include "learner/device/device.h"
#include "tests/unit/learner/device/actor_critic_testing.h"

enum {
  RUNS = 9,
  T = 20,
  I = 4,
  H = 64,
  A = 2,
  HEAD = A + 1,
  LSTM_INPUTS = 8,
  MAX_ROWS = 256 * T + 256
};

static struct device *device;
static const struct device_ops *ops;

/* ---- measuring */

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Median over RUNS of the nanoseconds that one call of work(context, n) takes; each run lasts
 * about run_us. */
static double median_ns(void (*work)(void *context, int n), void *context, int n, int64_t run_us) {
  int repeats = 1;
  for (int64_t spent = 0; spent < run_us / 4; repeats *= 2) {
    int64_t start = clock_thread_cpu_us();
    for (int i = 0; i < repeats; i++) work(context, n);
    spent = clock_thread_cpu_us() - start;
  }
  double ns[RUNS];
  for (int run = 0; run < RUNS; run++) {
    int64_t start = clock_thread_cpu_us();
    for (int i = 0; i < repeats; i++) work(context, n);
    ns[run] = 1e3 * (double)(clock_thread_cpu_us() - start) / repeats;
  }
  qsort(ns, RUNS, sizeof *ns, ascending);
  return ns[RUNS / 2];
}

/* ---- arrays */

static real *zeros(size_t n) {
  return ops->alloc(device, n * ops->real_bytes);
}

/* n numbers in +-scale, the same in every run. */
static real *numbers(size_t n, float scale) {
  real *x = zeros(n);
  float *host = check_alloc(n, sizeof *host);
  uint32_t state = 12345;
  for (size_t i = 0; i < n; i++) {
    state = state * 1664525u + 1013904223u;
    host[i] = scale * ((float)(state >> 8) * 0x1p-23f - 1);
  }
  ops->upload(device, x, host, n);
  free(host);
  return x;
}

/* ---- networks */

/* Offsets into the flat parameters: two hidden layers and the head; the LSTM network: the LSTM
 * and the head. */
enum {
  W1 = 0,
  B1 = W1 + I * H,
  W2 = B1 + H,
  B2 = W2 + H * H,
  W3 = B2 + H,
  B3 = W3 + H * HEAD,
  MLP_COUNT = B3 + HEAD
};
enum {
  WX = 0,
  WH = WX + LSTM_INPUTS * 4 * H,
  BG = WH + 4 * H * H,
  WO = BG + 4 * H,
  BO = WO + H * HEAD,
  LSTM_COUNT = BO + HEAD
};

/* Everything a training step needs, and a forward's part of it. */
struct layers {
  enum activation act;
  real *p, *grads, *adam_m, *adam_v, *norm;          /* parameters and their like */
  real *x, *y1, *y2, *head, *logp, *entropy, *value; /* rows */
  real *dhead, *dy1, *dy2, *d_logp, *d_entropy, *vs, *advantage, *sums;
  real *gates, *dgates, *h, *c, *state;
  float *behaviour, *reward, *uniform, *logp_host;
  uint8_t *flags;
  int32_t *action;
  int64_t updates;
};

static struct layers *layers_create(enum activation act, size_t parameters) {
  struct layers *net = check_alloc(1, sizeof *net);
  real **rows[] = {&net->y1, &net->y2, &net->h, &net->c, &net->dy1, &net->dy2};
  real **scalars[] = {&net->logp,      &net->entropy, &net->value,    &net->d_logp,
                      &net->d_entropy, &net->vs,      &net->advantage};
  for (int i = 0; i < 6; i++) *rows[i] = zeros((size_t)MAX_ROWS * H);
  for (int i = 0; i < 7; i++) *scalars[i] = zeros(MAX_ROWS);
  net->act = act;
  net->p = numbers(parameters, 0.2f);
  net->grads = zeros(parameters);
  net->adam_m = zeros(parameters);
  net->adam_v = zeros(parameters);
  net->norm = zeros(1);
  net->sums = zeros(ACTOR_CRITIC_SUMS);
  net->x = numbers((size_t)MAX_ROWS * LSTM_INPUTS, 1);
  net->head = zeros((size_t)MAX_ROWS * HEAD);
  net->dhead = zeros((size_t)MAX_ROWS * HEAD);
  net->gates = zeros((size_t)MAX_ROWS * 4 * H);
  net->dgates = zeros((size_t)MAX_ROWS * 4 * H);
  net->state = zeros((size_t)1024 * 2 * H);
  net->behaviour = check_alloc(MAX_ROWS, sizeof(float));
  net->reward = check_alloc(MAX_ROWS, sizeof(float));
  net->uniform = check_alloc(MAX_ROWS, sizeof(float));
  net->logp_host = check_alloc(MAX_ROWS, sizeof(float));
  net->flags = check_alloc(MAX_ROWS, 1);
  net->action = check_alloc(MAX_ROWS, sizeof(int32_t));
  for (int i = 0; i < MAX_ROWS; i++) {
    net->behaviour[i] = -0.7f;
    net->reward[i] = 1;
    net->uniform[i] = (float)(i * 37 % 101) / 101;
    net->flags[i] = i % 97 == 0 ? 3 : 0;
  }
  return net;
}

static void layers_destroy(struct layers *net) {
  real *arrays[] = {net->p,       net->grads,     net->adam_m, net->adam_v,    net->norm,
                    net->x,       net->y1,        net->y2,     net->head,      net->logp,
                    net->entropy, net->value,     net->dhead,  net->dy1,       net->dy2,
                    net->d_logp,  net->d_entropy, net->vs,     net->advantage, net->sums,
                    net->gates,   net->dgates,    net->h,      net->c,         net->state};
  for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) ops->release(device, arrays[i]);
  free(net->behaviour);
  free(net->reward);
  free(net->uniform);
  free(net->logp_host);
  free(net->flags);
  free(net->action);
  free(net);
}

static real *at(real *x, size_t n) {
  return device_at(device, x, n);
}

static void mlp_forward(void *context, int rows) {
  struct layers *net = context;
  ops->linear_forward(device, net->y1, net->x, I, at(net->p, W1), at(net->p, B1), net->act, rows, I,
                      H);
  ops->linear_forward(device, net->y2, net->y1, H, at(net->p, W2), at(net->p, B2), net->act, rows,
                      H, H);
  ops->linear_forward(device, net->head, net->y2, H, at(net->p, W3), at(net->p, B3),
                      ACTIVATION_NONE, rows, H, HEAD);
}

static void sample(void *context, int rows) {
  struct layers *net = context;
  categorical_sample(device, net->action, net->logp_host, net->head, HEAD, net->uniform, rows, A);
}

/* From the head's outputs to their gradient: V-trace, losses, distribution. */
static void head_gradient(struct layers *net, int N) {
  int rows = T * N;
  categorical_evaluate(device, net->logp, net->entropy, net->head, HEAD, net->action, rows, A);
  ops->copy_rows(device, net->value, 1, at(net->head, A), HEAD, rows + N, 1);
  struct device_trace v = {.T = T,
                           .N = N,
                           .discount = 0.99f,
                           .lambda = 1,
                           .rho_clip = 1,
                           .c_clip = 1,
                           .pg_rho_clip = 1,
                           .log_prob = net->logp,
                           .behaviour = net->behaviour,
                           .value = net->value,
                           .reward = net->reward,
                           .flags = net->flags};
  real *d_value = net->dy1; /* free until the layers go backwards */
  ops->trace(device, net->vs, net->advantage, &v);
  const struct device_schedule schedule = {.entropy_cost = 0.01f};
  run_actor_critic(device, (real *[]){net->d_logp, net->d_entropy, d_value}, net->sums, &v,
                   (const real *[]){net->vs, net->advantage, net->entropy}, &schedule,
                   (struct actor_critic_costs){0.5f, 0, LOSS_MEAN, 1});
  categorical_backward(device, net->dhead, HEAD, net->head, HEAD, net->action, net->d_logp,
                       net->d_entropy, rows, A);
  ops->copy_rows(device, at(net->dhead, A), HEAD, d_value, 1, rows, 1);
}

static void update(struct layers *net, size_t parameters) {
  ops->global_norm(device, net->norm, net->grads, parameters);
  const struct device_schedule schedule = {.step = ++net->updates, .learning_rate = 1e-4f};
  ops->adam(device, net->p, net->adam_m, net->adam_v, net->grads, net->norm, &schedule, 40, 0.9f,
            0.999f, 1e-5f, false, parameters);
}

static void mlp_train(void *context, int N) {
  struct layers *net = context;
  int rows = T * N;
  mlp_forward(net, rows + N);
  head_gradient(net, N);
  ops->linear_backward(device, net->dy2, at(net->grads, W3), at(net->grads, B3), net->dhead,
                       net->head, net->y2, H, at(net->p, W3), ACTIVATION_NONE, rows, H, HEAD);
  ops->linear_backward(device, net->dy1, at(net->grads, W2), at(net->grads, B2), net->dy2, net->y2,
                       net->y1, H, at(net->p, W2), net->act, rows, H, H);
  ops->linear_backward(device, NULL, at(net->grads, W1), at(net->grads, B1), net->dy1, net->y1,
                       net->x, I, at(net->p, W1), net->act, rows, I, H);
  update(net, MLP_COUNT);
}

static void lstm_forward(struct layers *net, int steps, int N) {
  int rows = steps * N;
  ops->linear_forward(device, net->gates, net->x, LSTM_INPUTS, at(net->p, WX), at(net->p, BG),
                      ACTIVATION_NONE, rows, LSTM_INPUTS, 4 * H);
  ops->lstm_forward(device, net->h, net->c, net->gates, at(net->p, WH), net->state,
                    at(net->state, (size_t)N * H), net->flags, steps, N, H);
  ops->linear_forward(device, net->head, net->h, H, at(net->p, WO), at(net->p, BO), ACTIVATION_NONE,
                      rows, H, HEAD);
}

static void lstm_infer(void *context, int rows) {
  lstm_forward(context, 1, rows);
}

static void lstm_train(void *context, int N) {
  struct layers *net = context;
  int rows = T * N;
  lstm_forward(net, T + 1, N);
  head_gradient(net, N);
  ops->linear_backward(device, net->dy2, at(net->grads, WO), at(net->grads, BO), net->dhead,
                       net->head, net->h, H, at(net->p, WO), ACTIVATION_NONE, rows, H, HEAD);
  ops->lstm_backward(device, net->dgates, at(net->grads, WH), net->dy2, net->h, net->c, net->gates,
                     at(net->p, WH), net->state, at(net->state, (size_t)N * H), net->flags, T, N,
                     H);
  ops->linear_backward(device, NULL, at(net->grads, WX), at(net->grads, BG), net->dgates,
                       net->gates, net->x, LSTM_INPUTS, at(net->p, WX), ACTIVATION_NONE, rows,
                       LSTM_INPUTS, 4 * H);
  update(net, LSTM_COUNT);
}

/* ---- products: a linear layer without activation */

struct product {
  real *y, *x, *w, *b;
  int N, K;
};

static void multiply(void *context, int M) {
  struct product *p = context;
  ops->linear_forward(device, p->y, p->x, p->K, p->w, p->b, ACTIVATION_NONE, M, p->K, p->N);
}

static void print_products(int64_t run_us) {
  static const int sizes[][3] = {
      {32, 256, 256},  {32, 1024, 512}, {128, 256, 256},   {128, 512, 512},  {128, 1024, 1024},
      {512, 256, 256}, {512, 512, 512}, {512, 1024, 1024}, {256, 256, 3872}, {1024, 1024, 1024}};
  printf("\n| product MxNxK | GFLOP/s |\n|---|---|\n");
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    int M = sizes[i][0], N = sizes[i][1], K = sizes[i][2];
    struct product p = {.N = N, .K = K};
    p.x = numbers((size_t)M * (size_t)K, 1);
    p.w = numbers((size_t)K * (size_t)N, 1);
    p.b = zeros((size_t)N);
    p.y = zeros((size_t)M * (size_t)N);
    printf("| %dx%dx%d | %.0f |\n", M, N, K, 2.0 * M * N * K / median_ns(multiply, &p, M, run_us));
    real *arrays[] = {p.x, p.w, p.b, p.y};
    for (int k = 0; k < 4; k++) ops->release(device, arrays[k]);
  }
}

/* ---- the tables */

static const char *processor(char *name, size_t bytes) {
  snprintf(name, bytes, "unknown processor");
  FILE *file = fopen("/proc/cpuinfo", "r");
  char line[256];
  while (file && fgets(line, sizeof line, file)) {
    char *colon = strchr(line, ':');
    if (strncmp(line, "model name", 10) != 0 || !colon) continue;
    snprintf(name, bytes, "%s", colon + 2);
    name[strcspn(name, "\n")] = 0;
    break;
  }
  if (file) fclose(file);
  return name;
}

/* A row of a table: ns per row of work(net, n), for four n; rows_per is the rows of one n. */
static void print_row(const char *label, void (*work)(void *, int), struct layers *net,
                      const int n[4], int rows_per, int64_t run_us) {
  printf("| %s |", label);
  for (int i = 0; i < 4; i++)
    printf(" %.0f |", median_ns(work, net, n[i], run_us) / (n[i] * rows_per));
  printf("\n");
  fflush(stdout);
}

int main(int argc, char **argv) {
  static const int batches[4] = {16, 64, 256, 1024}, sequences[4] = {32, 64, 128, 256};
  int64_t run_us = (int64_t)(1e6 * (argc > 1 ? atof(argv[1]) : 0.4) / RUNS);
  struct error error;
  if (device_create(&device, "cpu", &error) != STATUS_OK) {
    fprintf(stderr, "%s\n", error.text);
    return 1;
  }
  ops = device->ops;
  char name[256];
  printf("%s, %s, one thread; medians of %d runs\n\n", processor(name, sizeof name),
         device->description, RUNS);

  struct layers *relu = layers_create(ACTIVATION_RELU, MLP_COUNT),
                *mlp = layers_create(ACTIVATION_TANH, MLP_COUNT);
  struct layers *lstm = layers_create(ACTIVATION_NONE, LSTM_COUNT);
  printf("| forward, ns per row | B=16 | B=64 | B=256 | B=1024 |\n|---|---|---|---|---|\n");
  print_row("MLP 4-64-64-3 relu", mlp_forward, relu, batches, 1, run_us);
  print_row("MLP 4-64-64-3 tanh", mlp_forward, mlp, batches, 1, run_us);
  print_row("LSTM-64, 8 inputs", lstm_infer, lstm, batches, 1, run_us);
  print_row("sample of 2 actions", sample, mlp, batches, 1, run_us);
  printf(
      "\n| training, T=20, ns per step | N=32 | N=64 | N=128 | N=256 |\n|---|---|---|---|---|\n");
  print_row("MLP 4-64-64-3 relu", mlp_train, relu, sequences, T, run_us);
  print_row("MLP 4-64-64-3 tanh", mlp_train, mlp, sequences, T, run_us);
  print_row("LSTM-64, 8 inputs", lstm_train, lstm, sequences, T, run_us);
  print_products(run_us);

  layers_destroy(relu);
  layers_destroy(mlp);
  layers_destroy(lstm);
  device_destroy(device);
  return 0;
}
