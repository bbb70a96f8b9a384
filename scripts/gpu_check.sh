#!/usr/bin/env bash
# Tests and measures the CUDA device on this machine's GPU, in the source tree (it builds what is
# missing) or in an unpacked bundle (make bundle). Each part ends within 9 minutes, prints a table
# and writes it as markdown, for docs/gpu.md, to build/gpu_check/PART.md.
#   smoke  a first try, in 4 minutes: each step goes on where the one before failed, tells which of
#          ACORN_CUDA_WITHOUT's ways makes a failing test pass, and leaves its log: all are in
#          build/gpu_check/smoke.tar.gz, and in $OUT where that is set
#   test   device tests against the reference, the same seed twice, a run that learns
#   sanitize  device tests under compute-sanitizer, as many as end in time
#   bench  updates and inference, how busy the GPU is, bytes to it for each step, whole runs
#   torch  updates and inference beside PyTorch's best (PYTHON names a Python that has PyTorch); of
#          deep, shallow, r2d2, mlp and inference those that are named, or all
# --seconds=N  ends what is still running after so many seconds
# --quick   few steps and small networks: shows that the script works, and measures nothing
# --pong    bench measures Pong's time to a mean of 18, and nothing else (needs ale-py)
# --runs    bench measures whole runs, and nothing else
# --device  another device than cuda, with --quick
# Exit code 1: a must was missed; 2: it could not run, as where there is no GPU; 143, 129: SIGTERM
# or SIGHUP stopped it, with what it had started on the GPU.
# Usage: scripts/gpu_check.sh [smoke|test|sanitize|bench|torch [NAME ...]] [--seconds=N] [--quick]
#        [--pong] [--runs] [--device=NAME]
set -u
. "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/lib.sh"
offer_help "$@"
[ -z "${OUT:-}" ] || OUT=$(realpath -m -- "$OUT") # the next line changes the folder
. "$root/tests/bench/lib.sh"
part=test quick='' pong='' runs='' device=cuda seconds='' chosen=()
for word in "$@"; do
  case "$word" in
    smoke | test | sanitize | bench | torch) part=$word ;;
    deep | shallow | r2d2 | mlp | inference) chosen+=("$word") ;;
    --seconds=*) seconds=${word#*=} ;;
    --quick) quick=1 ;;
    --pong) pong=1 part=bench ;;
    --runs) runs=1 part=bench ;;
    --device=*) device=${word#*=} ;;
    *)
      print_head >&2
      exit 2
      ;;
  esac
done
[ -z "$seconds" ] || [[ $seconds =~ ^[1-9][0-9]{0,4}$ ]] || {
  echo "gpu_check.sh: --seconds=$seconds: give a whole number" >&2
  exit 2
}
[ ${#chosen[@]} -eq 0 ] || [ $part = torch ] || {
  echo "gpu_check.sh: ${chosen[*]}: cases are for the part torch" >&2
  exit 2
}
low=bf16
[ "$device" = cuda ] || low=auto # not every processor has it
bench=build/tests/bench/bench_device
report=build/gpu_check/$part.md
missed=0 # whether a must was; the functions below have a code of their own

# ---- the report

say() { printf '%s\n' "$*" | tee -a "$report"; }

# figure WHAT VALUE MUST [WHY]: a row, as row() of tests/bench/lib.sh; without a value "not run",
# and why. A VALUE that is no number, as "failed", misses every must.
figure() {
  local verdict line
  if [ -z "$2" ]; then
    printf '%-66s %12s   must %-12s %s\n' "$1" "not run" "$3" "${4:-}"
    printf '| %s | not run | %s | %s |\n' "$1" "$3" "${4:-}" >>"$report"
    return
  fi
  if ! line=$(row "$1" "$2" "$3") &&
    { [[ $part = @(test|smoke) ]] || [ -z "$quick" ] || [ "$2" = failed ]; }; then
    missed=1
  fi
  printf '%s\n' "$line"
  case "$line" in
    *MISSED) verdict=missed ;;
    *ok) verdict=pass ;;
    *) verdict=reported ;;
  esac
  printf '| %s | %s | %s | %s |\n' "$1" "$2" "$3" "${quick:+quick, not measured: }$verdict" \
    >>"$report"
}

# check WHAT COMMAND...: a row of something that passes or fails.
check() {
  local what=$1
  shift
  if "$@"; then figure "$what" 1 ">= 1"; else figure "$what" 0 ">= 1"; fi
}

# within SECONDS COMMAND...: bounded by that, and by what is left of this part. In the background,
# so that a signal to this script is handled at once; in a subshell it ends the command, too.
within() {
  local left=$((end - SECONDS)) limit=$1 code=0
  shift
  [ "$left" -lt "$limit" ] && limit=$left
  [ "$limit" -gt 0 ] || return 124
  timeout -k 5 "$limit" "$@" <&0 &
  running=$!
  [ $BASHPID = $$ ] || trap 'kill "$running" 2>/dev/null' TERM
  wait $running 2>/dev/null || code=$? # bash would name the signal in the log
  running=
  return $code
}

# Also those that run side by side, each in a subshell.
end_programs() {
  local program
  for program in $(jobs -p); do kill "$program" 2>/dev/null; done
}

commit() {
  if [ -e COMMIT ]; then cat COMMIT; else git describe --always --dirty 2>/dev/null; fi
}

library() {
  local path
  path=$(scripts/find_cuda.sh "$1")
  [ -n "$path" ] && readlink -f "$path"
}

describe() {
  local gpu=
  within 10 nvidia-smi --query-gpu=name,memory.total,driver_version --format=csv,noheader \
    >"$work/gpu" 2>/dev/null && gpu=$(<"$work/gpu")
  : >"$report"
  say "### gpu_check.sh $part, $(date -u '+%Y-%m-%d %H:%M') UTC, commit $(commit)"
  say ""
  say "Machine: $(machine). GPU and driver: ${gpu:-none}. Device: $1."
  say "cuBLAS: $(library blas || echo "not found"). cuDNN: $(library dnn || echo "not found")."
  say ""
  printf '| what | value | must | verdict |\n|---|---|---|---|\n' >>"$report"
}

# ---- what there is

# In a bundle everything is there.
build_here() {
  [ -e Makefile ] || return 0
  (. scripts/lib.sh && scripts/setup.sh test && build gpu-check) || exit 2
  [ "$device" != cuda ] || [ -e "${ACORN_CUDA_PLUGIN:-build/libacorn_cuda.so}" ] || {
    echo "gpu_check.sh: there is no build/libacorn_cuda.so: scripts/setup.sh cuda, then make" >&2
    exit 2
  }
}

# pip's folders with CUDA's libraries: those of .venv, or of the Python that is at hand.
find_libraries() {
  local folder python=${PYTHON:-python3}
  export ACORN_CUDA_PLUGIN=${ACORN_CUDA_PLUGIN:-$PWD/build/libacorn_cuda.so}
  for folder in "${VIRTUAL_ENV:-}" .venv "$("$python" -c 'import sys; print(sys.prefix)' 2>&1)"; do
    compgen -G "$folder/lib/python3*/site-packages/nvidia/*/lib" >/dev/null || continue
    VIRTUAL_ENV=$(readlink -f "$folder")
    export VIRTUAL_ENV
    break
  done
  ACORN_CUPTI=$(scripts/find_cuda.sh cupti)
  export ACORN_CUPTI
}

tests() {
  if [ -e Makefile ]; then make -s list-gpu-check; else find build/tests/unit -name 'test_*'; fi
}

# How the device describes itself, as `description`; where it was not opened, why.
open_device() {
  local code=0
  within 60 "$bench" train 0 --env=cartpole --device="$device" >"$work/open" 2>&1 || code=$?
  description=$(sed -n 's/.*device="\([^"]*\)".*/\1/p' "$work/open")
  [ $code -eq 0 ] && return
  case $code in
    124 | 137) description="bench_device: the device was not opened in 60 s" ;;
    *) description=$(grep -m 1 CHECK "$work/open" || tail -n 1 "$work/open") ;;
  esac
  say "gpu_check.sh: $description" >&2
  return 1
}

# ---- runs

# learn FOLDER WORDS...: a whole run, whose last line is its result.
learn() {
  local folder=$1
  shift
  rm -rf "${work:?}/$folder"
  within 240 build/launch "$@" --device="$device" --seed=1 --no_tensorboard --no_plot \
    --logdir="$work/$folder" >"$work/$folder.out" 2>"$work/$folder.err" </dev/null ||
    { tail -n 3 "$work/$folder.err" && return 1; }
}

learn_cartpole() {
  local mean=failed
  learn learns cartpole vtrace 4 $((quick ? 8 : 64)) --total_steps=$((quick ? 2000 : 3000000)) &&
    mean=$(of "$(tail -n 1 "$work/learns.out")" return_mean)
  figure "CartPole, mean return of the last 100 episodes" "$mean" ">= $((quick ? 1 : 450))"
}

# await LINES: until the metrics of the run that goes on have so many, or for a minute.
await() {
  local tick
  for ((tick = 0; tick < 600; tick++)); do
    [ "$(grep -sc . "$work/run/metrics.jsonl")" -ge "$1" ] 2>/dev/null && return
    kill -0 $! 2>/dev/null || return
    sleep 0.1
  done
}

# rate SECONDS KEY WORDS...: how fast a total of the metrics grows in a run that goes on for so
# long.
rate() {
  local seconds=$1 key=$2 launch mark
  shift 2
  rm -rf "$work/run"
  build/launch "$@" --device="$device" --seed=1 --no_tensorboard --no_plot --total_steps=1e12 \
    --metrics_secs=0.5 --logdir="$work/run" >"$work/out" 2>"$work/err" </dev/null &
  launch=$!
  await 2
  [ -n "$quick" ] || sleep 5
  mark=$(grep -sc . "$work/run/metrics.jsonl")
  sleep "$seconds"
  await $((mark + 3))
  kill -TERM "$launch"
  wait "$launch"
  [ -s "$work/run/metrics.jsonl" ] || tail -n 2 "$work/err" >&2
  per_second "$key" "${mark:-1}" 2>>"$work/err" | grep -v nan || echo failed
}

# ---- test

# Each a program that compares devices, or the CUDA device with what is known.
test_devices() {
  local programs line failed
  mapfile -t programs < <(tests)
  [ -z "$quick" ] || programs=(build/tests/unit/learner/device/test_trace)
  UNIT_JOBS=$(($(nproc) / 4 + 1)) UNIT_SECONDS=100 \
    within 240 scripts/run_units.sh "${programs[@]}" >"$work/units"
  tail -n 40 "$work/units"
  line=$(grep -oE '^[0-9]+ passed, [0-9]+ failed' "$work/units" | tail -n 1)
  failed=${line#* passed, }
  failed=${failed% failed}
  figure "device tests that fail, beside ${line%% *} that pass" "${failed:-failed}" "<= 0"
}

# twice WORDS...: the same run two times; whether the parameters are the same, bit for bit.
twice() {
  learn first "$@" --deterministic --precision=float32 --checkpoint_secs=0 &&
    learn second "$@" --deterministic --precision=float32 --checkpoint_secs=0 &&
    cmp "$work"/first/checkpoints/checkpoint-*.acorn "$work"/second/checkpoints/checkpoint-*.acorn
}

part_test() {
  test_devices
  check "the same seed twice: CartPole, the same bits" \
    twice cartpole vtrace 2 16 --batch_size=8 --total_steps=$((quick ? 4000 : 200000))
  [ -n "$quick" ] ||
    check "the same seed twice: 84x84, impala_deep + LSTM, the same bits" \
      twice catch vtrace 2 16 --env_args='{"size": 84}' --network=impala_deep --lstm_size=256 \
      --total_steps=20000
  learn_cartpole
}

# ---- sanitize

# sanitize TOOL PROGRAM...: errors that compute-sanitizer finds; the programs side by side.
sanitize() {
  local tool=$1 program sanitizer
  shift
  sanitizer=$(scripts/find_cuda.sh sanitizer)
  [ -n "$sanitizer" ] && [ -z "$quick" ] || return
  for program in "$@"; do
    local log=$work/$tool-${program##*/}
    {
      code=0
      within 500 "$sanitizer" --tool "$tool" --error-exitcode 99 \
        "build/tests/unit/learner/$program" >"$log" 2>&1 </dev/null || code=$?
      echo $code >"$log.end"
    } &
  done
}

# sanitized TOOL PROGRAM...: what sanitize found, once all have ended.
sanitized() {
  local tool=$1 program errors=0 ran=0 why="it does not run here" log code
  [ -z "$quick" ] || why="not with --quick"
  shift
  for program in "$@"; do
    log=$work/$tool-${program##*/} code=''
    [ -s "$log.end" ] && read -r code <"$log.end"
    case $code in
      '') [ -n "$quick" ] || why="it is not here" ;;
      0) ran=$((ran + 1)) ;;
      124 | 137) why="none ended in time" && echo "$tool: $program did not end in time" ;;
      99)
        ran=$((ran + 1)) errors=$((errors + 1))
        echo "$tool: $program" && grep -E '=========' "$log" | head -n 30
        ;;
      *) echo "$tool: $program: $(grep -v '^\[' "$log" | tail -n 2)" ;;
    esac
  done
  if [ $ran -eq 0 ]; then errors=; fi
  figure "compute-sanitizer $tool: programs with errors, of $ran of $#" "$errors" "<= 0" "$why"
}

part_sanitize() {
  local tool all=(device/test_{steps,trace,recorded,operations,optimiser} train/test_cuda_updates)
  local -A programs=([racecheck]="${all[*]}" [synccheck]="${all[*]}"
    [memcheck]="device/test_cuda_products device/test_q_devices ${all[*]}")
  local -a list
  for tool in "${!programs[@]}"; do
    read -ra list <<<"${programs[$tool]}"
    sanitize "$tool" "${list[@]}"
  done
  wait
  for tool in "${!programs[@]}"; do
    read -ra list <<<"${programs[$tool]}"
    sanitized "$tool" "${list[@]}"
  done
}

# ---- smoke

# The logs of what was done so far, also where this is stopped in the middle.
keep_logs() {
  tar -C "$work" -czf build/gpu_check/smoke.tar.gz --exclude=run --exclude='checkpoints' . 2>&1
  [ -z "${OUT:-}" ] || { mkdir -p "$OUT" && cp build/gpu_check/smoke.{md,tar.gz} "$OUT"; }
}

end_smoke() {
  [ -n "$result" ] || say "Result: FAIL, stopped after $((SECONDS - start)) s."
  end_programs
  keep_logs
  rm -rf "$work"
}

# Before the GPU is touched: what a GPU that hangs leaves. A process that waits for one may not even
# be killed, so this script ends by a signal of its own.
begin_smoke() {
  trap end_smoke EXIT
  {
    timeout $((seconds + 3)) tail --pid=$$ -f /dev/null
    [ $? -ne 124 ] || kill $$
  } >/dev/null 2>&1 &
  environment >"$work/environment" 2>&1
}

# try COMMAND...: what it prints, for a while.
try() {
  echo "---- $*"
  within 15 "$@" 2>&1 || echo "exit code $?"
}

environment() {
  local python=${PYTHON:-python3} nvcc sanitizer
  nvcc=$(scripts/find_cuda.sh nvcc) sanitizer=$(scripts/find_cuda.sh sanitizer)
  try date -u
  try uname -a
  machine && echo
  try nvidia-smi
  try nproc
  try free -m
  env | grep -E '^(CUDA|NVIDIA|LD_|VIRTUAL|ACORN)'
  try ldd "$ACORN_CUDA_PLUGIN"
  echo "blas: $(library blas) dnn: $(library dnn) cupti: $ACORN_CUPTI"
  try "${nvcc:-nvcc}" --version
  try "${sanitizer:-compute-sanitizer}" --version
  try gcc --version
  try "$python" --version
  try "$python" -c 'import torch; print("torch", torch.__version__, "CUDA", torch.version.cuda)'
}

# failure_in LOG: the lines that name the call or the kernel.
failure_in() { grep -hE 'CHECK|cuda[A-Z][a-zA-Z]+' "$1" | head -n 3; }

# smoke_test PROGRAM FOLDER [SANITIZER]: its log; in log.end its exit code, then what is known of a
# failure: the ways without which it passes, the kernel, what compute-sanitizer says.
smoke_test() {
  local program=$1 log=$2/${1##*/}.log code=0 way try=(timeout --foreground -k 5)
  "${try[@]}" 60 "$program" >"$log" 2>&1 </dev/null || code=$?
  echo "$code $program" >"$log.end"
  [ $code -eq 0 ] && return
  for way in dnn blas together waits graphs tiles dnn,blas,together,graphs,tiles; do
    ACORN_CUDA_WITHOUT=$way "${try[@]}" 30 "$program" >"$log.without-$way" 2>&1 </dev/null &&
      echo "it passes with ACORN_CUDA_WITHOUT=$way" >>"$log.end"
  done
  CUDA_LAUNCH_BLOCKING=1 "${try[@]}" 30 "$program" >"$log.blocking" 2>&1 </dev/null ||
    failure_in "$log.blocking" >>"$log.end"
  [ -n "$3" ] || return
  "${try[@]}" 60 "$3" "$program" >"$log.memcheck" 2>&1 </dev/null
  grep -E '=========' "$log.memcheck" | head -n 20 >>"$log.end"
}
export -f smoke_test failure_in

# Simplest first, by the place of their operations in an update.
smoke_tests() {
  local program jobs=$(($(nproc) / 2)) failed=0 count=0 code log
  local -a programs
  mapfile -t programs < <(tests | awk '
    {order = 5} /device\/test_(device|steps|trace)/ {order = 1} /device\/cpu/ {order = 6}
    /test_(operations|optimiser|image|q|normal|choices|mask)$/ {order = 2} /products/ {order = 3}
    /recorded/ {order = 4} {print order, $1}' | sort -s -k 1,1n | cut -d ' ' -f 2)
  [ -z "$quick" ] || programs=(build/tests/unit/learner/device/test_{trace,steps})
  within 150 xargs -0 -P "$((jobs > 0 ? jobs : 1))" -I{} bash -c 'smoke_test "$0" "$1" "$2"' {} \
    "$work" "$(scripts/find_cuda.sh sanitizer)" < <(printf '%s\0' "${programs[@]}")
  for program in "${programs[@]}"; do
    log=$work/${program##*/}.log code=-1
    [ ! -s "$log.end" ] || read -r code _ <"$log.end"
    count=$((count + 1))
    [ "$code" -eq 0 ] && continue
    failed=$((failed + 1))
    echo "---- $program: $([ "$code" -ge 0 ] && echo "exit code $code" || echo "not run in time")"
    tail -n +2 "$log.end" 2>/dev/null
    grep -vE '^\[ +(RUN|OK) +\]' "$log" 2>/dev/null | head -n 12
  done
  figure "programs of device tests that fail, of $count" "$failed" "<= 0"
}

# Each network for 2 s, with the kernels that take the most time.
smoke_networks() {
  local name line
  export ACORN_TRACE_KERNELS=25
  for name in $([ -z "$quick" ] && echo "${names[@]}" inference || echo mlp); do
    line=
    smoke_network "$name" >"$work/$name.line" 2>"$work/$name.err" && line=$(<"$work/$name.line")
    figure "$name: $([ "$name" = inference ] && echo served || echo trained) steps/s" \
      "$(of "$line" steps_per_second)" ">= 1"
    figure "the same: time that kernels ran over wall" "$(traced "$line" kernel_busy)" reported \
      "CUPTI has traced nothing"
    [ -n "$line" ] && continue
    tail -n 3 "$work/$name.err"
    CUDA_LAUNCH_BLOCKING=1 smoke_network "$name" >"$work/$name.blocking" 2>&1
    failure_in "$work/$name.blocking"
  done
}

smoke_network() {
  local list mode=train
  [ "$1" = inference ] && mode=serve
  read -ra list <<<"$(words "$1")"
  within 40 "$bench" $mode "$((quick ? 0 : 2))" "${list[@]}" --device="$device" \
    --num_envs=$((quick ? 8 : 256))
}

part_smoke() {
  smoke_tests
  smoke_networks
  learn_cartpole
}

# ---- the cases of the table, that bench_torch_gpu.py knows by the same names

image='--env=synthetic --env_args={"rows":84,"actions":6}'
# words NAME: the learner's options.
words() {
  local side=64 core=256
  [ -z "$quick" ] || side=4 core=32
  case $1 in
    deep | inference)
      echo "$image --agent=vtrace --network=impala_deep --lstm_size=$core --frame_stack=4" \
        "--precision=$low --unroll_length=$((quick ? 4 : 20)) --batch_size=$side"
      ;;
    shallow)
      echo "$image --agent=vtrace --network=impala_shallow --lstm_size=$core --frame_stack=4" \
        "--precision=$low --unroll_length=$((quick ? 4 : 20)) --batch_size=$side"
      ;;
    r2d2)
      echo "$image --agent=r2d2 --network=nature --lstm_size=$((quick ? 32 : 512))" \
        "--head_hidden=$((quick ? 32 : 512)) --frame_stack=4 --precision=$low" \
        "--burn_in=$((quick ? 1 : 40)) --unroll_length=$((quick ? 2 : 80)) --batch_size=$side"
      ;;
    mlp)
      echo "--env=cartpole --agent=vtrace --hidden=64,64 --precision=float32" \
        "--unroll_length=$((quick ? 4 : 20)) --batch_size=$((quick ? 8 : 256))"
      ;;
  esac
}

# ours MODE NAME: the line of bench_device, of which `of` takes words.
ours() {
  local list
  read -ra list <<<"$(words "$2")"
  within 60 "$bench" "$1" "$((quick ? 0 : 4))" "${list[@]}" --device="$device" \
    --num_envs=$((quick ? 8 : 256)) 2>"$work/err" || tail -n 2 "$work/err" >&2
}

# of LINE KEY: that number, or "failed".
of() {
  value "$2" <<<"$1" | grep . || echo failed
}

# traced LINE KEY: the same; nothing where CUPTI has traced nothing.
traced() {
  if [ -z "$1" ]; then echo failed; else value "$2" <<<"$1"; fi
}

names=(deep shallow r2d2 mlp)
declare -A title=(
  [deep]="V-trace, impala_deep + LSTM, T=20 N=64, 84x84x4, bf16"
  [shallow]="V-trace, impala_shallow + LSTM, T=20 N=64, 84x84x4, bf16"
  [r2d2]="R2D2, nature + LSTM 512, burn-in 40, unroll 80, N=64, bf16"
  [mlp]="V-trace, CartPole's 64-64, T=20 N=256, float32")

# ---- bench

bench_updates() {
  local name line
  for name in "${names[@]}"; do
    line=$(ours train "$name")
    figure "${title[$name]}: steps/s trained" "$(of "$line" steps_per_second)" reported
    figure "the same: time that kernels ran over wall, by CUPTI" "$(traced "$line" kernel_busy)" \
      ">= 0.95" "CUPTI has traced nothing"
  done
}

bench_inference() {
  local line bytes
  line=$(ours serve inference)
  figure "inference, 256 rows, impala_deep, bf16: microseconds of a batch" \
    "$(of "$line" latency_us)" reported
  figure "the same: 99th percentile" "$(of "$line" p99_us)" reported
  bytes=$(traced "$line" bytes_per_step)
  case "$bytes" in
    [0-9]*) bytes=$(ratio "$bytes" "$(value observation_bytes <<<"$line")") ;;
  esac
  figure "the same: bytes to the device for each step over the observation's" "$bytes" "<= 1.02" \
    "CUPTI has traced nothing"
}

bench_runs() {
  local seconds=$((quick ? 0 : 10)) actors=$((quick ? 2 : 12)) network case
  figure "whole system: CartPole, 12 actors x 256 environments, steps/s" \
    "$(rate $seconds train/steps cartpole vtrace $actors $((quick ? 8 : 256)) \
      --batch_size=256)" reported
  for case in shallow "shallow --queues=0" deep; do
    network=${case%% *}
    figure "whole system: synthetic 84x84, impala_$case, bf16, 12 x 256, frames/s" \
      "$(rate $seconds train/steps synthetic vtrace $actors $((quick ? 4 : 256)) \
        --env_args='{"rows": 84, "actions": 6}' --network=impala_$network --precision=$low \
        --batch_size=$((quick ? 4 : 64)) ${case#"$network"})" reported
    figure "the same: bytes to the device for each step over the 7056 of a frame" \
      "$(bytes_of_run)" "<= 1.02" "the device counts none"
  done
}

# By the learner's own count.
bytes_of_run() {
  local last bytes
  last=$(grep -c . "$work/run/metrics.jsonl")
  bytes=$(field device/bytes_up "$last")
  [ "${bytes%.*}" -gt 0 ] 2>/dev/null || return
  ratio "$bytes" "$(field train/env_steps "$last" | awk '{print 7056 * $1}')"
}

# The whole of this part.
bench_pong() {
  local what="Pong, 8 environments on each core but one: seconds to a mean of 18" line why
  [ ! -e Makefile ] || (. scripts/lib.sh && scripts/setup.sh atari && build gymnasium)
  within 520 build/launch atari vtrace $(($(nproc) - 1)) 8 --device="$device" --precision=$low \
    --seed=1 --target_return=18 --no_tensorboard --no_plot --logdir="$work/pong" \
    >"$work/pong.out" 2>"$work/pong.err" </dev/null
  line=$(grep '^result ' "$work/pong.out")
  if [[ $line == *reason=target_return* ]]; then
    figure "$what" "$(value seconds <<<"$line")" reported
  else
    why=$(tail -n 1 "$work/pong.err")
    [ -z "$line" ] || why="$(value return_mean <<<"$line") after $(value steps <<<"$line") steps"
    figure "$what" "" reported "$why"
  fi
}

part_bench() {
  if [ -n "$pong" ]; then
    bench_pong
    return
  fi
  [ -n "$runs" ] || bench_updates
  [ -n "$runs" ] || bench_inference
  bench_runs
}

# ---- torch

# What PyTorch compiles is kept in its cache: all cases side by side, before one is measured.
compile_torch() {
  local name
  for name in "${chosen[@]}"; do
    within 120 "${PYTHON:-python3}" tests/bench/bench_torch_gpu.py "$name" --seconds=0 \
      >"$work/compile-$name" 2>&1 &
  done
  wait
}

# Ours before and after PyTorch's, in turns; medians.
part_torch() {
  local name python=${PYTHON:-python3} mode theirs must
  [ ${#chosen[@]} -gt 0 ] || chosen=("${names[@]}" inference)
  [ -n "$quick" ] || compile_torch
  for name in "${chosen[@]}"; do
    mode=train must=">= 1.0"
    [ "$name" != mlp ] || must=">= 1.5"
    [ "$name" != inference ] || mode=serve must="<= 1.0"
    ours $mode "$name" >>"$work/ours-$name"
    within 80 "$python" tests/bench/bench_torch_gpu.py "$name" --seconds=2 ${quick:+--quick} \
      --device="$([ "$device" = cuda ] && echo cuda || echo cpu)" >"$work/torch" \
      2>"$work/torch.err" || tail -n 1 "$work/torch.err"
    ours $mode "$name" >>"$work/ours-$name"
    cat "$work/torch"
    theirs=$(awk -v name="$name" '$1 == name {print $2}' "$work/torch" | tail -n 1)
    compare "$name" "$mode" "$theirs" "$must"
  done
}

# compare NAME MODE THEIRS MUST: THEIRS are steps a second, or microseconds of a batch.
compare() {
  local key=steps_per_second what=${title[$1]-} mine value='' line
  [ "$2" = train ] || key=latency_us what="inference, 256 rows, impala_deep, bf16"
  mine=$(while read -r line; do value $key <<<"$line"; done <"$work/ours-$1" | median)
  [ -z "$3" ] || [ -z "$mine" ] || value=$(ratio "$mine" "$3")
  figure "$what: ${key//_/ }, ours" "${mine:-failed}" reported
  figure "$what: ${key//_/ }, PyTorch's best" "$3" reported \
    "$(tail -n 1 "$work/torch.err" | cut -c 1-100)"
  figure "$what: ours over PyTorch's" "$value" "$4"
}

build_here
find_libraries
[ "$device" = cuda ] || [ "$quick" ] || {
  echo "gpu_check.sh: --device=$device is for --quick" >&2
  exit 2
}
running='' result='' description='' opened=1 start=$SECONDS
seconds=${seconds:-$([ $part = smoke ] && echo 235 || echo 525)}
end=$((start + seconds))
mkdir -p "${report%/*}"
echo "gpu_check.sh $part, commit $(commit): the device has not been opened" >"$report"
trap 'end_programs; rm -rf "$work"' EXIT
[ $part != smoke ] || begin_smoke
# A first try goes on where there is a GPU.
open_device || opened=0
[ $opened = 1 ] || { [ $part = smoke ] && { [ "$quick" ] || within 15 nvidia-smi -L; }; } || {
  result=none
  exit 2
}
describe "$description"
[ $part != smoke ] || figure "the device opens" $opened ">= 1"
"part_$part"
say ""
result=pass
[ $missed -eq 0 ] || result=FAIL
say "Result: $result, in $((SECONDS - start)) s."
echo "$report"
exit $missed
