#!/usr/bin/env bash
# Plays the newest checkpoint of a run: greedily, or with --policy=sample.
# Usage: scripts/eval.sh RUN [--episodes=100] [--policy=greedy|sample] [--flag=value ...]
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
if [ $# -eq 0 ] || [ "$1" = --help ]; then
  sed -n '2,3s/^# //p' "${BASH_SOURCE[0]}"
  exit $(($# == 0 ? 2 : 0))
fi
run=$1
shift
if [ ! -f "$run/config.txt" ]; then
  echo "eval.sh: $run holds no run: there is no config.txt in it" >&2
  exit 2
fi
option() { sed -n "s/^$1 *= *//p" "$run/config.txt"; }
build all
exec "$root/build/launch" "$(option env)" "$(option agent)" 2 8 --mode=evaluate --logdir="$run" \
  --env_args="$(option env_args)" --seed=1000 "$@"
