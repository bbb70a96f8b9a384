#!/usr/bin/env bash
# Joins at the learner's start: actors that are there before it, just after it, and when it comes
# back after kill -9, over a socket and over TCP, two streams each. All join at the first try; how
# long it took by the learner's own clock is printed. JOINS (default 2) says how many rounds of
# each. Then environments whose first reset is slow. SLOW_TESTS=1 adds one that takes longer than a
# lease without a stream lasts.
. "$(dirname "$(readlink -f "$0")")/lib.sh"
. "$tree/scripts/lib.sh"
build all || exit 1
RANDOM=${SEED:-$$}
slowest=0

a_learner() {
  rm -rf run
  learner --env=cartpole --num_envs=16 --logdir=run --total_steps=1e12 --log_level=debug
}
four_actors() {
  local task
  for task in 0 1 2 3; do actor $task --env=cartpole --envs=4 --streams=2; done
}
a_moment() { sleep "0.$((RANDOM % 4))$((RANDOM % 10))"; }
all_play() { [ "$(grep -c ' plays environments ' err)" -ge 8 ]; }

# Whether all have joined, before a lost Join would have been tried again; for how long they took.
all_joined() {
  wait_for 60 all_play || return
  local took
  took=$(awk '/ listening on / {begin = $1} / plays environments / {end = $1}
    END {printf "%d", 1000 * (end - begin)}' err)
  [ "$took" -gt $slowest ] && slowest=$took
  [ "$took" -lt 30000 ]
}

before_the_learner() { four_actors && a_moment && a_learner; }
after_the_learner() { a_learner && a_moment && four_actors; }
# The port is the system's to choose; the run folder knows it.
over_tcp() {
  address=127.0.0.1:0
  a_learner
  wait_for 20 test -s run/address && address=$(cat run/address)
  four_actors
}
again() {
  killed "$run"
  a_moment
  a_learner
}

# round HOW...: starts them, looks, and starts the learner again under the same actors.
round() {
  "$1" && all_joined && again && all_joined
  local result=$?
  end_by_hand
  return $result
}
rounds() {
  local i
  for ((i = 0; i < ${JOINS:-2}; i++)); do round "$1" || return; done
}
pass_if "actors that are there before the learner join it" rounds before_the_learner
pass_if "and those that come after it" rounds after_the_learner
pass_if "and those that come over TCP" rounds over_tcp
echo "slowest: $slowest ms"

# ---- environments whose first reset takes reset_s seconds, while the actor holds its lease
address="unix:$work/by-hand"
cat >slow.c <<'END'
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "env.h"

struct slow {
  unsigned reset_s;
};
static const struct acorn_option options[] = {{"reset_s", 0, 0, 1000, 1, "of the first reset"}};
static int slow_space(struct acorn_space *space, const struct acorn_config *config, char *error,
                      size_t error_bytes) {
  (void)config, (void)error, (void)error_bytes;
  space->num_tensors = 1;
  space->tensor[0] = (struct acorn_tensor){"x", ACORN_UINT8, 1, {1}};
  space->discrete = 2;
  return 0;
}
static void *slow_create(const struct acorn_config *config, char *error, size_t error_bytes) {
  (void)error, (void)error_bytes;
  struct slow *env = malloc(sizeof *env);
  if (env) env->reset_s = (unsigned)config->option[0].value;
  return env;
}
static int slow_reset(void *self, const uint64_t *seed, struct acorn_row *row, char *error,
                      size_t error_bytes) {
  (void)seed, (void)error, (void)error_bytes;
  struct slow *env = self;
  fclose(fopen("resetting", "w"));
  sleep(env->reset_s);
  env->reset_s = 0;
  *(uint8_t *)row->observation[0] = 0;
  return 0;
}
static int slow_step(void *self, const void *action, struct acorn_row *row, char *error,
                     size_t error_bytes) {
  (void)self, (void)action, (void)error, (void)error_bytes;
  *(uint8_t *)row->observation[0] = 0;
  row->terminated = 1;
  return 0;
}
const struct acorn_env acorn_environment = {
    .abi = ACORN_ENV_ABI,
    .struct_bytes = sizeof(struct acorn_env),
    .name = "slow",
    .options = options,
    .num_options = 1,
    .space = slow_space,
    .create = slow_create,
    .reset = slow_reset,
    .step = slow_step,
    .destroy = free,
};
END
cc -std=c11 -O2 -Wall -Wextra -Werror -shared -fPIC -I"$tree/envs" slow.c -o slow.so || exit 1

# resets SECONDS: a learner, and an actor with one environment that resets for so long.
resets() {
  local env_args="{\"reset_s\": $1}"
  rm -rf run resetting
  learner --env=./slow.so --env_args="$env_args" --num_envs=1 --logdir=run --total_steps=1e12 \
    --log_level=debug
  actor 0 --env=./slow.so --env_args="$env_args" --envs=1 --streams=1 --name=slow
  wait_for 20 test -e resetting
}
# One that has not tied its lease to a stream would keep it.
leaves_when_killed() {
  resets 1000 && says "slow/0/0 plays environments" || return
  killed "$actor"
  wait_for 20 says "slow/0/0 has left"
}
pass_if "an actor that dies while its environments reset leaves its lease" leaves_when_killed
end_by_hand
steps_come() { metric_passes step 0; }
plays_after() {
  resets "$1" && wait_for $(($1 + 20)) steps_come && is "$(grep -c ' plays environments ' err)" 1
}
pass_if "one whose environments take seconds to reset plays" plays_after 3
end_by_hand
if [ -n "${SLOW_TESTS:-}" ]; then
  pass_if "and one whose environments take longer than the wait for a Play" plays_after 40
  end_by_hand
fi
finish
