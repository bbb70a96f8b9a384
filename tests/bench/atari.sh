#!/usr/bin/env bash
# Pong's frames per second, the environment alone, in two processes at once: ours over the faster of
# ale-py without preprocessing and ale-py's vector environment. Median of rounds.
# Usage: tests/bench/atari.sh [ROUNDS] [STEPS]
set -u
rounds=${1:-5} steps=${2:-5000}
. "$(dirname "$0")/lib.sh"
scripts/setup.sh atari && make -s gymnasium build/tests/bench/bench_env >/dev/null || exit 1
echo "machine: $(machine)"

ours() { build/tests/bench/bench_env atari '{}' "$steps" | awk '{print 4e6 / $2}'; }
theirs() { .venv/bin/python tests/bench/step_atari.py "$1" "$steps" 2>/dev/null; }
# two COMMAND...: the frames per second of both processes together.
two() {
  "$@" >"$work/1" &
  "$@" >"$work/2"
  wait
  cat "$work/1" "$work/2" | awk '{sum += $1} END {print NR == 2 ? sum : "failed"}'
}
for ((i = 0; i < rounds; i++)); do
  echo "$(two ours) $(two theirs act) $(two theirs vector)"
done >"$work/rounds"
column() { cut -d' ' -f"$1" "$work/rounds" | median; }
echo "frames/s: ours $(column 1), ale-py act x 4 $(column 2), its vector environment $(column 3)"
row "Pong, frames/s of the environment alone over the faster baseline" \
  "$(awk '{print $1 / ($2 > $3 ? $2 : $3)}' "$work/rounds" | median)" "reported"
