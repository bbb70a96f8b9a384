/* The learner's options: one struct, one table (options.c), and the defaults that depend on the
 * environment (presets). Upstream: run_options.h, deploy/launch/plan.h (routes flags by the table).
 * Thread: start only. */
#ifndef ACORN_LEARNER_RUN_OPTIONS_H
#define ACORN_LEARNER_RUN_OPTIONS_H

#include "common/base/options.h"
#include "common/rpc/credentials.h"
#include "learner/learn/algorithm_options.h"
#include "learner/train/optimizer_options.h"

/* Files that a learner keeps open, connections apart: stdin, stdout and stderr; 7 of libuv's loop;
 * 4 of gRPC; the run folder, its lock, metrics.jsonl, episodes.csv and events; up to 2 sockets that
 * listen for actors with an eventfd beside them, 1 for metrics; 1 to the supervisor. */
enum { LEARNER_FILES = 3 + 7 + 4 + 5 + 4 + 1 };

struct learner_options {
  struct options_given given; /* first: see options.h */

  /* run */
  char *env, *env_args, *module, *agent, *preset, *mode, *policy, *over, *checkpoint;
  char *logdir;
  bool resume;
  int64_t seed, total_steps, episodes, episode_steps, hang_s;
  double target_return;
  bool deterministic, exit_with_parent;
  int64_t learners, learner_rank; /* rank -1: this process starts the others */
  double learners_timeout_s;
  char *learners_file, *learners_at;
  bool learners_mpi;
  char *log_level;

  /* serving */
  char *listen;
  struct credentials_options access; /* what is asked of actors */
  int64_t num_envs, num_eval_envs, max_envs, queues;
  int64_t target_rows, max_wait_us, late_us;

  /* network */
  char *network, *hidden, *activation;
  int64_t lstm_size, frame_stack;
  bool previous_action, previous_reward, clip_reward_input, normalize_observations,
      normalize_images;
  bool dueling, noisy;
  int64_t head_hidden, atoms;
  double value_low, value_high;
  char *device, *precision;
  int64_t gpu, gpu_memory_mib, trainer_threads;
  char *observation_memory;

  struct algorithm_options algorithm;
  int64_t max_lag;

  /* replay */
  int64_t window_stride, replay_steps, replay_mib, replay_min_steps;
  double replay_ratio, replay_band;
  double priority_exponent, importance_exponent, importance_exponent_end;
  char *initial_priority;

  /* exploration */
  char *exploration;
  double epsilon_start, epsilon_end, eval_epsilon;
  int64_t epsilon_steps;

  struct optimizer_options optimizer;

  /* checkpoints and metrics */
  double checkpoint_secs, metrics_secs, video_every;
  int64_t checkpoint_steps, metrics_steps;
  int64_t checkpoints_kept, metrics_port;
  bool checkpoint_replay, tensorboard, episodes_csv;
  char *metrics_address, *metrics_token_file;
};

extern const struct option_table learner_options_table;

/* Whether an option says what is learned and how (environment, network, algorithm, optimiser), and
 * not where, when and for how long: runs that agree in these are seeds of one experiment. */
bool learner_option_is_of_experiment(const struct option *option);
/* Whether the learners of a run have to agree in it: in those, and in what they count together. */
bool learner_option_is_shared(const struct option *option);

/* Gives the options that the user left alone the values that suit the environment and the algorithm
 * ("cartpole": a small network and a short budget). Call after parsing. */
void learner_options_apply_preset(struct learner_options *options);

/* Likewise what suits continuous actions, once an environment is known to have them. */
void learner_options_choose_for_continuous(struct learner_options *options);

/* With --learners_mpi: how many learners there are, which of them this one is, and its folder, by
 * what MPI's launcher has told. Its address follows from --listen, or from the default if
 * `listens`. Nothing where a rank is given. Errors: INVALID: no launcher, or a contradiction. */
MUST_CHECK enum status learner_options_take_mpi(struct learner_options *options, bool listens,
                                                struct error *error);

/* What --network=auto comes to once the observation is known, and what depends on the network.
 * Errors: INVALID: other options do not fit that network. */
MUST_CHECK enum status learner_options_choose_network(struct learner_options *options,
                                                      bool has_image, struct error *error);

/* What --minibatches=0 comes to at most. Call once actions and network are known. */
void learner_options_choose_minibatches(struct learner_options *options, bool continuous);

/* Makes of a run's options those of its evaluation: how it trained, or whose it is while it may
 * still be training, becomes general again. Call between reading config.txt and what the user
 * gives. */
void learner_options_evaluate(struct learner_options *options);

/* Windows N of a training batch: as given, over all learners, or one of every environment. */
int learner_options_batch_size(const struct learner_options *options);

/* Steps T of a training window: the burn-in and the unroll; and those between the starts of two
 * windows. */
int learner_options_window_steps(const struct learner_options *options);
int learner_options_stride(const struct learner_options *options);

/* Environment steps from one update to the next, by the rate at which a replay is sampled. */
double learner_options_update_steps(const struct learner_options *options);
/* Whether --target_update is of a config.txt that counted updates; so many steps they are. */
bool learner_options_count_updates(const struct learner_options *options);
double learner_options_updates_in_steps(const struct learner_options *options);
/* --target_update in updates: the nearest number, at least 1. */
int64_t learner_options_target_updates(const struct learner_options *options);

/* Whether there are settings for that environment. */
bool learner_options_has_preset(const char *env);

/* Whether only some agents have the option. */
bool learner_option_is_of_agents(const struct option *option);

/* Whether the agent learns (and has a network of --network), or only acts. */
bool learner_options_learns(const struct learner_options *options);

/* Evaluators that suit the agent: a launcher starts so many unless told otherwise. */
int learner_options_evaluators(const struct learner_options *options);

/* Whether it learns from a replay. */
bool learner_options_replays(const struct learner_options *options);

/* Whether the agent's network reads images; not before learner_options_choose_network. */
bool learner_options_pixels(const struct learner_options *options);

/* Gives what a file says of options that the agent does not have their defaults: a config.txt of
 * another agent, or one that was written when presets set them all. What is typed stays, and is
 * refused. is_said: with a line in the log. */
void learner_options_drop_foreign(struct learner_options *options, bool is_said);

/* Once a run's config.txt has been read, and nothing else: one that does not name
 * normalize_observations is from before it, when neither observations nor values were normalised,
 * and they are not; likewise normalize_images. Returns the options that it is from before, as words
 * for a sentence, or NULL. */
const char *learner_options_keep_raw(struct learner_options *options);

/* What a --config file of a new run means today: drops what is of other agents, or of
 * parts that its network does not have, keeps observations as they are if it is from before
 * --normalize_observations or --normalize_images, and warns of a --target_update that may count
 * updates. Before presets. */
void learner_options_take_file(struct learner_options *options);

/* What options cannot say one by one: sizes that contradict each other. Errors: INVALID. */
MUST_CHECK enum status learner_options_check(const struct learner_options *options,
                                             struct error *error);

/* Of these: whether --preset is for the agent; whether the network has what was given for
 * it, once it is known. */
MUST_CHECK enum status learner_options_check_preset(const struct learner_options *options,
                                                    struct error *error);
MUST_CHECK enum status learner_options_check_network(const struct learner_options *options,
                                                     struct error *error);

/* Environments per actor that run_local.sh uses when none is given. */
int learner_default_envs_per_actor(const char *env);

#endif
