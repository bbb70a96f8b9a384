#include "learner/gauges.h"

#include "common/base/check.h"

enum { MAX_METRICS = 64 };

/* Every gauge and counter: X(member, kind, name, help). */
#define GAUGES(X)                                                                                \
  X(episode_return, gauge, "train/episode_return", "mean of the last 100 training episodes")     \
  X(episode_length, gauge, "train/episode_length", "mean of the last 100 training episodes")     \
  X(eval_return, gauge, "eval/episode_return", "mean of the last 100 evaluation episodes")       \
  X(episodes, gauge, "train/episodes", "finished so far")                                        \
  X(env_rate, gauge, "speed/env_steps_per_second", "steps of the environments")                  \
  X(trained_rate, gauge, "speed/trained_steps_per_second", "steps that were trained on")         \
  X(trained_steps, gauge, "train/steps", "steps trained on so far")                              \
  X(updates, gauge, "train/updates", "updates so far")                                           \
  X(compute_us, gauge, "train/compute_us", "time in updates so far")                             \
  X(total_loss, gauge, "loss/total", "of the newest update")                                     \
  X(policy_loss, gauge, "loss/policy", "policy gradient loss")                                   \
  X(baseline_loss, gauge, "loss/baseline", "value loss, unweighted")                             \
  X(entropy, gauge, "policy/entropy", "mean entropy of the policy")                              \
  X(entropy_cost, gauge, "policy/entropy_cost", "weight of the entropy bonus")                   \
  X(kl, gauge, "policy/kl", "mean log mu - log pi")                                              \
  X(rho_clipped, gauge, "policy/rho_clipped", "share of importance weights that were clipped")   \
  X(lag, gauge, "policy/lag_updates", "updates between acting and training")                     \
  X(value, gauge, "train/value", "mean value estimate")                                          \
  X(reward, gauge, "train/reward", "mean reward per step")                                       \
  X(norm, gauge, "grad/norm", "global norm before clipping")                                     \
  X(learning_rate, gauge, "train/learning_rate", "in force")                                     \
  X(windows, gauge, "fifo/windows", "windows given to training so far")                          \
  X(dropped, gauge, "fifo/windows_dropped", "windows dropped for their lag so far")              \
  X(give_wait, gauge, "fifo/wait_us", "time that inference waited for the trainer so far")       \
  X(take_wait, gauge, "fifo/trainer_wait_us", "time that the trainer waited for windows so far") \
  X(envs, gauge, "serve/environments", "training environments connected")                        \
  X(eval_envs, gauge, "serve/eval_environments", "evaluation environments connected")            \
  X(live_rows, gauge, "batch/live_rows", "environments that batches wait for")                   \
  X(late, gauge, "batch/late_streams", "streams that are not waited for")                        \
  X(late_us, gauge, "batch/late_us", "a stream that steps for longer is late")

struct gauges {
#define MEMBER(member, kind, name, help) struct metric *member;
  GAUGES(MEMBER)
#undef MEMBER
};

void gauges_create(struct run *run) {
  struct metrics *metrics = run->metrics = metrics_create(MAX_METRICS);
  struct gauges *gauges = run->gauges = check_alloc(1, sizeof(*gauges));
#define MAKE(member, kind, name, help) gauges->member = metrics_##kind(metrics, name, help);
  GAUGES(MAKE)
#undef MAKE
  run->inference_metrics = (struct inference_metrics){
      .batches = metrics_counter(metrics, "serve/batches", "inference batches so far"),
      .batch_rows = metrics_histogram(metrics, "batch/fill", "rows of an inference batch"),
      .batch_wait_us = metrics_histogram(metrics, "batch/wait_us",
                                         "from a message's arrival to its batch's start"),
      .batch_run_us =
          metrics_histogram(metrics, "batch/run_us", "from a batch's start to its answers"),
  };
}

static void fill_training(struct gauges *gauges, const struct trainer_report *trainer) {
  const struct update_stats *stats = &trainer->stats;
  metric_set(gauges->trained_steps, (double)trainer->trained_steps);
  metric_set(gauges->updates, (double)trainer->updates);
  metric_set(gauges->compute_us, (double)trainer->compute_us);
  if (!stats->steps) return;
  metric_set(gauges->total_loss, stats->total_loss);
  metric_set(gauges->policy_loss, stats->policy_loss);
  metric_set(gauges->baseline_loss, stats->baseline_loss);
  metric_set(gauges->entropy, stats->entropy);
  metric_set(gauges->entropy_cost, stats->entropy_cost);
  metric_set(gauges->kl, stats->kl);
  metric_set(gauges->rho_clipped, stats->rho_clipped);
  metric_set(gauges->lag, stats->lag_updates);
  metric_set(gauges->value, stats->value);
  metric_set(gauges->reward, stats->reward);
  metric_set(gauges->norm, stats->gradient_norm);
  metric_set(gauges->learning_rate, stats->learning_rate);
}

static void fill_fifo(struct gauges *gauges, struct fifo *fifo) {
  struct fifo_counters counters = fifo_counters(fifo);
  metric_set(gauges->windows, (double)counters.windows_given);
  metric_set(gauges->dropped, (double)counters.windows_dropped_lag);
  metric_set(gauges->give_wait, (double)counters.give_wait_us);
  metric_set(gauges->take_wait, (double)counters.take_wait_us);
}

void gauges_fill(struct run *run, const struct trainer_report *trainer, double env_steps_rate,
                 double trained_rate) {
  struct gauges *gauges = run->gauges;
  struct progress_returns train = progress_returns(run->progress, false),
                          eval = progress_returns(run->progress, true);
  metric_set(gauges->episode_return, train.mean);
  metric_set(gauges->episode_length, train.length_mean);
  metric_set(gauges->eval_return, eval.mean);
  metric_set(gauges->episodes, (double)train.count);
  metric_set(gauges->env_rate, env_steps_rate);
  metric_set(gauges->trained_rate, trained_rate);
  fill_training(gauges, trainer);
  if (run->fifo) fill_fifo(gauges, run->fifo);
  struct leases_count count = leases_count(run->leases);
  struct batcher_counts batcher = batcher_counts(run->batcher);
  metric_set(gauges->envs, count.train_envs);
  metric_set(gauges->eval_envs, count.eval_envs);
  metric_set(gauges->live_rows, batcher.live_rows);
  metric_set(gauges->late, batcher.late_clients);
  metric_set(gauges->late_us, (double)batcher.late_us);
}
