#include "learner/run_environment.h"

#include <stdio.h>
#include <string.h>

#include "envs/registry.h"
#include "learner/serve/greeter.h"

/* From the environment's own code, which this process does not let in. */
static enum status ask_environment(struct run *run, struct error *error) {
  const struct acorn_env *env;
  struct acorn_config config;
  enum status status = registry_find(&env, run->options->env, error);
  if (status != STATUS_OK) return status;
  status = registry_config(&config, env, run->options->env_args, error);
  if (status != STATUS_OK) return status;
  unsigned limit_s = (unsigned)run->options->hang_s;
  status = registry_space_apart(&run->space, env, &config, limit_s, error);
  registry_identity(run->identity, sizeof(run->identity), env, &config);
  registry_config_deinit(&config);
  return status;
}

/* From the first actor that joins: its environment is none that is known here. */
static enum status ask_actor(struct run *run, struct error *error) {
  struct wire_join_request first;
  enum status status = greeter_wait(&first, run->options->listen, run->credentials, error);
  if (status != STATUS_OK) return status;
  run->space = first.space;
  snprintf(run->identity, sizeof(run->identity), "%s", first.environment);
  return STATUS_OK;
}

/* How a network reads a row. */
static void describe_inputs(struct run *run) {
  struct wire_layout layout;
  wire_layout_of_space(&layout, &run->space, 1);
  struct device_inputs *inputs = &run->inputs;
  inputs->row_stride = layout.row_stride;
  inputs->num_tensors = run->space.num_tensors;
  for (int i = 0; i < run->space.num_tensors; i++) {
    const struct space_tensor *tensor = &run->space.tensor[i];
    inputs->tensor[i].dtype = tensor->dtype;
    inputs->tensor[i].count = (int)(space_tensor_bytes(tensor) / dtype_bytes(tensor->dtype));
    inputs->tensor[i].row_offset = layout.tensor[i].row_offset;
    if (tensor->rank != 2 && tensor->rank != 3) continue;
    inputs->tensor[i].height = (int)tensor->shape[0];
    inputs->tensor[i].width = (int)tensor->shape[1];
    inputs->tensor[i].channels = tensor->rank == 3 ? (int)tensor->shape[2] : 1;
  }
  device_inputs_set_action(inputs, &run->space);
  inputs->use_previous_action = run->options->previous_action;
  inputs->use_reward = run->options->previous_reward;
  inputs->raw_reward = !run->options->clip_reward_input;
  inputs->stack = (int)run->options->frame_stack;
}

enum status run_find_environment(struct run *run, struct error *error) {
  bool joins = strcmp(run->options->env, "join") == 0;
  enum status status = joins ? ask_actor(run, error) : ask_environment(run, error);
  if (status != STATUS_OK) return status;
  snprintf(run->env_name, sizeof(run->env_name), "%.*s", (int)strcspn(run->identity, "("),
           run->identity);
  if (run->agent->policy->head_size(&run->space)) {
    describe_inputs(run);
    return STATUS_OK;
  }
  return status_fail(error, STATUS_INVALID,
                     "environment '%s' has %s actions; agent '%s' needs %s ones", run->env_name,
                     run->space.discrete ? "discrete" : "continuous", run->options->agent,
                     run->agent->policy->actions);
}
