#!/usr/bin/env bash
# docs/python_actor.py, with stubs made from proto/acorn.proto alone: it trains CartPole, outlives
# its learner, goes home when the run is over, and says why it was refused.
. "$(dirname "$(readlink -f "$0")")/lib.sh"
learner=$tree/build/learner
address=unix:$work/socket
declare -A actors

find_python() {
  local candidate
  for candidate in python3 /usr/bin/python3; do
    "$candidate" -c 'import google.protobuf, grpc' 2>/dev/null || continue
    python=$candidate
    return
  done
  return 1
}

# Only its own folder and build/python are looked at: without the modules it says what is needed.
says_what_is_needed() {
  cp "$tree/docs/python_actor.py" "$work"
  "$python" "$work/python_actor.py" --help >out 2>err && grep -q -- --reconnect_s out &&
    ! "$python" "$work/python_actor.py" 2>err && is "$(wc -l <err)" 1 && says "make python"
}
make_stubs() {
  local plugin
  plugin=$(command -v grpc_python_plugin) && command -v protoc >/dev/null || return
  protoc -I"$tree/proto" --plugin=protoc-gen-grpc_python="$plugin" --python_out="$work" \
    --grpc_python_out="$work" acorn.proto
}

if ! find_python; then
  echo "SKIP python_actor: python3 has no grpc here (scripts/setup.sh compare installs it)"
  exit 0
fi
pass_if "without the modules it helps, and says what is needed" says_what_is_needed
if ! make_stubs 2>"$work/err"; then
  echo "SKIP python_actor: no Python stubs (protobuf-compiler-grpc): $(tail -n 1 "$work/err")"
  exit 0
fi
trap 'kill -KILL "${actors[@]}" 2>/dev/null; end_all; rm -rf "$work"' EXIT

# serve FLAGS...: the learner in the background; its id is in $run.
serve() {
  "$learner" --listen="$address" --logdir="$work/run" --num_envs=32 --token_file="$work/token" \
    "$@" >"$work/out" 2>>"$work/err" </dev/null &
  run=$!
}

# act NUMBER
act() {
  PYTHONPATH=$work "$python" "$tree/docs/python_actor.py" --learner="$address" --name="python/$1" \
    --envs=16 --reconnect_s=30 --token_file="$work/token" >"$work/python$1" 2>&1 </dev/null &
  actors[$1]=$!
}

gone() { ! kill -0 "$1" 2>/dev/null; }

# went_home CODE: every actor ends soon, with this exit code.
went_home() {
  local number code
  for number in "${!actors[@]}"; do
    wait_for 60 gone "${actors[$number]}" || { echo "  actor $number goes on" && return 1; }
    wait "${actors[$number]}"
    code=$?
    [ $code -eq "$1" ] || { echo "  actor $number: exit code $code" && return 1; }
  done
}

rows_come() { grep -q '32 of 32 environments' "$work/err"; }
solved() { is "$(value reason)" target_return && is "$code" 0; }

new_token "$work/token"
serve --env=cartpole --total_steps=100M --checkpoint_secs=1
act 0
act 1
pass_if "two Python actors join and play" wait_for 30 rows_come
kill -TERM "$run"
ended 30
pass_if "the learner stops while they play" is "$code" 0
serve --env=cartpole --total_steps=3M --target_return=300 --resume
ended 120
pass_if "they come back and CartPole is trained to 300 within 3 M steps" solved
pass_if "they go home when the run is over" went_home 0

serve --env=catch --logdir="$work/catch"
act 0
unset 'actors[1]'
refused_with_words() {
  went_home 1 && grep -q "^FAILED_PRECONDITION: the learner trains 'catch'" "$work/python0"
}
pass_if "a refused actor says the learner's words and exits with 1" refused_with_words
new_token "$work/other"
PYTHONPATH=$work "$python" "$tree/docs/python_actor.py" --learner="$address" \
  --token_file="$work/other" >"$work/python0" 2>&1 </dev/null &
actors[0]=$!
needs_token() { went_home 1 && grep -q "^UNAUTHENTICATED: the token is none of" "$work/python0"; }
pass_if "one with another token, too" needs_token
kill -TERM "$run"
ended 30
finish
