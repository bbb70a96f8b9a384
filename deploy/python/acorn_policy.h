/* libacorn_policy.so: trained policies and Acorn's environments, for programs that are no part of a
 * run. Plain C, so that Python needs ctypes alone (acorn/policy.py, acorn/vector.py) and other
 * languages their own way to C.
 *
 * Errors: a function that fails returns NULL or -1 and writes a sentence into `error`, which has
 * room for `error_bytes`. None ends the process, unless memory runs out.
 * Threads: any; calls with the same object wait for each other (policies), or must not overlap
 * (vectors). */
#ifndef ACORN_DEPLOY_PYTHON_ACORN_POLICY_H
#define ACORN_DEPLOY_PYTHON_ACORN_POLICY_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#define ACORN_API __attribute__((visibility("default")))

/* ---- a policy: the network of a file that `export --format=safetensors` has written */

struct acorn_policy;

ACORN_API struct acorn_policy *acorn_policy_open(const char *path, char *error, size_t error_bytes);
ACORN_API void acorn_policy_close(struct acorn_policy *policy);

/* A text of the file's metadata ("space", "environment", "steps"); NULL: there is none of that
 * name. It stays as long as the policy. */
ACORN_API const char *acorn_policy_text(const struct acorn_policy *policy, const char *key);
/* Bytes of one row. */
ACORN_API size_t acorn_policy_action_bytes(const struct acorn_policy *policy);
ACORN_API size_t acorn_policy_state_bytes(const struct acorn_policy *policy);

/* The greedy action of each row, as the environment gets it. observation[i]: tensor i of the space,
 * of all rows. reward: of the step before; NULL: 0, which matters where a policy reads it. state:
 * what a row's policy remembers of its episode; zeros where an episode begins; updated. Shapes:
 * action (rows, action_bytes), state (rows, state_bytes), reward (rows). Returns 0; -1 with a
 * sentence. */
ACORN_API int acorn_policy_act(struct acorn_policy *policy, void *action, uint8_t *state,
                               const void *const *observation, const float *reward, int rows,
                               char *error, size_t error_bytes);

/* ---- a vector of environments, of those that are compiled in or of a plugin's path */

struct acorn_vector;

/* env_args: options as a JSON object; "": the defaults. */
ACORN_API struct acorn_vector *acorn_vector_open(const char *env, const char *env_args, int count,
                                                 char *error, size_t error_bytes);
ACORN_API void acorn_vector_close(struct acorn_vector *vector);
/* The space as JSON, see common/base/space_json.h. It stays as long as the vector. */
ACORN_API const char *acorn_vector_space(const struct acorn_vector *vector);

/* Starts an episode of each environment for which `which` (count; NULL: all) is not 0. seed (count;
 * NULL: none). observation[i]: room for tensor i of all environments. */
ACORN_API int acorn_vector_reset(struct acorn_vector *vector, void *const *observation,
                                 const uint64_t *seed, const uint8_t *which, char *error,
                                 size_t error_bytes);
/* One step of each. One whose episode has ended is reset instead, with a reward of 0. Shapes:
 * action (count) of int32, int32[choices] or float[box]; reward, terminated, truncated (count).
 * Errors: an action that the space does not have; the environment's. */
ACORN_API int acorn_vector_step(struct acorn_vector *vector, void *const *observation,
                                float *reward, uint8_t *terminated, uint8_t *truncated,
                                const void *action, char *error, size_t error_bytes);
/* The picture of environment `index`, RGB. pixels NULL: only its size; 0 x 0: there is none. */
ACORN_API int acorn_vector_render(struct acorn_vector *vector, int index, int *width, int *height,
                                  uint8_t *pixels, char *error, size_t error_bytes);

#ifdef __cplusplus
}
#endif
#endif
