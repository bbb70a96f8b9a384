#include "learner/run/options.h"

#include <string.h>

#include "common/base/check.h"
#include "common/base/option_rows.h"
#include "envs/env_module.h"
#include "learner/learn/algorithms.h"
#include "learner/network/names.h"

#define AT(member) offsetof(struct learner_options, member)

#define RUN "Run"
#define SERVING "Serving"
#define NETWORK "Network"
#define REPLAY REPLAY_HEADING
#define PRIORITY PRIORITY_HEADING
#define EXPLORATION EXPLORATION_HEADING
#define RECORDS "Checkpoints and metrics"

/* "vtrace|random|..." */
#define CHOICE_OF(name, algorithm, policy, network, pace, evaluators, options, help) "|" #name
#define AGENTS (ALGORITHMS(CHOICE_OF) + 1)

#define CHOICE_OF_NETWORK(name, of_images, lstm_size) "|" #name

static const struct option rows[] = {
    STRING("env", env, "cartpole", RUN,
           "environment: cartpole, catch, tmaze, synthetic, atari:GAME, gym:ID, or the path of "
           "one's own: ./my_env.so; join: that of the first actor that joins"),
    STRING("env_args", env_args, "{}", RUN,
           "options of the environment, as JSON: {\"length\": 50}"),
    ENV_MODULE_ROW(RUN),
    {"hang_s", "env_step_s", OPTION_INT, AT(hang_s), "300", 0, 1e9, NULL, RUN,
     "exit if creating the environment, to read its spaces, takes longer; 0: no limit"},
    CHOICE("agent", agent, "vtrace", AGENTS, RUN,
           "algorithm, see docs/algorithms.md; random and scripted act without learning"),
    CHOICE("preset", preset, "auto", "auto|seed_atari|r2d2_paper|small", RUN,
           "settings of r2d2 for the Atari: SEED RL's and the paper's, for fleets of hundreds of "
           "environments, or small ones for one machine, which auto chooses"),
    CHOICE("mode", mode, "train", "train|evaluate", RUN,
           "evaluate plays --episodes episodes with a checkpoint of --logdir"),
    CHOICE("policy", policy, "greedy", "greedy|sample", RUN,
           "how evaluators, and --mode=evaluate, choose actions; with Q-learning: greedy but for "
           "--eval_epsilon, or with the epsilon of the first training environment"),
    CHOICE("over", over, "auto", "auto|train|eval", RUN,
           "episodes that --target_return and the result line count; auto: evaluation episodes "
           "once an evaluator has joined"),
    STRING("checkpoint", checkpoint, "", RUN,
           "what --mode=evaluate plays: best or latest (the newest whole one) of --logdir, or a "
           "file; default: the best, and the newest while there is no best one"),
    {"logdir", "job_dir", OPTION_STRING, AT(logdir), "", 0, 0, NULL, RUN,
     "run folder; default runs/<env>-<agent>-<time>"},
    BOOL("resume", resume, "false", RUN, "continue the run in --logdir, if there is one"),
    INT("seed", seed, "1", 0, 9e15, RUN, "seed of parameters, actions and environments"),
    INT("total_steps", total_steps, "0", 0, 1e15, RUN,
        "environment steps to run; 0: the environment's default budget"),
    FLOAT("target_return", target_return, "none", 0, 0, RUN,
          "stop once the mean return of the last 100 episodes reaches this"),
    INT("episodes", episodes, "100", 1, 1e9, RUN, "episodes to play in evaluate mode"),
    INT("episode_steps", episode_steps, "30k", 1, 1e12, RUN,
        "evaluate mode: end once no episode has ended for so many steps of each environment, as "
        "where a policy never ends one; the longest of the Atari has 27,000"),
    BOOL("deterministic", deterministic, "false", RUN,
         "the same seed gives the same run; slower, waits for every actor at every step"),
    INT("learners", learners, "1", 1, 64, RUN,
        "learners that train one network, on this host or by TF_CONFIG on several, each with "
        "actors and experience of its own: the actors are spread over them, --num_envs is each "
        "one's"),
    FLOAT("learners_timeout_s", learners_timeout_s, "60", 3, 1e6, RUN,
          "the run ends, with a checkpoint, once learners have waited for one of them for so long"),
    INT("learner_rank", learner_rank, "-1", -1, 63, RUN,
        "number of this learner among several that something else starts; -1: this one starts the "
        "others"),
    STRING("learners_file", learners_file, "", RUN,
           "with --learner_rank: a new file that these learners share, in memory (/dev/shm)"),
    STRING("learners_at", learners_at, "", RUN,
           "with --learner_rank, on several hosts: HOST:PORT,HOST:PORT,... by rank, where each "
           "learner waits for the others; the same for all"),
    BOOL("learners_mpi", learners_mpi, "false", RUN,
         "the learners meet by MPI: mpiexec -n N or srun --mpi=pmi2 -n N starts as many processes, "
         "with the same words; needs --logdir, and MPICH where the programs are built"),
    BOOL("exit_with_parent", exit_with_parent, "false", RUN, "exit when the parent process exits"),
    CHOICE("log_level", log_level, "info", "debug|info|warn|error", RUN,
           "least level that is logged"),

    STRING("listen", listen, "127.0.0.1:8686", SERVING,
           "address to serve actors on: HOST:PORT or unix:PATH"),
    CREDENTIALS_SERVER_ROWS(access, SERVING, "the learner's", "actors"),
    STRING("operator_token_file", access.operator_token_file, "", SERVING,
           "file with the secret that those must show who get and set parameters: rules as for "
           "--token_file, but another token, and that of actors is refused then"),
    INT("num_envs", num_envs, "4", 1, 65536, SERVING,
        "training environments expected, of all actors together"),
    INT("num_eval_envs", num_eval_envs, "16", 0, 65536, SERVING,
        "evaluation environments that may join"),
    INT("max_envs", max_envs, "0", 0, 65536, SERVING,
        "training environments that may join; 0: twice num_envs"),
    INT("queues", queues, "-1", -1, 64, SERVING,
        "completion-queue threads; 0: one, which also runs inference; -1: 0, and on a GPU one for "
        "each 4 cores, 2 to 4, if there are so many"),
    INT("target_rows", target_rows, "0", 0, 65536, SERVING,
        "rows that start an inference batch; 0: half of the live environments. Where the algorithm "
        "is synchronous: num_envs"),
    INT("max_wait_us", max_wait_us, "5000", 0, 10000000, SERVING,
        "a row waits no longer than this for its batch to fill"),
    INT("late_us", late_us, "0", 0, 600000000, SERVING,
        "an environment that steps for longer is not waited for; 0: 10 x the median, at least 20 "
        "ms, and 1 s where the algorithm is synchronous"),

    CHOICE("network", network, "auto", "auto" NETWORKS(CHOICE_OF_NETWORK), NETWORK,
           "kind of network; impala_* and nature read images, and the other parts of an "
           "observation beside them; auto: where the observation has an image of at least 36x36, "
           "nature for dqn, double_dqn and rainbow, impala_shallow for others; where it has none, "
           "lstm for r2d2 and with an --lstm_size, mlp for others"),
    STRING(
        "hidden", hidden, "64,64", NETWORK,
        "sizes of the hidden layers (before the LSTM), or none; by default 256,256 for sac and for "
        "ppo's continuous actions, 128,128 for vtrace, dqn and double_dqn"),
    CHOICE("activation", activation, "tanh", "tanh|relu", NETWORK,
           "activation of the hidden layers"),
    INT("lstm_size", lstm_size, "-1", -1, 4096, NETWORK,
        "units of the LSTM; 0: none, in impala_* and nature; -1: the network's: lstm 64, impala_* "
        "256, nature 0; ppo on the Atari 0"),
    INT("frame_stack", frame_stack, "0", 0, 16, NETWORK,
        "frames that are stacked as input of a network for images, newest first; 0: 4 without "
        "LSTM, else 1"),
    BOOL("previous_action", previous_action, "true", NETWORK, "the previous action is an input"),
    BOOL("previous_reward", previous_reward, "true", NETWORK,
         "the reward into the step is an input"),
    BOOL("clip_reward_input", clip_reward_input, "true", NETWORK,
         "clip that reward to +-1; false: as received"),
    BOOL("normalize_observations", normalize_observations, "false", NETWORK,
         "normalise numbers of float32 vectors by their running mean and deviation; by default "
         "true for vtrace, a2c and ppo, but for cartpole and tmaze"),
    BOOL("normalize_images", normalize_images, "false", NETWORK,
         "normalise each number of an image, as networks for images read it, by the running mean "
         "and deviation of its place; by default true for ppo"),
    INT("head_hidden", head_hidden, "0", 0, 65536, NETWORK,
        "units of a hidden layer in the head, one for the policy or advantages and one for the "
        "value; 0: none"),
    CHOICE("device", device, "cpu", "auto|cpu|cuda|ref|ref_double", NETWORK,
           "device that computes; auto: cuda where a GPU can be used, else cpu; ref is slow and "
           "exact"),
    CHOICE("precision", precision, "float32", "float32|tf32|bf16|auto", NETWORK,
           "number format of convolutions and large products, on cpu but for those with tanh; "
           "parameters and sums stay float32; tf32: cuda only; auto: bf16 on cuda, and on cpu with "
           "AVX512_BF16 or AMX"),
    INT("trainer_threads", trainer_threads, "1", 0, 32, NETWORK,
        "cpu: threads that share an update's large operations in float32, to the same results with "
        "any number; 0: one for each core, at most 4, divided among the learners of this host; by "
        "default 0 for a2c, ppo and sac; other devices ignore it"),
    INT("gpu", gpu, "0", 0, 1023, NETWORK,
        "cuda: number of the GPU among those that CUDA_VISIBLE_DEVICES shows; the other learners "
        "of --learners take the next ones"),
    INT("gpu_memory_mib", gpu_memory_mib, "0", 0, 1e9, NETWORK,
        "cuda: MiB of the GPU's memory that the learner takes, at most; 0: what is free"),
    CHOICE("observation_memory", observation_memory, "gpu", "gpu|host", NETWORK,
           "cuda: where stored observations are; host: in pinned memory of the host, "
           "which the GPU reads over the bus, for a replay that is larger than the GPU's memory"),

    INT("max_lag", max_lag, "0", 0, 1e9, ALGORITHM_HEADING,
        "without a replay: drop windows that began more than this many updates ago; 0: keep all"),
    ALGORITHM_ROWS(algorithm),
    BOOL("dueling", dueling, "false", Q_LEARNING_HEADING,
         "an action's value is a state value plus its advantage, less the mean one"),
    BOOL("noisy", noisy, "false", Q_LEARNING_HEADING,
         "the head's layers are noisy: they explore, so that --epsilon_start may be 0"),
    INT("atoms", atoms, "1", 1, 1001, Q_LEARNING_HEADING,
        "values are distributions over this many atoms (C51: 51); 1: numbers"),
    FLOAT("value_low", value_low, "-10", -1e9, 1e9, Q_LEARNING_HEADING, "value of the first atom"),
    FLOAT("value_high", value_high, "10", -1e9, 1e9, Q_LEARNING_HEADING, "value of the last atom"),

    INT("window_stride", window_stride, "0", 0, 10000, REPLAY,
        "steps between the starts of two windows; 0: the steps that count in one"),
    INT("replay_steps", replay_steps, "1M", 1, 2e9, REPLAY, "steps that the replay holds, at most"),
    INT("replay_mib", replay_mib, "0", 0, 1e9, REPLAY,
        "MiB that the replay takes, at most; 0: as many as replay_steps need"),
    INT("replay_min_steps", replay_min_steps, "10k", 1, 2e9, REPLAY,
        "steps in the replay before training starts"),
    FLOAT("replay_ratio", replay_ratio, "1", 1e-3, 1e6, REPLAY,
          "windows sampled for each one that is inserted"),
    FLOAT(
        "replay_band", replay_band, "0", 0, 1e9, REPLAY,
        "windows by which sampling may fall behind replay_ratio before acting waits; 0: the least "
        "that works, twice over"),
    FLOAT("priority_exponent", priority_exponent, "0.9", 0, 10, PRIORITY,
          "windows are sampled in proportion to priority ^ this; 0: uniformly"),
    FLOAT(
        "importance_exponent", importance_exponent, "0.6", 0, 10, PRIORITY,
        "losses are weighted by (1 / probability) ^ this, the largest of a batch by 1; 0: equally"),
    FLOAT("importance_exponent_end", importance_exponent_end, "-1", -1, 10, PRIORITY,
          "importance_exponent at total_steps, to which it moves linearly; -1: it stays"),
    CHOICE("initial_priority", initial_priority, "td", "td|max", PRIORITY,
           "priority of a new window: from its TD errors during acting, or the largest of late"),

    CHOICE("exploration", exploration, "per_environment", "per_environment|linear|constant",
           EXPLORATION,
           "how epsilon, the share of random actions, is set: epsilon_start ^ (1 + 7 i/(N - 1)) of "
           "environment i of N; from epsilon_start to epsilon_end; or epsilon_start"),
    FLOAT("epsilon_start", epsilon_start, "0.4", 0, 1, EXPLORATION, "see --exploration"),
    FLOAT("epsilon_end", epsilon_end, "0.01", 0, 1, EXPLORATION, "linear: epsilon at the end"),
    INT("epsilon_steps", epsilon_steps, "100k", 1, 1e15, EXPLORATION,
        "linear: environment steps until then; by default at most a tenth of total_steps"),
    FLOAT("eval_epsilon", eval_epsilon, "0.001", 0, 1, EXPLORATION,
          "epsilon of evaluators, and of --mode=evaluate, unless --policy=sample"),

    OPTIMIZER_ROWS(optimizer),

    FLOAT("checkpoint_secs", checkpoint_secs, "60", 0, 1e9, RECORDS,
          "seconds between checkpoints; the first is written after a second; 0: only at the end"),
    INT("checkpoint_steps", checkpoint_steps, "0", 0, 1e15, RECORDS,
        "environment steps between checkpoints that stay (checkpoints/step-...); 0: none"),
    INT("checkpoints_kept", checkpoints_kept, "3", 1, 10000, RECORDS,
        "number of newest checkpoints that are kept"),
    BOOL("checkpoint_replay", checkpoint_replay, "false", RECORDS,
         "save the replay with each checkpoint, for --resume; only the newest is kept. Acting and "
         "training go on meanwhile; the disk needs room for two"),
    FLOAT("metrics_secs", metrics_secs, "10", 0, 3600, RECORDS,
          "longest interval of metrics.jsonl and TensorBoard's events: a young run writes more "
          "often; 0: neither is written, nor episodes.csv"),
    INT("metrics_steps", metrics_steps, "0", 0, 1e15, RECORDS,
        "environment steps between those lines instead, at its multiples in every run, so that the "
        "curves of seeds align; 0: by --metrics_secs"),
    BOOL("tensorboard", tensorboard, "true", RECORDS,
         "write TensorBoard's event files into the run folder"),
    BOOL("episodes_csv", episodes_csv, "true", RECORDS,
         "write episodes.csv into the run folder: a row for each episode; above 1,000 a second, "
         "for every second, fourth ... one"),
    FLOAT("video_every", video_every, "0", 0, 1e9, RECORDS,
          "seconds between videos of a greedy episode, in videos/ of the run folder, each of a "
          "checkpoint that has just been written; 0: none. ffmpeg makes them"),
    INT("metrics_port", metrics_port, "0", 0, 65535, RECORDS,
        "serve the metrics to Prometheus at http://ADDRESS:PORT/metrics; 0: off"),
    STRING("metrics_address", metrics_address, "127.0.0.1", RECORDS,
           "IP address to serve them on; 0.0.0.0: on all"),
    STRING("metrics_token_file", metrics_token_file, "", RECORDS,
           "file with the token that a scraper must send (Authorization: Bearer); rules as for "
           "--token_file, but another token"),
};

static const struct option_exit exits[] = {
    {"0", "the run is over, or SIGTERM or SIGHUP stopped it in order"},
    {"1",
     "the run failed, or its last checkpoint or result could not be written; the log has the "
     "reason"},
    {"2", "wrong options, or a run folder, address or limit that does not let it start"},
    {"3",
     "the budget ended before --target_return was reached, or --episode_steps before --episodes"},
    {"130",
     "SIGINT (Ctrl-C) stopped it in order, or a second signal ended it before it had stopped"},
    {NULL, NULL},
};

const struct option_table learner_options_table = {
    .program = "learner",
    .about =
        "Serves actions to actors, trains on their steps, keeps the parameters.\n"
        "Options that are not given get the presets of environment and agent; the run folder's\n"
        "config.txt has the effective values.",
    .exits = exits,
    .options = rows,
    .count = sizeof(rows) / sizeof(rows[0]),
};

bool learner_option_is_of_experiment(const struct option *option) {
  static const char *const groups[] = {NETWORK, ALGORITHM_HEADING, OPTIMIZER_HEADING};
  static const char *const names[] = {"env", "env_args", "agent", "preset"};
  static const char *const of_machine[] = {"gpu", "trainer_threads"}; /* change no result */
  for (size_t i = 0; i < sizeof(of_machine) / sizeof(of_machine[0]); i++)
    if (strcmp(option->name, of_machine[i]) == 0) return false;
  for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++)
    if (strcmp(option->group, groups[i]) == 0) return true;
  for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
    if (strcmp(option->name, names[i]) == 0) return true;
  return learner_option_is_of_agents(option);
}

bool learner_option_is_shared(const struct option *option) {
  static const char *const names[] = {"seed", "total_steps", "num_envs", "deterministic"};
  for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
    if (strcmp(option->name, names[i]) == 0) return true;
  return learner_option_is_of_experiment(option);
}

void learner_options_evaluate(struct learner_options *options) {
  static const char *const names[] = {"metrics_port", "deterministic", "max_envs"};
  for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
    const struct option *option = options_find(&learner_options_table, names[i]);
    struct error error;
    enum status status = options_set(&learner_options_table, options, option->name,
                                     option->fallback, "an evaluation", &error);
    CHECK(status == STATUS_OK, "%s", error.text);
  }
}
