#!/usr/bin/env bash
# Images in any form: with the channels first, of floats, several of them with a vector beside them.
# Each is learned by the network that is chosen for it, and the run is evaluated and recorded.
. "$(dirname "$(readlink -f "$0")")/lib.sh"
. "$tree/scripts/lib.sh"
if ! build all gymnasium >"$work/err" 2>&1 ||
  ! "$tree/.venv/bin/python" -c 'import gymnasium' 2>/dev/null; then
  echo "SKIP images: there is no Gymnasium here (scripts/setup.sh gym)"
  exit 0
fi

# light KIND AGENT OPTIONS...: a run in the folder KIND.
light() {
  run gym:Light-v0 "$2" 1 8 --module="$tree/tests/integration/images.py" --logdir="$work/$1" \
    --env_args="{\"kind\": \"$1\"}" --batch_size=8 --metrics_secs=0 "${@:3}"
  ended 120
}
network_of() { sed -n 's/^network *= *//p' "$1/config.txt" | tr -d '"'; }
# Chance has 5 of 10.
learned() { is "$code" 0 && is "$(value reason)" target_return; }
chosen() { says "network $2, as the observation has" && is "$(network_of "$1")" "$2"; }

light first vtrace --total_steps=100k --target_return=8
pass_if "channels first: learned" learned
pass_if "by a convolutional network" chosen first impala_shallow
light two vtrace --total_steps=200k --target_return=8
pass_if "two images and a vector that turns their meaning: learned" learned
pass_if "by a convolutional network, too" chosen two impala_shallow
light floats dqn --total_steps=2k --replay_min_steps=500
pass_if "floats: a run of dqn gets the network of dqn" \
  eval 'is "$code" 0 && chosen floats nature'
light last vtrace --total_steps=2k --network=mlp
plain() { is "$code" 0 && is "$(network_of last)" mlp && ! says "as the observation has"; }
pass_if "a network that is given stays" plain
light small vtrace --total_steps=2k
pass_if "a small image is read as numbers" eval 'is "$code" 0 && is "$(network_of small)" mlp'
light unequal vtrace
pass_if "images of two sizes are refused by their sizes" \
  eval 'is "$code" 2 && says "the observation has 36x36 and 40x40"'

# ---- what comes after
run gym:Light-v0 vtrace 1 --mode=evaluate --logdir="$work/two" --episodes=20
ended 60
evaluated() { is "$code" 0 && awk '{sub(/.*return_mean=/, ""); exit !($1 > 7)}' "$work/out"; }
pass_if "a run with images and a vector is evaluated" evaluated
run gym:Light-v0 vtrace 1 8 --resume --logdir="$work/two" --network=auto
ended 60
pass_if "and goes on with its network" \
  eval 'learned && is "$(network_of two)" impala_shallow && ! says "resuming with --network"'
# The picture: a light that fills one half, enlarged.
shows() {
  "$tree/build/watch" "$work/first" --max_steps=2 >picture.ppm 2>"$work/err" &&
    head -c 2 picture.ppm | grep -q P6 &&
    [ "$(tail -c +16 picture.ppm | tr -d '\0' | wc -c)" -gt 900 ]
}
pass_if "and one with the channels first is recorded" shows
finish
