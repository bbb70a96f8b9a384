#!/usr/bin/env bash
# TensorBoard's first page and its HPARAMS tab as a person sees them, in a headless browser: which
# groups and cards come first, and with which columns. SCREENSHOTS=FOLDER keeps the pictures.
. "$(dirname "$(readlink -f "$0")")/lib.sh"

python=$tree/.venv/bin/python
skip() {
  echo "SKIP TensorBoard's pages: $1"
  exit 0
}
"$python" -c 'import tensorboard' 2>/dev/null ||
  skip "it is not here (scripts/setup.sh compare)"
browser=$(command -v chromium-headless-shell chromium chromium-browser google-chrome | head -n 1)
[ -n "$browser" ] || skip "there is no headless browser (Debian: apt install chromium)"

for seed in 1 2; do
  run cartpole vtrace 1 8 --total_steps=60k --seed=$seed --evaluators=1 --logdir=runs/seed$seed
  ended
done

port=$(free_port)
"$python" -m tensorboard.main --logdir="$work/runs" --port="$port" --load_fast=false \
  >"$work/tensorboard" 2>&1 </dev/null &
tensorboard=$!
trap 'kill "$tensorboard" 2>/dev/null; end_all; rm -rf "$work"' EXIT
address=http://127.0.0.1:$port
fetch() { "$python" -c 'import sys, urllib.request as u; print(u.urlopen(*[
    a.encode() if i else u.Request(a, headers={"Content-Type": "application/json"})
    for i, a in enumerate(sys.argv[1:])]).read().decode())' "$@" 2>/dev/null; }
serves() { fetch "$address/data/runs" | grep -q seed2; }
pass_if "TensorBoard finds the runs" wait_for 60 serves

# browse TAB OPTION...: the browser's own standard output. Its sandbox wants rights that containers
# lack; virtual time lets the page finish, however slow the machine is.
browse() {
  timeout 200 "$browser" --headless --no-sandbox --disable-gpu --hide-scrollbars \
    --user-data-dir="$work/profile" --virtual-time-budget=20000 "${@:2}" "$address/#$1" \
    2>>"$work/browser"
}
picture() {
  browse "$1" --window-size=1400,1000 --screenshot="$work/$1.png"
  [ -z "${SCREENSHOTS-}" ] || cp "$work/$1.png" "$SCREENSHOTS/"
  [ "$(stat -c %s "$work/$1.png")" -gt 20000 ]
}
pass_if "the first page has a picture" picture timeseries
browse timeseries --window-size=1400,9000 --dump-dom >page.html
groups() { grep -oE 'class="group-title" title="[^"]*"' page.html | sed 's/.*title="//; s/"$//'; }
cards() { grep -oE 'title="[a-z_]+/[a-z_/]+"' page.html | sed 's/.*title="//; s/"$//'; }
in_order() { is "$(groups | tr '\n' ' ')" "charts loss policy returns speed telemetry "; }
pass_if "returns and losses are its first groups, telemetry the last" in_order
pass_if "its first card is the return" is "$(cards | head -n 1)" charts/episode_return
no_telemetry() { ! cards | grep -q '^telemetry/' && cards | grep -q '^loss/total$'; }
pass_if "returns and losses are open, telemetry is not" no_telemetry

# The table is out of sight of --dump-dom (a shadow tree); it shows these columns in this order.
columns() {
  fetch "$address/data/plugin/hparams/experiment" '{"experimentName": ""}' | "$python" -c '
import json, sys
infos = json.load(sys.stdin)
print(*[i["name"] for i in infos["hparamInfos"] if i.get("differs")],
      *[i["name"]["tag"] for i in infos["metricInfos"]])'
}
shows() {
  is "$(columns)" "agent entropy_cost env learning_rate seed charts/episode_return $(
  )charts/eval_episode_return"
}
pass_if "HPARAMS begins with the columns that matter, and the returns" shows
pass_if "it has a picture" picture hparams
finish
