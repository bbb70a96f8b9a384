/* Short ways to write an environment with its options: "atari:Breakout" is the environment atari
 * with {"game": "Breakout"}, "gym:ALE/Breakout-v5" that with sticky actions, and --game,
 * --sticky_actions, --resize and --wrapper are members of --env_args.
 * Upstream: deploy/launch/options.h, learner/run/run_options.c, actor/main.c. Thread: any. */
#ifndef ACORN_ENVS_ENV_WORDS_H
#define ACORN_ENVS_ENV_WORDS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/options.h"
#include "common/base/status.h"

/* Members of a launcher's options. */
struct env_flags {
  char *game, *resize, *wrapper;
  double sticky_actions;
};

/* Their rows (common/base/option_rows.h); `flags` is the member of the launcher's options. */
#define ENV_FLAGS_GROUP "The environment atari"
#define GYM_FLAGS_GROUP "Environments of Gymnasium"
#define ENV_FLAGS_ROWS(flags)                                                                   \
  STRING("game", flags.game, "Pong", ENV_FLAGS_GROUP,                                           \
         "Pong, Breakout, SpaceInvaders, ..., as in atari:Breakout; docs/gymnasium.md has the " \
         "other options of atari"),                                                             \
      FLOAT("sticky_actions", flags.sticky_actions, "0", 0, 1, ENV_FLAGS_GROUP,                 \
            "probability that the emulator repeats the action before"),                         \
      CHOICE("resize", flags.resize, "area", "area|linear", ENV_FLAGS_GROUP,                    \
             "how the screen becomes 84 x 84; linear is SEED RL's"),                            \
      STRING("wrapper", flags.wrapper, "", GYM_FLAGS_GROUP,                                     \
             "of gym:ID, the innermost first: minigrid.wrappers:ImgObsWrapper,my_env:Mine")

/* A word for an environment. */
struct env_word {
  char *env;   /* the environment alone: "atari" */
  char *game;  /* of "atari:GAME" and "gym:ALE/GAME-v5", or NULL */
  bool is_ale; /* the latter: it means sticky actions, too */
};

/* Logs what "gym:ALE/GAME-v5" stands for. Owner: the caller, with env_word_deinit. */
void env_word_init(struct env_word *out, const char *word);
void env_word_deinit(struct env_word *word);

/* The wrappers that `env_args` name; "" if none. Owner: the caller, with free(). */
char *env_words_wrapper(const char *env_args);

/* *out: `env_args` with the flags of `table` (a launcher's, with ENV_FLAGS_ROWS) that were given in
 * `options`, and with what an ID of ALE means where neither has it; NULL if there is nothing to
 * add. Owner: the caller, with free(). Errors: INVALID: they were given for
 * an environment that has them not, or `env_args` is not a JSON object. */
MUST_CHECK enum status env_words_add_flags(char **out, const struct option_table *table,
                                           const void *options, const char *env, bool is_ale,
                                           const char *env_args, struct error *error);

/* What a run of the environment `name` with these options (a JSON object; anything else: none) is
 * called, in its folder's name and its result: "atari-Breakout", "cartpole". */
void env_words_label(char *out, size_t bytes, const char *name, const char *env_args);

/* Whether `name` is an environment of many games or levels, which a label names. */
bool env_words_has_games(const char *name);
/* Whether the options name one. */
bool env_words_names_game(const char *env_args);

/* Splits the option --env of a program that also has --env_args, and adds the game to those.
 * Errors: INVALID: --env_args is not a JSON object. */
MUST_CHECK enum status env_words_expand(const struct option_table *table, void *options,
                                        struct error *error);

#endif
