#include "learner/run/gauges.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "common/base/check.h"
#include "common/base/log.h"

enum { MAX_METRICS = 112 + 2 * NUMBERS_MAX };

/* Gauges and counters of every run: X(member, kind, name, help). Those of the algorithm's losses
 * are in its own list. */
#define GAUGES(X)                                                                                 \
  X(episode_return, gauge, "train/episode_return",                                                \
    "mean return of the last 100 training episodes")                                              \
  X(episode_length, gauge, "train/episode_length",                                                \
    "mean length of the last 100 training episodes, in steps")                                    \
  X(eval_return, gauge, "eval/episode_return", "mean return of the last 100 evaluation episodes") \
  X(eval_length, gauge, "eval/episode_length",                                                    \
    "mean length of the last 100 evaluation episodes, in steps")                                  \
  X(return_std, gauge, "train/episode_return_std",                                                \
    "standard deviation of the returns of the last 100 training episodes")                        \
  X(return_min, gauge, "train/episode_return_min",                                                \
    "smallest return of the last 100 training episodes")                                          \
  X(return_max, gauge, "train/episode_return_max",                                                \
    "largest return of the last 100 training episodes")                                           \
  X(eval_std, gauge, "eval/episode_return_std",                                                   \
    "standard deviation of the returns of the last 100 evaluation episodes")                      \
  X(eval_min, gauge, "eval/episode_return_min",                                                   \
    "smallest return of the last 100 evaluation episodes")                                        \
  X(eval_max, gauge, "eval/episode_return_max",                                                   \
    "largest return of the last 100 evaluation episodes")                                         \
  X(episodes, counter, "train/episodes", "training episodes finished")                            \
  X(eval_episodes, counter, "eval/episodes", "evaluation episodes finished")                      \
  X(env_steps, counter, "train/env_steps", "environment steps: the x axis")                       \
  X(trained_steps, counter, "train/steps", "steps trained on")                                    \
  X(updates, counter, "train/updates", "updates of the parameters")                               \
  X(env_rate, gauge, "speed/env_steps_per_second", "steps of the environments")                   \
  X(trained_rate, gauge, "speed/trained_steps_per_second", "steps trained on")                    \
  X(update_rate, gauge, "speed/updates_per_second", "updates of the parameters")                  \
  X(busy, gauge, "speed/trainer_busy", "share of the time in which the trainer computes")         \
  X(total_loss, gauge, "loss/total", "what the newest update minimised")                          \
  X(lag, gauge, "policy/lag_updates", "mean of the updates between acting and training")          \
  X(norm, gauge, "grad/norm", "global norm of the gradient before clipping")                      \
  X(learning_rate, gauge, "learning_rate", "in force")                                            \
  X(windows, counter, "fifo/windows", "windows given to training, or inserted into the replay")   \
  X(dropped, counter, "fifo/windows_dropped", "windows dropped because they were too old")        \
  X(envs, gauge, "serve/environments", "training environments connected")                         \
  X(eval_envs, gauge, "serve/eval_environments", "evaluation environments connected")             \
  X(lost, counter, "serve/streams_lost", "streams of training actors that ended before the run")  \
  X(live_rows, gauge, "batch/live_rows", "environments that batches wait for")                    \
  X(late, gauge, "batch/late_streams", "streams that are not waited for")                         \
  X(resident, gauge, "process/resident_bytes", "memory of the learner")                           \
  X(cpu, gauge, "process/cpu_cores", "cores that the learner uses")                               \
  X(late_us, gauge, "batch/late_us", "a stream that steps for longer is late")                    \
  X(refused_joins, counter, "refused/joins", "Joins refused")                                     \
  X(refused_plays, counter, "refused/plays", "streams without a lease, refused")                  \
  X(refused_messages, counter, "refused/messages", "messages against the protocol, refused")      \
  X(refused_not_finite, counter, "refused/not_finite",                                            \
    "messages with NaN, infinite or huge numbers, refused; never learned from")

/* Of a run that trains from a replay. */
#define REPLAY_GAUGES(X)                                                                         \
  X(held, gauge, "replay/windows", "windows in the replay, which can be sampled")                \
  X(needed, gauge, "replay/windows_needed", "windows in the replay before training starts")      \
  X(sampled, counter, "replay/windows_sampled", "windows sampled, each time counted")            \
  X(ratio_asked, gauge, "replay/ratio_asked", "windows to sample for each one that is inserted") \
  X(ratio, gauge, "replay/ratio",                                                                \
    "windows sampled for each one that was inserted since sampling started")

/* Of one whose windows have priorities. */
#define PRIORITY_GAUGES(X)                                          \
  X(priorities_late, counter, "replay/priorities_late",             \
    "new priorities that came for windows that were gone, dropped") \
  X(priorities_not_finite, counter, "replay/priorities_not_finite", \
    "priorities that were NaN or infinite, replaced by the smallest")

/* Of a run whose policy explores by taking random actions. */
#define EXPLORATION_GAUGES(X)                                                                \
  X(epsilon, gauge, "exploration/epsilon",                                                   \
    "probability of a random action in training, mean over the environments")                \
  X(most_random, gauge, "train/episode_return_most_random",                                  \
    "mean return of the last 100 episodes of the quarter of environments that explore most") \
  X(least_random, gauge, "train/episode_return_least_random",                                \
    "mean return of the last 100 episodes of the quarter of environments that explore least")

/* Of a run on a device with memory of its own. */
#define DEVICE_GAUGES(X)                                                                  \
  X(bytes_up, counter, "device/bytes_up", "bytes from the host's memory to the device's") \
  X(bytes_down, counter, "device/bytes_down", "bytes back")                               \
  X(transfers, counter, "device/transfers", "transfers either way")

/* Every histogram, by the place in struct run from which a part takes it: X(place, name, help). */
#define HISTOGRAMS(X)                                                                           \
  X(inference_metrics.batch_rows, "batch/fill", "rows of an inference batch")                   \
  X(inference_metrics.batch_wait_us, "batch/wait_us",                                           \
    "from a message's arrival to its batch's start")                                            \
  X(inference_metrics.batch_run_us, "inference/run_us", "from a batch's start to its answers")  \
  X(inference_metrics.actor_step_us, "actor/step_us",                                           \
    "from an answer to the stream's next message")                                              \
  X(inference_metrics.actor_wait_us, "actor/wait_us", "from a message's arrival to its answer") \
  X(fifo_wait_us, "fifo/wait_us", "each time that inference waited for the trainer")            \
  X(trainer_wait_us, "fifo/trainer_wait_us", "each time that the trainer waited for a batch")   \
  X(window_lag_updates, "policy/window_lag_updates",                                            \
    "age of a window's first step when it was trained on, in updates")                          \
  X(update_us, "train/update_us", "time that an update took")

#define REPLAY_HISTOGRAMS(X)                     \
  X(window_age_steps, "replay/window_age_steps", \
    "age of a window when it was sampled, in steps of all environments")

#define PRIORITY_HISTOGRAMS(X)                                                            \
  X(initial_priority, "replay/initial_priority", "priorities of windows as they came in") \
  X(updated_priority, "replay/updated_priority", "priorities of windows after an update")

/* What environments report, see numbers.h: "env/speed" and "eval/env/speed". */
enum { NUMBER_GAUGE_BYTES = WIRE_NUMBER_NAME_BYTES + sizeof("eval/env/") };
struct number_gauges {
  char name[NUMBER_GAUGE_BYTES], eval_name[NUMBER_GAUGE_BYTES];
  struct metric *mean, *eval_mean; /* NULL: there are no such episodes yet */
};

struct gauges {
#define MEMBER(member, kind, name, help) struct metric *member;
  GAUGES(MEMBER)
  REPLAY_GAUGES(MEMBER)
  PRIORITY_GAUGES(MEMBER)
  EXPLORATION_GAUGES(MEMBER)
  DEVICE_GAUGES(MEMBER)
#undef MEMBER
  struct metric *term[LOSS_MAX_TERMS]; /* of the algorithm's losses */
  struct number_gauges number[NUMBERS_MAX];
  bool has_warned; /* of a number that is left out */
};

static bool has_priorities(const struct run *run) {
  const struct algorithm *algorithm = run->agent->algorithm;
  return algorithm && algorithm->gives_priorities;
}

static bool has_own_memory(const struct run *run) {
  return !run->inference_device->ops->unified;
}

void gauges_create(struct run *run) {
  struct metrics *metrics = run->metrics = metrics_create(MAX_METRICS);
  struct gauges *gauges = run->gauges = check_alloc(1, sizeof(*gauges));
#define MAKE(member, kind, name, help) gauges->member = metrics_##kind(metrics, name, help);
  GAUGES(MAKE)
  if (run_replays(run)) {
    REPLAY_GAUGES(MAKE)
  }
  if (has_priorities(run)) {
    PRIORITY_GAUGES(MAKE)
  }
  if (run->policy->action_values) {
    EXPLORATION_GAUGES(MAKE)
  }
  if (has_own_memory(run)) {
    DEVICE_GAUGES(MAKE)
  }
#undef MAKE
  const struct algorithm *algorithm = run->agent->algorithm;
  int terms = algorithm ? algorithm->num_terms : 0;
  if (algorithm && !algorithm_is_curious(&run->options->algorithm))
    terms -= algorithm->curious_terms;
  for (int i = 0; i < terms; i++)
    gauges->term[i] = metrics_gauge(metrics, algorithm->terms[i].name, algorithm->terms[i].help);
  run->inference_metrics.batches =
      metrics_counter(metrics, "inference/batches", "inference batches that ran");
#define MAKE(place, name, help) run->place = metrics_histogram(metrics, name, help);
  HISTOGRAMS(MAKE)
  if (run_replays(run)) {
    REPLAY_HISTOGRAMS(MAKE)
  }
  if (has_priorities(run)) {
    PRIORITY_HISTOGRAMS(MAKE)
  }
#undef MAKE
}

static void fill_training(struct gauges *gauges, const struct algorithm *algorithm,
                          const struct trainer_report *trainer) {
  const struct update_stats *stats = &trainer->stats;
  metric_set_total(gauges->trained_steps, trainer->trained_steps);
  metric_set_total(gauges->updates, trainer->updates);
  if (!stats->steps) return;
  metric_set(gauges->total_loss, stats->losses.total);
  for (int i = 0; i < algorithm->num_terms; i++) metric_set(gauges->term[i], stats->losses.term[i]);
  metric_set(gauges->lag, stats->lag_updates);
  metric_set(gauges->norm, stats->gradient_norm);
  metric_set(gauges->learning_rate, stats->learning_rate);
}

static void fill_source(struct gauges *gauges, const struct run *run) {
  struct source_counters counters = source_counters(run->source);
  metric_set_total(gauges->windows, counters.windows_given);
  metric_set_total(gauges->dropped, counters.windows_dropped_lag);
  if (!counters.replays) return;
  metric_set(gauges->held, (double)counters.windows_held);
  metric_set(gauges->needed, (double)counters.windows_needed);
  metric_set_total(gauges->sampled, counters.windows_sampled);
  metric_set(gauges->ratio_asked, run->options->replay_ratio);
  metric_set(gauges->ratio, source_replay_ratio(&counters));
  metric_set_total(gauges->priorities_late, counters.priorities_late);
  metric_set_total(gauges->priorities_not_finite, counters.priorities_not_finite);
}

/* Right after a resume only short episodes have ended, as all began at once. */
static bool is_biased(const struct run *run, const struct progress_returns *returns) {
  return run->resumed && returns->window < PROGRESS_WINDOW;
}

static void fill_exploration(struct gauges *gauges, struct run *run) {
  struct progress_returns most = progress_returns(run->progress, PROGRESS_MOST_RANDOM);
  struct progress_returns least = progress_returns(run->progress, PROGRESS_LEAST_RANDOM);
  metric_set(gauges->epsilon,
             exploration_mean_epsilon(&run->exploration, progress_steps(run->progress)));
  metric_set(gauges->most_random, is_biased(run, &most) ? NAN : most.mean);
  metric_set(gauges->least_random, is_biased(run, &least) ? NAN : least.mean);
}

/* Made when there is a first value. */
static void fill_number(struct metrics *metrics, struct metric **gauge,
                        char name[NUMBER_GAUGE_BYTES], const char *group, const char *number,
                        const char *help, double value) {
  if (!*gauge) {
    if (isnan(value)) return;
    snprintf(name, NUMBER_GAUGE_BYTES, "%s%s", group, number);
    *gauge = metrics_gauge(metrics, name, help);
  }
  metric_set(*gauge, value);
}

static void fill_numbers(struct gauges *gauges, struct run *run, bool biased) {
  struct progress_number numbers[NUMBERS_MAX];
  const char *dropped;
  int count = progress_numbers(run->progress, numbers, &dropped);
  for (int i = 0; i < count; i++) {
    struct number_gauges *number = &gauges->number[i];
    fill_number(run->metrics, &number->mean, number->name, "env/", numbers[i].name,
                "the environment's own number, mean of the last 100 training episodes with it",
                biased ? NAN : numbers[i].mean);
    fill_number(run->metrics, &number->eval_mean, number->eval_name, "eval/env/", numbers[i].name,
                "the environment's own number, mean of the last 100 evaluation episodes with it",
                numbers[i].eval_mean);
  }
  if (!dropped || gauges->has_warned) return;
  gauges->has_warned = true;
  log_warn(
      "the environments' number '%s' is left out: a run keeps the first %d names, and of "
      "names that differ only in '_', '-', '.' and '/' the first",
      dropped, NUMBERS_MAX);
}

static void fill_traffic(struct gauges *gauges, const struct run *run) {
  struct device_traffic acting = device_traffic_read(run->inference_device);
  struct device_traffic training = device_traffic_read(run->trainer_device);
  metric_set_total(gauges->bytes_up, acting.bytes_up + training.bytes_up);
  metric_set_total(gauges->bytes_down, acting.bytes_down + training.bytes_down);
  metric_set_total(gauges->transfers, acting.transfers + training.transfers);
}

/* NaN where the system does not say. */
static double resident_bytes(void) {
  char text[128];
  int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  ssize_t bytes = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
  if (fd >= 0) close(fd);
  text[bytes > 0 ? bytes : 0] = '\0';
  long pages;
  return sscanf(text, "%*d %ld", &pages) == 1 ? (double)pages * (double)sysconf(_SC_PAGESIZE) : NAN;
}

void gauges_fill(struct run *run, const struct trainer_report *trainer,
                 const struct gauges_rates *rates, const struct progress_returns *train,
                 const struct progress_returns *eval) {
  struct gauges *gauges = run->gauges;
  bool biased = is_biased(run, train);
  metric_set(gauges->episode_return, biased ? NAN : train->mean);
  metric_set(gauges->episode_length, biased ? NAN : train->length_mean);
  metric_set(gauges->eval_return, eval->mean);
  metric_set(gauges->eval_length, eval->length_mean);
  metric_set(gauges->return_std, biased ? NAN : train->std);
  metric_set(gauges->return_min, biased ? NAN : train->min);
  metric_set(gauges->return_max, biased ? NAN : train->max);
  metric_set(gauges->eval_std, eval->std);
  metric_set(gauges->eval_min, eval->min);
  metric_set(gauges->eval_max, eval->max);
  fill_numbers(gauges, run, biased);
  metric_set_total(gauges->episodes, train->count);
  metric_set_total(gauges->eval_episodes, eval->count);
  metric_set_total(gauges->env_steps, progress_steps(run->progress));
  metric_set(gauges->env_rate, rates->env_steps);
  metric_set(gauges->trained_rate, rates->trained_steps);
  metric_set(gauges->update_rate, rates->updates);
  metric_set(gauges->busy, rates->trainer_busy);
  metric_set(gauges->cpu, rates->cpu_cores);
  metric_set(gauges->resident, resident_bytes());
  fill_training(gauges, run->agent->algorithm, trainer);
  if (run->source) fill_source(gauges, run);
  if (run->policy->action_values) fill_exploration(gauges, run);
  if (has_own_memory(run)) fill_traffic(gauges, run);
  struct leases_count count = leases_count(run->leases);
  struct batcher_counts batcher = batcher_counts(run->batcher);
  metric_set(gauges->envs, count.train_envs);
  metric_set(gauges->eval_envs, count.eval_envs);
  metric_set_total(gauges->lost, count.lost);
  metric_set(gauges->live_rows, batcher.live_rows);
  metric_set(gauges->late, batcher.late_clients);
  metric_set(gauges->late_us, (double)batcher.late_us);
  struct metric *refused[REFUSAL_KINDS] = {gauges->refused_joins, gauges->refused_plays,
                                           gauges->refused_messages, gauges->refused_not_finite};
  for (int kind = 0; kind < REFUSAL_KINDS; kind++)
    metric_set_total(refused[kind], ingress_refused(run->ingress, (enum refusal)kind));
}
