#!/usr/bin/env bash
# TLS over plain TCP: CartPole, 4 actors x 64 environments on loopback, in turns. Prints steps/s of
# both, and the CPU time of a message, learner and actors together, which a busy machine changes
# less; ratios are of the medians. Usage: tests/bench/tls.sh [ROUNDS] (default: 3)
set -u
. "$(dirname "$(readlink -f "$0")")/lib.sh"
need
root=$PWD
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

# measure NAME: a line "STEPS_PER_SECOND US_PER_MESSAGE" more in the file NAME.
measure() {
  local pids address task seconds=8 begin
  rm -rf run
  [ "$1" = tls ] && set -- "$1" "${server[@]}"
  "$root/build/learner" --env=cartpole --num_envs=256 --listen=127.0.0.1:0 --logdir=run \
    --total_steps=1e12 --metrics_secs=0.2 "${@:2}" >out 2>err &
  pids=($!)
  until [ -s run/address ]; do sleep 0.1; done
  address=$(head -n 1 run/address)
  [ "$1" = tls ] && set -- "$1" "${client[@]}"
  for task in 0 1 2 3; do
    "$root/build/actor" --learner="$address" --env=cartpole --envs=64 --task=$task --streams=1 \
      "${@:2}" >"actor-$task" 2>&1 &
    pids+=($!)
  done
  sleep 2
  begin=$(figures "${pids[@]}")
  sleep $seconds
  echo $begin $(figures "${pids[@]}") | awk -v seconds=$seconds '{
    printf "%.0f %.1f\n", ($3 - $1) / seconds, ($4 - $2) * 1e6 / (($3 - $1) / 64)}' >>"$1"
  kill "${pids[@]}"
  wait "${pids[@]}" 2>/dev/null
}

for _ in $(seq "${1:-3}"); do
  measure plain
  measure tls
done
column() { cut -d ' ' -f "$2" "$1" | median; }
awk -v p="$(column plain 1)" -v t="$(column tls 1)" -v pu="$(column plain 2)" \
  -v tu="$(column tls 2)" 'BEGIN {
    printf "tls: %d steps/s, plain: %d steps/s, ratio %.2f\n", t, p, t / p
    printf "tls: %.1f us of CPU time a message, plain: %.1f us, ratio %.2f\n", tu, pu, pu / tu}'
