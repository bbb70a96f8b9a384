#include "learner/run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/check.h"
#include "common/base/log.h"
#include "envs/registry.h"
#include "learner/gauges.h"
#include "learner/serve/greeter.h"

enum { GOODBYE_US = 3 * 1000 * 1000, LINGER_US = 10 * 1000 * 1000 };

/* ---- what the environment looks like */

/* From the environment's own code. */
static enum status ask_environment(struct run *run, struct error *error) {
  const struct acorn_env *env;
  struct acorn_config config;
  enum status status = registry_find(&env, run->options->env, error);
  if (status != STATUS_OK) return status;
  status = registry_config(&config, env, run->options->env_args, error);
  if (status != STATUS_OK) return status;
  status = registry_space(&run->space, env, &config, error);
  registry_identity(run->identity, sizeof(run->identity), env, &config);
  registry_config_deinit(&config);
  return status;
}

/* From the first actor that joins: its environment is none that is known here. */
static enum status ask_actor(struct run *run, struct error *error) {
  struct wire_join_request first;
  enum status status = greeter_wait(&first, run->options->listen, error);
  if (status != STATUS_OK) return status;
  run->space = first.space;
  snprintf(run->identity, sizeof(run->identity), "%s", first.environment);
  return STATUS_OK;
}

static enum status find_space(struct run *run, struct error *error) {
  bool joins = strcmp(run->options->env, "join") == 0;
  enum status status = joins ? ask_actor(run, error) : ask_environment(run, error);
  if (status != STATUS_OK) return status;
  snprintf(run->env_name, sizeof(run->env_name), "%.*s", (int)strcspn(run->identity, "("),
           run->identity);
  if (run->space.discrete) return STATUS_OK;
  return status_fail(error, STATUS_INVALID,
                     "environment '%s' has continuous actions; agent '%s' needs discrete ones",
                     run->env_name, run->options->agent);
}

/* How a network reads a row. */
static void describe_inputs(struct run *run) {
  struct wire_layout layout;
  wire_layout_of_space(&layout, &run->space, 1);
  struct device_inputs *inputs = &run->inputs;
  inputs->row_stride = layout.row_stride;
  inputs->num_tensors = run->space.num_tensors;
  for (int i = 0; i < run->space.num_tensors; i++) {
    const struct wire_tensor_spec *tensor = &run->space.tensor[i];
    size_t element = tensor->dtype == WIRE_UINT8 ? 1 : 4;
    inputs->tensor[i].dtype = (enum device_dtype)tensor->dtype;
    inputs->tensor[i].count = (int)(wire_tensor_spec_bytes(tensor) / element);
    inputs->tensor[i].row_offset = layout.tensor[i].row_offset;
    if (tensor->rank != 2 && tensor->rank != 3) continue;
    inputs->tensor[i].height = (int)tensor->shape[0];
    inputs->tensor[i].width = (int)tensor->shape[1];
    inputs->tensor[i].channels = tensor->rank == 3 ? (int)tensor->shape[2] : 1;
  }
  inputs->num_actions = run->space.discrete;
  inputs->use_previous_action = run->options->previous_action;
  inputs->use_reward = run->options->previous_reward;
  inputs->stack = (int)run->options->frame_stack;
}

/* ---- the network */

/* "64,64" or "none". */
static enum status parse_hidden(struct agent_config *config, const char *text,
                                struct error *error) {
  config->num_layers = 0;
  if (strcmp(text, "none") == 0 || !text[0]) return STATUS_OK;
  for (const char *p = text;; p++) {
    char *end;
    long size = strtol(p, &end, 10);
    if (end == p || size < 1 || size > 65536 || (*end && *end != ','))
      return status_fail(error, STATUS_INVALID,
                         "--hidden=%s: sizes separated by commas (64,64), or none", text);
    if (config->num_layers == AGENT_MAX_LAYERS)
      return status_fail(error, STATUS_INVALID, "--hidden=%s: at most %d layers", text,
                         AGENT_MAX_LAYERS);
    config->hidden[config->num_layers++] = (int)size;
    p = end;
    if (!*p) return STATUS_OK;
  }
}

static enum status make_agent(struct run *run, struct error *error) {
  const struct learner_options *options = run->options;
  bool learns = strcmp(options->agent, "vtrace") == 0;
  struct agent_config config = {
      .network = learns ? options->network : options->agent,
      .inputs = run->inputs,
      .lstm_size = (int)options->lstm_size,
      .activation = strcmp(options->activation, "relu") == 0 ? ACTIVATION_RELU : ACTIVATION_TANH};
  enum status status = parse_hidden(&config, options->hidden, error);
  if (status == STATUS_OK) status = agent_create(&run->agent, &config, error);
  if (status == STATUS_OK)
    status = device_create_with(&run->inference_device, options->device, options->precision, error);
  if (status == STATUS_OK)
    status = device_create_with(&run->trainer_device, options->device, options->precision, error);
  return status;
}

/* ---- training */

static struct update_config update_config(const struct learner_options *o) {
  return (struct update_config){.T = (int)o->unroll_length,
                                .N = (int)o->batch_size,
                                .discount = o->discount,
                                .lambda = o->lambda,
                                .rho_clip = o->rho_clip,
                                .c_clip = o->c_clip,
                                .pg_rho_clip = o->pg_rho_clip,
                                .reward_clip = o->reward_clip,
                                .baseline_cost = o->baseline_cost,
                                .entropy_cost = o->entropy_cost,
                                .kl_cost = o->kl_cost,
                                .target_entropy = o->target_entropy,
                                .entropy_adjustment_speed = o->entropy_adjustment_speed,
                                .optimizer = o->optimizer,
                                .learning_rate = o->learning_rate,
                                .learning_rate_decay = o->learning_rate_decay,
                                .total_steps = o->total_steps,
                                .adam_beta1 = o->adam_beta1,
                                .adam_beta2 = o->adam_beta2,
                                .adam_epsilon = o->adam_epsilon,
                                .rmsprop_decay = o->rmsprop_decay,
                                .rmsprop_momentum = o->rmsprop_momentum,
                                .rmsprop_epsilon = o->rmsprop_epsilon,
                                .max_gradient_norm = o->max_gradient_norm,
                                .seed = (uint64_t)o->seed};
}

static void make_experience(struct run *run) {
  const struct learner_options *options = run->options;
  int T = (int)options->unroll_length, state = agent_state_size(run->agent);
  int footprint = run->inputs.stack - 1;
  struct pages_config pages = {.num_slots = run->num_train_slots,
                               .num_pages = pages_needed_stacked(run->num_train_slots, footprint),
                               .page_steps = T,
                               .row_stride = run->inputs.row_stride,
                               .state_size = state,
                               .stagger = true,
                               .footprint = footprint};
  run->pages = pages_create(run->inference_device, &pages);
  struct fifo_config fifo = {T,
                             (int)options->batch_size,
                             run->inputs.row_stride,
                             state,
                             options->max_lag,
                             run->fifo_wait_us,
                             run->trainer_wait_us,
                             footprint};
  run->fifo = fifo_create(run->inference_device, &fifo);
}

/* The update holds the parameters, so evaluation needs it too; the rest only when something is
 * trained. */
static enum status make_training(struct run *run, const struct run_callbacks *callbacks,
                                 struct error *error) {
  if (agent_num_parameters(run->agent) == 0) return STATUS_OK;
  struct update_config config = update_config(run->options);
  enum status status = update_create(&run->update, run->trainer_device, run->agent, &config, error);
  if (status != STATUS_OK) return status;
  if (run->trains) make_experience(run);
  struct trainer_config trainer = {callbacks->on_saved, callbacks->context, run->window_lag_updates,
                                   run->update_us};
  run->trainer = trainer_create(&trainer, run->trainer_device, run->update, run->fifo, run->weights,
                                run->progress);
  trainer_set_counter(run->trainer, TRAINER_SEED, run->options->seed);
  return STATUS_OK;
}

/* ---- checkpoints */

static enum status load(struct run *run, struct error *error) {
  struct checkpoint_item items[CHECKPOINT_MAX_ITEMS];
  int64_t updates;
  int count = trainer_items(run->trainer, items);
  const char *file = run->evaluates ? run->options->checkpoint : "";
  enum status status =
      file[0] ? checkpoint_read(file, items, count, error)
              : checkpoint_read_newest(run->folder.checkpoints, items, count, &updates, error);
  if (status != STATUS_OK) return status;
  trainer_load(run->trainer);
  updates = trainer_report(run->trainer).updates;
  int64_t steps = trainer_counter(run->trainer, TRAINER_STEPS);
  log_info("%s the checkpoint of update %lld, step %lld, in %s",
           run->evaluates ? "playing" : "resuming from", (long long)updates, (long long)steps,
           run->folder.path);
  if (run->evaluates) return STATUS_OK;
  progress_restore(run->progress, steps, trainer_counter(run->trainer, TRAINER_EPISODES));
  trainer_set_counter(run->trainer, TRAINER_RESTARTS,
                      trainer_counter(run->trainer, TRAINER_RESTARTS) + 1);
  run->resumed = true;
  return STATUS_OK;
}

/* The folder that is continued must hold a run of the same environment and agent. */
static enum status check_same_run(const struct run *run, struct error *error) {
  if (!run->folder.held_run || !run->options->resume) return STATUS_OK;
  char path[1024], theirs[WIRE_ENVIRONMENT_BYTES];
  snprintf(path, sizeof(path), "%s/config.txt", run->folder.path);
  folder_read_environment(&run->folder, theirs, sizeof(theirs));
  struct learner_options earlier;
  options_init(&learner_options_table, &earlier);
  enum status status = options_read_file(&learner_options_table, &earlier, path, error);
  bool same_env =
      theirs[0] ? strcmp(run->identity, theirs) == 0 : strcmp(run->options->env, earlier.env) == 0;
  if (status == STATUS_OK && !(same_env && strcmp(run->options->agent, earlier.agent) == 0))
    status = status_fail(error, STATUS_MISMATCH,
                         "%s holds a run of %s %s, this one is %s %s: resume with the same words, "
                         "or choose another --logdir",
                         run->folder.path, theirs[0] ? theirs : earlier.env, earlier.agent,
                         run->identity, run->options->agent);
  options_deinit(&learner_options_table, &earlier);
  return status;
}

/* A run that has had its steps ends at once, without waiting for actors. */
static void end_if_finished(struct run *run) {
  int64_t steps = progress_steps(run->progress), total = run->options->total_steps;
  if (!run->resumed || steps < total) return;
  log_info(
      "this run is finished: it has had %lld of its %lld steps; a larger --total_steps "
      "continues it",
      (long long)steps, (long long)total);
  progress_stop(run->progress, STOP_TOTAL_STEPS);
}

/* A resumed run without a checkpoint starts anew; an evaluated one must have one. */
static enum status load_if_wanted(struct run *run, struct error *error) {
  if (!run->trainer || (!run->options->resume && !run->evaluates)) return STATUS_OK;
  enum status status = load(run, error);
  if (status == STATUS_NOT_FOUND && !run->evaluates) {
    if (run->folder.held_run)
      log_warn("no checkpoint in %s yet: the run starts anew", run->folder.checkpoints);
    return STATUS_OK;
  }
  return status;
}

static enum status write_items(struct run *run, struct error *error) {
  struct checkpoint_item items[CHECKPOINT_MAX_ITEMS];
  int count = trainer_items(run->trainer, items);
  return checkpoint_write(run->folder.checkpoints, trainer_saved_updates(run->trainer), items,
                          count, (int)run->options->checkpoints_kept, error);
}

enum status run_write_saved(struct run *run, struct error *error) {
  return write_items(run, error);
}

enum status run_write_checkpoint(struct run *run, struct error *error) {
  trainer_save_now(run->trainer);
  return write_items(run, error);
}

/* ---- serving */

static void make_serving(struct run *run) {
  const struct learner_options *options = run->options;
  int slots = run->num_train_slots + run->num_eval_slots;
  uint32_t restarts = run->trainer ? (uint32_t)trainer_counter(run->trainer, TRAINER_RESTARTS) : 0;
  struct leases_config leases = {
      .max_train = run->num_train_slots,
      .max_eval = run->num_eval_slots,
      .seed = (uint64_t)options->seed,
      .first_life = restarts << 16,
      .deterministic_envs = options->deterministic ? (int)options->num_envs : 0};
  if (run->evaluates) {
    leases.seed_base = (uint64_t)options->seed;
    leases.seed_stride = (uint64_t)options->num_envs;
  }
  run->leases = leases_create(&leases);

  /* Room for each environment's row, and as much again for rows of actors that died. */
  struct batcher_config batcher = {
      .max_clients = slots,
      .max_rows = 2 * slots,
      .row_stride = run->inputs.row_stride,
      .target_rows = (int)options->target_rows,
      .max_wait_us = options->max_wait_us,
      .late_us = options->late_us,
      .barrier_rows = options->deterministic ? (int)options->num_envs : 0};
  run->batcher = batcher_create(&batcher);

  struct ingress_config ingress = {.environment = run->identity,
                                   .space = run->space,
                                   .num_train_slots = run->num_train_slots,
                                   .num_queues = options->queues ? (int)options->queues : 1,
                                   .evaluate = run->evaluates,
                                   .deterministic = options->deterministic};
  run->ingress = ingress_create(&ingress, run->leases, run->batcher, run->progress);

  struct inference_config inference = {.num_slots = slots,
                                       .num_train_slots = run->num_train_slots,
                                       .max_rows = batcher.max_rows,
                                       .seed = (uint64_t)options->seed,
                                       .greedy_eval = strcmp(options->policy, "greedy") == 0,
                                       .lockstep = options->deterministic,
                                       .count_eval_steps = run->evaluates};
  run->inference =
      inference_create(&inference, run->inference_device, run->agent, &run->inputs, run->weights,
                       run->batcher, run->pages, run->fifo, run->progress, &run->inference_metrics);
}

/* ---- */

/* With --deterministic only training episodes come in an order that repeats. */
static enum progress_over result_over(const struct run *run) {
  const struct learner_options *options = run->options;
  if (run->evaluates || strcmp(options->over, "eval") == 0) return OVER_EVAL;
  bool by_itself = strcmp(options->over, "auto") == 0 && !options->deterministic;
  return by_itself ? OVER_AUTO : OVER_TRAIN;
}

static void make_progress(struct run *run, const struct run_callbacks *callbacks) {
  const struct learner_options *options = run->options;
  struct progress_config config = {
      .total_steps = run->evaluates ? 0 : options->total_steps,
      .target_return = options->target_return,
      .over = result_over(run),
      .quota_episodes = run->evaluates ? options->episodes : 0,
      .quota_environments = run->evaluates ? (int)options->num_envs : 0,
      .max_kept = options->deterministic ? run->num_train_slots : 0,
      .on_stop = callbacks->on_stop,
      .context = callbacks->context};
  run->progress = progress_create(&config);
}

static enum status open_folder(struct run *run, struct error *error) {
  const struct learner_options *options = run->options;
  if (!run->evaluates)
    return folder_open(&run->folder, options->logdir, run->env_name, options->agent,
                       options->resume, error);
  if (strcmp(options->agent, "vtrace") == 0)
    return folder_open_read_only(&run->folder, options->logdir, error);
  return STATUS_OK;
}

/* How many environments of each kind there may be. With a barrier training rows stand at their
 * slots, so there are exactly as many as are expected. */
static void count_slots(struct run *run) {
  const struct learner_options *options = run->options;
  int64_t expected = options->num_envs;
  run->num_eval_slots = (int)(run->evaluates ? expected : options->num_eval_envs);
  if (run->evaluates)
    run->num_train_slots = 0;
  else if (options->deterministic)
    run->num_train_slots = (int)expected;
  else
    run->num_train_slots = (int)(options->max_envs ? options->max_envs : 2 * expected);
}

/* What the sizes come to, so that a slip of the keyboard is a sentence and not a machine that
 * swaps: rows of experience, training batches with their activations, parameters with the
 * optimiser's. */
static enum status check_memory(const struct run *run, struct error *error) {
  const struct learner_options *o = run->options;
  double row = (double)run->inputs.row_stride + 64 + 8.0 * agent_state_size(run->agent);
  double steps = (double)pages_needed_stacked(run->num_train_slots, run->inputs.stack - 1) *
                     (double)o->unroll_length +
                 2.0 * (double)o->batch_size * (double)(o->unroll_length + 1);
  double activations = 64.0 * (double)(o->lstm_size + 4 * AGENT_MAX_LAYERS * 64) *
                       (double)o->batch_size * (double)(o->unroll_length + 1) / 16;
  activations += 4.0 * (double)agent_numbers_per_row(run->agent) * (double)o->batch_size *
                 (double)(o->unroll_length + 1);
  double bytes = row * steps + activations + 32.0 * (double)agent_num_parameters(run->agent);
  double room = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
  if (bytes < 0.8 * room) return STATUS_OK;
  return status_fail(error, STATUS_INVALID,
                     "these sizes need about %.0f GiB and the machine has %.0f: give smaller "
                     "--batch_size, --unroll_length, --num_envs or --hidden",
                     bytes / 0x1p30, room / 0x1p30);
}

enum status run_create(struct run *run, const struct learner_options *options,
                       const struct run_callbacks *callbacks, struct error *error) {
  *run = (struct run){.options = options, .folder.lock = -1};
  run->evaluates = strcmp(options->mode, "evaluate") == 0;
  run->trains = !run->evaluates && strcmp(options->agent, "vtrace") == 0;
  count_slots(run);

  enum status status = find_space(run, error);
  if (status == STATUS_OK) status = open_folder(run, error);
  if (status == STATUS_OK) status = check_same_run(run, error);
  if (status != STATUS_OK) return status;
  describe_inputs(run);
  status = make_agent(run, error);
  if (status != STATUS_OK) return status;
  status = check_memory(run, error);
  if (status != STATUS_OK) return status;
  gauges_create(run);
  make_progress(run, callbacks);
  run->weights = weights_create(run->inference_device, agent_num_parameters(run->agent));
  status = make_training(run, callbacks, error);
  if (status == STATUS_OK) status = load_if_wanted(run, error);
  if (status != STATUS_OK) return status;
  end_if_finished(run);
  make_serving(run);
  return STATUS_OK;
}

/* In the worst case every environment has an actor, and so a connection, of its own. */
static void warn_of_few_files(int environments) {
  int connections = rpc_server_max_connections();
  if (environments <= connections) return;
  log_warn(
      "there is room for %d environments, but files for %d connections only: raise the limit "
      "of open files (ulimit -n) if each has an actor of its own",
      environments, connections);
}

enum status run_start(struct run *run, struct error *error) {
  size_t slots = (size_t)(run->num_train_slots + run->num_eval_slots);
  struct serve_config config = {
      .listen = run->options->listen,
      .queues = (int)run->options->queues,
      .max_message_bytes = ingress_max_message_bytes(&run->space, (int)slots)};
  enum status status = serve_start(&run->serve, &config, run->ingress, run->leases, run->batcher,
                                   run->inference, error);
  if (status != STATUS_OK) return status;
  warn_of_few_files((int)slots);
  if (run->trains) trainer_start(run->trainer);
  return STATUS_OK;
}

/* What actors hear: a finished run sends them home, an interrupted one lets them come back. */
static void say_why(struct run *run) {
  switch (progress_stopped(run->progress)) {
    case STOP_SIGNAL:
      ingress_stop(run->ingress, RPC_UNAVAILABLE, "the learner is stopping");
      break;
    case STOP_ERROR:
      ingress_stop(run->ingress, RPC_FAILED_PRECONDITION, "the learner has failed");
      break;
    default:
      ingress_stop(run->ingress, RPC_OK, "training done");
  }
}

void run_stop_training(struct run *run) {
  say_why(run);
  if (!run->trains) return;
  fifo_close(run->fifo);
  trainer_join(run->trainer);
  progress_close(run->progress);
}

void run_say_goodbye(struct run *run, const volatile sig_atomic_t *hurry) {
  bool interrupted = progress_stopped(run->progress) == STOP_SIGNAL;
  serve_stop(run->serve, GOODBYE_US, interrupted ? 0 : LINGER_US, hurry);
}

void run_destroy(struct run *run) {
  serve_destroy(run->serve);
  inference_destroy(run->inference);
  ingress_destroy(run->ingress);
  batcher_destroy(run->batcher);
  leases_destroy(run->leases);
  trainer_destroy(run->trainer);
  if (run->fifo) fifo_destroy(run->fifo);
  if (run->pages) pages_destroy(run->pages);
  if (run->update) update_destroy(run->update);
  if (run->weights) weights_destroy(run->weights);
  progress_destroy(run->progress);
  if (run->agent) agent_destroy(run->agent);
  if (run->trainer_device) device_destroy(run->trainer_device);
  if (run->inference_device) device_destroy(run->inference_device);
  if (run->metrics) metrics_destroy(run->metrics);
  free(run->gauges);
  folder_close(&run->folder);
}
