#!/usr/bin/env bash
# Mistakes on the command line end the run with exit code 2 and a sentence, before anything starts.
. "$(dirname "$(readlink -f "$0")")/lib.sh"

named() { is "$code" 2 && says "$1" && [ ! -s "$work/out" ] && [ ! -e runs ] && no_socket; }

# mistake NAME SENTENCE WORDS...
mistake() {
  local name=$1 sentence=$2
  shift 2
  refused "$@"
  pass_if "$name" named "$sentence"
}

mistake "an environment that does not exist" "did you mean 'cartpole'" cartpol vtrace 2
mistake "an agent that does not exist" "vtrace" cartpole vtrase 2
mistake "agent and environment in the wrong order" "./run_local.sh cartpole vtrace 1" \
  vtrace cartpole 1
mistake "an address whose port is left open" "--listen=127.0.0.1:0: name a port" \
  cartpole vtrace 1 --listen=127.0.0.1:0
mistake "one dash" "'-seed=4' is no option: they start with two dashes" cartpole ppo -seed=4
mistake "ports that do not suffice" "each of 2 learners listens a port above" \
  cartpole vtrace 2 --learners=2 --listen=127.0.0.1:65535
mistake "an option that does not exist" "did you mean --total_steps" \
  cartpole vtrace 2 --total_step=100
mistake "an option of the actors, misspelt" "did you mean --reconnect_s" \
  cartpole vtrace 2 --reconect_s=1
mistake "a value out of its range" "--num_eval_envs" cartpole vtrace 2 --num_eval_envs=-1
mistake "a value that is no number" "--seed" cartpole vtrace 2 --seed=seven
for seed in -1 9000000000000001; do
  mistake "a seed of $seed: both limits are named" \
    "--seed: '$seed' is out of range; allowed: 0..9000000000000000" cartpole vtrace 2 --seed=$seed
done
mistake "an option without its value" "--seed" cartpole vtrace 2 --seed
mistake "a number of actors that is none" "NUM_ACTORS" cartpole vtrace two
mistake "a word too many" "one word too many" cartpole vtrace 2 16 17
mistake "an agent alone" "ENV is missing, vtrace is an agent: ./run_local.sh cartpole vtrace" vtrace
mistake "what the launcher sets itself" "cannot be given here" cartpole vtrace 2 --num_envs=8
mistake "an environment's option that does not exist" "lenght" \
  tmaze vtrace 2 --env_args='{"lenght": 20}'
mistake "options of the environment that are no JSON" "env_args" tmaze vtrace 2 --env_args=length
# What only the learner sees: it ends before there is anything to keep.
mistake "sizes that contradict each other" "--max_envs=1 is less" cartpole vtrace 2 --max_envs=1
mkdir kept
mistake "so with a folder in others" "--max_envs=1 is less" cartpole vtrace 2 --max_envs=1 \
  --logdir=kept/made/run
pass_if "of which those that were made are removed" is "$(find kept)" kept
mistake "and with one that the learner sees only in its folder" \
  "--minibatches=7 does not divide the 3 windows" cartpole ppo 1 4 --batch_size=3 \
  --minibatches=7 --logdir=kept/made/run
pass_if "of which they are removed, too" is "$(find kept)" kept
mistake "the same in a folder of its own" "--minibatches=7 does not divide the 3 windows" \
  cartpole ppo 1 4 --batch_size=3 --minibatches=7
mistake "an LSTM without units" "--lstm_size=0: network lstm has 1 to 4096 units" \
  tmaze r2d2 1 --lstm_size=0
mistake "atoms that are one number" "and --value_high=1000000000: in float32 atoms 0 and 1 of 51" \
  cartpole rainbow 1 --value_low=999999999.9999 --value_high=1e9
mistake "an address that is none" "is not HOST:PORT" cartpole vtrace 2 --listen=nonsense
mistake "no words at all" "Usage:"

refused --help
help_is_complete() {
  is "$code" 0 && grep -q 'Usage:' out && grep -q 'cartpole' out && grep -q 'total_steps' out &&
    grep -q 'reconnect_s' out
}
pass_if "--help shows usage, environments and all options" help_is_complete

# Of each script that is started, the comment at its head, and nothing is done.
scripts_help() {
  local script said
  for script in "$tree"/scripts/{*.sh,sweep.py}; do
    case $(basename "$script") in lib.sh | status.sh) continue ;; esac
    said=$("$script" --help 2>&1 </dev/null) && [ "$said" = "$("$script" -h 2>&1)" ] &&
      grep -q "$(basename "$script")" <<<"$said" && ! grep -q '^#\|set -' <<<"$said" ||
      { echo "  $script: $said" && return 1; }
  done
}
pass_if "each script's --help is the comment at its head" scripts_help
programs_name_their_words() {
  "$tree/build/status" --help | grep -q '^Usage: status \[ADDRESS\] \[--name' &&
    "$tree/build/checkpoint" --help | grep -q '^Usage: checkpoint RUN|FILE ' &&
    "$tree/build/curves" --help | grep -q '^Usage: curves RUN\.\.\. '
}
pass_if "the usage lines name the words before the options" programs_name_their_words
for seeds in 9000000000000001 -1 1..99999999999999999 7,99999999999999999 1,,2 seven; do
  code=0
  "$tree/scripts/sweep.py" cartpole vtrace --seeds="$seeds" >out 2>err || code=$?
  pass_if "scripts/sweep.py with seeds $seeds: both limits are named" \
    named "$seeds: seeds are from 0 to 9000000000000000, written 1..5 or 1,2,7"
done
code=0
"$tree/scripts/sweep.py" cartpole vtrace 1..3 2 >out 2>err || code=$?
pass_if "of words that are too many the first is named" \
  named "1..3 is one word too many after ENV AGENT"
finish
