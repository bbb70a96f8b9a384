/* The learner on one device, fed from a synthetic source: what scripts/gpu_check.sh measures.
 *
 *   bench_device train SECONDS OPTIONS...   the trainer's loop over batches that are there already
 *   bench_device serve SECONDS OPTIONS...   inference batches of --num_envs rows, one at a time and
 *                                           as many as the device takes, steps filed into pages
 *   bench_device parameters 0 OPTIONS...    how many the network has
 *
 * OPTIONS are the learner's (--env --agent --network --device --precision ...). Prints one line of
 * key=value words. Where CUPTI is found (gpu_trace.h) it has also the share of the time that
 * kernels ran, and the bytes that went to the device for each step: both of a further second, since
 * tracing costs time. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/clock.h"
#include "common/base/random.h"
#include "learner/run/run_environment.h"
#include "learner/run/run_experience.h"
#include "learner/run/run_options.h"
#include "learner/run/run_parts.h"
#include "tests/bench/gpu_trace.h"
#include "tests/unit/support/host_batch.h"

enum { BATCHES = 2, CLIENTS = 8, WARM_UP = 5, MAX_TIMES = 1 << 20 };

static struct learner_options options;
static struct run run;
static double seconds;
static bool traces;

static void require(enum status status, const struct error *error) {
  if (status == STATUS_OK) return;
  fprintf(stderr, "bench_device: %s\n", error->text);
  exit(2);
}

static void read_options(int argc, char **argv) {
  struct error error;
  options_init(&learner_options_table, &options);
  require(options_parse(&learner_options_table, &options, argc, argv, NULL, NULL, &error), &error);
  learner_options_apply_preset(&options);
  require(learner_options_check(&options, &error), &error);
}

static void make_run(void) {
  static const struct run_callbacks nobody;
  struct error error;
  run = (struct run){.options = &options,
                     .folder.lock = -1,
                     .agent = algorithms_find(options.agent),
                     .trains = true,
                     .num_train_slots = (int)options.num_envs};
  require(run_find_environment(&run, &options, &error), &error);
  require(run_make_network(&run, &error), &error);
  run_plan_exploration(&run);
  run_make_progress(&run, &nobody);
  run.weights = weights_create(run.inference_device, network_num_parameters(run.network));
}

static void destroy_run(void) {
  progress_destroy(run.progress);
  weights_destroy(run.weights);
  network_destroy(run.network);
  device_destroy(run.trainer_device);
  device_destroy(run.inference_device);
  options_deinit(&learner_options_table, &options);
}

static void sleep_s(double s) {
  struct timespec pause = {(time_t)s, (long)(fmod(s, 1) * 1e9)};
  nanosleep(&pause, NULL);
}

/* Bytes in images, small numbers in vectors; other ones in every row. */
static void fill_observations(uint8_t *observation, size_t rows, uint32_t seed) {
  const struct device_inputs *inputs = &run.inputs;
  for (size_t row = 0; row < rows; row++) {
    uint8_t *at = observation + row * inputs->row_stride;
    for (int i = 0; i < inputs->num_tensors; i++) {
      size_t count = (size_t)inputs->tensor[i].count;
      uint64_t bits = random_bits(seed, (uint32_t)i, 0, (uint32_t)row, RANDOM_TEST) | 1;
      for (size_t k = 0; k < count; k++) {
        bits ^= bits << 13, bits ^= bits >> 7, bits ^= bits << 17;
        float number = (float)(bits >> 40) * 0x1p-24f - 0.5f;
        if (inputs->tensor[i].dtype == DTYPE_UINT8)
          at[inputs->tensor[i].row_offset + k] = (uint8_t)(bits >> 32);
        else if (inputs->tensor[i].dtype == DTYPE_FLOAT32)
          memcpy(at + inputs->tensor[i].row_offset + k * sizeof(number), &number, sizeof(number));
      }
    }
  }
}

/* ---- training: a source whose batches are always there */

struct synthetic {
  struct source source; /* first */
  struct train_batch *batch[BATCHES];
  pthread_mutex_t lock; /* guards what follows */
  int64_t taken;
  bool closed;
};

/* Episodes end now and then; everything that chance decides is in the host's copy. */
static void fill_batch(struct train_batch *batch, uint32_t seed) {
  struct host_batch host = host_batch_create(batch->T, batch->N, &batch->shape);
  struct train_batch *b = host.batch;
  int32_t *action = b->action, *previous_action = b->previous_action;
  bool is_box = run.space.discrete == 0;
  size_t numbers = (size_t)b->shape.action_bytes / sizeof(float); /* of a box: 0 but for these */
  size_t N = (size_t)b->N, rows = (size_t)(b->T + 1) * N;
  fill_observations(b->history, rows + (size_t)b->shape.footprint * N, seed);
  for (size_t i = 0; i < rows; i++) {
    uint64_t bits = random_bits(seed, 1, 0, (uint32_t)i, RANDOM_TEST);
    b->flags[i] = bits % 50 == 0 ? STEP_FIRST | STEP_TERMINATED : 0;
    b->reward[i] = (float)(bits >> 8 & 1);
    if (is_box) {
      ((float *)b->action)[i * numbers] = (float)(bits >> 16 & 255) / 256;
    } else {
      action[i] = (int32_t)((bits >> 16) % (uint64_t)run.space.discrete);
      previous_action[i] = b->flags[i] & STEP_FIRST ? -1 : i < N ? 0 : action[i - N];
    }
    for (int s = 0; s < b->shape.statistics && !is_box; s++)
      b->statistics[i * (size_t)b->shape.statistics + (size_t)s] = -logf((float)run.space.discrete);
    *train_batch_stamp(b, (int)(i / N), (int)(i % N)) = step_stamp(0, b->flags[i]);
  }
  for (size_t n = 0; n < N; n++) b->depth[n] = b->shape.footprint;
  b->num_windows = b->N;
  host_batch_write(&host, run.trainer_device, batch);
  host_batch_destroy(&host);
  for (size_t n = 0; n < N; n++) ((float *)batch->weight.host)[n] = 1;
  device_shared_upload(run.trainer_device, &batch->weight);
  device_finish(run.trainer_device);
}

static struct train_batch *take(struct source *source, int64_t wait_us) {
  (void)wait_us;
  struct synthetic *self = (struct synthetic *)source;
  pthread_mutex_lock(&self->lock);
  struct train_batch *batch = self->closed ? NULL : self->batch[self->taken++ % BATCHES];
  pthread_mutex_unlock(&self->lock);
  return batch;
}

static void give_back(struct source *source, struct train_batch *batch) {
  (void)source, (void)batch;
}

static void close_source(struct source *source) {
  struct synthetic *self = (struct synthetic *)source;
  pthread_mutex_lock(&self->lock);
  self->closed = true;
  pthread_mutex_unlock(&self->lock);
}

static struct source_counters count_nothing(struct source *source) {
  (void)source;
  return (struct source_counters){0};
}

static void make_training(struct synthetic *synthetic) {
  static const struct source_ops ops = {
      .take = take, .release = give_back, .close = close_source, .counters = count_nothing};
  struct update_config config_of_update = run_options_of_update(&options);
  config_of_update.policy = run.policy;
  struct error error;
  require(update_create(&run.update, run.trainer_device, run.network, run.agent->algorithm,
                        &config_of_update, &error),
          &error);
  synthetic->source.ops = &ops;
  pthread_mutex_init(&synthetic->lock, NULL);
  for (int i = 0; i < BATCHES; i++) {
    synthetic->batch[i] =
        train_batch_create(run.trainer_device, learner_options_window_steps(&options),
                           (int)options.algorithm.batch_size, &run.shape);
    fill_batch(synthetic->batch[i], (uint32_t)i + 1);
  }
  struct trainer_config config = {.overlaps = run_updates_overlap(&run)};
  run.trainer = trainer_create(&config, run.trainer_device, run.update, &synthetic->source,
                               run.weights, run.progress);
}

/* Waits for so many updates, then for as many as fit into so many seconds. */
static int64_t updates_after(int64_t updates, double wait_s) {
  if (wait_s > 0) sleep_s(wait_s);
  for (;;) {
    struct trainer_report report = trainer_report(run.trainer);
    require(report.status, &report.error);
    if (report.updates >= updates) return report.updates;
    sleep_s(1e-3);
  }
}

static void print_trace(const struct gpu_trace_result *trace, double steps) {
  if (trace->kernels == 0) return; /* it is no GPU, or CUPTI may not trace it */
  printf(" kernel_busy=%.4f device_busy=%.4f kernels=%lld lost=%lld bytes_per_step=%.1f",
         trace->kernel_us / trace->wall_us, trace->busy_us / trace->wall_us,
         (long long)trace->kernels, (long long)trace->lost, trace->to_device / steps);
}

static void bench_train(void) {
  static struct synthetic synthetic;
  struct gpu_trace_result trace = {0};
  make_training(&synthetic);
  trainer_start(run.trainer);
  int64_t first = updates_after(WARM_UP, 0), start_us = clock_now_us();
  int64_t last = updates_after(first + 3, seconds);
  double us = (double)(clock_now_us() - start_us) / (double)(last - first);
  int64_t traced = last;
  if (traces) {
    gpu_trace_begin();
    traced = updates_after(last + 3, 1);
    trace = gpu_trace_end();
  }
  close_source(&synthetic.source);
  trainer_join(run.trainer);
  struct trainer_report report = trainer_report(run.trainer);
  double steps = (double)(options.algorithm.unroll_length * options.algorithm.batch_size);
  printf(
      "train device=\"%s\" parameters=%zu updates=%lld update_us=%.1f steps_per_second=%.0f"
      " loss=%.6g",
      run.trainer_device->description, network_num_parameters(run.network),
      (long long)(last - first), us, steps / us * 1e6, report.stats.losses.total);
  print_trace(&trace, steps * (double)(traced - last));
  printf("\n");
  trainer_destroy(run.trainer);
  for (int i = 0; i < BATCHES; i++) train_batch_destroy(run.trainer_device, synthetic.batch[i]);
  update_destroy(run.update);
}

/* ---- inference: closed windows are released at once */

static bool release_window(struct source *source, struct pages *pages, const struct window *window,
                           int64_t current_version) {
  (void)source, (void)current_version;
  pages_release(pages, window);
  return false;
}

static void do_nothing(struct source *source) {
  (void)source;
}

static void make_serving(struct source *source) {
  static const struct source_ops ops = {.give = release_window, .drain = do_nothing};
  int slots = run.num_train_slots;
  source->ops = &ops;
  struct pages_config pages = {.num_slots = slots,
                               .page_steps = (int)options.algorithm.unroll_length,
                               .shape = run.shape,
                               .phase = PAGES_STAGGERED};
  run.pages = pages_create(run.inference_device, &pages);
  struct batcher_config batcher = {
      .max_clients = CLIENTS,
      .max_rows = slots,
      .row_stride = run.inputs.row_stride,
      .target_rows = slots,
      .max_wait_us = 1000000,
      .running = run.inference_device->ops->asynchronous ? BATCHER_MAX_RUNNING : 1,
      .device = run.inference_device};
  run.batcher = batcher_create(&batcher);
  struct inference_config inference = {.policy = run.policy,
                                       .space = &run.space,
                                       .shape = run.shape,
                                       .num_slots = slots,
                                       .num_train_slots = slots,
                                       .max_rows = batcher.max_rows,
                                       .seed = 1,
                                       .exploration = run.exploration,
                                       .running = batcher.running};
  static const struct inference_metrics no_metrics;
  run.inference =
      inference_create(&inference, run.inference_device, run.network, &run.inputs, run.weights,
                       run.batcher, run.pages, source, run.progress, &no_metrics);
  for (int i = 0; i < CLIENTS; i++)
    batcher_add(run.batcher, i, slots / CLIENTS, i * (slots / CLIENTS), 1, false, true, 0);
  float *parameters = check_alloc(network_num_parameters(run.network), sizeof(*parameters));
  real *flat =
      run.trainer_device->ops->alloc(run.trainer_device, network_num_parameters(run.network) *
                                                             run.trainer_device->ops->real_bytes);
  network_init_parameters(run.network, parameters, 1);
  run.trainer_device->ops->upload(run.trainer_device, flat, parameters,
                                  network_num_parameters(run.network));
  weights_publish(run.weights, run.trainer_device, flat, 1);
  run.trainer_device->ops->release(run.trainer_device, flat);
  free(parameters);
}

/* A message of every client: the buffers are the batcher's and used in turn, so that only the first
 * times anything is written. */
static struct row_batch *next_batch(int64_t number) {
  int rows = run.num_train_slots / CLIENTS;
  int64_t deadline_us, now_us = clock_now_us();
  for (int client = 0; client < CLIENTS; client++) {
    int segment;
    struct row_batch *batch = batcher_reserve(run.batcher, client, &segment, now_us);
    int row = batch->segment[segment].first_row;
    if (number < 2 * BATCHER_MAX_RUNNING) {
      fill_observations(batch->observation + (size_t)row * run.inputs.row_stride, (size_t)rows,
                        (uint32_t)(number * CLIENTS + client));
    }
    for (int i = row; i < row + rows; i++) {
      batch->reward[i] = 0;
      batch->flags[i] = number == 0 ? STEP_FIRST : 0;
    }
    batcher_commit(run.batcher, batch, segment, NULL, now_us);
  }
  struct row_batch *batch = batcher_try_take(run.batcher, now_us, &deadline_us);
  CHECK(batch && batch->num_rows == rows * CLIENTS, "%d rows of %d", batch ? batch->num_rows : 0,
        rows * CLIENTS);
  return batch;
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* One batch at a time for so many seconds: the microseconds of each, from its rows in the host's
 * memory until its actions are there and its steps are given to the device. Returns how many. */
static int64_t serve_for(double wait_s, int64_t *number, double *us) {
  int64_t end_us = clock_now_us() + (int64_t)(wait_s * 1e6), count = 0;
  while (count < 3 || (clock_now_us() < end_us && count < MAX_TIMES)) {
    struct row_batch *batch = next_batch((*number)++);
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    inference_launch(run.inference, batch);
    inference_finish(run.inference);
    clock_gettime(CLOCK_MONOTONIC, &end);
    us[count++] =
        (double)(end.tv_sec - begin.tv_sec) * 1e6 + (double)(end.tv_nsec - begin.tv_nsec) / 1e3;
  }
  return count;
}

static void bench_serve(void) {
  static struct source source;
  struct gpu_trace_result trace = {0};
  int64_t number = 0, traced = 0;
  make_serving(&source);
  double *us = check_alloc(MAX_TIMES, sizeof(*us));
  serve_for(0.5, &number, us);
  int64_t count = serve_for(seconds, &number, us);
  qsort(us, (size_t)count, sizeof(*us), compare);
  double median = us[count / 2], slow = us[count * 99 / 100];
  if (traces) {
    gpu_trace_begin();
    traced = serve_for(1, &number, us);
    trace = gpu_trace_end();
  }
  printf(
      "serve device=\"%s\" parameters=%zu rows=%d batches=%lld latency_us=%.1f p99_us=%.1f"
      " steps_per_second=%.0f observation_bytes=%zu",
      run.inference_device->description, network_num_parameters(run.network), run.num_train_slots,
      (long long)count, median, slow, run.num_train_slots * 1e6 / median, run.inputs.row_stride);
  print_trace(&trace, (double)(traced * run.num_train_slots));
  printf("\n");
  free(us);
  inference_destroy(run.inference);
  batcher_destroy(run.batcher);
  pages_destroy(run.pages);
}

int main(int argc, char **argv) {
  if (argc < 3) {
    fprintf(stderr, "usage: bench_device train|serve|parameters SECONDS OPTIONS...\n");
    return 2;
  }
  const char *mode = argv[1];
  seconds = strtod(argv[2], NULL);
  argv[2] = argv[0];
  read_options(argc - 2, argv + 2);
  bool of_gpu = strcmp(options.device, "cuda") == 0;
  traces = of_gpu && gpu_trace_open();
  make_run();
  if (strcmp(mode, "train") == 0) bench_train();
  if (strcmp(mode, "serve") == 0) bench_serve();
  if (strcmp(mode, "parameters") == 0) printf("%zu\n", network_num_parameters(run.network));
  destroy_run();
  return 0;
}
