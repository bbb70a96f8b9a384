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
for _ in $(seq "$rounds"); do
  ask $((port + 1)) | tee "$work/line" | sed 's/^/onnxruntime in Python: /'
  value requests_per_second <"$work/line" >>"$work/theirs"
  ask $port | tee "$work/line" | sed 's/^/serve: /'
  value requests_per_second <"$work/line" >>"$work/ours"
done
rate=$(median <"$work/ours") other=$(median <"$work/theirs")
ask $port --rate="$(awk -v r="$rate" 'BEGIN {print r / 2}')" | tee "$work/line" |
  sed 's/^/serve, half that rate: /'
echo "machine: $(machine)"
failed=0
row "inference requests/s, 64 connections, gRPC" "$rate" reported
row "the same over onnxruntime in Python" "$(awk -v a="$rate" -v b="$other" \
  'BEGIN {printf "%.1f", a / b}')" ">= 20" || failed=1
row "99th percentile at half that rate, ms" "$(value p99_ms <"$work/line")" "<= 5" || failed=1
exit $failed
