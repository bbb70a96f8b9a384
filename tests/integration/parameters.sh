#!/usr/bin/env bash
# Parameters from outside of a running learner: what is got is what its next checkpoint has; what is
# set before training is as if it had been in the checkpoint, bit for bit; a run under load goes on;
# what is refused; clients that are killed in the middle, and several at once.
. "$(dirname "$(readlink -f "$0")")/lib.sh"
command -v python3 >/dev/null || { echo "SKIP parameters: python3 is not here"; exit 0; }
make -s -C "$tree" build/tests/integration/parameters/half_set >/dev/null || exit 1
plugins box_actions/target
half_set=$tree/build/tests/integration/parameters/half_set
file() { python3 "$tree/tests/integration/parameters/file.py" "$@"; }

# parameters WORDS...: what it prints is in `said`.
parameters() { timeout $((30 * patience)) "$tree/build/parameters" "$@" >said 2>&1; }
# refuses SENTENCE CODE WORDS...
refuses() {
  local sentence=$1 expected=$2
  shift 2
  parameters "$@"
  is $? "$expected" && grep -qE -- "$sentence" said
}
version_of() { sed -n 's/.* update \([0-9]*\)$/\1/p' "${1:-said}"; }

env=cartpole
# open FOLDER WORDS...: a learner of one actor with four environments.
is_open() { says "run folder" && [ -S "$work/by-hand" ]; }
open() {
  local folder=$1
  shift
  learner --env=$env --num_envs=4 --logdir="$folder" --metrics_secs=0.2 "$@"
  wait_for 20 is_open
}
play() { actor 0 --env=$env --envs=4 --streams=1 "$@"; }
stopped() {
  kill -TERM "$run"
  ended 20
}

# ---- set before training: as if it had been in the checkpoint

# trained FOLDER WHEN WORDS...: a run that is stopped before its first update and resumed, as that
# changes its seeds, with the parameters of other.safetensors set before the one or after the other.
trained() {
  local folder=$1 when=$2
  shift 2
  open "$folder" --deterministic --total_steps=1e9 "$@"
  [ "$when" != stopped ] || parameters set "$folder" other.safetensors || return
  stopped
  open "$folder" --deterministic --total_steps=4000 --resume "$@"
  [ "$when" != resumed ] ||
    parameters set "$folder" other.safetensors --expected_version=0 || return
  play
  ended
  end_by_hand
}
compare() { python3 "$tree/tests/integration/compare_checkpoints.py" "$@" >compared; }
for agent in vtrace dqn sac; do
  words=(--agent=$agent)
  case $agent in
    dqn) words+=(--replay_min_steps=500 --target_update=500) ;;
    sac) env=./target.so words+=(--replay_min_steps=500 --hidden=32) ;;
  esac
  open other-$agent --seed=2 --total_steps=1e9 "${words[@]}"
  parameters get other-$agent other.safetensors
  stopped
  trained as-it-is-$agent never "${words[@]}"
  trained in-it-$agent stopped "${words[@]}"
  trained set-$agent resumed "${words[@]}"
  as_started() {
    compare in-it-$agent set-$agent && grep -qE '^equal \([0-9]+ arrays, [1-9]' compared
  }
  pass_if "$agent: what is set at the start is as if it had been in the checkpoint" as_started
  pass_if "$agent: and not as without it" eval "! compare as-it-is-$agent set-$agent"
done
env=cartpole

# ---- under load, with a token

new_token token
new_token wrong
open run --token_file=token --checkpoint_secs=0 --total_steps=1e9 --hidden=600,600
play --token_file=token
wait_for 60 metric_passes train/updates 20
pass_if "get from a run folder" parameters get run first.safetensors
at=$(version_of)
pass_if "the file has the number of updates" is "$at" "$(file updates first.safetensors)"
pass_if "set in a run under load" parameters set run first.safetensors
after=$(version_of)
goes_on() { [ "$after" -ge "$at" ] && wait_for 60 metric_passes train/updates $((after + 20)); }
pass_if "training goes on from there" goes_on
pass_if "the learner logs it" says "has set 6 of 6 parameter arrays at update $after"

address_of_run=$(head -n 1 run/address)
pass_if "get without a token" refuses "asks for a token" 1 get "$address_of_run" none
pass_if "set without a token" refuses "asks for a token" 1 set "$address_of_run" first.safetensors
pass_if "get with another token" refuses "none of the learner's" 1 get "$address_of_run" none \
  --token_file=wrong
pass_if "set with another token" refuses "none of the learner's" 1 set "$address_of_run" \
  first.safetensors --token_file=wrong
pass_if "nothing was written" test ! -e none
pass_if "training that is past the update" refuses "at update [0-9]*, not at $at as expected" 1 \
  set run first.safetensors --expected_version="$at"

for how in rename reshape nan long escape head double; do
  file edit first.safetensors $how.safetensors $how
done
sets() { grep -c "has set" err; }
before=$(sets)
pass_if "a name that is none" refuses "the run has no parameter head/x" 2 set run rename.safetensors
pass_if "another shape" refuses "head/b has another shape than the network, \(3\)" 2 set run \
  reshape.safetensors
pass_if "NaN" refuses "number 0 of array head/b is nan" 2 set run nan.safetensors
pass_if "a long header" refuses "its header would have 1[0-9]* bytes, of 131072 at most" 2 set run \
  long.safetensors
pass_if "an escape sequence" refuses "a name that is not printable" 2 set run escape.safetensors
pass_if "is not in the log" eval "! grep -q $'\\x1b' err"
pass_if "no such file" refuses "absent cannot be read: No such file" 1 set run absent
pass_if "no safetensors file" refuses "it is no safetensors file" 2 set run token
pass_if "two words" refuses "expected three words" 2 get run
pass_if "neither get nor set" refuses "expected three words" 2 put run first.safetensors
pass_if "a folder without a run" refuses "holds no run" 1 get "$tree/docs" none
pass_if "what is refused sets nothing" is "$(sets)" "$before"

# ---- several at once, and clients that are killed in the middle, while nothing is trained

many() {
  local i code=0 pids=()
  for i in 1 2 3; do
    "$tree/build/parameters" set run first.safetensors >"set-$i" 2>&1 &
    pids+=($!)
  done
  parameters get run many.safetensors || code=1
  for i in "${pids[@]}"; do wait "$i" || code=1; done
  return $code
}
pass_if "three that set and one that gets, at once" many
killed "$actor"
idles() {
  parameters get run one.safetensors && sleep 0.3 && parameters get run two.safetensors &&
    cmp -s one.safetensors two.safetensors
}
pass_if "without an actor nothing is trained" wait_for 20 idles
before=$(sets)
for i in 1 2 3 4 5 6; do # more than there may be at a time
  "$half_set" "$address_of_run" double.safetensors token >half &
  pid=$!
  wait_for 10 grep -qs half half || break
  killed $pid
  rm half
done
gets_again() { parameters get run two.safetensors; }
pass_if "others that get are not kept out" wait_for 10 gets_again
pass_if "six that were killed in the middle changed nothing" cmp one.safetensors two.safetensors
pass_if "nor did they set anything" is "$(sets)" "$before"
far() {
  ! "$half_set" "$address_of_run" double.safetensors token 9223372036854775808 >half 2>&1 &&
    grep -q 'no run is at update 9223372036854775808' half
}
pass_if "an update that no run reaches" far
silent=()
for i in 1 2 3 4; do # as many as there may be
  "$half_set" "$address_of_run" double.safetensors token >silent-$i &
  silent+=($!)
done
are_silent() { [ "$(cat silent-*)" = "$(printf 'half\n%.0s' 1 2 3 4)" ]; }
pass_if "four that send half of a file and are silent" wait_for 10 are_silent
pass_if "are given up" wait_for 60 gets_again
for pid in "${silent[@]}"; do killed "$pid"; done
pass_if "a part alone" parameters set run head.safetensors
pass_if "is logged as such" says "has set 1 of 6 parameter arrays"
pass_if "at once, while nothing is trained" parameters set run double.safetensors
# Without an installed package: its modules in place.
in_python() {
  PYTHONPATH=$tree/deploy/python "$numpy_python" - >said 2>&1 <<'END'
import acorn
run = acorn.Run("run")
before, at = run.parameters()
biases = before["head/b"] + 1
assert run.set_parameters({"head/b": biases}, expected_version=at) == at
after, updates = run.parameters()
assert updates == at
assert (after["head/b"] == biases).all() and (after["head/w"] == before["head/w"]).all()
assert run.set_parameters(before, expected_version=at) == at
try:
    run.set_parameters({"head/b": biases[:1], "head/w": before["head/w"] * 2})
    assert False
except acorn.AcornError as error:
    assert "head/b has another shape" in str(error), error
assert all((run.parameters()[0][name] == before[name]).all() for name in before)
END
}
numpy_python=$tree/build/onnx/bin/python # of scripts/setup.sh onnx
"$numpy_python" -c 'import numpy' 2>/dev/null || numpy_python=python3
if "$numpy_python" -c 'import numpy' 2>/dev/null; then
  pass_if "from Python, some or all of them" in_python
else
  echo "SKIP from Python: numpy is not here"
fi
parameters get run last.safetensors
stopped
pass_if "the learner ends in good order" is "$code" 0
pass_if "what was got is what the next checkpoint has" file same last.safetensors run
doubled() { cmp -s <(tail -c 1000000 last.safetensors) <(tail -c 1000000 double.safetensors); }
pass_if "and is what was set" doubled
end_by_hand

# ---- the operator's own token

new_token operator
open own --token_file=token --operator_token_file=operator --total_steps=1e9
address_of_own=$(head -n 1 own/address)
pass_if "get with the token of actors" refuses "asks for the operator's token" 1 get \
  "$address_of_own" none --token_file=token
pass_if "set with it" refuses "asks for the operator's token" 1 set "$address_of_own" \
  first.safetensors --token_file=token
pass_if "get with none" refuses "asks for the operator's token" 1 get "$address_of_own" none
pass_if "nothing was written with any" test ! -e none
pass_if "get with the operator's" parameters get "$address_of_own" mine.safetensors \
  --token_file=operator
pass_if "set with the file that the run folder names" parameters set own mine.safetensors
shows_status() { "$tree/build/status" own >said; }
pass_if "the run folder's token is the actors' elsewhere" shows_status
own_in_python() {
  PYTHONPATH=$tree/deploy/python "$numpy_python" - >said 2>&1 <<'END'
import acorn
run = acorn.Run("own")
before, at = run.parameters()
assert run.set_parameters(before, at, token_file="operator") == at
try:
    run.parameters(token_file="token")
    assert False
except acorn.AcornError as error:
    assert "operator's token" in str(error), error
END
}
if "$numpy_python" -c 'import numpy' 2>/dev/null; then
  pass_if "from Python, with a token of one's choice" own_in_python
fi
stopped
end_by_hand
one_token() {
  learner --env=cartpole --logdir=both --token_file=token --operator_token_file=token
  ended 20
  is "$code" 2 && says "holds a token of --token_file, which actors have"
}
pass_if "one token for both" one_token

# ---- who is refused

address=0.0.0.0:0
listens() { grep -q 'listening on 0.0.0.0:0, port' err; }
learner --env=cartpole --num_envs=4 --logdir=open --total_steps=1e9
wait_for 20 listens
pass_if "a learner that others reach, without a token" refuses "with a token only" 1 get open none
end_by_hand
address="unix:$work/by-hand"
open random --agent=random --total_steps=1e9
pass_if "a learner that trains nothing" refuses "nothing is trained here" 1 get random none
end_by_hand
open pair --learners=2 --total_steps=1e9
pass_if "several learners" refuses "parameters of several learners" 1 get pair none
end_by_hand
finish
