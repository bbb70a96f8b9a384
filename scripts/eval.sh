#!/usr/bin/env bash
# Plays a run's best checkpoint, greedily and sampled, and says how well.
#
# Usage: scripts/eval.sh RUN|FILE [--checkpoint=latest] [--episodes=100] [--policy=greedy|sample]
#        [--episode_steps=30000] [--env=PATH] [--no_code] [--flag=value ...]
#
#   RUN      a run folder: its best checkpoint, or the newest while there is no best one, in the
#            environment that it was trained on
#   FILE     a checkpoint file in a run folder
#   --checkpoint=latest: the newest whole checkpoint of the run folder
#   --policy only one of the two. With values of actions (r2d2, dqn): greedily but for
#            --eval_epsilon, and as random as the training's first environment
#   --seed   of the first episode (default 1000); the others follow it
#   --episode_steps: a policy's play ends once no episode has ended for so many steps of each
#            environment. What has ended by then is shown, and the exit code is 3
#   --env    where the environment is here, if the run's is a file that lies elsewhere
#   --no_code refuses a run whose environment is a plugin or has a Python module, which would be
#            run: for a run folder of somebody else's
#
# Writes the figures to eval.json in the run folder. Prints a table, then for each policy a line
# "evaluation episodes=... return_mean=... ...". The 95 % interval is that of the mean, by Student's
# t: mean +- t * s / sqrt(n), s with n - 1.
# For the Atari also the human-normalised mean: (mean - random) / (human - random), with the scores
# of envs/gymnasium/atari_scores.csv. Scores are the game's own, never clipped; episodes begin with
# 1 to 30 no-ops and are cut after 108,000 frames. Where --env_args (or --sticky_actions) say
# otherwise the scores cannot be compared, and the line is left out, with a word why.
set -euo pipefail
. "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/lib.sh"
need_run "$@"

policies=(greedy sample) flags=()
actors=2 envs=8 # of each; an environment without an episode to play would only be made
take_run "$1"
env=$(run_option env) env_args=$(run_option env_args) game='' sticky=''
[ -z "$checkpoint" ] || flags+=("--checkpoint=$checkpoint")
for word in "${@:2}"; do
  case "$word" in
    --policy=*) policies=("${word#*=}") ;;
    --env=*) env=${word#*=} ;;
    --episodes=[1-8]) actors=1 envs=${word#*=} flags+=("$word") ;;
    --env[_-]args=*) env_args=${word#*=} flags+=("$word") ;;
    --game=*) game=${word#*=} flags+=("$word") ;;
    --sticky[_-]actions=*) sticky=${word#*=} flags+=("$word") ;;
    -*) flags+=("$word") ;;
    *)
      echo "eval.sh: $word is one word too many: it plays one run, and options are written" \
        "--name=value" >&2
      exit 2
      ;;
  esac
done
launch=("$root/build/launch")
if is_in_package "$env"; then
  launch=("$ACORN_PACKAGE_PYTHON" -m acorn.train)
elif [ "$env" = join ]; then
  echo "eval.sh: $run was trained on an environment that its actors brought (--env=join): say" \
    "where it is here, --env=./my_env.so or --env=gym:ID;" \
    "scripts/export.sh and scripts/serve.sh can do without it" >&2
  exit 2
fi
build_for_run "$env"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unfinished=0
: >"$work/lines"
for policy in "${policies[@]}"; do
  code=0
  "${launch[@]}" "$env" "$(run_option agent)" "$actors" "$envs" --mode=evaluate \
    --logdir="$run" --seed=1000 "${flags[@]}" --policy="$policy" >"$work/out" || code=$?
  if [ $code -eq 3 ]; then unfinished=3; elif [ $code -ne 0 ]; then exit $code; fi
  grep '^evaluation ' "$work/out" >>"$work/lines" || [ $code -eq 3 ] && continue
  echo "eval.sh: stopped before the first episode had ended" >&2
  exit 1
done

# A word that is no number, such as inf, stays as it is: gawk would make it 0.
awk 'function figure(name) {
  return value[name] ~ /^[-+]?[0-9.]/ ? sprintf("%.3f", value[name]) : value[name]
}
{
  for (i = 2; i <= NF; i++) {split($i, part, "="); value[part[1]] = part[2]}
  if (NR == 1)
    printf "%-8s %8s %10s %10s %10s %10s %10s  %s\n", "policy", "episodes", "mean", "median", "std",
      "min", "max", "95 % interval of the mean"
  printf "%-8s %8d %10s %10s %10s %10s %10s  %s to %s\n", value["policy"],
    value["episodes"], figure("return_mean"), figure("return_median"), figure("return_std"),
    figure("return_min"), figure("return_max"), figure("return_ci95_low"),
    figure("return_ci95_high")
}' "$work/lines"
cat "$work/lines"

[ "$env" = atari ] && [ -s "$work/lines" ] || exit $unfinished
# What --env_args say of an option; the quotes in a config.txt are escaped.
setting() { sed -n 's/.*"'"$1"'\\*" *: *\\*"\{0,1\}\([^",}\]*\).*/\1/p' <<<"$env_args"; }

# The words for single options go before --env_args. What none names is the environment's own.
game=${game:-$(setting game)} sticky=${sticky:-$(setting sticky_actions)} departs=""
while read -r name usual value; do
  if awk -v a="${value:-$usual}" -v b="$usual" 'BEGIN {exit a + 0 == b + 0}'; then
    departs+="${departs:+, }$name is $value, not $usual"
  fi
done <<END
frame_skip 4 $(setting frame_skip)
noops 30 $(setting noops)
max_frames 108000 $(setting max_frames)
sticky_actions 0 $sticky
mode -1 $(setting mode)
difficulty -1 $(setting difficulty)
END
if [ -n "$departs" ]; then
  echo "eval.sh: no human_normalised: people and random play were scored under other rules:" \
    "$departs" >&2
  exit $unfinished
fi
awk -F, -v game="${game:-Pong}" '
  function flat(name) {gsub(/[-_ ]/, "", name); return tolower(name)}
  NR == FNR {if (flat($1) == flat(game)) {random = $2; human = $3; known = 1}; next}
  !known {
    print "eval.sh: no human_normalised: atari_scores.csv has no scores of " game >"/dev/stderr"
    exit
  }
  {
    split($0, words, " ")
    for (i in words) {split(words[i], part, "="); value[part[1]] = part[2]}
    mean = (value["return_mean"] - random) / (human - random)
    printf "human_normalised game=%s policy=%s mean=%.4f random=%s human=%s\n", game,
      value["policy"], mean, random, human
  }' "$root/envs/gymnasium/atari_scores.csv" "$work/lines"
exit $unfinished
