#include "actor/env_pool.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "actor/crash.h"
#include "actor/row_check.h"
#include "common/base/check.h"
#include "common/base/clock.h"

enum { REASON_BYTES = 512 };

/* One environment and its episode. */
struct player {
  void *env;
  uint64_t episode; /* its number in this lease, 0.. */
  double episode_return;
  uint32_t length; /* steps */
  int cut;         /* the last row was TRUNCATED: the next call resets */
  int goes_on;     /* the last step ended a life, and not the game */
};

struct env_pool {
  const struct acorn_env *env;
  const struct acorn_config *env_config;
  struct wire_layout layout;
  struct space space;
  size_t action_bytes;
  int64_t step_delay_us;
  uint8_t *staging; /* (row_stride), or NULL: environments write into the wire's rows */
  struct env_pool_seeds seeds;
  struct player *player; /* (K) */
  uint64_t steps;
};

/* ---- create */

/* The wire has no padding, so that a float32 behind five uint8 is not aligned there. */
static int wire_is_aligned(const struct wire_layout *layout, const struct space *space) {
  for (int i = 0; i < space->num_tensors; i++) {
    size_t element = space->tensor[i].dtype == DTYPE_UINT8 ? 1 : 4;
    if (layout->tensor[i].wire_offset % element || layout->wire_bytes % element) return 0;
  }
  return 1;
}

/* NULL with a reason. */
static void *try_create(const struct env_pool *pool, char reason[REASON_BYTES]) {
  reason[0] = '\0';
  crash_in("create");
  void *env = pool->env->create(pool->env_config, reason, REASON_BYTES);
  crash_in(NULL);
  if (!env && !*reason) snprintf(reason, REASON_BYTES, "it gave no reason");
  return env;
}

static void *create_env(const struct env_pool *pool, struct error *error) {
  char reason[REASON_BYTES];
  void *env = try_create(pool, reason);
  if (!env)
    (void)!status_fail(error, STATUS_IO, "environment %s could not be created: %s", pool->env->name,
                       reason);
  return env;
}

static void destroy_env(const struct env_pool *pool, void *env) {
  crash_in("destroy");
  pool->env->destroy(env);
  crash_in(NULL);
}

enum status env_pool_create(struct env_pool **out, const struct env_pool_config *config,
                            struct error *error) {
  struct env_pool *pool = check_alloc(1, sizeof *pool);
  pool->env = config->env;
  pool->env_config = config->env_config;
  pool->layout = *config->layout;
  pool->space = *config->space;
  pool->action_bytes = (size_t)space_action_bytes(config->space);
  pool->step_delay_us = config->step_delay_us;
  pool->player = check_alloc((size_t)pool->layout.num_environments, sizeof *pool->player);
  if (!wire_is_aligned(config->layout, config->space))
    pool->staging = check_alloc(pool->layout.row_stride, 1);
  *out = pool;
  for (int k = 0; k < pool->layout.num_environments; k++) {
    pool->player[k].env = create_env(pool, error);
    if (pool->player[k].env) continue;
    env_pool_destroy(pool);
    *out = NULL;
    return STATUS_IO;
  }
  return STATUS_OK;
}

void env_pool_destroy(struct env_pool *pool) {
  if (!pool) return;
  for (int k = 0; k < pool->layout.num_environments; k++) {
    if (pool->player[k].env) destroy_env(pool, pool->player[k].env);
  }
  free(pool->player);
  free(pool->staging);
  free(pool);
}

uint64_t env_pool_steps(const struct env_pool *pool) {
  return pool->steps;
}

/* ---- one environment */

/* Where environment k writes: straight into its row on the wire, if that is aligned. */
static struct acorn_row row_of(struct env_pool *pool, struct env_pool_rows *rows,
                               void *tensor[SPACE_MAX_TENSORS], int k) {
  uint8_t *wire = rows->observation + (size_t)k * pool->layout.wire_bytes;
  for (int i = 0; i < pool->layout.num_tensors; i++) {
    const struct wire_tensor *place = &pool->layout.tensor[i];
    tensor[i] = pool->staging ? pool->staging + place->row_offset : wire + place->wire_offset;
  }
  return (struct acorn_row){.struct_bytes = sizeof(struct acorn_row), .observation = tensor};
}

static void unstage(struct env_pool *pool, struct env_pool_rows *rows, int k) {
  if (!pool->staging) return;
  uint8_t *wire = rows->observation + (size_t)k * pool->layout.wire_bytes;
  for (int i = 0; i < pool->layout.num_tensors; i++) {
    const struct wire_tensor *place = &pool->layout.tensor[i];
    memcpy(wire + place->wire_offset, pool->staging + place->row_offset, place->bytes);
  }
}

/* Environment k can no longer be trusted: a new one takes its place. The first error is the one
 * that is reported, also where there is no new one. */
static enum status fail(struct env_pool *pool, int k, const char *what, const char *text,
                        struct error *error) {
  struct player *player = &pool->player[k];
  char reason[REASON_BYTES];
  destroy_env(pool, player->env);
  player->env = try_create(pool, reason);
  return status_fail(
      error, STATUS_IO,
      "environment %s (number %d of this stream) failed in %s, after %u steps: %s%s%s",
      pool->env->name, k, what, player->length, *text ? text : "it gave no reason",
      player->env ? "" : "; a new one could not be created: ", player->env ? "" : reason);
}

/* Starts the next episode; its first observation goes into the row. */
static enum status reset(struct env_pool *pool, struct env_pool_rows *rows, int k,
                         struct error *error) {
  struct player *player = &pool->player[k];
  void *tensor[SPACE_MAX_TENSORS];
  struct acorn_row row = row_of(pool, rows, tensor, k);
  uint64_t seed = pool->seeds.seed[k] + player->episode * pool->seeds.stride;
  int seeded = !player->goes_on && (pool->seeds.stride != 0 || player->episode == 0);
  if (!player->goes_on) {
    player->episode_return = 0;
    player->length = 0;
  }
  player->cut = 0;
  char text[REASON_BYTES] = "";
  crash_in("reset");
  int failed = pool->env->reset(player->env, seeded ? &seed : NULL, &row, text, sizeof text);
  crash_in(NULL);
  if (failed) return fail(pool, k, "reset", text, error);
  struct error fault;
  if (row_check_reset(&row, &pool->space, &fault) != STATUS_OK)
    return fail(pool, k, "reset", fault.text, error);
  if (!player->goes_on) player->episode++;
  player->goes_on = 0;
  return STATUS_OK;
}

/* One that is not finite is left out: a mean of them would say nothing. */
static void add_number(struct wire_episode *episode, const char *name, double value) {
  if (!isfinite(value) || episode->num_numbers == WIRE_MAX_EPISODE_NUMBERS) return;
  struct wire_number *number = &episode->number[episode->num_numbers++];
  snprintf(number->name, sizeof number->name, "%s", name);
  number->value = value;
}

static void report_episode(struct env_pool *pool, struct env_pool_rows *rows,
                           const struct acorn_row *row, int k) {
  const struct player *player = &pool->player[k];
  struct wire_episode *episode = &rows->episodes[rows->num_episodes++];
  episode->environment = (uint32_t)k;
  episode->length = player->length;
  episode->episode_return = player->episode_return;
  episode->num_numbers = 0;
  for (int i = 0; i < row->num_numbers; i++)
    add_number(episode, row->number_name[i], row->number[i]);
  for (int i = 0; i < row->num_more_numbers; i++)
    add_number(episode, row->more_numbers[i].name, row->more_numbers[i].value);
}

/* Steps environment k and looks at what it says. */
static enum status play_action(struct env_pool *pool, struct acorn_row *row, const void *action,
                               int k, struct error *error) {
  enum status status = row_check_action(action, &pool->space, error);
  if (status != STATUS_OK) return status;
  char text[REASON_BYTES];
  text[0] = '\0';
  crash_in("step");
  int failed = pool->env->step(pool->player[k].env, action, row, text, sizeof text);
  crash_in(NULL);
  if (failed) return fail(pool, k, "step", text, error);
  struct error fault;
  if (row_check_step(row, &pool->space, &fault) != STATUS_OK)
    return fail(pool, k, "step", fault.text, error);
  return STATUS_OK;
}

/* One step of environment k, its row, and what an ending brings with it. */
static enum status step(struct env_pool *pool, struct env_pool_rows *rows, const void *action,
                        int k, struct error *error) {
  struct player *player = &pool->player[k];
  void *tensor[SPACE_MAX_TENSORS];
  struct acorn_row row = row_of(pool, rows, tensor, k);
  enum status status = play_action(pool, &row, action, k, error);
  if (status != STATUS_OK) return status;
  pool->steps++;
  player->length++;
  player->episode_return += row.reward;
  rows->reward[k] = row.reward;
  rows->flags[k] = 0;

  player->goes_on = row.terminated && row.goes_on;
  if ((row.terminated || row.truncated) && !player->goes_on) report_episode(pool, rows, &row, k);
  if (row.terminated) {
    rows->flags[k] = STEP_FIRST | STEP_TERMINATED;
    return reset(pool, rows, k, error);
  }
  if (row.truncated) {
    rows->flags[k] = STEP_TRUNCATED;
    player->cut = 1;
  }
  return STATUS_OK;
}

static enum status begin_episode(struct env_pool *pool, struct env_pool_rows *rows, int k,
                                 struct error *error) {
  rows->reward[k] = 0;
  rows->flags[k] = STEP_FIRST;
  pool->player[k].goes_on = 0;
  return reset(pool, rows, k, error);
}

/* ---- all of them */

enum status env_pool_begin(struct env_pool *pool, struct env_pool_rows *rows,
                           const struct env_pool_seeds *seeds, struct error *error) {
  pool->seeds = *seeds;
  rows->num_episodes = 0;
  for (int k = 0; k < pool->layout.num_environments; k++) {
    pool->player[k].episode = 0;
    if (!pool->player[k].env && !(pool->player[k].env = create_env(pool, error))) return STATUS_IO;
    enum status status = begin_episode(pool, rows, k, error);
    if (status != STATUS_OK) return status;
    unstage(pool, rows, k);
  }
  return STATUS_OK;
}

enum status env_pool_step(struct env_pool *pool, struct env_pool_rows *rows, const void *actions,
                          struct error *error) {
  const uint8_t *action = actions;
  uint64_t before = pool->steps;
  rows->num_episodes = 0;
  for (int k = 0; k < pool->layout.num_environments; k++, action += pool->action_bytes) {
    enum status status = pool->player[k].cut ? begin_episode(pool, rows, k, error)
                                             : step(pool, rows, action, k, error);
    if (status != STATUS_OK) return status;
    unstage(pool, rows, k);
  }

  // One sleep for all: many short ones would each add the scheduler's delay.
  if (pool->step_delay_us) clock_sleep_us(pool->step_delay_us * (int64_t)(pool->steps - before));
  return STATUS_OK;
}
