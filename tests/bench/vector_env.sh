#!/usr/bin/env bash
# 64 environments of CartPole from Python: steps per second of acorn.VectorEnv over those of
# Gymnasium's SyncVectorEnv, and over those of its own CartPole in numpy; the same random actions,
# five turns each, alternating.
# Usage: tests/bench/vector_env.sh
set -u
. "$(dirname "$(readlink -f "$0")")/lib.sh"
(. scripts/lib.sh && set_up gym) || exit 1
need build/libacorn_policy.so
PYTHONPATH=deploy/python .venv/bin/python tests/bench/vector_env.py >"$work/out" || exit 1
echo "machine: $(machine)"
cat "$work/out"
ratio() { sed -n "s/^over_$1 //p" "$work/out"; }
row "64 x CartPole from Python, steps/s over Gymnasium's SyncVectorEnv" "$(ratio sync)" ">= 20"
row "and over Gymnasium's own CartPole in numpy" "$(ratio numpy)" "reported"
