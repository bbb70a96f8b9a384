#!/usr/bin/env bash
# Inference requests of one row by 64 connections over gRPC, CartPole's network of 64-64: how many a
# second scripts/serve.sh answers, as calls (ModelInfer) and as messages of streams
# (ModelStreamInfer); a server in Python with onnxruntime (serve_onnx.py); and the shortest server
# that gRPC's C core allows (bare_serve.c), which infers nothing. In turn, each on one core, the
# client on another; the 99th percentile of their time at half that rate. The client may be the
# bound, so the CPU time of the servers for a request is compared, too.
# Usage: tests/bench/serve.sh [ROUNDS]
set -u
. "$(dirname "$(readlink -f "$0")")/lib.sh"
need build/tests/bench/bench_serve build/tests/bench/bare_serve
scripts/setup_python.sh triton || exit 1
rounds=${1:-3}
python=build/triton/bin/python
trap 'kill ${ours:-} ${theirs:-} ${theirs_streams:-} ${bare:-} 2>/dev/null; rm -rf "$work"' EXIT
export PYTHONDONTWRITEBYTECODE=1

build/launch cartpole ppo 1 8 --total_steps=20k --seed=1 --logdir="$work/cartpole" --no_plot \
  --evaluators=0 --hidden=64,64 >"$work/out" 2>"$work/err" || { cat "$work/err" && exit 1; }
build/export "$work/cartpole" >"$work/out" || exit 1
port=$((10000 + RANDOM % 20000))
taskset -c 0 build/serve "$work/cartpole" --port=-1 --grpc_port=$port 2>"$work/log" &
ours=$!
taskset -c 0 "$python" tests/bench/serve_onnx.py "$work/cartpole/policy.onnx" $((port + 1)) 4 &
theirs=$!
taskset -c 0 "$python" tests/bench/serve_onnx.py "$work/cartpole/policy.onnx" $((port + 3)) 70 &
theirs_streams=$!
for _ in $(seq 100); do
  grep -q 'serving at gRPC' "$work/log" && break
  sleep 0.1
done
sleep 3 # Python's

# ask PORT [OPTION...]: the client's line.
ask() {
  taskset -c 1 build/tests/bench/bench_serve 127.0.0.1:"$1" cartpole state 4 "${@:2}"
}
# The CPU time of a process so far, in us.
cpu_us() {
  awk -v hz="$(getconf CLK_TCK)" '{sub(/^.*\) /, ""); print ($12 + $13) / hz * 1e6}' "/proc/$1/stat"
}
# round NAME PID PORT [OPTION]: its rate, and the server's CPU time for a request.
round() {
  local before
  before=$(cpu_us "$2")
  ask "$3" "${@:4}" >"$work/line" || exit 1
  value requests_per_second <"$work/line" >>"$work/$1"
  awk -v a="$before" -v b="$(cpu_us "$2")" -v n="$(value answers <"$work/line")" \
    'BEGIN {print (b - a) / n}' >>"$work/$1.cpu"
  echo "$1: $(cat "$work/line") server_cpu_us=$(tail -n 1 "$work/$1.cpu")"
}
ask $port --seconds=1 >"$work/line" || exit 1
taskset -c 0 build/tests/bench/bare_serve $((port + 2)) "$(value reply_bytes <"$work/line")" &
bare=$!
sleep 1
for _ in $(seq "$rounds"); do
  round onnxruntime $theirs $((port + 1))
  round onnxruntime-stream $theirs_streams $((port + 3)) --stream=1
  round serve $ours $port
  round serve-stream $ours $port --stream=1
  round bare $bare $((port + 2))
  round bare-stream $bare $((port + 2)) --stream=1
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
row "  over onnxruntime in Python" "$(over serve onnxruntime)" reported
row "  as messages of streams" "$(over serve-stream onnxruntime)" ">= 20" || failed=1
row "  as messages of streams, both" "$(over serve-stream onnxruntime-stream)" reported
row "  of the C core that infers nothing: calls" "$(over bare onnxruntime)" reported
row "  of the C core that infers nothing: streams" "$(over bare-stream onnxruntime)" reported
row "its server's CPU time for a request, over ours" "$(over onnxruntime.cpu serve.cpu)" reported
row "  as messages of streams" "$(over onnxruntime.cpu serve-stream.cpu)" ">= 20" || failed=1
row "  as messages of streams, both" "$(over onnxruntime-stream.cpu serve-stream.cpu)" \
  reported
row "  of the C core that infers nothing: calls" "$(over onnxruntime.cpu bare.cpu)" reported
row "  of the C core that infers nothing: streams" "$(over onnxruntime.cpu bare-stream.cpu)" \
  reported
row "our CPU time for a call over that of the C core" "$(over serve.cpu bare.cpu)" reported
row "99th percentile at half that rate, ms" "$(value p99_ms <"$work/line")" "<= 5" || failed=1
exit $failed
