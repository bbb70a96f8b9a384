#include "learner/report/vitals.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log.h"

enum { SECOND_US = 1000 * 1000, LEAST_US = 450 * 1000, FIRST_US = 50 * 1000 };

/* ---- life */

/* What never changes. */
static void describe_run(struct wire_status *status, const struct run *run) {
  const struct learner_options *options = run->options;
  snprintf(status->environment, sizeof(status->environment), "%s", run->identity);
  snprintf(status->agent, sizeof(status->agent), "%s", options->agent);
  _Static_assert(sizeof(status->run_folder) >= PATH_MAX, "realpath writes so much");
  if (!run->folder.path[0] || !realpath(run->folder.path, status->run_folder))
    status->run_folder[0] = '\0';
  snprintf(status->state, sizeof(status->state), "%s",
           run->evaluates ? "evaluating"
           : run->trains  ? "training"
                          : "acting");
  status->total_steps = run->evaluates ? 0 : (uint64_t)options->total_steps;
  status->expected_environments = (int)options->num_envs;
  status->return_mean = status->eval_return_mean = status->policy_lag_updates = NAN;
  status->batch_rows = status->batch_wait_us = NAN;
  status->replay_ratio = status->replay_ratio_asked = NAN;
}

/* How much was trained, as a number that grows. */
static int64_t trained(const struct vitals *vitals, const struct trainer_report *trainer) {
  return vitals->run->trains ? trainer->updates : progress_steps(vitals->run->progress);
}

/* --listen, but for what no actor can dial: every interface, or a port of the system's choice. */
static void name_address(struct vitals *vitals) {
  const char *listen = vitals->run->options->listen, *colon = strrchr(listen, ':');
  int port = vitals->run->serve ? serve_port(vitals->run->serve) : 0;
  char host[128];
  snprintf(host, sizeof(host), "%.*s", colon ? (int)(colon - listen) : 0, listen);
  bool any = strcmp(host, "0.0.0.0") == 0 || strcmp(host, "[::]") == 0;
  if (any && gethostname(host, sizeof(host)) != 0) any = false;
  host[sizeof(host) - 1] = '\0';
  if (port)
    snprintf(vitals->dial, sizeof(vitals->dial), "%s:%d", host, port);
  else
    snprintf(vitals->dial, sizeof(vitals->dial), "%s%s", any ? host : listen, any ? colon : "");
}

static struct vitals_moment moment_of(const struct run *run, const struct trainer_report *trainer,
                                      int64_t now_us) {
  struct source_counters counters = {0};
  if (run->source) counters = source_counters(run->source);
  return (struct vitals_moment){.at_us = now_us,
                                .updates = trainer->updates,
                                .steps = progress_steps(run->progress),
                                .trained_steps = trainer->trained_steps,
                                .cpu_us = clock_process_cpu_us(),
                                .give_wait_us = counters.give_wait_us,
                                .take_wait_us = counters.take_wait_us};
}

void vitals_open(struct vitals *vitals, struct run *run, int64_t start_us) {
  *vitals = (struct vitals){.run = run, .start_us = start_us};
  describe_run(&vitals->status, run);
  vitals->players = players_create(run->leases, run->batcher);
  name_address(vitals);
  struct trainer_report trainer = {0};
  if (run->trainer) trainer = trainer_report(run->trainer);
  vitals->first_updates = trainer.updates;
  vitals->moment[0] = moment_of(run, &trainer, start_us);
  vitals->num_moments = 1;
  int64_t steps = progress_steps(run->progress);
  silence_init(&vitals->silence, trained(vitals, &trainer), steps, start_us);
  silence_init(&vitals->acting, steps, steps, start_us);
  ingress_set_status(run->ingress, &vitals->status, vitals->players);
}

void vitals_close(struct vitals *vitals) {
  players_destroy(vitals->players);
  vitals->players = NULL;
}

/* ---- Status */

void vitals_read_returns(struct vitals *vitals) {
  vitals->train = progress_returns(vitals->run->progress, PROGRESS_TRAIN);
  vitals->eval = progress_returns(vitals->run->progress, PROGRESS_EVAL);
}

static void fill_progress(struct vitals *vitals, const struct trainer_report *trainer,
                          int64_t now_us) {
  struct wire_status *status = &vitals->status;
  struct run *run = vitals->run;
  struct leases_count count = leases_count(run->leases);
  status->environment_steps = (uint64_t)progress_steps(run->progress);
  status->trained_steps = (uint64_t)trainer->trained_steps;
  status->updates = (uint64_t)trainer->updates;
  status->episodes = (uint64_t)(run->evaluates ? vitals->eval.count : vitals->train.count);
  status->seconds = (double)(now_us - vitals->start_us) / SECOND_US;
  status->return_mean = vitals->train.mean;
  status->eval_return_mean = vitals->eval.mean;
  if (trainer->stats.steps) status->policy_lag_updates = trainer->stats.lag_updates;
  status->train_environments = count.train_envs;
  status->eval_environments = count.eval_envs;
}

static void fill_replay(struct vitals *vitals) {
  struct wire_status *status = &vitals->status;
  struct source_counters counters = {0};
  if (vitals->run->source) counters = source_counters(vitals->run->source);
  if (!counters.replays) return;
  status->replay_windows = (uint64_t)counters.windows_held;
  status->replay_windows_needed = (uint64_t)counters.windows_needed;
  status->replay_ratio = source_replay_ratio(&counters);
  status->replay_ratio_asked = vitals->run->options->replay_ratio;
}

/* Share of the time that a wait took. */
static double share(int64_t wait_us, double seconds) {
  double part = (double)wait_us / SECOND_US / seconds;
  return part < 0 ? 0 : part > 1 ? 1 : part;
}

/* What is about the last seconds. */
static void fill_rates(struct vitals *vitals, const struct vitals_moment *since,
                       const struct vitals_moment *now) {
  struct wire_status *status = &vitals->status;
  double seconds = (double)(now->at_us - since->at_us) / SECOND_US;
  status->steps_per_second = (double)(now->steps - since->steps) / seconds;
  status->trained_steps_per_second = (double)(now->trained_steps - since->trained_steps) / seconds;
  status->updates_per_second = (double)(now->updates - since->updates) / seconds;
  status->fifo_wait = share(now->give_wait_us - since->give_wait_us, seconds);
  status->trainer_wait = share(now->take_wait_us - since->take_wait_us, seconds);
  vitals->cpu_cores = (double)(now->cpu_us - since->cpu_us) / (seconds * SECOND_US);
}

/* Moments are half a second apart, or more; a tick may come a little early. Rates since the start
 * are there sooner, for runs that are over by then. */
static void note_moment(struct vitals *vitals, const struct trainer_report *trainer,
                        int64_t now_us) {
  struct wire_status *status = &vitals->status;
  struct run *run = vitals->run;
  int64_t last = vitals->num_moments - 1, oldest = last - (VITALS_MOMENTS - 1);
  int64_t age_us = now_us - vitals->moment[last % VITALS_MOMENTS].at_us;
  if (age_us < (last > 0 ? LEAST_US : FIRST_US)) return;
  struct vitals_moment now = moment_of(run, trainer, now_us);
  fill_rates(vitals, &vitals->moment[(oldest > 0 ? oldest : 0) % VITALS_MOMENTS], &now);
  vitals->is_measured = true;
  if (age_us < LEAST_US) return;
  vitals->moment[vitals->num_moments++ % VITALS_MOMENTS] = now;
  status->batch_rows = metric_mean_since(run->inference_metrics.batch_rows, &vitals->batch_rows);
  status->batch_wait_us =
      metric_mean_since(run->inference_metrics.batch_wait_us, &vitals->batch_wait_us);
  players_tick(vitals->players, now_us);
}

/* ---- silence */

static void describe_replay(struct silence_figures *figures, const struct learner_options *options,
                            const struct source_counters *counters) {
  figures->replay.exists = true;
  figures->replay.started = counters->windows_held >= counters->windows_needed ||
                            counters->windows_since || counters->windows_sampled;
  figures->replay.windows = counters->windows_held;
  figures->replay.needed = counters->windows_needed;
  figures->replay.ratio = options->replay_ratio;
  figures->replay.due =
      options->replay_ratio * (double)counters->windows_since - (double)counters->windows_sampled;
  figures->replay.saving_us = counters->saving_us;
  figures->replay.stride = learner_options_stride(options);
}

static struct silence_figures gather(struct vitals *vitals, int64_t now_us) {
  const struct run *run = vitals->run;
  struct silence_figures figures = {
      .silent_us = now_us - vitals->silence.trained_us,
      .still_us = now_us - vitals->silence.steps_us,
      .listen = vitals->dial,
      .evaluates = run->evaluates,
      .expected_environments = (int)run->options->num_envs,
      .barrier_environments = run->options->deterministic ? (int)run->options->num_envs : 0,
      .collecting = leases_collecting(run->leases),
      .waiting_environments = leases_waiting(run->leases),
      .batch_windows = learner_options_batch_size(run->options),
      .window_steps = (int)run->options->algorithm.unroll_length,
      .max_lag = run->options->max_lag,
      .steps_per_second = vitals->status.steps_per_second};
  if (run->source) {
    struct source_counters counters = source_counters(run->source);
    figures.busy_us = counters.busy_us;
    figures.acting_waits = counters.full;
    figures.open_windows = counters.open_windows;
    figures.windows_dropped = counters.windows_dropped_lag - vitals->windows_dropped;
    if (counters.replays) describe_replay(&figures, run->options, &counters);
  }
  return figures;
}

static void explain(struct vitals *vitals, int64_t now_us) {
  struct silence_figures figures = gather(vitals, now_us);
  struct wire_player *players = players_list(vitals->players, &figures.num_players, now_us);
  figures.players = players;
  char *text = vitals->status.no_data;
  enum silence_cause cause = silence_explain(text, sizeof(vitals->status.no_data), &figures);
  free(players);
  if (silence_say(&vitals->silence, cause, now_us))
    log_warn("no data for %.0f s: %s", (double)figures.silent_us / SECOND_US, text);
}

static void watch_silence(struct vitals *vitals, const struct trainer_report *trainer,
                          int64_t now_us) {
  int64_t steps = progress_steps(vitals->run->progress);
  int64_t lasted_us = silence_note(&vitals->silence, trained(vitals, trainer), steps, now_us);
  if (lasted_us) log_info("data again, after %.0f s without", (double)lasted_us / SECOND_US);
  if (vitals->silence.trained_us == now_us && vitals->run->source)
    vitals->windows_dropped = source_counters(vitals->run->source).windows_dropped_lag;
  if (!silence_lasts(&vitals->silence, now_us)) {
    vitals->status.no_data[0] = '\0';
  } else if (now_us - vitals->explained_us >= SECOND_US) {
    vitals->explained_us = now_us;
    explain(vitals, now_us);
  }
}

/* Updates are made, but each new window is due so many of them that acting stands still. */
static void watch_acting(struct vitals *vitals, int64_t now_us) {
  int64_t steps = progress_steps(vitals->run->progress);
  int64_t lasted_us = silence_note(&vitals->acting, steps, steps, now_us);
  if (lasted_us) log_info("steps again, after %.0f s without", (double)lasted_us / SECOND_US);
  if (!silence_lasts(&vitals->acting, now_us) || silence_lasts(&vitals->silence, now_us)) return;
  struct silence_figures figures = gather(vitals, now_us);
  if (!figures.replay.exists || !figures.acting_waits) return;
  char text[WIRE_NO_DATA_BYTES];
  enum silence_cause cause = silence_explain_acting(text, sizeof(text), &figures);
  if (silence_say(&vitals->acting, cause, now_us))
    log_warn("no step for %.0f s: %s", (double)figures.still_us / SECOND_US, text);
}

/* ---- learning */

/* A figure of the algorithm's losses; NaN: it has none of these names. */
static double term_of(const struct run *run, const struct trainer_report *trainer,
                      const char *name) {
  const struct algorithm *algorithm = run->agent->algorithm;
  for (int i = 0; i < algorithm->num_terms; i++)
    if (strcmp(algorithm->terms[i].name, name) == 0) return trainer->stats.losses.term[i];
  return NAN;
}

/* Of a uniform policy, of all choices together. */
static double most_entropy(const struct run *run) {
  const struct space *space = &run->space;
  double sum = space->discrete ? 0 : NAN;
  for (int c = 0; space->discrete && c < space_num_choices(&space->choices); c++)
    sum += log(space_among(&space->choices, c, space->discrete));
  return sum;
}

/* Once for each update at most. A resumed run has no first episodes to compare with. */
void vitals_watch_learning(struct vitals *vitals, const struct trainer_report *trainer) {
  const struct run *run = vitals->run;
  const struct learner_options *options = run->options;
  if (!run->trains || run->resumed || trainer->updates == vitals->diagnosed) return;
  vitals->diagnosed = trainer->updates;
  double actor_critic = term_of(run, trainer, "train/value"),
         value = isnan(actor_critic) ? term_of(run, trainer, "q/value") : actor_critic;
  /* Values of critics have entropy in them, which returns have not. */
  bool knows_value = !run->policy->without_value && options->algorithm.reward_scale > 0;
  double steps = (double)progress_steps(run->progress), total = (double)options->total_steps;
  const struct diagnosis_figures figures = {
      .share_done = total > 0 ? steps / total : 0,
      .first = progress_returns(run->progress, PROGRESS_FIRST),
      .last = vitals->train,
      .entropy = trainer->stats.losses.entropy,
      .most_entropy = most_entropy(run),
      .value = knows_value ? value / options->algorithm.reward_scale : NAN,
      .discount = options->algorithm.discount,
      .updates = trainer->updates - vitals->first_updates,
      .updates_stopped = trainer->updates_stopped};
  char *text = vitals->status.not_learning;
  enum diagnosis_cause cause =
      diagnosis_note(&vitals->diagnosis, text, sizeof(vitals->status.not_learning), &figures);
  if (cause == DIAGNOSIS_LEARNS) {
    log_info("this run is learning: %s", text);
    text[0] = '\0';
  } else if (cause != DIAGNOSIS_NONE) {
    log_warn("this run may not be learning: %s", text);
  }
}

/* ---- --deterministic */

void vitals_check_repeatable(struct vitals *vitals) {
  if (!vitals->run->options->deterministic || vitals->is_irregular) return;
  struct leases_count count = leases_count(vitals->run->leases);
  if (count.lost == 0) return;
  log_warn(
      "%s has left before the end of the run: the same seed does not give this run again, in spite "
      "of --deterministic",
      count.first_lost);
  vitals->is_irregular = true;
}

void vitals_tick(struct vitals *vitals, const struct trainer_report *trainer, int64_t now_us) {
  vitals_read_returns(vitals);
  fill_progress(vitals, trainer, now_us);
  fill_replay(vitals);
  note_moment(vitals, trainer, now_us);
  watch_silence(vitals, trainer, now_us);
  watch_acting(vitals, now_us);
  vitals_watch_learning(vitals, trainer);
  vitals_check_repeatable(vitals);
}
