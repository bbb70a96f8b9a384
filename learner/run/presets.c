/* Defaults that depend on the environment and the algorithm, as one would type them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "learner/run/agents.h"
#include "learner/run/options.h"

struct preset {
  const char *env;    /* "": any */
  const char *agent;  /* one or more, separated by "|"; "": any */
  const char *values; /* "NAME=VALUE ..." */
};

/* Learn values of actions from a replay. */
#define DQN "dqn|double_dqn|rainbow"
#define Q DQN "|r2d2"

/* Learn a policy and values of it, from a replay. */
#define SAC "sac"

/* Learn a policy and a value. */
#define POLICY "vtrace|a2c|ppo"
#define POLICY_IN_STEP "a2c|ppo"

#define LARGE "seed_atari|r2d2_paper"

/* SEED RL's Atari agent: its flags, and those of its script for 640 environments. The paper's:
 * Kapturowski et al. 2019, table 2. Small: for a machine with a few cores. */
static const struct {
  const char *preset; /* as agent */
  const char *values;
} named[] = {
    {LARGE,
     "network=nature lstm_size=512 head_hidden=512 frame_stack=4 unroll_length=80 burn_in=40 "
     "batch_size=64 learning_rate=1e-4 adam_epsilon=1e-3 replay_ratio=0.75"},
    {LARGE "|small",
     "clip_reward_input=false reward_clip=0 discount=0.997 loss_reduction=sum_over_time"},
    /* target_update: 2,500 updates. */
    {"seed_atari",
     "max_gradient_norm=80 adam_epsilon_hat=true target_update=17066667 replay_steps=8M "
     "replay_min_steps=400k"},
    {"r2d2_paper",
     "window_stride=40 max_gradient_norm=40 target_update=8533333 replay_steps=4M "
     "replay_min_steps=200k"},
    {"small",
     "network=impala_shallow head_hidden=256 unroll_length=40 burn_in=20 batch_size=8 "
     "max_gradient_norm=40 learning_rate=3e-4 target_update=16k replay_ratio=2 replay_steps=400k "
     "replay_min_steps=20k"},
};

/* The first row that fits and has an option wins: what is of one environment and one algorithm
 * stands first. */
static const struct preset presets[] = {
    /* Batches of fresh steps bear larger ones; seeds 1 to 10 reach 475 within 0.4 M steps. */
    {"cartpole", "a2c", "unroll_length=8 lambda=0.95 learning_rate=0.003"},
    /* 475 within 160 k steps; windows of 32 and 64 steps took 185 k and 304 k. */
    {"cartpole", "ppo", "unroll_length=16"},
    /* Longer runs may forget again: failures become rare in what is replayed. */
    {"cartpole", DQN,
     "total_steps=300k unroll_length=4 batch_size=64 hidden=64,64 value_rescaling=0 "
     /* Fewer and smaller steps may leave a run at 250, where the cart drifts out, to its end. */
     "n_steps=5 discount=0.99 learning_rate=7e-4 learning_rate_decay=linear adam_epsilon=1e-5 "
     "max_gradient_norm=10 target_update=400 replay_ratio=64 "
     /* All of a run: once the steps of failures are gone, how to avoid them is forgotten. */
     "replay_steps=500k reward_scale=0.1 replay_min_steps=2k epsilon_steps=30k"},
    /* Returns of up to 100 x reward_scale. */
    {"cartpole", "rainbow", "value_low=0 value_high=10"},
    {"cartpole", "r2d2",
     "total_steps=2M hidden=none previous_action=true discount=0.99 "
     /* With rescaled returns, a rate of 0.001 without decay and half the updates one run in six was
      * lost again by its end. */
     "value_rescaling=0 reward_scale=0.1 huber=1 replay_steps=2M replay_ratio=8 "
     "target_update=16k "
     /* As for dqn: with 5e-4 and 5 steps one run ended at 306, with copies every 32 k at 366. */
     "learning_rate=8e-4 n_steps=10 learning_rate_decay=linear adam_epsilon=1e-4 "
     "max_gradient_norm=40 unroll_length=40 burn_in=20 batch_size=32"},
    /* With 0.1, that of the other agents, a solved policy stays random: of 35 M steps the last
     * million had 478, with this 498, and 475 is reached no later. */
    {"cartpole", "vtrace", "entropy_cost=0.02"},
    {"cartpole", "",
     "total_steps=1500k previous_action=false previous_reward=false "
     /* Returns reach 500: the value's gradient is weighted down, or it would drown the policy's in
      * the layers they share; the entropy bonus is in proportion to advantages of tens. With Adam's
      * usual epsilon a solved policy, whose gradient is nearly nothing, walks at random and is lost
      * again. Steps are small enough that the parameters of any moment play as the last 100
      * episodes did: with 0.0015, 1 and 0.95 one run in ten that had reached 475 was greedily below
      * it. */
     "discount=0.98 lambda=0.9 baseline_cost=0.05 entropy_cost=0.1 learning_rate=0.0012 "
     "learning_rate_decay=linear adam_epsilon=1e-3 max_gradient_norm=0.5 hidden=64,64"},
    /* What else is set for these was chosen for observations and values as they are; the Atari has
     * rewards of 1 and no vectors of floats. */
    {"cartpole", "", "normalize_observations=false normalize_values=false kl_cost=0"},
    {"tmaze", "", "normalize_observations=false normalize_values=false kl_cost=0"},
    {"atari", "ppo", "normalize_values=true normalize_advantages=false entropy_cost_decay=1"},
    {"atari", "", "normalize_values=false kl_cost=0"},
    {"tmaze", "vtrace|a2c", "max_gradient_norm=40"},
    {"tmaze", "r2d2", "discount=0.98 learning_rate=0.001 burn_in=20 batch_size=32"},
    {"tmaze", "vtrace", "batch_size=8 lambda=1"},
    /* A window is long enough to hold both the cue and the junction; the corridor is 10 steps. */
    {"tmaze", "",
     "total_steps=1M network=lstm hidden=none unroll_length=40 discount=0.95 learning_rate=0.004 "
     "entropy_cost=0.005"},
    /* IMPALA's for the Atari (Espeholt et al. 2018, table G.1), with SEED RL's Adam and its mean
     * over steps where IMPALA sums, so that a norm of 40 hardly ever clips; but for the batch:
     * Pong, of which 2 M steps in batches of 32 windows taught next to nothing, is won by then in
     * batches of 8, four times as many updates. */
    {"atari", "r2d2", "preset=small"}, /* the others are for fleets */
    /* Updates of 32 steps as in the papers, but one in 16 steps: so they are larger, and look
     * further ahead. With targets copied every 128 k steps, half the updates, 1e-4 and returns of
     * one step, Breakout was after 1.2 M steps where it began. */
    {"atari", DQN, "learning_rate=2e-4"},
    {"atari", Q, "learning_rate=1e-4 learning_rate_decay=none"},
    {"atari", DQN,
     "previous_action=true previous_reward=true network=nature head_hidden=512 n_steps=3 "
     "value_rescaling=0 "
     "unroll_length=4 batch_size=8 replay_ratio=2 adam_epsilon=1.5e-4 max_gradient_norm=10 "
     "loss_reduction=mean target_update=8k replay_steps=400k replay_min_steps=20k "
     "epsilon_steps=250k"},
    /* Schulman et al. 2017, table 5, in windows that are longer where environments are few, but for
     * a clip of 0.2 and an entropy cost of 0.005 that falls with the rate. With 0.0015 the entropy
     * was 0.24 after 1.4 M steps of gym:ALE/Pong-v5, and the return stayed at 16:
     * docs/results.md. */
    {"atari", "ppo",
     "unroll_length=fits learning_rate=2.5e-4 clip_ratio=0.2 entropy_cost=0.005 "
     "max_gradient_norm=0.5"},
    {"atari", "",
     "total_steps=12M network=impala_shallow reward_clip=1 discount=0.99 entropy_cost=0.01 "
     "baseline_cost=0.5 precision=auto learning_rate=5e-4 learning_rate_decay=linear "
     "loss_reduction=mean max_gradient_norm=40 unroll_length=20"},
    {"atari", "vtrace", "batch_size=8 lambda=1"},
    /* Mnih et al. 2015, with Adam for RMSProp. */
    {"", "dqn", "double_q=false"},
    /* As Mnih et al. clip errors: without it one run in ten on CartPole was lost again. */
    {"", "dqn|double_dqn", "huber=1 priority_exponent=0 importance_exponent=0"},
    /* Returns of hundreds on the scale of ones (Pohlen et al. 2018): gym:LunarLander-v3 by
     * double_dqn had 148 without and with layers of 64, see docs/results.md. With relu dqn's values
     * of gym:CartPole-v1 went to infinity. */
    {"", "dqn|double_dqn", "value_rescaling=1e-3 hidden=128,128"},
    /* Hessel et al. 2018, table 1; of random actions see choose_exploration. A new window's own TD
     * errors are differences of means, an update's are divergences of distributions, on another
     * scale. */
    {"", "rainbow",
     "dueling=true atoms=51 priority_exponent=0.5 importance_exponent=0.4 "
     "importance_exponent_end=1 initial_priority=max"},
    /* Mnih et al. 2015. A policy that lets the cart drift out after 250 steps hardly meets anything
     * else: beside busy neighbours one run of gym:CartPole-v1 in four ended so with 0.01, one in
     * twenty with 0.05, one in fifty with 0.1. */
    {"cartpole", DQN, "epsilon_end=0.01"}, /* with its own settings none does */
    {"atari", DQN, "epsilon_end=0.01"},
    {"", DQN, "epsilon_end=0.1"},
    {"", DQN,
     "unroll_length=8 "
     /* A step is trained on 8 times, as in Mnih et al. 2015. gym:CartPole-v1, -Acrobot and
      * -FrozenLake are learned in 300 k steps (tests/learning/dqn_gym.sh): with returns of one
      * step, or half the updates of twice the size, CartPole ended between 100 and 450. A target of
      * 1,000 steps leaves one run in 20 below 475, one of 250 one in 5, this one none of 48. */
     "batch_size=8 replay_ratio=8 replay_min_steps=1k target_update=500 n_steps=3 "
     "learning_rate_decay=linear adam_epsilon=1e-5 max_gradient_norm=10 previous_action=false "
     "previous_reward=false"},
    /* Kapturowski et al. 2019, table 2, but for the other sizes. With windows of 40 steps behind 20
     * nothing shown 50 steps ago was remembered (tests/bench/chain.sh). */
    {"", "r2d2",
     "dueling=true n_steps=5 value_rescaling=1e-3 discount=0.997 unroll_length=80 burn_in=40 "
     "batch_size=16 replay_ratio=4 replay_steps=200k replay_min_steps=5k target_update=64k "
     "adam_epsilon=1e-4"},
    {"", Q, "loss_reduction=sum_over_time"},
    /* Andrychowicz et al. 2021, section 3.3. Agents that learn values have not been tried. */
    {"", POLICY, "normalize_observations=true normalize_values=true"},
    /* gym:ALE/Pong-v5 by ppo: docs/results.md. Not tried with vtrace and a2c. */
    {"", "ppo", "normalize_images=true"},
    /* Of normalised numbers. With 40 one of two runs of gym:CartPole-v1 by vtrace had 320 after
     * 300 k steps, with this both 500; a2c left a box's bounds for ever at a rate of 0.005. */
    {"", POLICY, "max_gradient_norm=0.5"},
    /* Haarnoja et al. 2018, appendix D; a step is a window of its own, an update follows each. With
     * 1,000 steps at random of a million one of two HalfCheetahs stayed on its back, at 1,400. */
    {"", SAC,
     "total_steps=1M hidden=256,256 activation=relu unroll_length=1 batch_size=256 "
     "replay_ratio=256 replay_min_steps=fits learning_rate=3e-4 adam_epsilon=1e-8 "
     "max_gradient_norm=0 previous_action=false previous_reward=false trainer_threads=0"},
    /* A window of every environment; and they step together: a batch of inference is not cut short
     * because one of them is slow, unless it is late. They wait for updates, which have the
     * cores. */
    {"", POLICY_IN_STEP, "batch_size=0 max_wait_us=1000000 trainer_threads=0"},
    {"cartpole", "vtrace", "batch_size=32"},
    /* 500 numbers with an action each (tests/learning/small.sh) want many updates, and some
     * randomness for long: in batches of 32 windows vtrace had 8 of 20, with lambda at 1 16 of 20;
     * with windows of 16 steps a2c had 14, with an entropy cost of 0.01 one run of two 13. */
    {"", "a2c", "unroll_length=8 learning_rate=2e-3 learning_rate_decay=linear"},
    /* gym:LunarLander-v3 wants the width, gym:CartPole-v1 the smaller rate and its decay: with 64
     * and 1e-3 to the end the one had 180 and 213 after 2 M steps, the other 357 in the middle of
     * six after 400 k; with 128 and 1e-3 it was lost in three of four. Batches of half as many
     * windows make up for the rate. See docs/results.md. */
    {"", "vtrace",
     "batch_size=fits lambda=0.95 hidden=128,128 learning_rate=7e-4 learning_rate_decay=linear"},
    /* With 0.02 one run in four gave up one of the six actions of the 500 numbers. LunarLander by
     * vtrace hovers with 0.05. */
    {"", "a2c", "entropy_cost=0.05"},
    /* Advantages of a solved task are noise, which their own deviation makes large: 6 of 24 runs of
     * gym:CartPole-v1 ended below 470, and of 21 of Catch on 84 x 84 pixels two settled for 0.6.
     * Held to the policy that acted, 8 (and 8 with 3) had 492 and more, and 23 had 0.9. */
    {"", "vtrace", "entropy_cost=0.02 kl_cost=1"},
    {"", POLICY_IN_STEP, "lambda=0.95"},
    /* As in Schulman et al. 2017, but for shorter windows at three times the rate: there are more
     * environments. With 64 of them windows of 64 steps left gym:CartPole-v1 at 440 after 150 k
     * steps, where windows of 32 had 495. */
    {"", "ppo",
     "unroll_length=fits epochs=fits learning_rate=1e-3 learning_rate_decay=linear "
     "adam_epsilon=1e-5"},
};

/* Of continuous actions, once they are known to be: many small steps, as MuJoCo's robots are
 * trained elsewhere. gym:Hopper-v5 by ppo: docs/results.md. */
static const struct preset of_continuous[] = {
    {"", "ppo", "hidden=256,256 learning_rate=3e-4 previous_action=false previous_reward=false"},
    {"", "vtrace", "kl_cost=0"}, /* with 1 not tried */
};

/* Of networks for images. gym:ALE/Pong-v5 by ppo, with images normalised, had 8 after 0.5 M steps
 * on four frames without an LSTM, and -5 with one over single frames: docs/results.md. */
static const struct preset of_images[] = {{"atari", "ppo", "lstm_size=0"}};

/* What --network=auto comes to; the first row that fits. Images: as the presets of the Atari. */
static const struct {
  const char *agent; /* as in struct preset */
  const char *of_vector, *of_image;
} networks[] = {
    {DQN, "mlp", "nature"}, {"r2d2", "lstm", "impala_shallow"}, {"", "mlp", "impala_shallow"}};

/* Measured: see docs/design/actor.md, "How many environments an actor holds". */
static const struct {
  const char *env;
  int envs_per_actor;
} actors[] = {{"cartpole", 16}, {"catch", 16}, {"tmaze", 16}, {"synthetic", 4}, {"atari", 8}};

/* What an environment of one's own gets: one in C is fast. */
enum { ENVS_PER_ACTOR = 16 };

int learner_options_batch_size(const struct learner_options *options) {
  int64_t all = options->algorithm.batch_size;
  if (all && options->learners > 1) return (int)(all / options->learners);
  return (int)(all ? all : options->num_envs);
}

int learner_options_window_steps(const struct learner_options *options) {
  return (int)(options->algorithm.q_learning.burn_in + options->algorithm.unroll_length);
}

int learner_options_stride(const struct learner_options *options) {
  return options->window_stride ? (int)options->window_stride
                                : q_learning_counted_steps(&options->algorithm);
}

double learner_options_update_steps(const struct learner_options *options) {
  return learner_options_batch_size(options) * learner_options_stride(options) /
         options->replay_ratio;
}

int64_t learner_options_target_updates(const struct learner_options *options) {
  double updates =
      (double)options->algorithm.q_learning.target_update / learner_options_update_steps(options);
  return updates >= 1 ? llround(updates) : 1;
}

bool learner_options_has_preset(const char *env) {
  for (size_t i = 0; i < sizeof(presets) / sizeof(presets[0]); i++)
    if (strcmp(presets[i].env, env) == 0) return true;
  return false;
}

/* Sets an option that the agent has and the user has not set. */
static void set(struct learner_options *options, const char *name, const char *value) {
  if (options_given(&learner_options_table, options, name) ||
      learner_option_is_foreign(options_find(&learner_options_table, name), options))
    return;
  struct error error;
  enum status status =
      options_set(&learner_options_table, options, name, value, "the defaults", &error);
  CHECK(status == STATUS_OK, "%s", error.text);
}

static int64_t within(int64_t least, int64_t number, int64_t most) {
  return number < least ? least : number > most ? most : number;
}

/* What "fits" stands for. Windows: updates of about 2,000 steps whatever the number of
 * environments, in windows that are not too short to tell what an action led to. Batches: every
 * eighth environment, so that an update waits for few. Epochs: a small batch of what is cheap to
 * compute bears more. Steps before the first update: a hundredth of the run. */
static int64_t fitting(const char *name, const struct learner_options *options) {
  int64_t learners = options->learners, envs = options->num_envs * learners;
  if (strcmp(name, "unroll_length") == 0) return within(16, 2048 / envs, 64);
  if (strcmp(name, "batch_size") == 0) {
    int64_t share = within(4, envs / 8, 32) + learners - 1; /* rounded up */
    return share - share % learners;
  }
  if (strcmp(name, "replay_min_steps") == 0)
    return within(1000, options->total_steps / 100, 10 * 1000);
  int64_t windows = options->algorithm.batch_size ? options->algorithm.batch_size : envs;
  CHECK(strcmp(name, "epochs") == 0, "nothing fits %s", name);
  bool is_small = windows * options->algorithm.unroll_length <= 4096;
  return is_small && !learner_options_pixels(options) ? 10 : 4;
}

/* Each of "NAME=VALUE ...". */
static void set_all(struct learner_options *options, const char *values) {
  char text[512], *rest = text;
  CHECK(strlen(values) < sizeof(text), "%s", values);
  strcpy(text, values);
  for (char *name; (name = strsep(&rest, " "));) {
    char *value = strchr(name, '=');
    CHECK(value, "%s", values);
    *value++ = '\0';
    char number[24];
    if (strcmp(value, "fits") == 0) {
      snprintf(number, sizeof(number), "%lld", (long long)fitting(name, options));
      value = number;
    }
    set(options, name, value);
  }
}

/* What --preset=auto comes to. */
static bool chooses_preset(const struct preset *row) {
  return strncmp(row->values, "preset=", strlen("preset=")) == 0;
}

static bool fits(const struct preset *row, const struct learner_options *options) {
  return (!row->env[0] || strcmp(row->env, options->env) == 0) &&
         agents_list_has(row->agent, options->agent);
}

/* What --preset=auto comes to where there is a choice, typed or not, so that the written
 * configuration says it. */
static void choose_preset(struct learner_options *options) {
  if (strcmp(options->preset, "auto") != 0) return;
  for (size_t i = 0; i < sizeof(presets) / sizeof(presets[0]); i++) {
    if (!chooses_preset(&presets[i]) || !fits(&presets[i], options)) continue;
    struct error error;
    const char *value = strchr(presets[i].values, '=') + 1;
    enum status status =
        options_set(&learner_options_table, options, "preset", value, "the defaults", &error);
    CHECK(status == STATUS_OK, "%s", error.text);
  }
}

/* Agents that --preset is for have a row that chooses one. */
enum status learner_options_check_preset(const struct learner_options *options,
                                         struct error *error) {
  if (strcmp(options->preset, "auto") == 0) return STATUS_OK;
  const char *allowed = "";
  for (size_t i = 0; i < sizeof(presets) / sizeof(presets[0]); i++) {
    if (!chooses_preset(&presets[i])) continue;
    allowed = presets[i].agent;
    if (agents_list_has(allowed, options->agent)) return STATUS_OK;
  }
  return status_fail(error, STATUS_INVALID,
                     "--preset=%s: these are settings of %s, and the agent is %s: leave it out",
                     options->preset, allowed, options->agent);
}

/* A short run is not random to its end. */
static void explore_in_time(struct learner_options *options) {
  int64_t tenth = options->total_steps / 10;
  bool is_linear = strcmp(options->exploration, "linear") == 0;
  if (!is_linear || options_given(&learner_options_table, options, "epsilon_steps")) return;
  if (tenth > 0 && tenth < options->epsilon_steps) options->epsilon_steps = tenth;
}

/* What depends on the network. */
static void apply_network_defaults(struct learner_options *options) {
  for (size_t i = 0; i < sizeof(of_images) / sizeof(of_images[0]); i++)
    if (options->lstm_size < 0 && learner_options_pixels(options) && fits(&of_images[i], options))
      set_all(options, of_images[i].values);
  if (options->lstm_size < 0) options->lstm_size = learner_options_default_lstm_size(options);
  if (options->frame_stack == 0)
    options->frame_stack = learner_options_pixels(options) && options->lstm_size == 0 ? 4 : 1;
}

/* Where a row would hold for one --noisy or --exploration only. */
static void choose_exploration(struct learner_options *options) {
  static const struct preset rows[] = {{"", "rainbow", "noisy=true"},
                                       {"", DQN, "exploration=linear"}};
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
    if (fits(&rows[i], options)) set_all(options, rows[i].values);
  if (options->noisy)
    set_all(options, "epsilon_start=0 epsilon_end=0"); /* noise explores */
  else if (strcmp(options->exploration, "linear") == 0 && agents_list_has(DQN, options->agent))
    set(options, "epsilon_start", "1");
}

/* Nothing is to be brought up to date by longer windows. */
static void burn_in_of_memory(struct learner_options *options) {
  if (!learner_options_remembers(options) &&
      !options_given(&learner_options_table, options, "burn_in"))
    options->algorithm.q_learning.burn_in = 0;
}

void learner_options_apply_preset(struct learner_options *options) {
  struct options_given given = options->given; /* rows that are set count only here */
  /* Typed or not: */
  if (options->total_steps == 0)
    options_reset(&learner_options_table, options,
                  options_find(&learner_options_table, "total_steps"));
  choose_preset(options);
  choose_exploration(options);
  if (options->atoms > 1)
    set_all(options, "huber=0 value_rescaling=0"); /* theirs is another loss */
  for (size_t i = 0; i < sizeof(named) / sizeof(named[0]); i++)
    if (agents_list_has(named[i].preset, options->preset)) set_all(options, named[i].values);
  for (size_t i = 0; i < sizeof(presets) / sizeof(presets[0]); i++)
    if (fits(&presets[i], options)) set_all(options, presets[i].values);
  if (options->total_steps == 0) options->total_steps = 2 * 1000 * 1000;
  if (!learner_options_chooses_network(options)) apply_network_defaults(options);
  options->given = given;
  explore_in_time(options); /* whatever a row says */
  burn_in_of_memory(options);
}

void learner_options_choose_for_continuous(struct learner_options *options) {
  struct options_given given = options->given;
  for (size_t i = 0; i < sizeof(of_continuous) / sizeof(of_continuous[0]); i++)
    if (fits(&of_continuous[i], options)) set_all(options, of_continuous[i].values);
  // Their entropy has no bound: a bonus for it keeps deviations wide.
  if (options->algorithm.actor_critic.target_entropy < 0) set(options, "entropy_cost", "0");
  options->given = given;
}

/* Pong was at -17 after 0.5 M steps with 4 at half the rate, at 4 with 8: docs/results.md. */
void learner_options_choose_minibatches(struct learner_options *options, bool continuous) {
  enum { OF_CONTINUOUS = 16, OF_IMAGES = 8 };
  options->algorithm.ppo.most_minibatches = continuous                        ? OF_CONTINUOUS
                                            : learner_options_pixels(options) ? OF_IMAGES
                                                                              : 0;
}

static const char *network_for(const struct learner_options *options, bool has_image) {
  size_t i = 0;
  if (!has_image && options->lstm_size > 0) return "lstm";
  while (!agents_list_has(networks[i].agent, options->agent)) i++; /* the last row is of any */
  return has_image && learner_options_learns(options) ? networks[i].of_image
                                                      : networks[i].of_vector;
}

enum status learner_options_choose_network(struct learner_options *options, bool has_image,
                                           struct error *error) {
  if (!learner_options_chooses_network(options)) return STATUS_OK;
  struct options_given given = options->given;
  enum status status = options_set(&learner_options_table, options, "network",
                                   network_for(options, has_image), "the defaults", error);
  if (status != STATUS_OK) return status;
  apply_network_defaults(options);
  if (has_image) set_all(options, "epochs=fits");
  options->given = given;
  burn_in_of_memory(options);
  return learner_options_check_network(options, error);
}

const char *learner_options_keep_raw(struct learner_options *options) {
  const struct option_table *table = &learner_options_table;
  bool has_vectors = options_given(table, options, "normalize_observations");
  bool has_images = options_given(table, options, "normalize_images");
  set(options, "normalize_observations", "false");
  set(options, "normalize_values", "false");
  set(options, "normalize_images", "false");
  if (!has_vectors) return "--normalize_observations, --normalize_values and --normalize_images";
  return has_images ? NULL : "--normalize_images";
}

int learner_default_envs_per_actor(const char *env) {
  for (size_t i = 0; i < sizeof(actors) / sizeof(actors[0]); i++)
    if (strcmp(actors[i].env, env) == 0) return actors[i].envs_per_actor;
  return ENVS_PER_ACTOR;
}
