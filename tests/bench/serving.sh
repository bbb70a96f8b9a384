#!/usr/bin/env bash
# How many rows the thread that serves and infers handles, on a device that computes nothing, over
# what a bare C-core ping-pong of the same bytes does: 256 rows of 64 B a message, UNIX sockets,
# vtrace with all steps trained on. The same with two threads (--queues=1: one receives, one infers
# and sends), and with batches that take 1 ms.
# Images of 84x84, 32 a message, in messages and in shared memory, beside memcpy of the same bytes
# in cache; of shared memory also without what messages of 4 B a row take; and the CPU time of a
# step of the learner and its actors.
# Rows per second of CPU time count, of the busiest thread: the threads share this machine with the
# actors, so that they seldom have a core each. What waiting for each other takes is not in it.
# Rows per second of wall time are printed too. Measurements in turn; the medians of their ratios
# count.
# Usage: tests/bench/serving.sh [TURNS] [SECONDS] [ACTORS_AT_0_MS] [ACTORS_AT_1_MS]
set -u
. "$(dirname "$(readlink -f "$0")")/lib.sh"
need build/tests/bench/bench_rpc build/tests/libidle.so
turns=${1:-5} seconds=${2:-4} few=${3:-4} many=${4:-64}
numbers='{"bytes": 64}' images='{"rows": 84, "actions": 6}' pixels=$((84 * 84))

# Of a message: observations, rewards, flags; of its answer: the actions.
bytes=$((256 * (64 + 4 + 1) + 16)) reply_bytes=$((256 * 4 + 4))

# bare: rows per CPU second of the ping-pong.
bare() {
  build/tests/bench/bench_rpc bare --procs="$few" --bytes=$bytes --reply_bytes=$reply_bytes \
    --seconds="$seconds" --socket="$work/bare" | value server_cpu_us |
    awk '{printf "%.0f", 256 * 1e6 / $1}'
}

steps() {
  tail -n 1 "$work/run/metrics.jsonl" | tr ',{}' '\n' | sed -n 's/^ *"step": *//p'
}
# Lines TASK SECONDS: CPU time of the learner's threads that serve.
serving() {
  local task
  for task in /proc/"$1"/task/*; do
    case $(cat "$task/comm") in
      queue | inference) awk -v task="$task" '{print task, $1 / 1e9}' "$task/schedstat" ;;
    esac
  done
}

# CPU time of these processes in s.
all_cpu() {
  local pid
  for pid; do cat "/proc/$pid/stat"; done | awk '{s += $14 + $15} END {print s / 100}'
}

# ours QUEUES ACTORS ROWS ARGS US [OPTIONS_OF_ACTORS]: rows per CPU second of the busiest thread,
# and per second, on a device that takes so long for a batch; the CPU time of a step of all in us.
ours() {
  local learner actors=() i steps0 steps1 from all rows=$3 args=$4
  rm -rf "$work/run" "$work/socket"
  ACORN_CUDA_PLUGIN=$PWD/build/tests/libidle.so ACORN_IDLE_US=$5 \
    build/learner --env=synthetic --env_args="$args" --agent=vtrace --device=cuda --queues="$1" \
    --num_envs=$(($2 * rows)) --listen="unix:$work/socket" --logdir="$work/run" \
    --total_steps=1e12 --metrics_secs=0.1 --checkpoint_secs=0 >"$work/out" 2>"$work/err" &
  learner=$!
  for i in $(seq 100); do
    [ -S "$work/socket" ] && break
    sleep 0.05
  done
  for i in $(seq 0 $(($2 - 1))); do
    build/actor --learner="unix:$work/socket" --env=synthetic --env_args="$args" --envs="$rows" \
      --task="$i" "${@:6}" >/dev/null 2>&1 &
    actors+=($!)
  done
  sleep 3
  steps0=$(steps) from=$(date +%s.%N) all=$(all_cpu $learner "${actors[@]}")
  serving $learner >"$work/cpu0"
  sleep "$seconds"
  steps1=$(steps)
  serving $learner >"$work/cpu1"
  all=$(all_cpu $learner "${actors[@]}" | awk -v before="$all" '{print $1 - before}')
  awk -v steps=$((steps1 - steps0)) -v all="$all" -v from="$from" -v to="$(date +%s.%N)" '
    FNR == NR {before[$1] = $2; next}
    $2 - before[$1] > cpu {cpu = $2 - before[$1]}
    END {printf "%.0f %.0f %.2f\n", steps / cpu, steps / (to - from), all * 1e6 / steps}' \
    "$work/cpu0" "$work/cpu1"
  kill -KILL $learner "${actors[@]}" 2>/dev/null
  wait 2>/dev/null
}

echo "machine: $(machine)"
for _ in $(seq "$turns"); do
  a=$(bare)
  read -r b wall _ < <(ours 0 "$few" 256 "$numbers" 0)
  read -r two _ _ < <(ours 1 "$few" 256 "$numbers" 0)
  read -r _ none _ < <(ours 0 "$many" 256 "$numbers" 0)
  read -r _ slow _ < <(ours 0 "$many" 256 "$numbers" 1000)
  read -r frames _ sent_us < <(ours 0 "$few" 32 "$images" 0 --streams=1 --no_shared_rows)
  read -r shared _ shared_us < <(ours 0 "$few" 32 "$images" 0 --streams=1)
  read -r empty _ _ < <(ours 0 "$few" 32 '{"bytes": 4}' 0 --streams=1)
  copied=$(build/tests/bench/bench_rpc copy --bytes=$((32 * pixels)) --seconds=1 |
    value bytes_per_cpu_s)
  echo "rows per CPU second: ours $b, bare $a, two threads $two; rows/s: $few actors $wall;" \
    "$many actors, 0 ms $none, 1 ms $slow; images per CPU second $frames," \
    "shared $shared, of 4 B $empty;" \
    "CPU us of a step $sent_us, shared $shared_us"
  ratio "$b" "$a" >>"$work/of-bare"
  echo "$b" >>"$work/rows"
  ratio "$two" "$b" >>"$work/two"
  ratio "$slow" "$none" >>"$work/of-idle"
  ratio $((frames * pixels)) "$copied" >>"$work/of-copied"
  ratio $((shared * pixels)) "$copied" >>"$work/shared-of-copied"
  awk -v a="$shared" -v b="$empty" -v c="$copied" -v pixels=$pixels \
    'BEGIN {print pixels / (1 / a - 1 / b) / c}' >>"$work/alone-of-copied"
  ratio "$shared_us" "$sent_us" >>"$work/shared-cpu"
done
status=0
row "rows per CPU second over bare gRPC" "$(median <"$work/of-bare")" ">= 0.6" || status=1
row "rows per CPU second of one serving thread" "$(median <"$work/rows")" ">= 4e6" || status=1
row "the same of the busier one of two threads, over that" "$(median <"$work/two")" reported
row "rows/s with batches of 1 ms over 0 ms" "$(median <"$work/of-idle")" ">= 0.95" || status=1
row "bytes of images per CPU second over memcpy" "$(median <"$work/of-copied")" reported
row "the same in shared memory" "$(median <"$work/shared-of-copied")" ">= 0.5" || status=1
row "the same without their messages" "$(median <"$work/alone-of-copied")" reported
row "CPU time of a step of all, shared over not" "$(median <"$work/shared-cpu")" reported
exit $status
