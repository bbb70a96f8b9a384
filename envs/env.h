/* The environment ABI, version 1: what an environment written in C or C++ is to Acorn. This header
 * is all that a third party needs; docs/environments.md explains it with a whole example.
 *
 * An environment is one struct of functions, `acorn_env`. A plugin is a shared object that exports
 * one, under the name `acorn_environment`:
 *
 *     cc -shared -fPIC -I/usr/local/include my_env.c -o my_env.so
 *     ./run_local.sh ./my_env.so vtrace 4
 *
 * One instance is one world. The caller resets it, steps it until an episode ends, and resets it
 * again. It may also reset in the middle of an episode, and destroy at any time.
 *
 * Threads: an instance is used by one thread at a time, but several instances at once by several
 * threads. So they share nothing that changes: no global or static variables that are written.
 *
 * Errors: a function that fails returns -1 (create: NULL) and writes a sentence for the user into
 * `error`, which has room for `error_bytes` with the terminating zero (use snprintf). The caller
 * then destroys the instance and creates another.
 *
 * Versions: ACORN_ENV_ABI changes when old plugins can no longer work; one compiled for another
 * number is refused. Within a number structs only grow, at their ends. `struct_bytes` is the size
 * of a struct on the side that made it (the plugin: acorn_env; Acorn: the others), and the other
 * side does not touch members beyond it. So a later Acorn runs plugins of today, and this Acorn
 * runs later plugins, without the members that it does not know. acorn_tensor, acorn_option and
 * acorn_number stand in arrays and do not grow. */
#ifndef ACORN_ENVS_ENV_H
#define ACORN_ENVS_ENV_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ACORN_ENV_ABI 1u

enum {
  ACORN_MAX_TENSORS = 8,
  ACORN_MAX_RANK = 4,
  ACORN_MAX_BOX = 64,
  ACORN_MAX_CHOICES = 64,
  ACORN_MAX_NUMBERS = 4,       /* of a row's own arrays */
  ACORN_MAX_MORE_NUMBERS = 16, /* of more_numbers */
  ACORN_MAX_OPTIONS = 64,
  ACORN_NAME_BYTES = 32,       /* room for any name, with the terminating zero */
  ACORN_NUMBER_NAME_BYTES = 64 /* the same of a number's name */
};

enum acorn_dtype { ACORN_UINT8 = 1, ACORN_INT32 = 2, ACORN_FLOAT32 = 3 };

/* One named part of an observation, C order. Names are visible ASCII, each once. One named
 * action_mask, of discrete actions, is uint8[discrete], of several choices one after the other: 0
 * where an action may not be chosen next. It allows at least one of each choice, but where the
 * episode is over. Strings in these structs are the environment's, and stay as they are for as long
 * as it is loaded. */
struct acorn_tensor {
  const char *name;
  enum acorn_dtype dtype;
  int rank; /* 0: a single number */
  int shape[ACORN_MAX_RANK];
};

/* What the environment looks like with its present options. The caller has cleared it and set
 * struct_bytes; exactly one of `discrete`, `box` and `choices` must be set. */
struct acorn_space {
  uint32_t struct_bytes;
  int num_tensors;
  struct acorn_tensor tensor[ACORN_MAX_TENSORS];
  int discrete; /* > 0: actions are int32 0..discrete-1 */
  int box;      /* > 0: actions are float32[box], each within its low..high */
  float low[ACORN_MAX_BOX], high[ACORN_MAX_BOX];
  /* ---- later than the members above: check that struct_bytes reaches to here before you set them,
   * an older Acorn has no room for them */
  int choices; /* > 0: actions are int32[choices], made together, number c of 0..among[c]-1 */
  int among[ACORN_MAX_CHOICES];
};

/* A number that the user may set: --env_args='{"length": 50}'. */
struct acorn_option {
  const char *name;
  double value; /* the default in the table; the effective value in acorn_config */
  double min, max;
  int integer; /* 1: whole numbers only */
  const char *help;
};

/* The effective options, in the order of the environment's table, checked against min, max and
 * integer. It outlives every instance. */
struct acorn_config {
  uint32_t struct_bytes;
  const struct acorn_option *option;
  int num_options;
  /* ---- later than the members above */
  const struct acorn_env *env; /* whose functions are called with this */
  const char *json;            /* all that the user gave, as one JSON object; "{}" if nothing */
  /* ---- later than the members above */
  int renders; /* 1: `render` will be called; what costs much for it may be made at `create` */
};

/* A number of a finished episode. `name`: 1..63 letters, digits, '_', '-', '.' or '/'; of names
 * that differ only in these four the run keeps the first. */
struct acorn_number {
  const char *name;
  double value; /* one that is not finite is left out */
};

/* The row of one environment, the caller's. observation[i] points to tensor i, aligned to its
 * element; it may be elsewhere in every call, and holds anything before it. Every byte of every
 * tensor must be written, and nothing behind it. The other members are 0 before each call. */
struct acorn_row {
  uint32_t struct_bytes;
  void *const *observation;
  float reward;   /* of this step; finite; left alone by reset */
  int terminated; /* 1: the world ended, nothing comes after it; left alone by reset */
  int truncated;  /* 1: cut here by a limit that the agent cannot see; left alone by reset */
  /* Anything else worth a mean over finished episodes, by names as in acorn_number; read when the
   * episode ends. They appear in the run's metrics as env/NAME, and in its episodes.csv. */
  int num_numbers;
  const char *number_name[ACORN_MAX_NUMBERS];
  double number[ACORN_MAX_NUMBERS];
  /* ---- later than the members above */
  /* 1, with `terminated`: a life was lost and the learner is to see an end, but the game goes on:
   * its score and length are counted further, and the next call, reset without a seed, goes on with
   * it. */
  int goes_on;
  /* ---- later than the members above */
  /* More such numbers than the arrays have room for, 16 with those. They and their names are the
   * environment's, and stay as they are until the next call of the instance. */
  int num_more_numbers;
  const struct acorn_number *more_numbers;
};

/* A picture for people, the caller's. First it is asked for its size (pixels NULL), then drawn. */
struct acorn_picture {
  uint32_t struct_bytes;
  int width, height; /* 0: there is none, as far as this instance can tell */
  uint8_t *pixels;   /* (height, width, 3), RGB; NULL: only the size is wanted */
};

struct acorn_env {
  uint32_t abi;          /* ACORN_ENV_ABI */
  uint32_t struct_bytes; /* sizeof(struct acorn_env) */
  /* What run folders, result lines and the learner know it by: 1..31 letters, digits, '_', '-' or
   * '.', the first a letter or digit; not one of Acorn's own. Actors and learner must agree on
   * it. */
  const char *name;
  const char *about;                  /* one line; may be NULL */
  const struct acorn_option *options; /* (num_options); NULL if there are none */
  int num_options;

  /* Describes observations and actions for these options, the same at every call. */
  int (*space)(struct acorn_space *space, const struct acorn_config *config, char *error,
               size_t error_bytes);
  /* One instance; the first call after it is reset. */
  void *(*create)(const struct acorn_config *config, char *error, size_t error_bytes);
  /* Starts an episode and writes its first observation. `seed`: the random numbers of this episode
   * (and of those after it that get no seed) follow from it alone, so that the same seed and the
   * same actions give the same episode, whatever the instance did before. NULL: the instance's
   * generator goes on from where it is. */
  int (*reset)(void *env, const uint64_t *seed, struct acorn_row *row, char *error,
               size_t error_bytes);
  /* One step with `action` (one int32_t, int32_t[choices] or float[box]; always within the space):
   * writes the observation after it, reward, terminated, truncated. When an episode ends the
   * observation is its last one, and the next call is reset. */
  int (*step)(void *env, const void *action, struct acorn_row *row, char *error,
              size_t error_bytes);
  void (*destroy)(void *env);
  /* ---- later than the members above */
  /* 1: the user may give options of any name and value, not only those of the table; the
   * environment reads them in acorn_config.json and judges them in `space`. */
  int any_option;
  /* ---- later than the members above; both may be NULL */
  /* Draws what the world looks like now: after a reset or a step, which it does not disturb. The
   * size is the same for the life of the instance. */
  int (*render)(void *env, struct acorn_picture *picture, char *error, size_t error_bytes);
  /* A word for a discrete action, "left"; NULL: none. It stays as long as the instance. Actions of
   * several choices are numbered through: those of the second go on where the first end. */
  const char *(*action_name)(void *env, int action);
};

#ifdef __GNUC__
__attribute__((visibility("default")))
#endif
/* What a plugin defines; Acorn itself does not. */
extern const struct acorn_env acorn_environment;

#ifdef __cplusplus
}
#endif
#endif
