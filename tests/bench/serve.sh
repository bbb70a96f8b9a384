#!/usr/bin/env bash
# Inference requests of one row by 64 connections over gRPC, CartPole's network of 64-64: how many a
# second scripts/serve.sh answers, and a server in Python with onnxruntime (serve_onnx.py), in turn,
# each on one core, the client on another; the 99th percentile of their time at half that rate.
# Usage: tests/bench/serve.sh [ROUNDS]
set -u
. "$(dirname "$(readlink -f "$0")")/lib.sh"
need build/tests/bench/bench_serve
scripts/setup_python.sh triton || exit 1
rounds=${1:-3}
python=build/triton/bin/python
trap 'kill ${ours:-} ${theirs:-} 2>/dev/null; rm -rf "$work"' EXIT
export PYTHONDONTWRITEBYTECODE=1

build/launch cartpole ppo 1 8 --total_steps=20k --seed=1 --logdir="$work/cartpole" --no_plot \
  --evaluators=0 --hidden=64,64 >"$work/out" 2>"$work/err" || { cat "$work/err" && exit 1; }
build/export "$work/cartpole" >"$work/out" || exit 1
port=$((10000 + RANDOM % 20000))
taskset -c 0 build/serve "$work/cartpole" --port=-1 --grpc_port=$port 2>"$work/log" &
ours=$!
taskset -c 0 "$python" tests/bench/serve_onnx.py "$work/cartpole/policy.onnx" $((port + 1)) &
theirs=$!
sleep 3

# ask PORT [OPTION...]: the client's line.
ask() {
  taskset -c 1 build/tests/bench/bench_serve 127.0.0.1:"$1" cartpole state 4 "${@:2}"
}
# The CPU time of a process so far, in us.
cpu_us() {
  awk -v hz="$(getconf CLK_TCK)" '{sub(/^.*\) /, ""); print ($12 + $13) / hz * 1e6}' "/proc/$1/stat"
}
# round NAME PID PORT: its rate, and the server's CPU time for a request.
round() {
  local before
  before=$(cpu_us "$2")
  ask "$3" >"$work/line" || exit 1
  value requests_per_second <"$work/line" >>"$work/$1"
  awk -v a="$before" -v b="$(cpu_us "$2")" -v n="$(value answers <"$work/line")" \
    'BEGIN {print (b - a) / n}' >>"$work/$1.cpu"
  echo "$1: $(cat "$work/line") server_cpu_us=$(tail -n 1 "$work/$1.cpu")"
}
for _ in $(seq "$rounds"); do
  round onnxruntime $theirs $((port + 1))
  round serve $ours $port
done
# over A B: the median of one over that of the other.
over() {
  awk -v a="$(median <"$work/$1")" -v b="$(median <"$work/$2")" 'BEGIN {printf "%.1f", a / b}'
}
rate=$(median <"$work/serve")
ask $port --rate="$(awk -v r="$rate" 'BEGIN {print r / 2}')" | tee "$work/line" |
  sed 's/^/serve, half that rate: /'
echo "machine: $(machine)"
failed=0
row "inference requests/s, 64 connections, gRPC" "$rate" reported
row "the same over onnxruntime in Python" "$(over serve onnxruntime)" ">= 20" || failed=1
row "CPU time of its server for a request" "$(over onnxruntime.cpu serve.cpu)" reported
row "99th percentile at half that rate, ms" "$(value p99_ms <"$work/line")" "<= 5" || failed=1
exit $failed
