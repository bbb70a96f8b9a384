#include "learner/run/run_network.h"

#include <stdlib.h>
#include <string.h>

#include "common/wire/wire.h"
#include "learner/learn/algorithms.h"
#include "learner/network/images.h"

/* ---- what it reads */

static void add_tensor(struct device_inputs *inputs, const struct space_tensor *tensor,
                       size_t row_offset) {
  int k = inputs->num_tensors++;
  inputs->tensor[k].dtype = tensor->dtype;
  inputs->tensor[k].count = (int)(space_tensor_bytes(tensor) / dtype_bytes(tensor->dtype));
  inputs->tensor[k].row_offset = row_offset;
  images_describe(inputs, k, tensor);
}

void run_network_inputs(struct device_inputs *inputs, const struct space *space,
                        const struct learner_options *options) {
  struct wire_layout layout;
  wire_layout_of_space(&layout, space, 1);
  int mask = space_mask(space);
  inputs->row_stride = layout.row_stride;
  inputs->num_tensors = 0;
  for (int i = 0; i < space->num_tensors; i++)
    if (i != mask) add_tensor(inputs, &space->tensor[i], layout.tensor[i].row_offset);
  inputs->masked = mask >= 0;
  if (inputs->masked) inputs->mask_offset = layout.tensor[mask].row_offset;
  inputs->discrete = space->discrete;
  inputs->choices = space->choices;
  inputs->box = space->box;
  inputs->use_previous_action = options->previous_action;
  inputs->use_reward = options->previous_reward;
  inputs->raw_reward = !options->clip_reward_input;
}

/* ---- the network */

/* "64,64" or "none". */
static enum status parse_hidden(struct network_config *config, const char *text,
                                struct error *error) {
  config->num_layers = 0;
  if (strcmp(text, "none") == 0 || !text[0]) return STATUS_OK;
  for (const char *p = text;; p++) {
    char *end;
    long size = strtol(p, &end, 10);
    if (end == p || size < 1 || size > 65536 || (*end && *end != ','))
      return status_fail(error, STATUS_INVALID,
                         "--hidden=%s: sizes separated by commas (64,64), or none", text);
    if (config->num_layers == NETWORK_MAX_LAYERS)
      return status_fail(error, STATUS_INVALID, "--hidden=%s: at most %d layers", text,
                         NETWORK_MAX_LAYERS);
    config->hidden[config->num_layers++] = (int)size;
    p = end;
    if (!*p) return STATUS_OK;
  }
}

/* A head that says what each action is worth. */
static void describe_values(struct network_config *config, const struct learner_options *options) {
  int A = config->head_size, Z = (int)options->atoms;
  config->values = (struct action_values){.A = A,
                                          .Z = Z,
                                          .dueling = options->dueling,
                                          .low = (float)options->value_low,
                                          .high = (float)options->value_high};
  config->head_size = A * Z;
  config->value_size = options->dueling ? Z : 0;
  config->noisy = options->noisy;
}

/* As the devices compute the atoms, in float32. */
static enum status check_atoms(const struct action_values *values,
                               const struct learner_options *options, struct error *error) {
  float before = values->low;
  for (int z = 1; z < values->Z; z++) {
    float atom = values->low + (values->high - values->low) * (float)z / (float)(values->Z - 1);
    if (!(atom > before))
      return status_fail(error, STATUS_INVALID,
                         "--value_low=%.15g and --value_high=%.15g: in float32 atoms %d and %d of "
                         "%d coincide: give a wider range, or fewer --atoms",
                         options->value_low, options->value_high, z - 1, z, values->Z);
    before = atom;
  }
  return STATUS_OK;
}

enum status run_network_create(struct network **out, const struct device_inputs *inputs,
                               const struct space *space, const struct policy *policy,
                               const struct learner_options *options, struct error *error) {
  const char *own = algorithms_find(options->agent)->network;
  struct network_config config = {
      .network = own[0] ? own : options->network,
      .inputs = *inputs,
      .head_size = policy->head_size(space),
      .value_size = policy->without_value ? 0 : 1,
      .log_stds = policy->log_stds ? policy->log_stds(space) : 0,
      .head_hidden = (int)options->head_hidden,
      .normalize = options->normalize_observations,
      .normalize_images = options->normalize_images,
      .scale_value = options->algorithm.actor_critic.normalize_values,
      .lstm_size = (int)options->lstm_size,
      .activation = strcmp(options->activation, "relu") == 0 ? ACTIVATION_RELU : ACTIVATION_TANH};
  if (policy->action_values) describe_values(&config, options);
  enum status status = check_atoms(&config.values, options, error);
  if (status == STATUS_OK) status = parse_hidden(&config, options->hidden, error);
  return status == STATUS_OK ? network_create(out, &config, error) : status;
}

struct step_shape run_network_shape(const struct network *network, const struct space *space,
                                    const struct policy *policy) {
  const struct device_inputs *inputs = network_inputs(network);
  return (struct step_shape){.row_stride = inputs->row_stride,
                             .action_bytes = space_action_bytes(space),
                             .box = space->box > 0,
                             .statistics = policy->statistics,
                             .state_size = network_state_size(network),
                             .footprint = inputs->stack > 1 ? inputs->stack - 1 : 0};
}
