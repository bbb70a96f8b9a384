#!/usr/bin/env bash
# An environment of one's own: docs/examples/meadow.c, compiled with nothing but the
# installed header, checked and trained; and what is said about those that are wrong.
. "$(dirname "$(readlink -f "$0")")/lib.sh"
actor=$tree/build/actor
include=$work/prefix/include

make -s -C "$tree" install PREFIX="$work/prefix" >/dev/null || exit 1
mkdir empty && cd empty || exit 1
cp "$tree/docs/examples/meadow.c" .

# so SOURCE OUTPUT FLAGS...
so() {
  local source=$1 output=$2
  shift 2
  cc -std=c11 -O2 -Wall -Wextra -Wpedantic -Werror -shared -fPIC -I"$include" "$@" "$source" \
    -o "$output" 2>>"$work/err"
}

pass_if "docs/examples/meadow.c compiles alone" so meadow.c meadow.so
# ---- checked and trained
checked() {
  "$actor" --env="$1" --check_env "${@:2}" >"$work/out" 2>"$work/err"
}
keeps_rules() { checked "${@:2}" && is "$(grep -c '^ok ' "$work/out")" "$1"; }
pass_if "the example keeps the rules" keeps_rules 6 ./meadow.so
pass_if "with other options too" keeps_rules 6 meadow.so --env_args='{"size": 3, "max_steps": 1}'

cat >coin.cc <<'END'
#include <acorn/env.h>
namespace {
struct coin {
  uint64_t random;
};
int space(acorn_space *space, const acorn_config *, char *, size_t) {
  space->num_tensors = 1;
  space->tensor[0].name = "side";
  space->tensor[0].dtype = ACORN_INT32;
  space->discrete = 2;
  return 0;
}
void *create(const acorn_config *, char *, size_t) { return new coin(); }
int reset(void *self, const uint64_t *seed, acorn_row *row, char *, size_t) {
  coin *env = static_cast<coin *>(self);
  if (seed) env->random = *seed;
  env->random = env->random * 6364136223846793005u + 1;
  *static_cast<int32_t *>(row->observation[0]) = static_cast<int32_t>(env->random >> 63);
  return 0;
}
int step(void *self, const void *action, acorn_row *row, char *error, size_t error_bytes) {
  row->terminated = 1;
  row->reward = static_cast<float>(*static_cast<const int32_t *>(action));
  return reset(self, 0, row, error, error_bytes);
}
void destroy(void *self) { delete static_cast<coin *>(self); }
}
const acorn_env acorn_environment = {ACORN_ENV_ABI, sizeof(acorn_env), "coin", 0,    0,      0,
                                     space,         create,            reset,  step, destroy,
                                     0,             0,                 0};
END
cplusplus() {
  c++ -std=c++98 -Wall -Wextra -Wpedantic -Werror -Wno-long-long -fvisibility=hidden -shared \
    -fPIC -I"$include" coin.cc -o coin.so 2>>"$work/err" && keeps_rules 5 ./coin.so
}
if command -v c++ >/dev/null; then
  pass_if "one in C++98, with hidden symbols" cplusplus
else
  echo "SKIP one in C++98: there is no c++ here"
fi

run ./meadow.so vtrace 2 --total_steps=2M --target_return=0.8 --seed=1
ended 60
trained() {
  is "$code" 0 && is "$(value env)" meadow && is "$(value reason)" target_return &&
    ls -d runs/meadow-vtrace-* >/dev/null &&
    says "16 environments per actor (the fourth word), 2000000 steps"
}
pass_if "it trains to a return of 0.8 by its relative path" trained
at_home() { awk -v x="$(metric env/at_home runs/meadow-vtrace-*)" 'BEGIN {exit !(x > 0.8)}'; }
pass_if "its number reaches metrics.jsonl" at_home

# The plugin has moved, and the run is played from another folder.
folder=$(echo "$PWD"/runs/meadow-vtrace-*)
mkdir moved && mv meadow.so moved/ && cd moved || exit 1
run ./meadow.so vtrace 1 --mode=evaluate --logdir="$folder" --episodes=50
ended 30
plays() { is "$code" 0 && is "$(value env)" meadow && is "$(value over)" eval; }
pass_if "its run is evaluated with the plugin elsewhere" plays
run ./meadow.so vtrace 1 --logdir="$folder" --resume --target_return=none --total_steps=1000
ended 30
pass_if "and resumed" is "$code" 0
run ./meadow.so vtrace 1 --logdir="$folder" --resume --env_args='{"size": 9}'
ended 30
other_options() { is "$code" 2 && says "holds a run of meadow vtrace, this one is meadow(size=9)"; }
pass_if "but not with other options" other_options
# 7 x 7 fields, each 91 x 91, and the panel beside them.
shown() {
  "$tree/build/watch" "$folder" --env="$1" --max_steps=3 2>"$work/err" | head -n 2 | tail -n 1
}
pass_if "and watched" is "$(shown ./meadow.so)" "1038 678"
cd .. && mv moved/meadow.so . || exit 1

# As the header was before environments had pictures: its 3 x 3 observation is shown.
sed 's/\.struct_bytes = .*/.struct_bytes = offsetof(struct acorn_env, any_option),/; /_render,/d' \
  meadow.c >older.c
so older.c older.so -Wno-unused-function
pass_if "a plugin from before there were pictures" is "$(shown ./older.so)" "1040 680"

# ---- what cannot be loaded
refuses() {
  local words=$1
  shift
  refused "$@"
  is "$code" 2 && says "$words" && no_socket
}
echo 'int x;' >no_symbol.c
so no_symbol.c no_symbol.so
so meadow.c other_abi.so -D'ACORN_ENV_ABI_TOLD=7' -include /dev/stdin <<'END'
#include <acorn/env.h>
#undef ACORN_ENV_ABI
#define ACORN_ENV_ABI 7
END
pass_if "a file that is not there" refuses "environment ./meadows.so: No such file" \
  ./meadows.so vtrace 1
mkfifo pipe.so
pass_if "a FIFO, which nobody writes" refuses "pipe.so is not a shared object" ./pipe.so vtrace 1
pass_if "a C file" refuses "meadow.c is not a shared object" ./meadow.c vtrace 1
pass_if "no acorn_environment" refuses "exports no acorn_environment" ./no_symbol.so vtrace 1
pass_if "another version" refuses "for version 7 of env.h and this Acorn has version 1" \
  ./other_abi.so vtrace 1
pass_if "an option that it does not have" refuses "did you mean 'holes'" \
  ./meadow.so vtrace 1 --env_args='{"hole": 1}'
sed 's/space->discrete = NUM_ACTIONS;/space->box = 1, space->low[0] = -1, space->high[0] = 1;/' \
  meadow.c >boxed.c
so boxed.c boxed.so
for agent in dqn random; do
  pass_if "continuous actions, by $agent" refuses \
    "agent '$agent' needs discrete ones: choose another agent (vtrace, a2c, ppo, sac)" \
    ./boxed.so $agent 1
done

# ---- liars: the example with one line changed
# liar NAME SED: NAME.so.
liar() {
  sed "$2" meadow.c >"$1.c"
  cmp -s meadow.c "$1.c" && echo "FAIL $1: the example has no such line" && failures=1
  so "$1.c" "$1.so" -w || { echo "FAIL $1 does not compile" && failures=1; }
}
catches() { ! checked "./$1.so" && grep -qE "^FAIL .*$2" "$work/out"; }

liar forgets 's/  env->steps = 0;//'
liar chance 's/if (seed) env->random = \*seed;/(void)seed;/'
liar leaves 's/i < 9; i++/i < 8; i++/'
liar beyond 's/i < 9; i++/i < 10; i++/'
liar nan 's/out->reward = /out->reward = env->steps == 5 ? 0.0f \/ (float)(at_home * 0) : /'
liar flag 's/out->terminated = at_home || lost;/out->terminated = 2 * (at_home || lost);/'
liar shares 's/^struct meadow {/static uint64_t shared;\n&/
  s/= env->random +=/= shared +=/; s/env->random = \*seed/shared = *seed/'
pass_if "check_env: reset forgets" catches forgets "reset starts afresh.*an ending differs"
pass_if "check_env: chance that no seed rules" catches chance "the same seed|reset starts afresh"
pass_if "check_env: a byte unwritten" catches leaves "every byte.*'around' differs"
pass_if "check_env: a byte too many" catches beyond "wrote behind the observation 'around'"
pass_if "check_env: a reward that is NaN" catches nan "its reward is -?nan"
pass_if "check_env: a flag that is none" catches flag "set terminated to 2, which is neither"
pass_if "check_env: shared state" catches shares "instances share nothing"

# ---- constructors: each program that loads the plugin names what they do
# constructor NAME BODY: NAME.so, with BODY in a constructor.
constructor() {
  local head='#include <stdlib.h>\n#include <unistd.h>\n__attribute__((constructor)) '
  liar "$1" "1i ${head}static void begin(void) { $2 }"
}
constructor born_crashing 'volatile int *volatile nowhere = 0; *nowhere = 1;'
constructor born_leaving 'exit(0);'
constructor born_hanging 'for (;;) pause();'
# Each by its name, what is said, and the exit code of an actor that plays it.
born=("born_crashing|crashed in dlopen (SIGSEGV)|139"
  "born_leaving|ended the process in dlopen (exit|1"
  "born_hanging|hangs in dlopen for more than 1 s (--hang_s)|1")
# ends_with CODE COMMAND...: the program that loads $plugin says $words of it.
ends_with() {
  timeout $((20 * patience)) "${@:2}" --hang_s=1 >"$work/out" 2>"$work/err"
  is $? "$1" && says "/$plugin.so $words"
} 2>/dev/null
for each in "${born[@]}"; do
  IFS='|' read -r plugin words actor_code <<<"$each"
  pass_if "$plugin: the launcher" ends_with 2 \
    "$tree/build/launch" "./$plugin.so" vtrace 1 --logdir="$work/born"
  pass_if "$plugin: the learner" ends_with 2 "$tree/build/learner" --env="./$plugin.so" \
    --listen="unix:$work/born-socket" --logdir="$work/born"
  pass_if "$plugin: an actor" ends_with "$actor_code" \
    "$actor" --env="./$plugin.so" --learner="unix:$work/nobody" --reconnect_s=0
  pass_if "$plugin: check_env" ends_with "$actor_code" \
    "$actor" --env="./$plugin.so" --check_env
done
constructor born_well ''
pass_if "one whose constructor is well keeps the rules" keeps_rules 6 ./born_well.so

# ---- the same in a run: named, started again, never learned from
named_in_run() {
  run "$1" vtrace 1 2
  wait_for 30 says "starting it again in 1 s"
  kill -INT "$run"
  ended 10
  is "$code" 130 && says "$2"
}
pass_if "a run names NaN" named_in_run ./nan.so "failed in step, after 4 steps: its reward is"

liar crashes 's/  env->steps++;/  if (++env->steps > 5) *(volatile int *)0 = 1;/'
dies_named() {
  checked ./crashes.so
  [ $? -gt 128 ] && says "environment meadow crashed in step (SIGSEGV)"
} 2>/dev/null
pass_if "check_env names a crash" dies_named
liar hangs 's/  env->steps++;/  if (++env->steps > 5) for (;;) {}/'
hang_named() {
  timeout $((20 * patience)) "$actor" --env=./hangs.so --check_env --hang_s=1 \
    >"$work/out" 2>"$work/err"
  is $? 1 && says "environment meadow hangs in step" && grep -q observation "$work/out"
}
# One that starts a process with every step, and ends it as one does.
cat >helper.h <<'END'
#define _GNU_SOURCE
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
static void be_helped(void) {
  pid_t helper = fork();
  if (helper == 0) {
    execlp("sleep", "sleep", "1000", (char *)0);
    _exit(1);
  }
  kill(helper, SIGTERM);
  waitpid(helper, 0, 0);
}
END
liar helped '1i #include "helper.h"
s/  env->steps++;/  env->steps++; be_helped();/'
run ./helped.so vtrace 1 1 --total_steps=300
ended 30
pass_if "one that starts processes can end them" is "$code" 0
# The run's plugin is code: named before it is loaded, or refused.
names_plugin() {
  "$tree/scripts/eval.sh" "$folder" --env=./meadow.so --episodes=5 --policy=greedy \
    >"$work/out" 2>"$work/err" && says "runs code of ./meadow.so, with the rights of this account"
}
pass_if "eval.sh names the plugin" names_plugin
refuses_plugin() {
  ! "$@" --no_code >"$work/out" 2>"$work/err" &&
    says "--no_code: the environment would run code of $PWD/born_crashing.so"
}
cp -r "$folder" theirs && sed -i "s|^env = .*|env = $PWD/born_crashing.so|" theirs/config.txt
pass_if "eval.sh --no_code refuses it unseen" refuses_plugin "$tree/scripts/eval.sh" theirs
pass_if "so does watch" refuses_plugin "$tree/build/watch" theirs
# Words of theirs that look swapped, which is found out without a look into the plugin.
echo '#include <fcntl.h>
__attribute__((constructor)) static void mark(void) { creat("owned", 0600); }' >marks.c
cc -shared -fPIC -o marks.so marks.c
sed -i "s|^env = .*|env = vtrace|; s|^agent = .*|agent = $PWD/marks.so|" theirs/config.txt
swapped() {
  ! "$tree/scripts/eval.sh" theirs --no_code >"$work/out" 2>"$work/err" && [ ! -e owned ] &&
    says "vtrace is an agent and $PWD/marks.so an environment"
}
pass_if "nor does eval.sh load one that stands for the agent" swapped
crash_watched() {
  "$tree/build/watch" "$folder" --env=./crashes.so --episodes=100 2>"$work/err" >/dev/null
  [ $? -gt 128 ] && says "environment meadow crashed in step (SIGSEGV)"
} 2>/dev/null
pass_if "and so is one that is watched" crash_watched
liar exits 's/  env->steps++;/  if (++env->steps > 5) exit(0);/'
exit_named() {
  checked ./exits.so
  is $? 1 && says "environment meadow ended the process in step (exit)"
}
pass_if "check_env names an exit" exit_named
pass_if "check_env names a hang, after what it has seen" hang_named
run ./crashes.so vtrace 1 2
wait_for 30 says "starting it again in 8 s"
pauses() { sed -n 's/.*starting it again in \([0-9.]*\) s$/\1/p' "$work/err" | tr '\n' ' '; }
pass_if "an actor that crashes after some steps is started again with growing pauses" \
  is "$(pauses)" "1 2 4 8 "
pass_if "a run names its crash" says "environment meadow crashed in step (SIGSEGV)"
shows_once() {
  is "$(grep -c 'the last lines of' "$work/err")" 1 &&
    is "$(grep -c 'its log ends with the error shown above' "$work/err")" 3
}
pass_if "and shows its log once, since it ends with the same words each time" shows_once
waits() { num_actors 0 && is "$(pids learner | wc -l)" 1 && ! says "no actor is left"; }
pass_if "the run goes on without any actor meanwhile" waits
kill -INT "$run"
ended 5
pass_if "Ctrl-C in a pause ends it at once" is "$code" 130
liar vanishes 's/  env->steps++;/  if (++env->steps > 5) _exit(0);/; 1i #include <unistd.h>'
vanish_named() {
  checked ./vanishes.so
  is $? 1 && says "environment ./vanishes.so ended the process (_exit)"
}
pass_if "and an end without exit's handlers" vanish_named
pass_if "a run names an exit" \
  named_in_run ./exits.so "environment meadow ended the process in step (exit)"
pass_if "and an _exit with 0 is an actor that ended before the run did" named_in_run \
  ./vanishes.so "actor 0 ended by itself (exit code 0); its environment may call _exit"
# With a system call, on a thread of its own.
cat >leave.h <<'END'
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>
static void *leave(void *unused) {
  syscall(SYS_exit_group, 0);
  return unused;
}
static void leave_by_thread(void) {
  pthread_t thread;
  pthread_create(&thread, 0, leave, 0);
  pthread_join(thread, 0);
}
END
liar unheard '1i #include "leave.h"
s/  env->steps++;/  if (++env->steps > 5) leave_by_thread();/'
pass_if "and an end with 0 that the learner has not asked for" \
  named_in_run ./unheard.so "actor 0 ended by itself (exit code 0); its environment may call _exit"
# One that never gets as far as a step is given up.
liar shut 's/  if (!env) {/  exit(3);\n&/'
run ./shut.so vtrace 1 2
ended 30
given_up() { is "$code" 1 && says "5 deaths within 60 s: not starting it again" && says "$1"; }
pass_if "an actor that dies before its first step is given up" \
  given_up "environment meadow ended the process in create (exit)"

# ---- a learner that has no such file
"$tree/build/learner" --env=join --listen="unix:$work/socket" --num_envs=16 --logdir="$work/told" \
  --total_steps=2M --target_return=0 >"$work/out" 2>"$work/err" </dev/null &
run=$!
wait_for 10 says "waiting at unix:$work/socket"
for task in 0 1; do
  "$actor" --env=./meadow.so --envs=8 --task=$task --learner="unix:$work/socket" \
    >"$work/actor$task" 2>&1 </dev/null &
done
ended 60
told() {
  is "$code" 0 && is "$(value env)" meadow && is "$(value reason)" target_return &&
    is "$(cat "$work/told/environment.txt")" meadow
}
pass_if "--env=join takes the environment from the first actor and trains on it" told
evaluates() {
  "$tree/scripts/eval.sh" "$@" --episodes=5 --policy=greedy >"$work/out" 2>"$work/err"
}
asks_where() {
  ! evaluates "$work/told" && says "say where it is here, --env=./my_env.so" &&
    says "scripts/serve.sh can do without it"
}
pass_if "eval.sh asks where that environment is here" asks_where
told_where() {
  evaluates "$work/told" --env=./meadow.so && grep -q '^evaluation episodes=5 ' "$work/out"
}
pass_if "and evaluates where it is told" told_where
"$tree/build/learner" --env=join --listen=127.0.0.1:0 >"$work/out" 2>"$work/err"
pass_if "--env=join wants a port" says "name a port with --env=join"
finish
