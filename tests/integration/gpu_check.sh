#!/usr/bin/env bash
# scripts/gpu_check.sh without a GPU: its parts run for a few steps, on the CPU and on the emulated
# device; what it reports; what it does where there is no GPU.
. "$(dirname "$(readlink -f "$0")")/lib.sh"

. "$tree/scripts/lib.sh"
cd "$work" || exit 1
build gpu-check build/tests/libacorn_cuda_emulated.so >make.log 2>&1 || cat make.log
emulated=$tree/build/tests/libacorn_cuda_emulated.so

# check WORDS...: a part of it; its report is in build/gpu_check.
check() {
  code=0
  timeout 600 "$tree/scripts/gpu_check.sh" "$@" >out 2>err </dev/null || code=$?
}
# reported PATTERN...: lines of the part's report.
reported() {
  local pattern
  for pattern in "${@:2}"; do grep -qE -- "$pattern" "$tree/build/gpu_check/$1.md" || return 1; done
}

check bench --quick --device=cpu
measures() {
  is "$code" 0 && reported bench '^Result: pass' '^\| V-trace, impala_deep .* \| [0-9]+ \|' \
    '^\| inference, .* \| [0-9.]+ \|' '^\| whole system: CartPole.* \| [0-9]+ \|' \
    '^\| the same: time that kernels ran .* \| not run \|'
}
pass_if "the benchmarks run on the CPU, and what was not traced is not run" measures

ACORN_CUDA_PLUGIN=$emulated check test --quick
tests() {
  is "$code" 0 && reported test '^Result: pass' '^Machine: .* Device: cuda \(emulated GPU\)' \
    '^\| device tests that fail, .* \| 0 \| .* pass \|$' \
    '^\| the same seed twice: CartPole.* \| 1 \|'
}
pass_if "the tests run on the emulated device" tests
ACORN_CUDA_PLUGIN=$emulated check sanitize --quick
not_run() { is "$code" 0 && reported sanitize '^\| compute-sanitizer racecheck.* not run \|'; }
pass_if "compute-sanitizer needs a GPU" not_run

ACORN_CUDA_PLUGIN=$emulated ACORN_EMULATED_CUDA=no_driver check test --quick
refuses() { is "$code" 2 && says "gpu_check.sh: bench_device: no NVIDIA driver is installed"; }
pass_if "without a driver it ends with the reason" refuses
ACORN_CUDA_PLUGIN=$emulated ACORN_EMULATED_CUDA=kernel_error:1 check test --quick
refuses() { is "$code" 2 && says cudaErrorIllegalAddress && reported test cudaErrorIllegalAddress; }
pass_if "a crash at the opening is named, in the report, too" refuses
ACORN_CUDA_PLUGIN=$emulated ACORN_EMULATED_CUDA=kernel_error:1 check smoke --quick
misses() {
  is "$code" 1 && reported smoke '^Machine: .* Device: .*cudaErrorIllegalAddress' \
    '^\| the device opens \| 0 \| >= 1 \| .*missed \|$'
}
pass_if "the first try goes on after it, and fails" misses
check bench --device=cpu
refuses() { is "$code" 2 && says "--device=cpu is for --quick"; }
pass_if "only a GPU is measured" refuses

mkdir logs
ACORN_CUDA_PLUGIN=$emulated OUT=$PWD/logs check smoke --quick
smokes() {
  is "$code" 0 && reported smoke '^Result: pass' '^\| programs of device tests .* \| 0 \| .* pass' \
    '^\| mlp: trained steps/s \| [0-9]+ \|' '^\| CartPole, mean return .* pass \|$' &&
    [ -s logs/smoke.md ] && tar -xOf logs/smoke.tar.gz ./environment | grep -q 'GNU/Linux'
}
pass_if "the first try passes on the emulated device, and leaves its logs" smokes

# ---- a GPU that hangs, and a first try that is stopped

mkdir fake
printf '#!/bin/sh\ntouch %s/hangs\nexec sleep 1000\n' "$work" >fake/nvidia-smi
chmod +x fake/nvidia-smi
rm -f logs/*
PATH=$work/fake:$PATH ACORN_CUDA_PLUGIN=$emulated OUT=$PWD/logs check smoke --quick
goes_on() {
  is "$code" 0 && reported smoke '^Result: pass' &&
    tar -xOf logs/smoke.tar.gz ./environment | grep -A 1 nvidia-smi | grep -q 'exit code 124'
}
pass_if "the first try goes on where nvidia-smi hangs" goes_on

rm -f logs/* hangs
PATH=$work/fake:$PATH ACORN_CUDA_PLUGIN=$emulated OUT=$PWD/logs \
  "$tree/scripts/gpu_check.sh" smoke --quick >out 2>err </dev/null &
hangs() { [ -e hangs ]; }
wait_for 60 hangs
kill -TERM $!
code=0
wait $! || code=$?
leaves() {
  is "$code" 143 && grep -q '^Result: FAIL, stopped after' logs/smoke.md &&
    tar -xOf logs/smoke.tar.gz ./environment | grep -q GNU/Linux
}
pass_if "one that is stopped leaves its reports" leaves

# Stopped in the middle of the programs of device tests, one of which hangs.
ACORN_CUDA_PLUGIN=$emulated "$tree/scripts/gpu_check.sh" test >out 2>err </dev/null &
script=$!
mapfile -t names < <(make -s -C "$tree" list-gpu-check | sed 's|.*/||')
hangs() {
  local program
  program=$(pids "${names[@]}" | head -n 1)
  [ -n "$program" ] && kill -STOP "$program" 2>/dev/null
}
wait_for 60 hangs
kill -TERM $script
code=0
wait $script || code=$?
none() { [ -z "$(pids "${names[@]}")" ]; }
ends() { is "$code" 143 && wait_for 20 none; }
pass_if "one that is stopped ends its programs" ends

# ---- a figure that is missed, and a program that fails

# planted KERNEL PROGRAMS WHERE...: the first try with a kernel that fails: so many test programs
# do, the rest is reported, and the lines WHERE are printed.
planted() {
  local kernel=$1 programs=$2 line
  rm -f logs/*
  ACORN_CUDA_PLUGIN=$emulated ACORN_EMULATED_CUDA=kernel_error:1:$kernel OUT=$PWD/logs \
    check smoke --quick
  is "$code" 1 && reported smoke '^Result: FAIL' \
    "^\\| programs of device tests .* \\| $programs \\|" \
    '^\| CartPole, mean return .* missed \|$' &&
    [ -s logs/smoke.md ] && [ -s logs/smoke.tar.gz ] || return 1
  for line in "${@:3}"; do grep -q -- "$line" out || return 1; done
}
pass_if "a failing kernel of a test is named, and the rest reported" \
  planted trace 1 '^---- build/tests/unit/learner/device/test_trace: exit code' 'kernel trace'
pass_if "so is one of the steps" \
  planted scatter 1 '^---- build/tests/unit/learner/device/test_steps: exit code' 'kernel scatter'
pass_if "so is one that only an update has" planted adam 0 'cudaErrorIllegalAddress' 'kernel adam'

ACORN_CUDA_PLUGIN=$emulated ACORN_EMULATED_CUDA=kernel_error:1000 check test --quick
fails() { is "$code" 1 && reported test '^Result: FAIL' '^\| the same seed twice.* missed \|$'; }
pass_if "a kernel's error is a failed check" fails

# ---- PyTorch

python=${PYTHON:-python3}
if "$python" -c 'import torch' 2>/dev/null; then
  same() {
    is "$("$python" "$tree/tests/bench/bench_torch_gpu.py" mlp --parameters)" "mlp $(
      "$tree/build/tests/bench/bench_device" parameters 0 --env=cartpole --hidden=64,64
    )"
  }
  pass_if "PyTorch's network has as many parameters" same
else
  echo "SKIP the comparison with PyTorch: $python has none"
fi
finish
