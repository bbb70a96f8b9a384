#include "learner/run/run_parts.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/process.h"
#include "common/cluster/mpi_world.h"
#include "learner/device/create.h"
#include "learner/run/run_experience.h"
#include "learner/run/run_network.h"
#include "learner/run/run_options.h"
#include "learner/run/run_replay.h"

/* ---- the network and its devices */

/* An MPI rank may have cores of its own already, or share the machine's. */
static long share_of_rank(const struct learner_options *options, long cores, long machine_cores) {
  long share = machine_cores / mpi_world_of_host((int)options->learners);
  return share < cores ? share : cores;
}

int run_trainer_threads(const struct learner_options *options, long cores, long machine_cores) {
  enum { MOST_CHOSEN = 4 };
  if (strcmp(options->mode, "train") != 0) return 1;
  if (options->trainer_threads > 0) return (int)options->trainer_threads;
  long share = options->learners_mpi     ? share_of_rank(options, cores, machine_cores)
               : options->learners_at[0] ? cores
                                         : cores / options->learners;
  return share < 1 ? 1 : share < MOST_CHOSEN ? (int)share : MOST_CHOSEN;
}

static void share_updates(struct device *trainer, const char *name,
                          const struct learner_options *options) {
  if (strcmp(name, "cpu") == 0)
    device_cpu_use_threads(
        trainer, run_trainer_threads(options, process_cores(), sysconf(_SC_NPROCESSORS_ONLN)));
  else if (options->trainer_threads > 1)
    log_info("--trainer_threads=%d is ignored: it is for --device=cpu, and this is %s",
             (int)options->trainer_threads, name);
}

static enum status make_devices(struct run *run, struct error *error) {
  const struct learner_options *options = run->options;
  struct error reason;
  struct device_options device = {.name = device_choose(options->device, &reason),
                                  .precision = options->precision,
                                  .gpu = (int)options->gpu,
                                  .memory_mib = options->gpu_memory_mib,
                                  .urgent = true};
  if (reason.text[0]) log_info("--device=auto: computing on the CPU: %s", reason.text);
  enum status status = device_create_by(&run->inference_device, &device, error);
  if (status == STATUS_UNAVAILABLE && strcmp(options->device, "auto") == 0) {
    log_info("--device=auto: computing on the CPU: %s", error->text);
    device.name = "cpu";
    status = device_create_by(&run->inference_device, &device, error);
  }
  device.urgent = false;
  if (status == STATUS_OK) status = device_create_by(&run->trainer_device, &device, error);
  if (status == STATUS_OK && run->trains) share_updates(run->trainer_device, device.name, options);
  bool saves = run->trains && run_replays(run) && options->checkpoint_replay;
  if (status == STATUS_OK && saves) status = device_create_by(&run->saver_device, &device, error);
  return status;
}

enum status run_make_network(struct run *run, struct error *error) {
  enum status status = run_network_create(&run->network, &run->inputs, &run->space, run->policy,
                                          run->options, error);
  if (status == STATUS_OK) status = make_devices(run, error);
  if (status == STATUS_OK) run->shape = run_network_shape(run->network, &run->space, run->policy);
  return status;
}

/* ---- exploration */

void run_plan_exploration(struct run *run) {
  const struct learner_options *options = run->options;
  enum exploration_kind kind = strcmp(options->exploration, "linear") == 0 ? EXPLORATION_LINEAR
                               : strcmp(options->exploration, "constant") == 0
                                   ? EXPLORATION_CONSTANT
                                   : EXPLORATION_PER_ENVIRONMENT;
  run->exploration = (struct exploration){.kind = kind,
                                          .environments = (int)options->num_envs,
                                          .start = options->epsilon_start,
                                          .end = options->epsilon_end,
                                          .steps = options->epsilon_steps,
                                          .evaluation = options->eval_epsilon};
}

/* ---- how far it is */

/* With --deterministic only training episodes come in an order that repeats. */
static enum progress_over result_over(const struct run *run) {
  const struct learner_options *options = run->options;
  if (run->evaluates || strcmp(options->over, "eval") == 0) return OVER_EVAL;
  bool by_itself = strcmp(options->over, "auto") == 0 && !options->deterministic;
  return by_itself ? OVER_AUTO : OVER_TRAIN;
}

/* Some environments explore more than others. */
static bool explores_by_environment(const struct run *run) {
  return run->policy->action_values && run->options->num_envs > 1 &&
         run->exploration.kind == EXPLORATION_PER_ENVIRONMENT;
}

void run_make_progress(struct run *run, const struct run_callbacks *callbacks) {
  const struct learner_options *options = run->options;
  struct progress_config config = {
      .total_steps = run->evaluates || run->peers ? 0 : options->total_steps,
      .target_return = options->target_return,
      .over = result_over(run),
      .quota_episodes = run->evaluates ? options->episodes : 0,
      .quota_environments = run->evaluates ? (int)options->num_envs : 0,
      .episode_steps = run->evaluates ? options->episode_steps : 0,
      .max_kept = options->deterministic ? run->num_train_slots : 0,
      .on_stop = callbacks->on_stop,
      .context = callbacks->context};
  if (explores_by_environment(run)) {
    int quarter = (int)(options->num_envs + 3) / 4;
    config.most_random = quarter;
    config.least_random = (int)options->num_envs - quarter;
  }
  bool has_table = !run->evaluates && options->episodes_csv && options->metrics_secs > 0;
  config.log = run->episodes = has_table ? episode_log_create() : NULL;
  run->progress = progress_create(&config);
}

/* ---- training */

/* On the trainer's thread. */
static void capture_source(void *run) {
  struct run *self = run;
  if (atomic_load(&self->saved_kinds) & KEPT_NEWEST) run_replay_capture(self);
}

enum status run_make_training(struct run *run, const struct run_callbacks *callbacks,
                              struct error *error) {
  if (!run->agent->algorithm) return STATUS_OK;
  struct update_config config = run_options_of_update(run->options);
  config.policy = run->policy;
  config.peers = run->peers;
  enum status status = update_create(&run->update, run->trainer_device, run->network,
                                     run->trains ? run->agent->algorithm : NULL, &config, error);
  if (status != STATUS_OK) return status;
  if (run->trains) run_make_experience(run);
  if (run->peers) {
    run->blank = train_batch_create(run->trainer_device, config.window_steps, config.num_windows,
                                    &run->shape);
    train_batch_make_blank(run->trainer_device, run->blank);
  }
  run->replay = run_replay_create(run);
  struct trainer_config trainer = {
      .on_saved = callbacks->on_saved,
      .context = callbacks->context,
      .capture_source = run->replay ? capture_source : NULL,
      .saver = run,
      .lag_updates = run->window_lag_updates,
      .update_us = run->update_us,
      .overlaps = run_updates_overlap(run),
      .peers = run->peers,
      .blank = run->blank,
      .total_steps = run->options->total_steps,
      .all_together = run->options->deterministic,
      .images = run->trains && learner_options_pixels(run->options) && run->options->tensorboard};
  run->trainer = trainer_create(&trainer, run->trainer_device, run->update, run->source,
                                run->weights, run->progress);
  trainer_set_counter(run->trainer, TRAINER_SEED, run->options->seed);
  return STATUS_OK;
}

/* ---- serving */

/* A client that others do not wait for is out of step from then on, and so are the windows of its
 * environments: a synchronous algorithm puts up with more. */
static int64_t late_min_us(const struct run *run) {
  enum { PATIENT_US = 1000 * 1000 };
  return run_is_synchronous(run) ? PATIENT_US : 0;
}

/* Environments of a synchronous algorithm step together. */
static int target_rows(const struct run *run) {
  const struct learner_options *options = run->options;
  if (options->target_rows) return (int)options->target_rows;
  return run_is_synchronous(run) ? (int)options->num_envs : 0;
}

/* Where a GPU computes, a message costs its copying, which threads share (docs/gpu.md). */
int run_num_queues(const struct run *run, long cores) {
  enum { CORES_OF_ONE = 4, LEAST = 2, MOST = 4 };
  const struct learner_options *options = run->options;
  if (options->queues >= 0) return (int)options->queues;
  long threads = cores / CORES_OF_ONE;
  bool shares = run->inference_device->ops->asynchronous && !options->deterministic;
  return !shares || threads < LEAST ? 0 : threads < MOST ? (int)threads : MOST;
}

/* Where inference waits for updates, a batch must not have begun before. */
static int batches_at_a_time(const struct run *run) {
  bool waits = run->options->deterministic || run_is_synchronous(run);
  return run->inference_device->ops->asynchronous && !waits ? BATCHER_MAX_RUNNING : 1;
}

/* An evaluation that samples explores as the training's first environment did at the checkpoint. */
static struct exploration exploration_at_checkpoint(const struct run *run) {
  struct exploration exploration = run->exploration;
  int64_t steps = run->trainer ? trainer_counter(run->trainer, TRAINER_STEPS) : 0;
  exploration.start = (double)exploration_epsilon(&exploration, 0, steps);
  exploration.kind = EXPLORATION_CONSTANT;
  return exploration;
}

void run_make_serving(struct run *run) {
  const struct learner_options *options = run->options;
  int slots = run->num_train_slots + run->num_eval_slots,
      queues = run_num_queues(run, process_cores());
  if (run->evaluates) run->exploration = exploration_at_checkpoint(run);
  uint32_t restarts = run->trainer ? (uint32_t)trainer_counter(run->trainer, TRAINER_RESTARTS) : 0;
  struct leases_config leases = {
      .max_train = run->num_train_slots,
      .max_eval = run->num_eval_slots,
      .seed = (uint64_t)options->seed,
      .rank = run->rank,
      .first_life = restarts << 16,
      .deterministic_envs = options->deterministic ? (int)options->num_envs : 0};
  if (run->evaluates) {
    leases.seed_base = (uint64_t)options->seed;
    leases.seed_stride = (uint64_t)options->num_envs;
  }
  run->leases = leases_create(&leases);

  struct batcher_config batcher = {
      .max_clients = slots,
      .max_rows = run_most_rows(run),
      .row_stride = run->inputs.row_stride,
      .target_rows = target_rows(run),
      .max_wait_us = options->max_wait_us,
      .late_us = options->late_us,
      .late_min_us = late_min_us(run),
      .barrier_rows = options->deterministic ? (int)options->num_envs : 0,
      .running = batches_at_a_time(run),
      .device = run->inference_device};
  run->batcher = batcher_create(&batcher);

  struct ingress_config ingress = {.environment = run->identity,
                                   .space = run->space,
                                   .num_train_slots = run->num_train_slots,
                                   .num_queues = queues ? queues : 1,
                                   .evaluate = run->evaluates,
                                   .deterministic = options->deterministic};
  run->ingress = ingress_create(&ingress, run->leases, run->batcher, run->progress);

  struct inference_config inference = {
      .policy = run->policy,
      .space = &run->space,
      .shape = run->shape,
      .num_slots = slots,
      .num_train_slots = run->num_train_slots,
      .max_rows = batcher.max_rows,
      .seed = (uint64_t)options->seed,
      .rank = run->rank,
      .greedy_eval = strcmp(options->policy, "greedy") == 0,
      .exploration = run->exploration,
      .lockstep = options->deterministic,
      .waits_for_updates = options->deterministic || run_is_synchronous(run),
      .first_batch = restarts << 20,
      .running = batcher.running,
      .count_eval_steps = run->evaluates};
  run->inference = inference_create(&inference, run->inference_device, run->network, &run->inputs,
                                    run->weights, run->batcher, run->pages, run->source,
                                    run->progress, &run->inference_metrics);
}
