#include "learner/run_experience.h"

#include <string.h>

#include "common/base/log.h"
#include "common/base/process.h"
#include "learner/experience/fifo.h"
#include "learner/experience/replay.h"
#include "learner/serve/memory.h"

/* ---- pages */

static bool is_synchronous(const struct run *run) {
  return run->agent->pace == SYNCHRONOUS;
}

static bool replays(const struct run *run) {
  return run->agent->pace == REPLAYED;
}

bool run_updates_overlap(const struct run *run) {
  bool waits = run->options->deterministic || is_synchronous(run);
  return run->trainer_device->ops->asynchronous && !waits;
}

/* Where windows are short, a page of a replay holds several: a page costs some hundred bytes. */
static int page_steps(const struct run *run, int stride) {
  enum { LEAST = 32 };
  if (!replays(run) || stride >= LEAST) return stride;
  return (LEAST + stride - 1) / stride * stride;
}

/* As many pages as the environments need. */
static struct pages_config pages_of(const struct run *run) {
  int stride = learner_options_stride(run->options);
  struct pages_config pages = {.num_slots = run->num_train_slots,
                               .page_steps = page_steps(run, stride),
                               .shape = run->shape,
                               .phase = is_synchronous(run) ? PAGES_TOGETHER : PAGES_STAGGERED,
                               .spare_rows = memory_spare_rows(run->num_eval_slots, &run->shape),
                               .stride = stride,
                               .window_steps = learner_options_window_steps(run->options),
                               .replays = replays(run)};
  pages.num_pages = pages_needed(&pages);
  return pages;
}

/* ---- memory */

/* Of a step in the pages, on the device and on the host, with its share of what pages and windows
 * have besides. */
static double bytes_per_step(const struct run *run) {
  enum { STAMP = 8, RECORD = 8, PAGE = 112, DEPTH = 4, LEAF = 10 };
  const struct pages_config *pages = &run->plan.pages;
  const struct step_shape *shape = &run->shape;
  double statistics = 4.0 * shape->statistics,
         real_bytes = (double)run->inference_device->ops->real_bytes;
  double step = (double)shape->row_stride + RECORD + STAMP + statistics + shape->action_bytes;
  double start = shape->action_bytes + DEPTH + real_bytes * shape->state_size;
  if (pages->replays) {
    step += 4 + statistics;
    start += LEAF;
  }
  return step + start / pages->stride + (double)PAGE / pages->page_steps;
}

/* Of batches, activations, parameters and what belongs to them. */
static double bytes_of_training(const struct run *run) {
  const struct learner_options *o = run->options;
  const struct step_shape *shape = &run->shape;
  double row = (double)shape->row_stride + 52 + 2.0 * shape->action_bytes +
               4.0 * shape->statistics + 8.0 * shape->state_size;
  double steps = (double)learner_options_batch_size(o) * (learner_options_window_steps(o) + 1.0);
  if (!run->trains) steps = 0;
  double activations = 64.0 * (double)(o->lstm_size + 4 * NETWORK_MAX_LAYERS * 64) * steps / 16;
  activations += 4.0 * (double)network_numbers_per_row(run->network) * steps;
  double batches = run_updates_overlap(run) ? 3 : 2;
  return row * batches * steps + activations + 32.0 * (double)network_num_parameters(run->network);
}

/* Of a GPU all may be taken; of the machine a part is others'. */
static enum status check_memory(const struct run *run, struct error *error) {
  const struct pages_config *pages = &run->plan.pages;
  size_t of_gpu = run->inference_device->memory_bytes;
  double room = of_gpu ? (double)of_gpu : process_memory(), share = of_gpu ? 0.95 : 0.8;
  const char *where = of_gpu ? "GPU" : "machine";
  double experience = run->trains ? bytes_per_step(run) * pages->num_pages * pages->page_steps : 0;
  double bytes = experience + bytes_of_training(run);
  if (bytes < share * room) return STATUS_OK;
  if (pages->replays && experience > 0.5 * bytes)
    return status_fail(error, STATUS_INVALID,
                       "--replay_steps=%lld: the replay takes %.1f GiB (%.0f bytes a step) and the "
                       "%s has %.1f: give fewer steps, or --replay_mib",
                       (long long)run->options->replay_steps, experience / 0x1p30,
                       bytes_per_step(run), where, room / 0x1p30);
  return status_fail(error, STATUS_INVALID,
                     "these sizes need about %.3g GiB and the %s has %.3g: give smaller "
                     "--batch_size, --unroll_length, --num_envs or --hidden%s",
                     bytes / 0x1p30, where, room / 0x1p30,
                     of_gpu ? ", or more --gpu_memory_mib" : "");
}

/* ---- the size of a replay */

/* As many pages as the options allow. */
static void grow_pages(struct run *run) {
  const struct learner_options *options = run->options;
  struct pages_config *pages = &run->plan.pages;
  double steps = (double)options->replay_steps;
  double fit = (double)options->replay_mib * 0x1p20 / bytes_per_step(run);
  if (options->replay_mib && fit < steps) steps = fit;
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
  int64_t least = (int64_t)(pages_needed(pages) + N * (spans + 1)) * pages->page_steps;
  int64_t steps = (int64_t)pages->num_pages * pages->page_steps;
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
      (long long)steps, bytes_per_step(run) * (double)steps / 0x1p20, bytes_per_step(run),
      pages->window_steps, pages->stride, (long long)run->plan.min_windows);
  return STATUS_OK;
}

enum status run_plan_experience(struct run *run, struct error *error) {
  if (!run->trains) return check_memory(run, error);
  run->plan.pages = pages_of(run);
  return replays(run) ? plan_replay(run, error) : check_memory(run, error);
}

/* ---- sources */

static struct source *make_fifo(struct run *run) {
  const struct learner_options *options = run->options;
  struct fifo_config fifo = {.T = learner_options_window_steps(options),
                             .N = learner_options_batch_size(options),
                             .shape = run->shape,
                             .max_lag = options->max_lag,
                             .synchronous = is_synchronous(run),
                             .lent_at_once = run_updates_overlap(run) ? 2 : 1,
                             .give_wait_us = run->fifo_wait_us,
                             .take_wait_us = run->trainer_wait_us};
  return fifo_create(run->inference_device, &fifo);
}

/* Of a window from what was kept while it was played. */
static struct td_priority_config priority_of(const struct learner_options *options) {
  return (struct td_priority_config){.T = (int)options->unroll_length,
                                     .counted = learner_options_counted_steps(options),
                                     .n_steps = (int)options->n_steps,
                                     .discount = (float)options->discount,
                                     .reward_scale = (float)options->reward_scale,
                                     .reward_clip = (float)options->reward_clip,
                                     .rescaling = (float)options->value_rescaling,
                                     .eta = (float)options->priority_eta};
}

/* The unroll comes past the start of the next window, where acting left a state, too: what the
 * values are with either is compared (q/delta). */
static bool meets_stored_state(const struct run *run) {
  const struct learner_options *options = run->options;
  int stride = learner_options_stride(options);
  return run->shape.state_size && stride >= options->burn_in &&
         stride <= learner_options_window_steps(options);
}

static struct source *make_replay(struct run *run) {
  const struct learner_options *options = run->options;
  int N = learner_options_batch_size(options);
  double least = replay_least_band(N, options->replay_ratio, run->num_train_slots);
  struct replay_config replay = {
      .N = N,
      .min_windows = run->plan.min_windows,
      .ratio = options->replay_ratio,
      .band = options->replay_band > 0 ? options->replay_band : 2 * least,
      .exponent = options->priority_exponent,
      .importance = options->importance_exponent,
      .initial_max = strcmp(options->initial_priority, "max") == 0,
      .burn_in = (int)options->burn_in,
      .priority = priority_of(options),
      .next_states = meets_stored_state(run),
      .seed = (uint64_t)options->seed,
      .lent_at_once = run_updates_overlap(run) ? 2 : 1,
      .lockstep = options->deterministic,
      .saves = options->checkpoint_replay,
      .give_wait_us = run->fifo_wait_us,
      .take_wait_us = run->trainer_wait_us,
      .initial_priority = run->initial_priority,
      .updated_priority = run->updated_priority,
      .window_age_steps = run->window_age_steps};
  return replay_create(run->trainer_device, run->inference_device, run->pages, &replay);
}

void run_make_experience(struct run *run) {
  run->pages = pages_create(run->inference_device, &run->plan.pages);
  run->source = replays(run) ? make_replay(run) : make_fifo(run);
}
