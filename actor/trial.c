#include "actor/trial.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "actor/crash.h"
#include "actor/picture_check.h"
#include "actor/row_check.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/crc32c.h"
#include "common/base/random.h"

enum {
  MAX_US = 2000000, /* slow environments take fewer steps */
  GUARD_BYTES = 64,
  GUARD = 0xEE,
  MAX_PICTURES = 60, /* of a play: some take long to draw */
};

/* ---- the guarded row */

static void make_memory(struct trial *trial) {
  size_t offset[SPACE_MAX_TENSORS], at = GUARD_BYTES;
  for (int i = 0; i < trial->space->num_tensors; i++) {
    offset[i] = at;
    size_t end = at + space_tensor_bytes(&trial->space->tensor[i]) + GUARD_BYTES;
    at = (end + 63) / 64 * 64;
  }
  trial->memory_bytes = at;
  trial->memory = check_alloc(at, 1);
  memset(trial->memory, GUARD, at);
  for (int i = 0; i < trial->space->num_tensors; i++) trial->tensor[i] = trial->memory + offset[i];
}

static void clear_row(struct trial *trial, uint8_t fill) {
  for (int i = 0; i < trial->space->num_tensors; i++)
    memset(trial->tensor[i], fill, space_tensor_bytes(&trial->space->tensor[i]));
  trial->row = (struct acorn_row){.struct_bytes = sizeof trial->row, .observation = trial->tensor};
}

/* Every byte between, before and behind the tensors is as it was. */
static bool guards_hold(struct trial *trial) {
  const uint8_t *at = trial->memory;
  for (int i = 0; i <= trial->space->num_tensors; i++) {
    bool last = i == trial->space->num_tensors;
    const uint8_t *end = last ? trial->memory + trial->memory_bytes : trial->tensor[i];
    for (; at < end; at++) {
      if (*at == GUARD) continue;
      const char *side = i == 0 ? "before" : "behind";
      const char *name = trial->space->tensor[i == 0 ? 0 : i - 1].name;
      (void)!status_fail(&trial->fault, STATUS_IO, "it wrote %s the observation '%s'", side, name);
      return false;
    }
    if (!last) at = end + space_tensor_bytes(&trial->space->tensor[i]);
  }
  return true;
}

/* ---- calls */

/* The instances that play in turns. */
enum player { PLAYER, NEIGHBOUR };

/* The row is the other's next. */
static void remember_mask(struct trial *trial, enum player who) {
  int mask = space_mask(trial->space);
  if (mask >= 0) memcpy(trial->allowed[who], trial->tensor[mask], (size_t)trial->space->discrete);
}

static void *create(struct trial *trial, const struct acorn_config *config) {
  char text[512] = "";
  crash_in("create");
  void *instance = trial->env->create(config, text, sizeof text);
  crash_in(NULL);
  if (!instance)
    (void)!status_fail(&trial->fault, STATUS_IO, "create failed: %s",
                       *text ? text : "it gave no reason");
  return instance;
}

static void destroy(struct trial *trial, void *instance) {
  crash_in("destroy");
  if (instance) trial->env->destroy(instance);
  crash_in(NULL);
}

static bool reset(struct trial *trial, enum player who, void *instance, const uint64_t *seed,
                  uint8_t fill) {
  char text[512] = "";
  clear_row(trial, fill);
  crash_in("reset");
  int failed = trial->env->reset(instance, seed, &trial->row, text, sizeof text);
  crash_in(NULL);
  if (failed) {
    (void)!status_fail(&trial->fault, STATUS_IO, "reset failed: %s",
                       *text ? text : "it gave no reason");
    return false;
  }
  remember_mask(trial, who);
  return guards_hold(trial) &&
         row_check_reset(&trial->row, trial->space, &trial->fault) == STATUS_OK;
}

static bool step(struct trial *trial, enum player who, void *instance, uint8_t fill) {
  char text[512] = "";
  clear_row(trial, fill);
  crash_in("step");
  int failed = trial->env->step(instance, trial->action, &trial->row, text, sizeof text);
  crash_in(NULL);
  if (failed) {
    (void)!status_fail(&trial->fault, STATUS_IO, "step failed: %s",
                       *text ? text : "it gave no reason");
    return false;
  }
  remember_mask(trial, who);
  return guards_hold(trial) &&
         row_check_step(&trial->row, trial->space, &trial->fault) == STATUS_OK;
}

static bool draw(struct trial *trial, void *instance, struct picture_check *check) {
  crash_in("render");
  enum status status = picture_check(check, trial->env, instance, &trial->fault);
  crash_in(NULL);
  return status == STATUS_OK;
}

/* ---- one play */

/* That number u in [0, 1) of those that may be chosen. Shapes: allowed (among). */
static int32_t discrete_action(const uint8_t *allowed, int among, float u) {
  int count = 0, a = 0;
  for (int i = 0; i < among; i++) count += allowed[i] != 0;
  int before = (int)(u * (float)count);
  if (before == count) before--;
  while (a < among - 1 && !(allowed[a] && before-- == 0)) a++;
  return a;
}

/* Random action number t, uniform within the space. */
static void choose_action(struct trial *trial, enum player who, int t) {
  const struct space *space = trial->space;
  const uint8_t *allowed = trial->allowed[who];
  for (int c = 0; space->discrete && c < space_num_choices(&space->choices); c++) {
    int among = space_among(&space->choices, c, space->discrete);
    float u = random_uniform(1, (uint32_t)c, 0, (uint32_t)t, RANDOM_TEST);
    int32_t chosen = discrete_action(allowed, among, u);
    memcpy(&trial->action[c], &chosen, sizeof chosen);
    allowed += among;
  }
  for (int i = 0; i < space->box; i++) {
    float u = random_uniform(1, (uint32_t)i, 0, (uint32_t)t, RANDOM_TEST);
    trial->action[i] = fminf(space->low[i] * (1 - u) + space->high[i] * u, space->high[i]);
  }
}

static void add_row(struct trial *trial, struct trial_record *record) {
  uint32_t *sum = record->sum[record->num_rows++];
  int i = 0;
  for (; i < trial->space->num_tensors; i++)
    sum[i] = crc32c(trial->tensor[i], space_tensor_bytes(&trial->space->tensor[i]));
  uint32_t rest = crc32c(&trial->row.reward, sizeof trial->row.reward);
  rest = crc32c_extend(rest, &trial->row.terminated, sizeof trial->row.terminated);
  rest = crc32c_extend(rest, &trial->row.truncated, sizeof trial->row.truncated);
  sum[i] = crc32c_extend(rest, &trial->row.goes_on, sizeof trial->row.goes_on);
}

/* Only a life was lost. */
static bool goes_on(const struct acorn_row *row) {
  return row->terminated && row->goes_on;
}

static void add_step(struct trial *trial, struct trial_summary *summary, double *length,
                     double *episode_return) {
  ++*length;
  *episode_return += trial->row.reward;
  if ((!trial->row.terminated && !trial->row.truncated) || goes_on(&trial->row)) return;
  bool first = summary->terminated + summary->truncated == 0;
  if (first || *episode_return < summary->lowest) summary->lowest = *episode_return;
  if (first || *episode_return > summary->highest) summary->highest = *episode_return;
  summary->length += *length;
  summary->total += *episode_return;
  if (trial->row.terminated)
    summary->terminated++;
  else
    summary->truncated++;
  *length = *episode_return = 0;
}

/* Steps of an episode that reset then has to leave behind. */
static bool warm_up(struct trial *trial, void *instance, int steps) {
  const uint64_t seed = 987654321;
  bool ok = steps == 0 || reset(trial, PLAYER, instance, &seed, 0);
  for (int t = 0; ok && t < steps; t++) {
    choose_action(trial, PLAYER, t + 1);
    ok = step(trial, PLAYER, instance, 0);
    if (trial->row.terminated || trial->row.truncated) break;
  }
  return ok;
}

/* Moves the neighbour on by one step, with a row and seeds of its own. */
static bool play_neighbour(struct trial *trial, void *neighbour, int t) {
  const uint64_t seed = 555;
  if (!neighbour) return true;
  if (t == 0 || trial->row.terminated || trial->row.truncated)
    return reset(trial, NEIGHBOUR, neighbour, t == 0 ? &seed : NULL, 0);
  choose_action(trial, NEIGHBOUR, t + 7);
  return step(trial, NEIGHBOUR, neighbour, 0);
}

/* Plays up to `steps` steps with an instance; every second episode goes on with the instance's own
 * generator. */
static bool play_with(struct trial *trial, void *instance, void *neighbour,
                      struct trial_record *record, struct trial_summary *summary,
                      const struct trial_condition *how, int steps) {
  int64_t until_us = clock_now_us() + MAX_US;
  double length = 0, episode_return = 0;
  struct acorn_row other = {0};
  struct picture_check pictures = {0};
  uint64_t episode = 0;
  bool ended = true, resumes = false;
  if (!warm_up(trial, instance, how->warm_up)) return false;
  for (int t = 0; t < steps; t++) {
    uint64_t seed = how->seed + episode;
    bool is_seeded = !resumes && episode % 2 == 0;
    if (ended && !reset(trial, PLAYER, instance, is_seeded ? &seed : NULL, how->fill)) return false;
    if (ended) add_row(trial, record), episode += !resumes;
    trial->row = other;
    if (!play_neighbour(trial, neighbour, t)) return false;
    other = trial->row;
    if (how->pictures && t < MAX_PICTURES && !draw(trial, instance, &pictures)) return false;
    choose_action(trial, PLAYER, t);
    if (!step(trial, PLAYER, instance, how->fill)) return false;
    add_row(trial, record);
    record->num_steps++;
    ended = trial->row.terminated || trial->row.truncated;
    resumes = goes_on(&trial->row);
    if (summary) add_step(trial, summary, &length, &episode_return);
    if (summary && clock_now_us() > until_us) break;
  }
  return true;
}

bool trial_play(struct trial *trial, struct trial_record *record, struct trial_summary *summary,
                const struct trial_condition *how, int steps) {
  record->num_rows = record->num_steps = 0;
  struct acorn_config config = *trial->config;
  config.renders = how->pictures;
  void *instance = create(trial, &config);
  void *neighbour = how->neighbour ? create(trial, &config) : NULL;
  bool ok = instance && (neighbour || !how->neighbour) &&
            play_with(trial, instance, neighbour, record, summary, how, steps);
  destroy(trial, instance);
  destroy(trial, neighbour);
  return ok;
}

/* ---- */

void trial_init(struct trial *trial, const struct acorn_env *env, const struct acorn_config *config,
                const struct space *space) {
  *trial = (struct trial){.env = env, .config = config, .space = space};
  make_memory(trial);
  for (int i = 0; i < 2 && space->discrete; i++) {
    trial->allowed[i] = check_alloc((size_t)space->discrete, 1);
    memset(trial->allowed[i], 1, (size_t)space->discrete);
  }
}

void trial_deinit(struct trial *trial) {
  free(trial->memory);
  free(trial->allowed[PLAYER]);
  free(trial->allowed[NEIGHBOUR]);
}

void trial_record_init(struct trial_record *record) {
  *record = (struct trial_record){0};
  record->sum = check_alloc(2 * TRIAL_MAX_STEPS, sizeof *record->sum);
}

void trial_record_deinit(struct trial_record *record) {
  free(record->sum);
}
