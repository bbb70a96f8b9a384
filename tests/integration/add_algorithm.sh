#!/usr/bin/env bash
# Adds the example algorithm of docs/algorithms.md to a copy of the tree, block by block as the page
# says, and builds, checks and trains it; without $ALL only whether its files and those that list
# them compile, since the rest compiles half the product.
. "$(dirname "$(readlink -f "$0")")/lib.sh"
copy=$work/tree
page=$tree/docs/algorithms.md
example=uncorrected
# Every kernel would be compiled again, for each architecture; by g++ one shows enough.
export NVCC=
emulated=build/obj/emulated/learner/device/cuda/rules.o

# What has been built comes with it, and the times of all files: make builds what changes only.
copy_tree() {
  mkdir "$copy" && cd "$tree" || return
  git ls-files -co --exclude-standard | grep -vx '\.venv' |
    while read -r file; do if [ -f "$file" ]; then echo "$file"; fi; done |
    tar -c --files-from=- | tar -x -C "$copy"
  mkdir -p "$copy/build/obj"
  find build -maxdepth 1 -type f -perm -u+x -o -maxdepth 1 -name '*.a' >"$work/built"
  find build/gen build/obj -type f ! -path 'build/obj/tests/*' >>"$work/built"
  tar -c --files-from="$work/built" | tar -x -C "$copy"
  cd "$work" || return
}

# Writes every block with the line before it that says what to do: block-N and action-N, one word to
# a line: new PATH, or after|before PATH TEXT. A line that a block has no such line before is none.
cut_page() {
  awk -v folder="$work" '
    !in_block && /^(A new file|In `)/ {action = $0}
    /^```/ {
      in_block = !in_block
      if (in_block && action != "") {
        count++
        print action >(folder "/action-" count)
        printf "" >(folder "/block-" count)
      } else {
        action = ""
      }
      next
    }
    in_block && action != "" {print >(folder "/block-" count)}
    END {print count + 0}' "$page"
}

# insert after|before PATH TEXT BLOCK: at the one line that begins with TEXT, blanks apart.
insert() {
  awk -v where="$1" -v text="$3" -v block="$4" '
    function put(line) {
      while ((getline line <block) > 0) print line
      done++
    }
    {
      line = $0
      sub(/^ +/, "", line)
      here = index(line, text) == 1
    }
    here && where == "before" {put()}
    {print}
    here && where == "after" {put()}
    END {exit done != 1}' "$copy/$2" >"$work/new" && cat "$work/new" >"$copy/$2"
}

# apply NUMBER: fails if the page does not say what to do, or of a line that is not there once.
apply() {
  local action new='^A new file, `([^`]+)`:$'
  local at='^In `([^`]+)`, (after|before) the line that begins with (`` *(.+[^ ]) *``|`([^`]+)`):$'
  action=$(cat "$work/action-$1")
  if [[ "$action" =~ $new ]]; then
    cp "$work/block-$1" "$copy/${BASH_REMATCH[1]}"
  elif [[ "$action" =~ $at ]]; then
    insert "${BASH_REMATCH[2]}" "${BASH_REMATCH[1]}" "${BASH_REMATCH[4]}${BASH_REMATCH[5]}" \
      "$work/block-$1"
  else
    false
  fi || echo "$action" >>"$work/err"
}

apply_page() {
  local number count
  : >"$work/err"
  count=$(cut_page)
  for ((number = 1; number <= count; number++)); do apply "$number"; done
  [ "$count" -ge 6 ] && [ ! -s "$work/err" ]
}

build() {
  make -s -C "$copy" -j"$(nproc)" WERROR=1 "$@" >"$work/out" 2>"$work/err" </dev/null
}

pass_if "the tree is copied with what is built" copy_tree
pass_if "each block of the page has its place" apply_page
short() {
  [ "$(wc -l <"$copy/learner/learn/$example.c")" -le 80 ] &&
    [ "$(wc -l <"$copy/learner/rules/distance.rule.h")" -le 30 ]
}
pass_if "the algorithm is one short file, its formula another" short
few() { is "$(grep -ho '`learner/[^`]*`' "$work"/action-* | sort -u | wc -l)" 5; }
pass_if "of the product it takes five files" few
compiles() { build build/obj/learner/learn/{$example,algorithms}.o; }
pass_if "they compile" compiles
[ -n "${ALL:-}" ] || finish
# All that knows of it, without optimising it, which takes less time.
soon=(FAST=-O1 MODE_FLAGS_release=-O1)
pass_if "it builds" build "${soon[@]}" build/learner build/actor build/launch
pass_if "its formula compiles for a GPU" build "${soon[@]}" $emulated
[ $failures -eq 0 ] || finish

# ---- listed, proposed, documented
lists() { "$copy/build/learner" --help | grep -A3 -e '--agent=' | grep -qw "$example"; }
pass_if "--help lists it" lists
described() { "$copy/build/learner" --help=algorithms >"$work/out" && grep -qx "### $example" out; }
pass_if "--help=algorithms describes it" described
proposed() {
  ! "$copy/build/launch" cartpole "${example/rr/r}" 2 >"$work/out" 2>"$work/err" &&
    says "did you mean '$example'?"
}
pass_if "a misspelt name is answered with a proposal of it" proposed
docs() { "$copy/scripts/docs.sh" "$@" >"$work/out" 2>"$work/err"; }
outdated() { ! docs --check && says "docs/options.md is not" && says "docs/algorithms.md is not"; }
pass_if "docs.sh --check fails until the pages are written" outdated
written() { docs && docs --check; }
pass_if "docs.sh writes them" written
undocumented() {
  sed -i '/policy\/perplexity/d' "$copy/docs/operations.md"
  ! docs --check && says "docs/operations.md has no row for the metric policy/perplexity"
}
pass_if "a loss term without a row in docs/operations.md fails the check" undocumented

# ---- right, and it trains
gradient=build/tests/unit/learner/train/test_gradient
gradient() {
  build "${soon[@]}" $gradient && "$copy/$gradient" >"$work/out" 2>&1 &&
    grep -q "OK ] the_gradients_of_$example" "$work/out"
}
pass_if "its gradient matches finite differences" gradient
"$copy/build/launch" cartpole $example 2 --total_steps=20k --metrics_secs=0.05 --logdir=run \
  >"$work/out" 2>"$work/err" </dev/null
code=$?
trained() {
  is "$code" 0 && is "$(value agent)" $example && [ "$(value steps)" -ge 20000 ] &&
    [ "$(value episodes)" -gt 0 ] && metric_passes train/updates 0
}
pass_if "it trains" trained
preset() { grep -qx 'lambda = 1' run/config.txt; }
pass_if "its preset is in force" preset
# CartPole has two actions.
perplexity() { metric_passes policy/perplexity 1 && ! metric_passes policy/perplexity 2.0001; }
pass_if "its metric is exported" perplexity
distance() { metric_passes loss/distance 1e-9; }
pass_if "and what its formula sums up" distance
pass_if "nothing is left" no_process
finish
