/* The environment ABI: what an environment written in C, or a plugin compiled by a third party, is
 * to Acorn.
 *
 * An environment is one struct of functions, `acorn_env`. One instance is one world; instances
 * share nothing, and each is used by one thread at a time. The caller owns the row that an instance
 * writes: observation, reward, ending. The caller also resets: after a step that ended the episode,
 * the next call is reset.
 *
 * A plugin is a shared object that exports `const struct acorn_env acorn_environment`. Structs
 * carry their size, so that members may be added at their ends without breaking what was compiled
 * before. Dependencies: none but the C standard headers. */
#ifndef ACORN_ENVS_ENV_H
#define ACORN_ENVS_ENV_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ACORN_ENV_ABI 1u

enum { ACORN_MAX_TENSORS = 8, ACORN_MAX_RANK = 4, ACORN_MAX_BOX = 64, ACORN_MAX_NUMBERS = 4 };

enum acorn_dtype { ACORN_UINT8 = 1, ACORN_INT32 = 2, ACORN_FLOAT32 = 3 };

/* One named part of an observation, C order. */
struct acorn_tensor {
  const char *name;
  enum acorn_dtype dtype;
  int rank;
  int shape[ACORN_MAX_RANK];
};

/* What the environment looks like with its present options. */
struct acorn_space {
  uint32_t struct_bytes;
  int num_tensors;
  struct acorn_tensor tensor[ACORN_MAX_TENSORS];
  int discrete; /* > 0: actions are int32 0..discrete-1 */
  int box;      /* > 0: actions are float32[box] within low..high */
  float low[ACORN_MAX_BOX], high[ACORN_MAX_BOX];
};

/* A number that the user may set: --env_args='{"length": 50}'. */
struct acorn_option {
  const char *name;
  double value; /* the default in the table; the effective value in acorn_config */
  double min, max;
  int integer; /* 1: whole numbers only */
  const char *help;
};

/* The effective options, in the order of the environment's table. */
struct acorn_config {
  uint32_t struct_bytes;
  const struct acorn_option *option;
  int num_options;
};

/* The row of one environment. observation[i] points to tensor i, aligned to its element. */
struct acorn_row {
  void *const *observation;
  float reward;   /* of this step; reset leaves it alone */
  int terminated; /* the world ended: nothing comes after it */
  int truncated;  /* the episode was cut here, by a limit that the agent cannot see */
  /* Anything else worth a mean over finished episodes; read when the episode ends. */
  int num_numbers;
  const char *number_name[ACORN_MAX_NUMBERS];
  double number[ACORN_MAX_NUMBERS];
};

struct acorn_env {
  uint32_t abi;          /* ACORN_ENV_ABI */
  uint32_t struct_bytes; /* sizeof(struct acorn_env) */
  const char *name;
  const char *about; /* one line for the list of environments */
  const struct acorn_option *options;
  int num_options;

  /* Describes observations and actions for these options. Returns 0, or -1 with a sentence in
   * `error`. */
  int (*space)(struct acorn_space *space, const struct acorn_config *config, char *error,
               size_t error_bytes);
  /* One instance; the first call after it is reset. NULL with a sentence in `error` on failure. */
  void *(*create)(const struct acorn_config *config, char *error, size_t error_bytes);
  /* Starts an episode and writes its first observation. `seed` may be NULL: then the instance's
   * generator goes on. Returns 0, or -1 with a sentence in `error`. */
  int (*reset)(void *env, const uint64_t *seed, struct acorn_row *row, char *error,
               size_t error_bytes);
  /* One step with `action` (int32 or float32[box]); writes the observation after it, reward,
   * terminated, truncated. Returns 0, or -1 with a sentence in `error`. */
  int (*step)(void *env, const void *action, struct acorn_row *row, char *error,
              size_t error_bytes);
  void (*destroy)(void *env);
};

#ifdef __cplusplus
}
#endif
#endif
