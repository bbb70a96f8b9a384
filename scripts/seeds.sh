#!/usr/bin/env bash
# Runs an experiment with several seeds, one after another, and sums them up: a table, the mean over
# seeds with its 95 % confidence interval (Student's t), and one plot with mean and band.
#
# Usage: scripts/seeds.sh ENV AGENT SEEDS [--jobs=1] [--actors=4] [--envs_per_actor=N]
#        [--dir=FOLDER] [--flag=value ...]
#
#   SEEDS    1..5 or 1,2,7; from 0 to 9000000000000000
#   --jobs   so many runs at a time
#   --dir    default: runs/ENV-AGENT-seeds; the runs are FOLDER/seed-1, ...
#   --flag   any option of ./run_local.sh
#
# Started again it goes on where it was: a seed that has finished is not run again, one that was
# stopped is resumed. Exit code 0: every seed has finished; 3: some missed --target_return; 1: some
# failed; 2: wrong options; 130: stopped.
set -euo pipefail
. "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/lib.sh"
. "$root/scripts/lib_runs.sh"

jobs=1
for word in "$@"; do take_word "$word" || flags+=("$word"); done
check_words "cartpole vtrace 1..5" ENV AGENT SEEDS
check_jobs
env=${words[0]} agent=${words[1]}
read_seeds "${words[2]}"
own_flags() { own=(--seed="${1#seed-}"); }
label() { echo "seed ${1#seed-}"; }

dir=${dir:-runs/$(basename "$env" .so)-$agent-seeds}
claim_folder "$env" "$agent" "$actors" ${envs:+"$envs"} "${flags[@]}"
build_for_run "$env"
offer_plot
runs=("${seeds[@]/#/seed-}")
play "${runs[@]}"

# ---- the table

format='%-8s %12s %10s %12s %10s  %-6s %s\n'
printf "$format" seed steps seconds return std over reason
for run in "${runs[@]}"; do
  result=$dir/$run/result.txt
  if is_finished "$run"; then
    printf "$format" "${run#seed-}" "$(value steps "$result")" "$(value seconds "$result")" \
      "$(value return_mean "$result")" "$(value return_std "$result")" "$(value over "$result")" \
      "$(value reason "$result")"
  else
    printf "$format" "${run#seed-}" - - - - - failed
  fi
done

mapfile -t done_runs < <(finished "${runs[@]}")
# statistic KEY PART FORMAT: of a figure of the result lines over all seeds that have one.
statistic() {
  statistics "$1" "${done_runs[@]}" | tr ' ' '\n' | sed -n "s/^$2=//p" | xargs printf "$3"
}
if [ ${#done_runs[@]} -gt 1 ]; then
  for part in mean low high; do
    name=$part
    [ $part = mean ] || name="95 % $part"
    printf "$format" "$name" "$(statistic steps $part %.0f)" "$(statistic seconds $part %.2f)" \
      "$(statistic return_mean $part %.3f)" "" "" "(${#done_runs[@]} seeds)"
  done
fi
[ ${#done_runs[@]} -eq 0 ] || draw "${done_runs[@]}"
exit "$(exit_code "${runs[@]}")"
