#include "deploy/serve/version.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/thread.h"
#include "learner/run/run_environment.h"
#include "learner/run/run_parts.h"

/* As long a thread may neither read nor write for its clients; and as long a row may take, which it
 * computes alone where it would else be in a batch: about what handing it over costs. */
enum { AT_ONCE_US = 1000, ROW_AT_ONCE_US = 20 };

/* ---- the signature */

static struct tensor *add_input(struct signature *signature, const struct space_tensor *from) {
  static const enum tensor_type types[] = {
      [DTYPE_UINT8] = TENSOR_UINT8, [DTYPE_INT32] = TENSOR_INT32, [DTYPE_FLOAT32] = TENSOR_FLOAT32};
  return signature_add(&signature->input[signature->num_inputs++], &signature->input_bytes,
                       from->name, types[from->dtype], from->rank, from->shape);
}

static void add_output(struct signature *signature, const char *name, enum tensor_type type,
                       int rank, int size) {
  signature_add(&signature->output[signature->num_outputs++], &signature->output_bytes, name, type,
                rank, &size);
}

/* The names of scripts/export.sh. */
void version_describe(struct signature *signature, const struct run *run) {
  const struct space *space = &run->space;
  memset(signature, 0, sizeof(*signature));
  for (int i = 0; i < space->num_tensors; i++) add_input(signature, &space->tensor[i]);
  if (run->inputs.use_reward)
    signature_add(&signature->input[signature->num_inputs++], &signature->input_bytes,
                  "previous_reward", TENSOR_FLOAT32, 0, NULL);
  signature->input_bytes = (signature->input_bytes + 7) / 8 * 8;
  signature->mask = space_mask(space);
  signature->remembers =
      run->shape.state_size > 0 || run->shape.footprint > 0 || run->inputs.use_previous_action;
  if (space->box) {
    add_output(signature, "action", TENSOR_FLOAT32, 1, space->box);
    add_output(signature, "mean", TENSOR_FLOAT32, 1, space->box);
    add_output(signature, "log_std", TENSOR_FLOAT32, 1, space->box);
  } else {
    add_output(signature, "action", TENSOR_INT64, space->choices.count > 0, space->choices.count);
    add_output(signature, run->policy->action_values ? "q" : "logits", TENSOR_FLOAT32, 1,
               space->discrete);
  }
  if (!run->policy->action_values && !run->policy->without_value)
    add_output(signature, "value", TENSOR_FLOAT32, 0, 0);
  signature->output_bytes = (signature->output_bytes + 7) / 8 * 8;
}

/* ---- opened */

static enum status make_run(struct version *version, const struct run *of, struct error *error) {
  struct run *run = &version->run;
  struct signature own;
  char theirs[WIRE_ENVIRONMENT_BYTES];
  *run = (struct run){.options = &version->options, .folder = {.pin = -1, .lock = -1}};
  run->evaluates = true;
  run->agent = algorithms_find(version->options.agent);
  run->space = of->space;
  memcpy(run->identity, of->identity, sizeof(run->identity));
  enum status status = folder_open_read_only(&run->folder, version->folder, error);
  if (status != STATUS_OK) return status;
  folder_read_environment(&run->folder, 0, theirs, sizeof(theirs));
  if (theirs[0] && strcmp(theirs, run->identity) != 0)
    return status_fail(error, STATUS_MISMATCH,
                       "%s is a run of %s, the model's environment is %s: serve it by another name",
                       version->folder, theirs, run->identity);
  status = run_take_environment(run, &version->options, error);
  if (status == STATUS_OK) status = run_make_network(run, error);
  if (status != STATUS_OK) return status;
  version->device = run->inference_device;
  version_describe(&own, run);
  if (memcmp(&own, version->signature, sizeof(own)) == 0) return STATUS_OK;
  return status_fail(error, STATUS_MISMATCH,
                     "%s takes other inputs or gives other outputs than the model's first version: "
                     "serve it by another name",
                     version->folder);
}

/* The parameters alone: an optimiser's state is not needed. */
static enum status read_params(struct version *version, struct error *error) {
  static const char prefix[] = "params/";
  struct checkpoint_item items[NETWORK_MAX_PARAMETERS], theirs[CHECKPOINT_MAX_ITEMS];
  int count, num_theirs, num_params = 0;
  const struct network *network = version->run.network;
  const struct network_parameter *parameter = network_parameters(network, &count);
  float *host = check_alloc(network_num_parameters(network) + 1, sizeof(*host));
  for (int i = 0; i < count; i++) {
    items[i] = (struct checkpoint_item){
        .dtype = CHECKPOINT_FLOAT32, .rank = parameter[i].rank, .data = host + parameter[i].offset};
    snprintf(items[i].name, sizeof(items[i].name), "%s%s", prefix, parameter[i].name);
    for (int d = 0; d < parameter[i].rank; d++) items[i].shape[d] = (uint64_t)parameter[i].shape[d];
  }
  enum status status = checkpoint_read(version->file, items, count, error);
  if (status == STATUS_OK) status = checkpoint_list(version->file, theirs, &num_theirs, error);
  for (int i = 0; status == STATUS_OK && i < num_theirs; i++)
    num_params += strncmp(theirs[i].name, prefix, strlen(prefix)) == 0;
  if (status == STATUS_OK && num_params != count)
    status = status_fail(error, STATUS_MISMATCH,
                         "%s has %d arrays of parameters, the network of %s/config.txt %d: it is "
                         "of another run",
                         version->file, num_params, version->folder, count);
  if (status == STATUS_OK)
    version->device->ops->upload(version->device, version->params, host,
                                 network_num_parameters(network));
  free(host);
  return status;
}

static void make_buffers(struct version *version) {
  const struct run *run = &version->run;
  struct device *device = version->device;
  size_t rows = (size_t)version->limits.max_batch;
  int slots = version->signature->remembers ? version->limits.max_sequences : 1;
  struct memory_config memory = {
      .num_slots = slots, .shape = run->shape, .draws = policy_draws(run->policy, &run->space)};
  version->params = device->ops->alloc(
      device, network_num_parameters(run->network) * device->ops->real_bytes + 1);
  version->workspace = network_workspace_create(run->network, device, (int)rows, false);
  version->memory = memory_create(device, &memory);
  version->remembered = memory_rows_create(version->memory, (int)rows);
  version->row = device_share(device, rows * run->inputs.row_stride);
  version->reward = device_share(device, rows * sizeof(float));
  version->flags = device_share(device, rows);
  version->action = device_share(device, rows * (size_t)run->shape.action_bytes);
  version->statistics = device_share(device, rows * (size_t)run->shape.statistics * sizeof(float));
  version->head =
      check_alloc(rows * (size_t)network_head_stride(run->network), sizeof(*version->head));
  version->values =
      check_alloc(rows * (size_t)space_num_actions(&run->space), sizeof(*version->values));
  version->busy = check_alloc((size_t)slots, sizeof(*version->busy));
  sequences_init(&version->sequences, slots);
}

/* ---- a batch */

static void forward(struct version *version, int B) {
  struct device *device = version->device;
  const struct run *run = &version->run;
  const struct memory_rows *remembered = &version->remembered;
  device_shared_upload(device, &version->row);
  device_shared_upload(device, &version->reward);
  device_shared_upload(device, &version->flags);
  struct device_inputs inputs = run->inputs;
  inputs.observation = version->row.memory;
  inputs.reward = version->reward.memory;
  inputs.flags = version->flags.memory;
  memory_rows_begin(version->memory, remembered, &inputs, 0, B);
  struct network_outputs out;
  network_forward(version->workspace, &out, remembered->state_out, version->params, &inputs,
                  remembered->state_in, 1, B);
  struct policy_rows rows = {.uniform = remembered->uniform,
                             .epsilon = device_shared_at(&remembered->block, remembered->epsilon)};
  run->policy->choose(device, version->action.memory, version->statistics.memory, &out, &rows, B);
  memory_rows_end(version->memory, remembered, inputs.observation, B);
  device_shared_download(device, &version->action, version->action.bytes);
  device->ops->download(device, version->head, out.head, (size_t)B * (size_t)out.stride);
  if (run->policy->action_values)
    device->ops->download(device, version->values, network_values(device, &out, B),
                          (size_t)B * (size_t)out.of_actions->A);
  device_finish(device);
}

static void put_in(struct version *version, const struct request *request, int i, int row) {
  const struct run *run = &version->run;
  const struct signature *signature = version->signature;
  uint8_t *to = (uint8_t *)version->row.host + (size_t)row * run->inputs.row_stride;
  struct wire_layout layout;
  wire_layout_of_space(&layout, &run->space, 1);
  for (int k = 0; k < run->space.num_tensors; k++)
    memcpy(to + layout.tensor[k].row_offset, request_row(request, &signature->input[k], i),
           signature->input[k].bytes);
  float *reward = (float *)version->reward.host + row;
  if (run->inputs.use_reward)
    memcpy(reward, request_row(request, &signature->input[run->space.num_tensors], i),
           sizeof(*reward));
  bool first = request->slot < 0 || request->start;
  uint8_t flags = first ? STEP_FIRST : 0;
  ((uint8_t *)version->flags.host)[row] = flags;
  if (request->slot < 0) {
    memory_clear_row(version->memory, &version->remembered, row);
    return;
  }
  if (first)
    (void)memory_enter_life(version->memory, request->slot,
                            version->memory->life[request->slot] + 1);
  memory_enter_row(version->memory, &version->remembered, row, request->slot, flags, true);
}

static void put_action(const struct version *version, const uint8_t *chosen, uint8_t *to) {
  const struct run *run = &version->run;
  const struct space *space = &run->space;
  if (space->box) {
    float sent[SPACE_MAX_BOX];
    memcpy(sent, chosen, (size_t)run->shape.action_bytes);
    if (run->policy->send) run->policy->send(sent, chosen, space);
    memcpy(to, sent, (size_t)run->shape.action_bytes);
    return;
  }
  for (int c = 0; c < space_num_choices(&space->choices); c++)
    ((int64_t *)to)[c] = ((const int32_t *)chosen)[c];
}

/* A row's numbers of an output that is not the action. */
static const float *numbers_of(const struct version *version, const struct tensor *tensor,
                               int row) {
  const struct network *network = version->run.network;
  size_t stride = (size_t)network_head_stride(network);
  const float *head = version->head + (size_t)row * stride; /* logits, or mean, come first */
  if (strcmp(tensor->name, "q") == 0) return version->values + (size_t)row * tensor->count;
  if (strcmp(tensor->name, "value") == 0) return head + network_head_size(network);
  return strcmp(tensor->name, "log_std") == 0 ? head + stride - tensor->count : head;
}

/* As learner/learn/squashed_normal.c limits it. */
static void limit_log_std(float *log_std, size_t count) {
  for (size_t i = 0; i < count; i++) log_std[i] = fminf(fmaxf(log_std[i], -20), 2);
}

static void take_out(struct version *version, const struct request *request, int i, int row) {
  const struct run *run = &version->run;
  const struct signature *signature = version->signature;
  const uint8_t *chosen =
      (const uint8_t *)version->action.host + (size_t)row * (size_t)run->shape.action_bytes;
  if (request->slot >= 0) memory_leave(version->memory, request->slot, chosen);
  for (int k = 0; k < signature->num_outputs; k++) {
    const struct tensor *tensor = &signature->output[k];
    uint8_t *to = request->output + (size_t)i * signature->output_bytes + tensor->offset;
    if (strcmp(tensor->name, "action") == 0) {
      put_action(version, chosen, to);
      continue;
    }
    memcpy(to, numbers_of(version, tensor, row), tensor->bytes);
    if (strcmp(tensor->name, "log_std") == 0 && run->policy == &policy_squashed_normal)
      limit_log_std((float *)to, tensor->count);
  }
}

/* All requests of the list. */
static void run_batch(struct version *version, const struct request *batch) {
  int B = 0;
  for (const struct request *request = batch; request; request = request->next)
    for (int i = 0; i < request->rows; i++) put_in(version, request, i, B++);
  forward(version, B);
  B = 0;
  for (const struct request *request = batch; request; request = request->next)
    for (int i = 0; i < request->rows; i++) take_out(version, request, i, B++);
}

/* ---- its thread */

/* Takes the requests of a batch from the queue; *rows: theirs. Under the lock. */
static struct request *take_batch(struct version *version, int *rows) {
  struct request *batch = NULL, **end = &batch, **link = &version->first;
  *rows = 0;
  while (*link && *rows + (*link)->rows <= version->limits.max_batch) {
    struct request *request = *link;
    if (request->slot >= 0 && version->busy[request->slot]) {
      link = &request->next;
      continue;
    }
    if (request->slot >= 0) version->busy[request->slot] = true;
    *link = request->next;
    *end = request;
    end = &request->next;
    *end = NULL;
    *rows += request->rows;
    version->queued--;
  }
  for (const struct request *request = batch; request; request = request->next)
    if (request->slot >= 0) version->busy[request->slot] = false;
  version->queued_rows -= *rows;
  version->last = &version->first;
  while (*version->last) version->last = &(*version->last)->next;
  return batch;
}

static void wait_until(struct version *version, int64_t until_us) {
  struct timespec time = {until_us / 1000000, until_us % 1000000 * 1000};
  version->idle = true;
  if (until_us)
    pthread_cond_timedwait(&version->changed, &version->lock, &time);
  else
    pthread_cond_wait(&version->changed, &version->lock);
  version->idle = false;
}

/* Until there is a batch; false: there will be none. Under the lock. */
static bool wait_for_batch(struct version *version) {
  for (;;) {
    if (!version->first && version->closing) return false;
    if (!version->first || version->computing) {
      wait_until(version, 0);
      continue;
    }
    int64_t due_us = version->first->queued_us + version->limits.delay_us;
    bool full = version->queued_rows >= version->limits.max_batch;
    if (full || version->closing || !version->limits.delay_us || clock_now_us() >= due_us)
      return true;
    wait_until(version, due_us);
  }
}

static void finish(struct version *version, struct request *batch, int rows, int64_t start_us) {
  const struct version_metrics *metrics = version->metrics;
  metric_add(metrics->batches, 1);
  metric_add(metrics->rows, rows);
  metric_observe(metrics->batch_rows, rows);
  metric_observe(metrics->run_us, (double)(clock_now_us() - start_us));
  pthread_mutex_lock(&version->lock);
  for (const struct request *request = batch; request; request = request->next)
    if (request->slot >= 0) sequences_leave(&version->sequences, request->slot);
  pthread_mutex_unlock(&version->lock);
  while (batch) {
    struct request *request = batch;
    batch = batch->next;
    metric_observe(metrics->wait_us, (double)(start_us - request->queued_us));
    request->done(request);
  }
}

/* Under the lock, which is free meanwhile. */
static void answer_batch(struct version *version) {
  int rows;
  struct request *batch = take_batch(version, &rows);
  version->computing = true;
  pthread_mutex_unlock(&version->lock);
  int64_t start_us = clock_now_us();
  run_batch(version, batch);
  finish(version, batch, rows, start_us);
  pthread_mutex_lock(&version->lock);
  version->computing = false;
}

static void *answer(void *argument) {
  struct version *version = argument;
  pthread_mutex_lock(&version->lock);
  while (wait_for_batch(version)) answer_batch(version);
  pthread_mutex_unlock(&version->lock);
  return NULL;
}

/* So that the first request does not wait for what libraries prepare for a size. */
static void warm_up(struct version *version) {
  struct request request;
  struct error error;
  const int sizes[] = {version->limits.max_batch, 1, 1, version->limits.max_batch};
  int64_t took_us[4] = {0};
  for (int i = 0; i < 4; i++) {
    request_init(&request, version->signature, sizes[i]);
    int64_t start_us = clock_now_us();
    if (request_set_rows(&request, sizes[i], version->signature->input, &error) == STATUS_OK)
      run_batch(version, &request);
    request_deinit(&request);
    took_us[i] = clock_now_us() - start_us;
  }
  version->at_once =
      !version->limits.delay_us && took_us[2] < ROW_AT_ONCE_US && took_us[3] < AT_ONCE_US;
}

/* ---- */

static void deinit(struct version *version) {
  struct device *device = version->device;
  struct device_shared *shared[] = {&version->row, &version->reward, &version->flags,
                                    &version->action, &version->statistics};
  if (version->memory) {
    network_workspace_destroy(version->workspace);
    memory_rows_destroy(version->memory, &version->remembered);
    memory_destroy(version->memory);
    for (size_t i = 0; i < sizeof(shared) / sizeof(shared[0]); i++)
      device_unshare(device, shared[i]);
    device->ops->release(device, version->params);
    sequences_deinit(&version->sequences);
  }
  free(version->head);
  free(version->values);
  free(version->busy);
  run_destroy(&version->run);
  options_deinit(&learner_options_table, &version->options);
  pthread_cond_destroy(&version->changed);
  pthread_mutex_destroy(&version->lock);
  free(version);
}

static void init_lock(struct version *version) {
  pthread_condattr_t monotonic;
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_mutex_init(&version->lock, NULL);
  pthread_cond_init(&version->changed, &monotonic);
  pthread_condattr_destroy(&monotonic);
  version->last = &version->first;
}

enum status version_open(struct version **out, int64_t number, const char *folder, const char *file,
                         struct learner_options *options, const struct run *of,
                         const struct signature *signature, const struct version_limits *limits,
                         const struct version_metrics *metrics, struct error *error) {
  struct version *version = check_alloc(1, sizeof(*version));
  version->number = number;
  version->options = *options;
  version->signature = signature;
  version->limits = *limits;
  version->metrics = metrics;
  snprintf(version->folder, sizeof(version->folder), "%s", folder);
  snprintf(version->file, sizeof(version->file), "%s", file);
  init_lock(version);
  enum status status = make_run(version, of, error);
  if (status == STATUS_OK) {
    make_buffers(version);
    status = read_params(version, error);
  }
  if (status != STATUS_OK) {
    deinit(version);
    return status;
  }
  version->device->ops->weights_changed(version->device);
  warm_up(version);
  thread_start(&version->thread, "version", answer, version);
  *out = version;
  return STATUS_OK;
}

void version_close(struct version *version) {
  pthread_mutex_lock(&version->lock);
  version->closing = true;
  pthread_cond_signal(&version->changed);
  pthread_mutex_unlock(&version->lock);
  pthread_join(version->thread, NULL);
  deinit(version);
}

/* ---- requests */

static enum status check_mask(const struct version *version, const struct request *request,
                              struct error *error) {
  int mask = version->signature->mask;
  for (int i = 0; mask >= 0 && i < request->rows; i++)
    if (!space_mask_allows(&version->run.space,
                           request_row(request, &version->signature->input[mask], i)))
      return status_fail(error, STATUS_INVALID,
                         "input 'action_mask': row %d allows no action (of a choice)", i);
  return STATUS_OK;
}

/* Under the lock. */
static enum status enter_sequence(struct version *version, struct request *request,
                                  struct error *error) {
  bool evicted;
  request->slot = sequences_enter(&version->sequences, request->sequence, request->start,
                                  request->end, request->queued_us, &evicted);
  if (evicted) metric_add(version->metrics->evictions, 1);
  if (request->slot >= 0) return STATUS_OK;
  if (request->start)
    return status_fail(error, STATUS_EXHAUSTED,
                       "all %d sequences have a request in hand (--max_sequences): try again later",
                       version->sequences.capacity);
  return status_fail(error, STATUS_NOT_FOUND,
                     "sequence %s is not known: it has not begun, has ended, its version is gone, "
                     "or it was evicted as the one idle for longest of %d (--max_sequences); begin "
                     "it with sequence_start",
                     request->sequence, version->sequences.capacity);
}

enum status version_submit(struct version *version, struct request *request, struct error *error) {
  enum status status = check_mask(version, request, error);
  if (status != STATUS_OK) return status;
  request->queued_us = clock_now_us();
  pthread_mutex_lock(&version->lock);
  if (version->queued >= version->limits.max_queue)
    status = status_fail(error, STATUS_EXHAUSTED,
                         "the queue is full: %d requests wait (--max_queue); try again later",
                         version->queued);
  else if (version->signature->remembers)
    status = enter_sequence(version, request, error);
  if (status == STATUS_OK) {
    request->next = NULL;
    *version->last = request;
    version->last = &request->next;
    version->queued++;
    version->queued_rows += request->rows;
  }
  pthread_mutex_unlock(&version->lock);
  return status;
}

/* One batch here at most: its caller has other work. */
void version_begin(struct version *version) {
  pthread_mutex_lock(&version->lock);
  if (version->first && version->idle && !version->computing) {
    if (version->at_once) answer_batch(version);
    if (version->first) pthread_cond_signal(&version->changed);
  }
  pthread_mutex_unlock(&version->lock);
}

bool version_has(struct version *version, const char *sequence) {
  pthread_mutex_lock(&version->lock);
  bool has = version->signature->remembers && sequences_find(&version->sequences, sequence) >= 0;
  pthread_mutex_unlock(&version->lock);
  return has;
}

int version_sequences(struct version *version, int64_t since_us) {
  pthread_mutex_lock(&version->lock);
  sequences_expire(&version->sequences, since_us);
  int live = version->sequences.live;
  pthread_mutex_unlock(&version->lock);
  return live;
}
