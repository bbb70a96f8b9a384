#!/usr/bin/env bash
# Plays a run's best checkpoint and records it: the screen, and beside it the score, the estimate
# of the value and the probability of each action.
#
# Usage: scripts/watch.sh RUN|FILE [--checkpoint=latest] [--out=FILE.mp4|FILE.gif] [--episodes=1]
#        [--seed=1000] [--policy=greedy|sample] [--fps=N] [--max_steps=N] [--env=PATH]
#        [--env_args=JSON] [--no_code]
#
#   RUN         a run folder: its best checkpoint, or the newest while there is no best one, in the
#               environment it was trained on
#   FILE        a checkpoint file in a run folder
#   --checkpoint=latest: the newest whole checkpoint of the run folder
#   --out       default: play.mp4 in the run folder
#   --seed      of the first episode; the others follow it. Greedy episodes are those that
#               scripts/eval.sh plays from the same seeds
#   --policy    greedy (default): the most probable action; sample: drawn, as in training. Of values
#               of actions: the best, but for --eval_epsilon of the run; or as random as the
#               training's first environment. --greedy and --sampled are the same
#   --fps       steps shown in a second; default: 15 for the Atari (its own speed), 4 for catch and
#               tmaze, else 30
#   --max_steps an episode is shown for no longer, and named where it goes on; default: 10 minutes
#               of the video (--fps)
#   --env       where the environment is here, if the run's is a file that lies elsewhere
#   --no_code   refuses a run whose environment is a plugin or has a Python module, which would be
#               run: for a run folder of somebody else's
#
# What is shown is the environment's own picture; where it draws none, an observation that is an
# image. ffmpeg makes the video; it is installed if it is missing.
set -euo pipefail
. "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/lib.sh"
need_run "$@"

take_run "$1"
out=$run/play.mp4 fps='' env='' max_steps='' flags=()
[ -z "$checkpoint" ] || flags+=("--checkpoint=$checkpoint")
for word in "${@:2}"; do
  case "$word" in
    --help | -h) print_head && exit ;;
    --out=*) out=${word#*=} ;;
    --fps=*) fps=${word#*=} ;;
    --greedy) flags+=(--policy=greedy) ;;
    --sampled) flags+=(--policy=sample) ;;
    --env=*) env=${word#*=} flags+=("$word") ;;
    --checkpoint=*) flags+=("$word") ;;
    --max_steps=*) max_steps=${word#*=} ;;
    --code* | --no_code | --no-code) flags+=("$word") ;;
    --episodes=* | --seed=* | --policy=* | --env_args=*) flags+=("$word") ;;
    *)
      refuse_option "$word" "out|fps|env|env_args|checkpoint|max_steps|episodes|seed|policy"
      ;;
  esac
done

case "$out" in
  *.mp4) encode=(-c:v libx264 -preset fast -crf 18 -pix_fmt yuv420p -movflags +faststart) ;;
  # A palette for each picture: one for all would keep them all in memory.
  *.gif)
    encode=(-filter_complex
      'split[a][b];[a]palettegen=stats_mode=single[p];[b][p]paletteuse=new=1')
    ;;
  *)
    echo "watch.sh: --out=$out: it records .mp4 and .gif; name it FILE.mp4 or FILE.gif" >&2
    exit 2
    ;;
esac
if [ ! -d "$(dirname "$out")" ]; then
  echo "watch.sh: --out=$out: there is no folder $(dirname "$out")" >&2
  exit 2
fi
if [ -z "$fps" ]; then
  case "${env:-$(run_option env)}" in
    atari) fps=15 ;;
    catch | tmaze) fps=4 ;;
    *) fps=30 ;;
  esac
fi
if [[ ! $fps =~ ^[1-9][0-9]?$ ]]; then
  echo "watch.sh: --fps=$fps: a whole number from 1 to 99, in steps per second" >&2
  exit 2
fi
if ! command -v ffmpeg >/dev/null && ! { has_sources && set_up watch; }; then
  echo "watch.sh: ffmpeg is missing, which makes the video; install it (on Debian:" \
    "apt-get install ffmpeg) and play again" >&2
  exit 1
fi
build_for_run "$env"

# Beside its place first: a video that is looked at is never half a one.
work=$(mktemp -d)
new=${out%.*}.new.${out##*.}
trap 'rm -rf "$work" "$new"' EXIT
watch=("$root/build/watch")
if is_in_package "${env:-$(run_option env)}"; then
  watch=("$ACORN_PACKAGE_PYTHON" -m acorn.watch)
fi
set +e
"${watch[@]}" "$run" "${flags[@]}" --hold="$fps" \
  --max_steps="${max_steps:-$((600 * fps))}" |
  ffmpeg -nostdin -v error -xerror -y -f image2pipe -framerate "$fps" -c:v ppm -i - "${encode[@]}" \
    "$new" >"$work/said" 2>&1
codes=("${PIPESTATUS[@]}")
set -e
# 5: nobody read the pictures. Then it is ffmpeg that knows why.
[ "${codes[0]}" -eq 0 ] || [ "${codes[0]}" -eq 5 ] || exit "${codes[0]}"
# A disk that is full at the very end is an error that it says and exits with 0.
if [ "${codes[1]}" -ne 0 ] || [ -s "$work/said" ]; then
  tail -n 5 "$work/said" >&2
  echo "watch.sh: ffmpeg could not make $out (above)" >&2
  exit 1
fi
mv "$new" "$out"
echo "recorded: $out" >&2
