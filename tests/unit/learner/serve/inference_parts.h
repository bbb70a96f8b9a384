/* Inference with all that it works on; a row is one number. Actions are one of three, unless the
 * test gives a policy for a box. Include it in one test. */
#ifndef ACORN_TESTS_INFERENCE_PARTS_H
#define ACORN_TESTS_INFERENCE_PARTS_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "learner/experience/fifo.h"
#include "learner/experience/replay.h"
#include "learner/learn/algorithms.h"
#include "learner/serve/inference.h"
#include "tests/unit/learner/serve/loopback.h"
#include "tests/unit/support/any_device.h"
#include "tests/unit/support/discrete_shape.h"
#include "tests/unit/support/emulated_cuda.h"
#include "tests/unit/support/host_batch.h"

enum { STRIDE = 16, ACTIONS = 3 };

struct inference_parts {
  struct device *device;
  struct network *network;
  struct device_inputs inputs;
  struct step_shape shape;
  struct weights *weights;
  struct batcher *batcher;
  struct pages *pages;    /* NULL unless it trains */
  struct source *source;  /* so is this */
  struct host_batch host; /* of the batch that was taken last */
  struct progress *progress;
  struct inference *inference;
};

/* The devices that inference is tested on, and that of the parts that are created now. */
static const char *const inference_parts_devices[] = {"ref", "cpu", "guarded", "cuda"};
enum { INFERENCE_PARTS_DEVICES = 4 };
static const char *inference_parts_device;

struct inference_parts_config {
  const char *network;
  const char *precision;       /* of the device; NULL: float32 */
  const struct policy *policy; /* NULL: categorical */
  const struct space *space;   /* its action; NULL: one of three */
  int lstm_size;               /* 0: 5 */
  bool no_layers;              /* the head reads the inputs */
  bool noisy;                  /* so are the head's layers */
  bool reads_past;             /* the previous action and reward */
  int train_slots, clients;    /* clients of one row each, those that do not train included */
  bool trains;                 /* false for an evaluation, which has no pages */
  int T, N;                    /* of the training batches */
  bool stagger;                /* the phases of windows */
  int64_t max_lag;
  const struct replay_config *replay; /* batches come from a replay; NULL: from a FIFO */
  int stride;                         /* steps between the starts of its windows */
  struct inference_config inference;  /* sizes are set here */
};

/* A replay with room for some windows more than are held. */
static inline void inference_parts_make_replay(struct inference_parts *parts,
                                               const struct inference_parts_config *config,
                                               struct pages_config *pages) {
  pages->page_steps = pages->stride = config->stride;
  pages->window_steps = config->T;
  pages->replays = true;
  pages->num_pages = pages_needed(pages) + 10 * config->N;
  parts->pages = pages_create(parts->device, pages);
  parts->source = replay_create(parts->device, parts->device, parts->pages, config->replay);
}

static inline void inference_parts_make_experience(struct inference_parts *parts,
                                                   const struct inference_parts_config *config) {
  struct pages_config pages = {.num_slots = config->train_slots,
                               .page_steps = config->T,
                               .shape = parts->shape,
                               .phase = config->stagger ? PAGES_STAGGERED : PAGES_AT_ONCE};
  struct fifo_config fifo = {
      .T = config->T, .N = config->N, .shape = parts->shape, .max_lag = config->max_lag};
  parts->host = host_batch_create(config->T, config->N, &parts->shape);
  if (config->replay) {
    inference_parts_make_replay(parts, config, &pages);
    return;
  }
  parts->pages = pages_create(parts->device, &pages);
  parts->source = fifo_create(parts->device, parts->device, &fifo);
}

static inline void inference_parts_create(struct inference_parts *parts,
                                          const struct inference_parts_config *config,
                                          const struct inference_metrics *metrics) {
  static const struct space one_of_three = {.discrete = ACTIONS};
  const struct space *space = config->space ? config->space : &one_of_three;
  const struct policy *policy = config->policy ? config->policy : &policy_categorical;
  struct error error;
  *parts = (struct inference_parts){.inputs = {.row_stride = STRIDE,
                                               .num_tensors = 1,
                                               .discrete = space->discrete,
                                               .box = space->box,
                                               .tensor = {{DTYPE_FLOAT32, 1, 0}},
                                               .use_previous_action = config->reads_past,
                                               .use_reward = config->reads_past}};
  emulated_cuda_use();
  const char *precision = config->precision ? config->precision : "float32";
  assert_int_equal(
      any_device_create_with(&parts->device, inference_parts_device, precision, &error), STATUS_OK);
  struct network_config network = {.network = config->network,
                                   .inputs = parts->inputs,
                                   .head_size = policy->head_size(space),
                                   .value_size = 1,
                                   .noisy = config->noisy,
                                   .num_layers = !config->no_layers,
                                   .hidden = {6},
                                   .lstm_size = config->lstm_size ? config->lstm_size : 5};
  if (policy->action_values)
    network.values = (struct action_values){.A = ACTIONS, .Z = 1, .dueling = true};
  assert_int_equal(network_create(&parts->network, &network, &error), STATUS_OK);
  parts->shape = discrete_shape(STRIDE, network_state_size(parts->network), 0);
  parts->shape.action_bytes = space_action_bytes(space);
  parts->shape.box = space->box > 0;
  parts->shape.statistics = policy->statistics;
  parts->weights = weights_create(parts->device, network_num_parameters(parts->network));
  struct batcher_config batcher = {.max_clients = config->clients,
                                   .max_rows = 2 * config->clients,
                                   .row_stride = STRIDE,
                                   .max_wait_us = 1000000,
                                   .running = config->inference.running,
                                   .device = parts->device};
  parts->batcher = batcher_create(&batcher);
  if (config->trains) inference_parts_make_experience(parts, config);
  struct progress_config progress = {.target_return = NAN, .max_kept = config->train_slots};
  parts->progress = progress_create(&progress);
  struct inference_config inference = config->inference;
  inference.policy = policy;
  inference.space = space;
  inference.shape = parts->shape;
  inference.num_slots = config->clients;
  inference.num_train_slots = config->train_slots;
  inference.max_rows = batcher.max_rows;
  parts->inference =
      inference_create(&inference, parts->device, parts->network, &parts->inputs, parts->weights,
                       parts->batcher, parts->pages, parts->source, parts->progress, metrics);
}

static inline void inference_parts_destroy(struct inference_parts *parts) {
  inference_destroy(parts->inference);
  if (parts->source) host_batch_destroy(&parts->host);
  progress_destroy(parts->progress);
  source_destroy(parts->source);
  pages_destroy(parts->pages);
  batcher_destroy(parts->batcher);
  weights_destroy(parts->weights);
  network_destroy(parts->network);
  device_destroy(parts->device);
}

/* A client's message of one row is queued. */
static inline void inference_parts_send(struct inference_parts *parts, int client,
                                        struct rpc_stream *stream, float observation, float reward,
                                        uint8_t flags, int64_t now_us) {
  int segment;
  struct row_batch *batch = batcher_reserve(parts->batcher, client, &segment, now_us);
  int row = batch->segment[segment].first_row;
  memcpy(batch->observation + (size_t)row * STRIDE, &observation, sizeof(float));
  batch->reward[row] = reward;
  batch->flags[row] = flags;
  stream->in_hand = true;
  batcher_commit(parts->batcher, batch, segment, stream, now_us);
}

/* Runs the batch that is ready. */
static inline void inference_parts_run(struct inference_parts *parts, int64_t now_us) {
  int64_t deadline;
  struct row_batch *batch = batcher_try_take(parts->batcher, now_us, &deadline);
  assert_non_null(batch);
  inference_launch(parts->inference, batch);
  while (inference_running(parts->inference)) inference_finish(parts->inference);
}

/* The batch that training gets next, on the host, until the next one. */
static inline const struct train_batch *inference_parts_take(struct inference_parts *parts) {
  struct train_batch *batch = source_take(parts->source);
  host_batch_read(&parts->host, parts->device, batch);
  source_release(parts->source, batch);
  return parts->host.batch;
}

/* The action that the stream was answered with. */
static inline int32_t inference_parts_heard(const struct rpc_stream *stream) {
  int32_t action;
  assert_false(stream->in_hand);
  assert_int_equal(stream->answer_bytes, 2 + sizeof(action));
  memcpy(&action, stream->answer + 2, sizeof(action));
  assert_in_range(action, 0, ACTIONS - 1);
  return action;
}

#endif
