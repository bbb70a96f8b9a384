#!/usr/bin/env bash
# TLS over plain TCP on loopback, in turns: CartPole, 4 actors x 64 environments, and Pong, 2 x 32.
# Prints steps/s of both, and the CPU time of a message, learner and actors together, which a busy
# machine changes less; ratios are of the medians. Usage: tests/bench/tls.sh [ROUNDS] [SECONDS]
# (default: 3 of 8 s each; Pong three times as long)
set -u
rounds=${1:-3} seconds=${2:-8}
. "$(dirname "$(readlink -f "$0")")/lib.sh"
scripts/setup.sh atari && need gymnasium || exit 1
root=$PWD
echo "machine: $(machine)"
cd "$work" || exit 1
"$root/deploy/credentials.sh" credentials 127.0.0.1 2>openssl || { cat openssl && exit 1; }
server=(--tls_cert=credentials/learner/tls.crt --tls_key=credentials/learner/tls.key
  --token_file=credentials/token)
client=(--tls_ca=credentials/ca.crt --token_file=credentials/token)

# Steps so far, and seconds of CPU time of the processes.
figures() {
  local pid
  tail -n 1 run/metrics.jsonl | sed 's/{"step":\([0-9]*\),.*/\1/'
  for pid in "$@"; do cpu_seconds "$pid"; done | awk '{sum += $1} END {print sum}'
}
plays() { [ "$(tail -n 1 run/metrics.jsonl 2>/dev/null | tr ',{}' '\n' |
  sed -n 's|^"train/updates": *||p' | cut -d. -f1)" -gt 5 ] 2>/dev/null; }

pids=()
# Ends the benchmark if one of the processes has ended.
check_alive() {
  local pid
  for pid in "${pids[@]}"; do
    kill -0 "$pid" 2>/dev/null && continue
    tail -n 3 err actor-* 2>/dev/null
    kill "${pids[@]}" 2>/dev/null
    exit 1
  done
}

# measure KIND ENV ACTORS ENVS SECONDS: a line "STEPS_PER_SECOND US_PER_MESSAGE" more in ENV-KIND.
measure() {
  local kind=$1 env=$2 actors=$3 envs=$4 length=$5 address task begin learner=() actor=()
  [ "$kind" = plain ] || { learner=("${server[@]}") && actor=("${client[@]}"); }
  rm -rf run
  "$root/build/learner" --env="$env" --num_envs=$((actors * envs)) --listen=127.0.0.1:0 \
    --logdir=run --total_steps=1e12 --metrics_secs=0.2 "${learner[@]}" >out 2>err &
  pids=($!)
  until [ -s run/address ]; do
    check_alive
    sleep 0.1
  done
  address=$(head -n 1 run/address)
  for ((task = 0; task < actors; task++)); do
    "$root/build/actor" --learner="$address" --env="$env" --envs="$envs" --task=$task --streams=1 \
      "${actor[@]}" >"actor-$task" 2>&1 &
    pids+=($!)
  done
  until plays; do
    check_alive
    sleep 0.2
  done
  sleep 1
  begin=$(figures "${pids[@]}")
  sleep "$length"
  echo $begin $(figures "${pids[@]}") | awk -v seconds="$length" -v envs="$envs" '{
    printf "%.0f %.1f\n", ($3 - $1) / seconds, ($4 - $2) * 1e6 / (($3 - $1) / envs)}' >>"$env-$kind"
  kill "${pids[@]}"
  wait "${pids[@]}" 2>/dev/null
}
column() { cut -d ' ' -f "$3" "$1-$2" | median; }

# compare NAME MUST ENV ACTORS ENVS SECONDS
compare() {
  local name=$1 must=$2 env=$3 round
  shift 2
  for ((round = 0; round < rounds; round++)); do
    if [ $((round % 2)) -eq 0 ]; then
      measure plain "$@"
      measure tls "$@"
    else
      measure tls "$@"
      measure plain "$@"
    fi
  done
  echo "$name: TLS $(column "$env" tls 1) steps/s, plain $(column "$env" plain 1);" \
    "CPU time of a message: TLS $(column "$env" tls 2) us, plain $(column "$env" plain 2)"
  row "$name: TLS over plain, steps/s" \
    "$(ratio "$(column "$env" tls 1)" "$(column "$env" plain 1)")" "$must"
}
code=0
compare "CartPole 4 x 64" ">= 0.8" cartpole 4 64 "$seconds" || code=1
compare "Pong 2 x 32" ">= 0.95" atari 2 32 $((3 * seconds)) || code=1
exit $code
