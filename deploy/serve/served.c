#include "deploy/serve/served.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "learner/run/run_environment.h"
#include "learner/run/run_parts.h"
#include "learner/train/state.h"

/* ---- the signature */

static void add_input(struct signature *signature, const char *name, enum tensor_type type,
                      int rank, const int *shape) {
  signature_add(&signature->input[signature->num_inputs++], &signature->input_bytes, name, type,
                rank, shape);
}

static void add_output(struct signature *signature, const char *name, enum tensor_type type,
                       int rank, int size) {
  signature_add(&signature->output[signature->num_outputs++], &signature->output_bytes, name, type,
                rank, &size);
}

/* The names of scripts/export.sh. */
void served_describe(struct signature *signature, const struct run *run) {
  static const enum tensor_type types[] = {
      [DTYPE_UINT8] = TENSOR_UINT8, [DTYPE_INT32] = TENSOR_INT32, [DTYPE_FLOAT32] = TENSOR_FLOAT32};
  const struct space *space = &run->space;
  memset(signature, 0, sizeof(*signature));
  for (const struct space_tensor *t = space->tensor; t < space->tensor + space->num_tensors; t++)
    add_input(signature, t->name, types[t->dtype], t->rank, t->shape);
  if (run->inputs.use_reward) add_input(signature, "previous_reward", TENSOR_FLOAT32, 0, NULL);
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

static enum status make_run(struct served *self, const char *folder, const struct run *of,
                            struct error *error) {
  struct run *run = &self->run;
  struct signature own;
  char theirs[WIRE_ENVIRONMENT_BYTES];
  *run = (struct run){.options = &self->options, .folder = {.pin = -1, .lock = -1}};
  run->evaluates = true;
  run->agent = algorithms_find(self->options.agent);
  run->space = of->space;
  memcpy(run->identity, of->identity, sizeof(run->identity));
  enum status status = folder_open_read_only(&run->folder, folder, error);
  if (status != STATUS_OK) return status;
  folder_read_environment(&run->folder, 0, theirs, sizeof(theirs));
  if (theirs[0] && strcmp(theirs, run->identity) != 0)
    return status_fail(error, STATUS_MISMATCH,
                       "%s is a run of %s, the model's environment is %s: serve it by another name",
                       folder, theirs, run->identity);
  status = run_take_environment(run, &self->options, error);
  if (status == STATUS_OK) status = run_make_network(run, error);
  if (status != STATUS_OK) return status;
  served_describe(&own, run);
  if (memcmp(&own, self->signature, sizeof(own)) == 0) return STATUS_OK;
  return status_fail(error, STATUS_MISMATCH,
                     "%s takes other inputs or gives other outputs than the model's first version: "
                     "serve it by another name",
                     folder);
}

/* The parameters alone: an optimiser's state is not needed. */
static enum status read_params(struct served *self, const char *folder, const char *file,
                               struct error *error) {
  static const char prefix[] = "params/";
  struct checkpoint_item items[NETWORK_MAX_PARAMETERS], theirs[CHECKPOINT_MAX_ITEMS];
  int count, num_theirs, num_params = 0;
  const struct network *network = self->run.network;
  const struct network_parameter *parameter = network_parameters(network, &count);
  size_t P = network_num_parameters(network);
  float *host = check_alloc(P + 1, sizeof(*host));
  for (int i = 0; i < count; i++) items[i] = train_state_item("params", host, &parameter[i]);
  enum status status = checkpoint_read(file, items, count, error);
  if (status == STATUS_OK) status = checkpoint_list(file, theirs, &num_theirs, error);
  for (int i = 0; status == STATUS_OK && i < num_theirs; i++)
    num_params += strncmp(theirs[i].name, prefix, strlen(prefix)) == 0;
  if (status == STATUS_OK && num_params != count)
    status = status_fail(error, STATUS_MISMATCH,
                         "%s has %d arrays of parameters, the network of %s/config.txt %d: it is "
                         "of another run",
                         file, num_params, folder, count);
  if (status == STATUS_OK)
    self->run.inference_device->ops->upload(self->run.inference_device, self->params, host, P);
  free(host);
  return status;
}

static void make_predictor(struct served *self, int max_rows, int num_slots) {
  const struct run *run = &self->run;
  struct device *device = run->inference_device;
  const struct acting acting = {.device = device,
                                .network = run->network,
                                .policy = run->policy,
                                .shape = run->shape,
                                .max_rows = max_rows};
  self->params = device->ops->alloc(
      device, network_num_parameters(run->network) * device->ops->real_bytes + 1);
  predictor_init(&self->predictor, &acting, &run->space, num_slots);
}

enum status served_open(struct served *self, const char *folder, const char *file,
                        const struct learner_options *options, const struct run *of,
                        const struct signature *signature, int max_rows, int num_slots,
                        struct error *error) {
  self->options = *options;
  self->signature = signature;
  enum status status = make_run(self, folder, of, error);
  if (status != STATUS_OK) return status;
  make_predictor(self, max_rows, num_slots);
  status = read_params(self, folder, file, error);
  if (status == STATUS_OK) acting_set_params(&self->predictor.acting, self->params);
  return status;
}

void served_close(struct served *self) {
  struct device *device = self->run.inference_device;
  predictor_deinit(&self->predictor);
  if (self->params) device->ops->release(device, self->params);
  run_destroy(&self->run);
  options_deinit(&learner_options_table, &self->options);
}

/* ---- a batch */

enum status served_check(const struct served *self, const struct request *request,
                         struct error *error) {
  int mask = self->signature->mask;
  for (int i = 0; mask >= 0 && i < request->rows; i++)
    if (!space_mask_allows(&self->run.space,
                           request_row(request, &self->signature->input[mask], i)))
      return status_fail(error, STATUS_INVALID,
                         "input 'action_mask': row %d allows no action (of a choice)", i);
  return STATUS_OK;
}

/* The rows of a request, from the batch's `row` on. Returns how many. */
static int put_in(struct served *self, const struct request *request, int row) {
  const struct run *run = &self->run;
  const struct tensor *input = self->signature->input;
  bool lacks_past = request->slot < 0 && self->signature->remembers;
  uint8_t flags = lacks_past || request->start ? STEP_FIRST : 0;
  for (int i = 0; i < request->rows; i++, row++) {
    float reward = 0;
    for (int k = 0; k < run->space.num_tensors; k++)
      memcpy(predictor_tensor(&self->predictor, row, k), request_row(request, &input[k], i),
             input[k].bytes);
    if (run->inputs.use_reward)
      memcpy(&reward, request_row(request, &input[run->space.num_tensors], i), sizeof(reward));
    predictor_enter(&self->predictor, row, request->slot, flags, reward, true);
  }
  return request->rows;
}

static void put_action(const struct served *self, int row, uint8_t *to) {
  const struct space *space = &self->run.space;
  if (space->box) {
    predictor_send(&self->predictor, to, row);
    return;
  }
  const int32_t *chosen = acting_action(&self->predictor.acting, &self->predictor.batch, row);
  for (int c = 0; c < space_num_choices(&space->choices); c++) ((int64_t *)to)[c] = chosen[c];
}

/* A row's numbers of an output that is not the action. */
static const float *numbers_of(const struct served *self, const struct tensor *tensor, int row) {
  const struct network *network = self->run.network;
  size_t stride = (size_t)network_head_stride(network);
  const float *head = self->predictor.head + (size_t)row * stride; /* logits, or mean, come first */
  if (strcmp(tensor->name, "q") == 0) return self->predictor.values + (size_t)row * tensor->count;
  if (strcmp(tensor->name, "value") == 0) return head + network_head_size(network);
  return strcmp(tensor->name, "log_std") == 0 ? head + stride - tensor->count : head;
}

/* As learner/learn/squashed_normal.c limits it. */
static void limit_log_std(float *log_std, size_t count) {
  for (size_t i = 0; i < count; i++) log_std[i] = fminf(fmaxf(log_std[i], -20), 2);
}

/* The action is the first output. */
static void take_out(const struct served *self, const struct request *request, int i, int row) {
  const struct signature *signature = self->signature;
  uint8_t *to = request->output + (size_t)i * signature->output_bytes;
  put_action(self, row, to + signature->output[0].offset);
  for (int k = 1; k < signature->num_outputs; k++) {
    const struct tensor *tensor = &signature->output[k];
    memcpy(to + tensor->offset, numbers_of(self, tensor, row), tensor->bytes);
    if (strcmp(tensor->name, "log_std") == 0 && self->run.policy == &policy_squashed_normal)
      limit_log_std((float *)(to + tensor->offset), tensor->count);
  }
}

void served_answer(struct served *self, const struct request *requests, int rows) {
  predictor_begin(&self->predictor, rows);
  int row = 0;
  for (const struct request *r = requests; r; r = r->next) row += put_in(self, r, row);
  predictor_choose(&self->predictor);
  row = 0;
  for (const struct request *r = requests; r; r = r->next)
    for (int i = 0; i < r->rows; i++) take_out(self, r, i, row++);
}
