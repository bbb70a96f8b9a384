#!/usr/bin/env bash
# Runs with networks for images: the whole way from an 84 x 84 picture to an update, with an LSTM
# and with stacked frames, resumed and evaluated; what is refused.
. "$(dirname "$(readlink -f "$0")")/lib.sh"

picture='{"rows": 84, "episode_steps": 30}'
ends_well() { is "$code" 0 && [ "$(value steps)" -ge "$1" ]; }
holds() { grep -qx "$2" "$1/config.txt"; }
chose() { holds "$1" "lstm_size = $2" && holds "$1" "frame_stack = $3"; }

run synthetic vtrace 2 4 --env_args="$picture" --network=impala_shallow --total_steps=2000 \
  --batch_size=4 --logdir=shallow
ended
pass_if "impala_shallow with LSTM trains on pictures" ends_well 2000
pass_if "its LSTM has 256 units and it sees one frame" chose shallow 256 1
run synthetic vtrace 2 4 --env_args="$picture" --network=impala_shallow --total_steps=3000 \
  --batch_size=4 --logdir=shallow --resume
ended
pass_if "it is resumed" ends_well 3000

run catch vtrace 2 4 --env_args='{"size": 84}' --network=nature --total_steps=1000 \
  --batch_size=4 --logdir=nature
ended
pass_if "nature trains on stacked frames" ends_well 1000
pass_if "it has no LSTM and sees four frames" chose nature 0 4
run catch vtrace 1 4 --mode=evaluate --logdir=nature --episodes=8
ended
evaluates() { is "$code" 0 && grep -q '^evaluation episodes=8 ' out; }
pass_if "a network of stacked frames is evaluated" evaluates

run synthetic vtrace 1 4 --env_args='{"rows": 40, "columns": 40}' --network=impala_deep \
  --lstm_size=0 --frame_stack=2 --precision=auto --total_steps=400 --batch_size=2 \
  --unroll_length=5 --learning_rate=1e-5
ended
pass_if "impala_deep trains" ends_well 400

# With the default batch a trainer of this network holds more than a gigabyte.
run catch vtrace 1 2 --env_args='{"size": 84}' --network=impala_deep --batch_size=2 \
  --total_steps=100 --logdir=deep
ended
run catch vtrace 1 2 --mode=evaluate --logdir=deep --batch_size=32 --episodes=1000000 \
  --env_args='{"size": 84}'
peak_kb() { sed -n 's/^VmHWM:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$(pids learner)/status"; }
wait_for 20 eval '[ -n "$(pids actor)" ]'
sleep 1
holds_little() { [ "$(peak_kb)" -gt 0 ] && [ "$(peak_kb)" -lt 500000 ]; }
pass_if "an evaluation has no room for training: $(($(peak_kb) >> 10)) MB" holds_little
kill -TERM "$run"
ended

# Parameters that do not change: training must see what inference saw, frame for frame, or the two
# policies would differ.
kl() {
  grep -oE '"policy/kl":[-0-9][-0-9.e]*' "$1/metrics.jsonl" | cut -d: -f2 |
    awk '{n++; if ($1 + 0 < -1e-8 || $1 + 0 > 1e-8) exit 1} END {if (n < 2) exit 1}'
}
for network in nature impala_shallow; do
  run catch vtrace 2 4 --env_args='{"size": 40, "rows": 20}' --network=$network --batch_size=4 \
    --unroll_length=7 --learning_rate=0 --total_steps=3000 --metrics_secs=0.05 --logdir=kl-$network
  ended
  pass_if "$network: inference and training see the same" kl kl-$network
done

# Its result depends on the seed alone.
for name in one two; do
  run catch vtrace 2 2 --env_args='{"size": 40}' --network=nature --total_steps=600 \
    --batch_size=2 --deterministic --seed=4 --logdir=$name
  ended
done
same() { cmp -s "$(newest_checkpoint one)" "$(newest_checkpoint two)"; }
pass_if "a deterministic run of stacked frames is the same run again" same

refused cartpole vtrace 1 --network=nature
no_image() {
  is "$code" 2 && says "network nature reads uint8 or float32 images of at least 36x36"
}
pass_if "a network for images is refused where there are none" no_image
refused cartpole vtrace 1 --frame_stack=4
pass_if "stacked frames are refused for mlp" says "--frame_stack=4: network mlp does not stack"
refused catch vtrace 1 --env_args='{"size": 84}' --network=nature --unroll_length=2
pass_if "a stack longer than a window is refused" says "needs --unroll_length of at least 4"
refused catch vtrace 1 --device=ref --precision=bf16
pass_if "bf16 is refused on the reference device" says "--precision=bf16: device ref"
refused catch vtrace 1 --env_args='{"size": 4}'
pass_if "a picture smaller than the board is refused" says "size 4 is too small for 10 rows"
finish
