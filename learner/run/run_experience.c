#include "learner/run/run_experience.h"

#include <math.h>
#include <string.h>

#include "common/base/log.h"
#include "common/base/process.h"
#include "learner/experience/fifo.h"
#include "learner/experience/replay.h"
#include "learner/run/run_replay.h"
#include "learner/serve/memory.h"

/* ---- pages */

static bool spills(const struct run *run) {
  return strcmp(run->options->observation_memory, "host") == 0;
}

bool run_updates_overlap(const struct run *run) {
  bool waits = run->options->deterministic || run_is_synchronous(run) || run->peers;
  return run->trainer_device->ops->asynchronous && !waits;
}

int run_most_rows(const struct run *run) {
  return 2 * (run->num_train_slots + run->num_eval_slots);
}

/* Where windows are short, a page of a replay holds several: a page costs some hundred bytes. */
static int page_steps(const struct run *run, int stride) {
  enum { LEAST = 32 };
  if (!run_replays(run) || stride >= LEAST) return stride;
  return (LEAST + stride - 1) / stride * stride;
}

/* As many pages as the environments need. */
static struct pages_config pages_of(const struct run *run) {
  int stride = learner_options_stride(run->options);
  struct pages_config pages = {.num_slots = run->num_train_slots,
                               .page_steps = page_steps(run, stride),
                               .shape = run->shape,
                               .phase = run_is_synchronous(run) ? PAGES_TOGETHER : PAGES_STAGGERED,
                               .spills = spills(run),
                               .spare_rows = memory_spare_rows(run->num_eval_slots, &run->shape),
                               .stride = stride,
                               .window_steps = learner_options_window_steps(run->options),
                               .replays = run_replays(run)};
  pages.num_pages = pages_needed(&pages);
  return pages;
}

/* ---- memory */

/* Of a device with memory of its own, and of the host; elsewhere all of it is the host's. */
struct memory_bytes {
  double device, host;
};

static struct memory_bytes where_it_lies(const struct run *run, double device, double host) {
  if (run->inference_device->memory_bytes) return (struct memory_bytes){device, host};
  return (struct memory_bytes){0, device + host};
}

/* Of a step in the pages, with its share of what pages and windows have besides. */
static struct memory_bytes bytes_per_step(const struct run *run) {
  enum { STAMP = 8, RECORD = 8, PAGE = 112, DEPTH = 4, LEAF = 10 };
  enum { CAPTURED = 84, CAPTURED_LEAF = 8 }; /* see replay_file.h */
  const struct pages_config *pages = &run->plan.pages;
  const struct step_shape *shape = &run->shape;
  double statistics = 4.0 * shape->statistics, observation = (double)shape->row_stride;
  double state = (double)run->inference_device->ops->real_bytes * shape->state_size;
  double device = RECORD + statistics + shape->action_bytes;
  double host = STAMP + (double)PAGE / pages->page_steps, start = DEPTH;
  device += (shape->action_bytes + state) / pages->stride;
  if (pages->replays) {
    host += 4 + statistics;
    start += LEAF;
  }
  if (run->saver_device) {
    host += (double)CAPTURED / pages->page_steps;
    start += CAPTURED_LEAF;
  }
  host += start / pages->stride;
  if (spills(run))
    host += observation;
  else
    device += observation;
  return where_it_lies(run, device, host);
}

static double total_per_step(const struct run *run) {
  struct memory_bytes step = bytes_per_step(run);
  return step.device + step.host;
}

static struct memory_bytes bytes_of_experience(const struct run *run) {
  const struct pages_config *pages = &run->plan.pages;
  if (!run->trains) return (struct memory_bytes){0, 0};
  double steps = (double)pages->num_pages * pages->page_steps;
  struct memory_bytes step = bytes_per_step(run);
  return (struct memory_bytes){steps * step.device, steps * step.host};
}

static double networks_trained(const struct run *run) {
  const struct algorithm *algorithm = run->agent->algorithm;
  return run->trains && algorithm->networks ? algorithm->networks : 1;
}

/* Of a pass. */
static int windows_trained(const struct run *run) {
  const struct algorithm *algorithm = run->agent->algorithm;
  struct passes passes = {1, 1};
  struct error ignored; /* update_create refuses it */
  int N = learner_options_batch_size(run->options);
  if (algorithm->passes &&
      algorithm->passes(&passes, &run->options->algorithm, N, &ignored) != STATUS_OK)
    return N;
  return N / passes.minibatches;
}

/* Of updates from so many steps. */
static double bytes_of_updates(const struct run *run, int steps) {
  const struct algorithm *algorithm = run->agent->algorithm;
  const struct network *network = run->network;
  struct device *device = run->trainer_device;
  int N = learner_options_batch_size(run->options);
  double rows = windows_trained(run) * ((double)run->options->algorithm.unroll_length + 1);
  double trained = algorithm->trained ? algorithm->trained : 1;
  return trained *
             (double)network_workspace_bytes(network, device, (int)fmin(rows, 1 << 30), true) +
         algorithm->evaluated * (double)network_workspace_bytes(network, device, steps, false) +
         networks_trained(run) * (double)network_observer_bytes(network, device, steps / N, N);
}

/* Of training and of inference. */
static double bytes_of_activations(const struct run *run, double steps) {
  size_t inference =
      network_workspace_bytes(run->network, run->inference_device, run_most_rows(run), false);
  double updates = steps > 0 ? bytes_of_updates(run, (int)fmin(steps, 1 << 30)) : 0;
  return (double)inference + updates;
}

/* 12 arrays, snapshots included. */
static double bytes_of_parameters(const struct run *run) {
  return 48.0 * networks_trained(run) * (double)network_num_parameters(run->network);
}

/* Of batches, activations, parameters and what belongs to them. */
static struct memory_bytes bytes_of_training(const struct run *run) {
  const struct learner_options *o = run->options;
  const struct step_shape *shape = &run->shape;
  double row = (double)shape->row_stride + 52 + 2.0 * shape->action_bytes +
               4.0 * shape->statistics + 8.0 * shape->state_size;
  double steps = (double)learner_options_batch_size(o) * (learner_options_window_steps(o) + 1.0);
  if (!run->trains) steps = 0;
  double batches = run_updates_overlap(run) ? 3 : 2;
  double bytes =
      row * batches * steps + bytes_of_activations(run, steps) + bytes_of_parameters(run);
  bytes += (double)run->inference_device->own_bytes + (double)run->trainer_device->own_bytes;
  return where_it_lies(run, bytes, 0);
}

struct place {
  const char *name;
  double bytes, share; /* that may be taken: of the machine a part is others' */
  const char *more;    /* what gives it more room, or takes less of it */
};

static struct place machine_of(const struct run *run) {
  (void)run;
  return (struct place){"machine", process_memory(), 0.8, ""};
}

/* Of 0 bytes: there is none. */
static struct place gpu_of(const struct run *run) {
  bool may_spill = run->trains && !spills(run);
  return (struct place){"GPU", (double)run->inference_device->memory_bytes, 0.95,
                        may_spill ? ", more --gpu_memory_mib, or --observation_memory=host"
                                  : ", or more --gpu_memory_mib"};
}

static enum status check_room(const struct run *run, const struct place *place, double experience,
                              double training, struct error *error) {
  double bytes = experience + training;
  if (bytes < place->share * place->bytes) return STATUS_OK;
  if (run->plan.pages.replays && experience > 0.5 * bytes)
    return status_fail(error, STATUS_INVALID,
                       "the smallest replay for these sizes takes %.1f GiB (%.0f bytes a step) and "
                       "the %s has %.1f: give smaller --replay_min_steps, --batch_size or "
                       "--num_envs%s",
                       experience / 0x1p30, total_per_step(run), place->name, place->bytes / 0x1p30,
                       place->more);
  if (bytes_of_parameters(run) > 0.5 * bytes)
    return status_fail(
        error, STATUS_INVALID,
        "the network, of %zu numbers, needs about %.3g GiB and the %s has %.3g: give "
        "smaller --hidden, smaller images, or impala_deep for them%s",
        network_num_parameters(run->network), bytes / 0x1p30, place->name, place->bytes / 0x1p30,
        place->more);
  return status_fail(error, STATUS_INVALID,
                     "these sizes need about %.3g GiB and the %s has %.3g: give smaller "
                     "--batch_size, --unroll_length, --num_envs or --hidden%s",
                     bytes / 0x1p30, place->name, place->bytes / 0x1p30, place->more);
}

static enum status check_memory(const struct run *run, struct error *error) {
  struct memory_bytes experience = bytes_of_experience(run), training = bytes_of_training(run);
  struct place machine = machine_of(run), gpu = gpu_of(run);
  enum status status = check_room(run, &machine, experience.host, training.host, error);
  if (status == STATUS_OK && gpu.bytes > 0)
    status = check_room(run, &gpu, experience.device, training.device, error);
  if (status != STATUS_OK || gpu.bytes == 0 || !run->trains) return status;
  log_info("memory: %.0f MiB of the experience on the GPU, %.0f MiB on the host%s",
           experience.device / 0x1p20, experience.host / 0x1p20,
           spills(run) ? ", with the observations, which the GPU reads over the bus" : "");
  return STATUS_OK;
}

/* ---- the size of a replay */

/* Of the pages, with which environments and batches never wait for each other. */
static int64_t least_steps(const struct run *run) {
  const struct pages_config *pages = &run->plan.pages;
  int N = learner_options_batch_size(run->options), spans = pages_most_spans(pages);
  return (int64_t)(pages_needed(pages) + N * (spans + 1)) * pages->page_steps;
}

/* Steps beside which training fits into the place. */
static double steps_in(const struct place *place, double training, double per_step) {
  return fmax(0, place->share * place->bytes - training) / per_step;
}

static double steps_in_memory(const struct run *run) {
  enum { ROUNDED = 2 }; /* pages, of which there is a whole number, below what is refused */
  struct place machine = machine_of(run), gpu = gpu_of(run);
  struct memory_bytes training = bytes_of_training(run), step = bytes_per_step(run);
  double steps = steps_in(&machine, training.host, step.host);
  if (gpu.bytes > 0) steps = fmin(steps, steps_in(&gpu, training.device, step.device));
  return steps - ROUNDED * run->plan.pages.page_steps;
}

/* What all steps of the run take, and what is lost where actors come and go. A replay that was
 * saved must fit into that of the resumed run, whose --total_steps may be smaller. */
static double steps_of_run(const struct run *run) {
  const double MARGIN = 1.25;
  const struct learner_options *options = run->options;
  bool loads = options->resume && run->folder.held_run && options->checkpoint_replay;
  return fmax(MARGIN * (double)options->total_steps, loads ? run_replay_saved_steps(run) : 0);
}

/* No more than `most`, but as many as it takes to train. */
static double limit_steps(const struct run *run, double steps, double most, const char *why) {
  const struct learner_options *options = run->options;
  double limit = fmax(most, (double)(least_steps(run) + options->replay_min_steps));
  if (steps <= limit) return steps;
  log_info("replay: %.0f steps instead of --replay_steps=%lld: %s", limit,
           (long long)options->replay_steps, limit > most ? "it takes as many to train" : why);
  return limit;
}

/* As many pages as the options allow, the run can fill and memory has room for. */
static void grow_pages(struct run *run) {
  const struct learner_options *options = run->options;
  struct pages_config *pages = &run->plan.pages;
  double steps = (double)options->replay_steps;
  double fit = (double)options->replay_mib * 0x1p20 / total_per_step(run);
  if (options->replay_mib && fit < steps) steps = fit;
  steps = limit_steps(run, steps, steps_of_run(run), "the run has no more (--total_steps)");
  steps = limit_steps(run, steps, steps_in_memory(run), "there is memory for no more");
  pages->num_pages = (int)(steps / pages->page_steps);
}

/* Windows in the pages that are not held. */
static int64_t most_windows(const struct pages_config *pages) {
  int64_t per_page = pages->page_steps / pages->stride;
  return (int64_t)(pages->num_pages - pages_needed(pages)) * per_page;
}

static enum status check_replay(const struct run *run, struct error *error) {
  const struct learner_options *options = run->options;
  const struct pages_config *pages = &run->plan.pages;
  int N = learner_options_batch_size(options);
  int spans = pages_most_spans(pages);
  int64_t least = least_steps(run), steps = (int64_t)pages->num_pages * pages->page_steps;
  if (spans > DEVICE_MAX_SPANS)
    return status_fail(error, STATUS_INVALID,
                       "--window_stride=%d is too small for windows of %d steps: give at least %d",
                       pages->stride, pages->window_steps,
                       pages->window_steps / DEVICE_MAX_SPANS + 1);
  if (steps < least)
    return status_fail(error, STATUS_INVALID,
                       "a replay of %lld steps is too small: %d environments and a batch of %d "
                       "windows hold up to %lld: give more --replay_steps (or --replay_mib), or a "
                       "smaller --max_envs or --batch_size",
                       (long long)steps, run->num_train_slots, N, (long long)least);
  if (run->plan.min_windows > most_windows(pages))
    return status_fail(error, STATUS_INVALID,
                       "--replay_min_steps=%lld is above what the replay can hold, %lld steps: "
                       "training would never start; give fewer, or more --replay_steps",
                       (long long)options->replay_min_steps,
                       (long long)(most_windows(pages) * pages->stride));
  double band = replay_least_band(N, options->replay_ratio, run->num_train_slots);
  if (options->replay_band > 0 && options->replay_band < band)
    return status_fail(error, STATUS_INVALID,
                       "--replay_band=%g: at least %g are needed: a batch of %d windows, and "
                       "--replay_ratio=%g for each window that %d environments may close at once",
                       options->replay_band, band, N, options->replay_ratio, run->num_train_slots);
  return STATUS_OK;
}

/* How often values pass on what they have learned: what is far from a reward takes many copies. */
static void announce_target(const struct run *run) {
  enum { FEW = 10 };
  const struct learner_options *options = run->options;
  double per_update = learner_options_update_steps(options);
  int64_t updates = learner_options_target_updates(options);
  double trained = (double)(options->total_steps - options->replay_min_steps);
  if (trained <= 0) {
    log_warn(
        "training begins after --replay_min_steps=%lld and the run ends after %lld steps, so that "
        "nothing is learned: give fewer of the first, or more --total_steps",
        (long long)options->replay_min_steps, (long long)options->total_steps);
    return;
  }
  if (run->agent->algorithm->target != TARGET_COPIED) return;
  int64_t copies = (int64_t)(trained / (per_update * (double)updates));
  log_info("target network: copied every %.0f steps (%lld updates), about %lld times in this run",
           per_update * (double)updates, (long long)updates, (long long)copies);
  if (copies < FEW)
    log_warn(
        "the target network is copied fewer than %d times in the run's %lld steps, so that values "
        "hardly spread: give a smaller --target_update than %lld, or more --total_steps",
        FEW, (long long)options->total_steps,
        (long long)options->algorithm.q_learning.target_update);
}

static enum status plan_replay(struct run *run, struct error *error) {
  const struct learner_options *options = run->options;
  const struct pages_config *pages = &run->plan.pages;
  grow_pages(run);
  run->plan.min_windows = options->replay_min_steps / pages->stride;
  if (run->plan.min_windows < 1) run->plan.min_windows = 1;
  enum status status = check_replay(run, error);
  if (status == STATUS_OK) status = check_memory(run, error);
  if (status != STATUS_OK) return status;
  int64_t steps = (int64_t)pages->num_pages * pages->page_steps;
  log_info(
      "replay: %lld steps, %.0f MiB (%.0f bytes a step); windows of %d steps every %d; "
      "training starts at %lld windows",
      (long long)steps, total_per_step(run) * (double)steps / 0x1p20, total_per_step(run),
      pages->window_steps, pages->stride, (long long)run->plan.min_windows);
  announce_target(run);
  return STATUS_OK;
}

enum status run_plan_experience(struct run *run, struct error *error) {
  if (!run->trains) return check_memory(run, error);
  run->plan.pages = pages_of(run);
  return run_replays(run) ? plan_replay(run, error) : check_memory(run, error);
}

/* ---- sources */

static struct source *make_fifo(struct run *run) {
  const struct learner_options *options = run->options;
  struct fifo_config fifo = {.T = learner_options_window_steps(options),
                             .N = learner_options_batch_size(options),
                             .shape = run->shape,
                             .max_lag = options->max_lag,
                             .synchronous = run_is_synchronous(run),
                             .lent_at_once = run_updates_overlap(run) ? 2 : 1,
                             .give_wait_us = run->fifo_wait_us,
                             .take_wait_us = run->trainer_wait_us};
  return fifo_create(run->inference_device, run->trainer_device, &fifo);
}

/* Of a window from what was kept while it was played. */
static struct td_priority_config priority_of(const struct learner_options *options) {
  return (struct td_priority_config){
      .T = (int)options->algorithm.unroll_length,
      .counted = q_learning_counted_steps(&options->algorithm),
      .n_steps = (int)options->algorithm.q_learning.n_steps,
      .discount = (float)options->algorithm.discount,
      .reward_scale = (float)options->algorithm.reward_scale,
      .reward_clip = (float)options->algorithm.reward_clip,
      .rescaling = (float)options->algorithm.q_learning.value_rescaling,
      .eta = (float)options->algorithm.q_learning.priority_eta};
}

/* The unroll comes past the start of the next window, where acting left a state, too: what the
 * values are with either is compared (q/delta). */
static bool meets_stored_state(const struct run *run) {
  const struct learner_options *options = run->options;
  int stride = learner_options_stride(options);
  return run->shape.state_size && stride >= options->algorithm.q_learning.burn_in &&
         stride <= learner_options_window_steps(options);
}

/* Of the run's steps. On the trainer's thread. */
static double share_done(const void *context) {
  const struct run *run = context;
  return (double)progress_steps(run->progress) / (double)run->options->total_steps;
}

static struct source *make_replay(struct run *run) {
  const struct learner_options *options = run->options;
  int N = learner_options_batch_size(options);
  double least = replay_least_band(N, options->replay_ratio, run->num_train_slots);
  bool uniform = !run->agent->algorithm->gives_priorities;
  struct replay_config replay = {
      .N = N,
      .min_windows = run->plan.min_windows,
      .ratio = options->replay_ratio,
      .band = options->replay_band > 0 ? options->replay_band : 2 * least,
      .exponent = uniform ? 0 : options->priority_exponent,
      .importance = uniform ? 0 : options->importance_exponent,
      .importance_end = options->importance_exponent_end,
      .share_done = options->importance_exponent_end >= 0 ? share_done : NULL,
      .context = run,
      .uniform = uniform,
      .initial_max = uniform || strcmp(options->initial_priority, "max") == 0,
      .burn_in = (int)options->algorithm.q_learning.burn_in,
      .priority = priority_of(options),
      .next_states = meets_stored_state(run),
      .seed = (uint64_t)options->seed,
      .lent_at_once = run_updates_overlap(run) ? 2 : 1,
      .lockstep = options->deterministic,
      .saving = run->saver_device,
      .inputs = &run->inputs,
      .give_wait_us = run->fifo_wait_us,
      .take_wait_us = run->trainer_wait_us,
      .initial_priority = run->initial_priority,
      .updated_priority = run->updated_priority,
      .window_age_steps = run->window_age_steps};
  return replay_create(run->trainer_device, run->inference_device, run->pages, &replay);
}

void run_make_experience(struct run *run) {
  run->pages = pages_create(run->inference_device, &run->plan.pages);
  run->source = run_replays(run) ? make_replay(run) : make_fifo(run);
}
