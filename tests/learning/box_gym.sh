#!/usr/bin/env bash
# Actions that are numbers, by the defaults: mean returns of the last 100 episodes of training. sac
# learns Pendulum, with observations as they are and normalised; ppo learns Hopper, where MuJoCo is
# installed (.venv/bin/pip install "gymnasium[mujoco]"): one seed of three may end below its must. A
# seed takes 8 minutes.
# Usage: tests/learning/box_gym.sh [SEED ...] (default $SEEDS, or 1 2 3)
set -u
. "$(dirname "$(readlink -f "$0")")/lib.sh"
(. scripts/lib.sh && "$root/scripts/setup.sh" gym && build gymnasium) || exit 1
[ $# -gt 0 ] || set -- ${SEEDS:-1 2 3}
# learns NAME ENV SEED STEPS LEAST OPTION...
learns() {
  local line
  line=$(train "$1-$3" "gym:$2" --seed="$3" --total_steps="$4" --no_plot "${@:6}")
  echo "$agent $1 seed $3: $line"
  check "$agent $1 seed $3: return" "$(value return_mean <<<"$line")" ">=" "$5"
}
for seed in "$@"; do
  agent=sac actors="1 1"
  learns pendulum Pendulum-v1 "$seed" 30k -160
  learns normalised Pendulum-v1 "$seed" 30k -160 --normalize_observations
  agent=ppo actors="2 16"
  if "${ACORN_PYTHON:-.venv/bin/python}" -c "import mujoco" 2>/dev/null; then
    learns hopper Hopper-v5 "$seed" 1M 2300
  else
    echo "ppo hopper: not run, MuJoCo is not installed"
  fi
done
exit $failed
