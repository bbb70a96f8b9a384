#!/usr/bin/env bash
# Greedy returns over 100 episodes of an exported policy in a user's program (exported.py:
# Gymnasium and onnxruntime) beside those of scripts/eval.sh of the same checkpoint: CartPole,
# LunarLander, Pendulum by sac, Pong from pixels. Short runs: what they have learned does not
# matter, only that both play alike. The means differ where their 95 % intervals do not meet; by
# chance that happens about once in 200 rows. Half an hour on two cores, most of it for Pong.
# Usage: tests/bench/exported.sh [NAME[=RUN] ...]
#   NAME: cartpole, lander, pendulum or pong
#   RUN:  its run folder, if there is one already
set -u
. "$(dirname "$(readlink -f "$0")")/lib.sh"
[[ ! "${1:-}" =~ ^(--help|-h)$ ]] || { show_help && exit; }
(. scripts/lib.sh && set_up gym && build gymnasium) || exit 1
need
for group in onnx onnx_games; do scripts/setup_python.sh $group || exit 1; done
python=build/onnx/bin/python episodes=100
export PYTHONDONTWRITEBYTECODE=1 PYGAME_HIDE_SUPPORT_PROMPT=1

# train NAME: its run in $work/NAME, and the environment's ID for Gymnasium in $id.
train() {
  case $1 in
    cartpole) id=CartPole-v1 words=(cartpole ppo 2 8 --total_steps=20k) ;;
    lander) id=LunarLander-v3 words=(gym:LunarLander-v3 ppo 2 16 --total_steps=300k) ;;
    pendulum)
      id=Pendulum-v1 words=(gym:Pendulum-v1 sac 1 1 --total_steps=10k
        --normalize_observations)
      ;;
    pong) id=ALE/Pong-v5 words=(atari vtrace 2 32 --total_steps=2M) ;;
    *) echo "exported.sh: no '$1'; there are cartpole, lander, pendulum, pong" >&2 && exit 2 ;;
  esac
  [ -z "$2" ] || { run=$2 && return; }
  run=$work/$1
  build/launch "${words[@]}" --seed=1 --logdir="$run" --no_plot --evaluators=0 \
    >"$work/out" 2>"$work/err" || { tail -n 5 "$work/err" && exit 1; }
}

# The program of docs/export.md plays a game by $work/policy.onnx.
play_as_documented() {
  mkdir -p "$work/runs/pong" && cp "$work/policy.onnx" "$work/runs/pong"
  awk '/^```/ {inside = /python/; number += inside; next} inside && number == 3' docs/export.md \
    >"$work/pong.py"
  (cd "$work" && "$OLDPWD/$python" pong.py)
}

[ $# -gt 0 ] || set -- cartpole lander pendulum pong
echo "machine: $(machine)"
failed=0
for word in "$@"; do
  name=${word%%=*} given=
  [ "$name" = "$word" ] || given=${word#*=}
  train "$name" "$given"
  scripts/export.sh "$run" --output="$work/policy.onnx" >"$work/out" || exit 1
  scripts/eval.sh "$run" --policy=greedy --episodes=$episodes >"$work/ours" || exit 1
  "$python" tests/bench/exported.py "$work/policy.onnx" "$id" $episodes >"$work/theirs" || exit 1
  ours=$(grep '^evaluation ' "$work/ours")
  echo "$name: eval.sh: $ours"
  echo "$name: exported.py: $(cat "$work/theirs")"
  # How far one interval begins behind the other's end.
  gap=$(awk -v a="$(value return_ci95_low <<<"$ours")" -v b="$(value return_ci95_high <<<"$ours")" \
    -v c="$(value return_ci95_low <"$work/theirs")" \
    -v d="$(value return_ci95_high <"$work/theirs")" \
    'BEGIN {gap = a - d > c - b ? a - d : c - b; print (gap > 0 ? gap : 0)}')
  row "$name: mean by eval.sh" "$(value return_mean <<<"$ours")" reported
  row "  by the exported policy in a user's program" "$(value return_mean <"$work/theirs")" reported
  [ "$name" != pong ] ||
    row "  a game by the program of docs/export.md" "$(play_as_documented)" ">= -21" || failed=1
  row "  distance between their 95 % intervals" "$gap" "<= 0" || failed=1
done
exit $failed
