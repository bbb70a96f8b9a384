#!/usr/bin/env bash
# The scripts themselves: they work through a symbolic link, by a relative path, from any folder.
# And what lint.sh finds in the comments of headers and in the subjects of commits.
. "$(dirname "$(readlink -f "$0")")/lib.sh"

# ---- symbolic links, as in ~/bin
mkdir bin elsewhere
same_help() {
  "$1" --help >help </dev/null && [ -s help ] &&
    (cd elsewhere && "$2" --help >"$work/out" 2>"$work/err" </dev/null) && cmp -s help out
}
for script in "$tree"/run_local.sh "$tree"/scripts/{*.sh,sweep.py} "$tree"/deploy/*.sh; do
  [ -x "$script" ] || continue # a library
  link=../bin/$(basename "$script" .sh) # as seen from elsewhere/
  ln -s "$script" "bin/${link##*/}"
  pass_if "$(basename "$link") --help, by a symbolic link" same_help "$script" "$link"
done

# ---- a build that is needed, in another user's tree; permissions do not hold root up, a file does
mkdir -p theirs/scripts
cp "$tree/scripts/lib.sh" theirs/scripts
printf 'all:\n\tfalse\n' >theirs/Makefile
: >theirs/build
builds() { bash -c 'set -eo pipefail; . theirs/scripts/lib.sh; build all' 2>err; }
told() { ! builds && says "$1" && is "$(wc -l <err)" "$2"; }
pass_if "build names what to do where it cannot write" told "let its owner run make there" 1
rm theirs/build
pass_if "and that it failed" told "the build of all failed" 4

# ---- lint.sh, in a tree with one header, which calls.c includes and other.c does not
mkdir -p lint/learner/train
cp -r "$tree/scripts" lint
git -C lint init -q
echo 'DisableFormat: true' >lint/.clang-format
echo '#include "learner/train/header.h"' >lint/learner/train/calls.c
: >lint/learner/train/other.c
# lints COMMENT [COMPLAINT]: what lint.sh prints of a header that begins so; without one: nothing.
lints() {
  printf '/* A header. %b */\n' "$1" >lint/learner/train/header.h
  lint/scripts/lint.sh >out 2>err
  is $? $(($# - 1)) || return
  [ $# -eq 1 ] || grep -qxF "  learner/train/header.h: $2" out
}
pass_if "lint.sh takes a header whose callers include it" lints \
  "Upstream: train/calls.c (why),\n * {calls,calls}.c. Downstream: learner/train, other.c. Not a.c."
pass_if "it finds a caller that does not" lints "Upstream: calls.c,\n * train/other.c." \
  "learner/train/other.c is upstream, but does not include it"
pass_if "and one of several" lints "Upstream: train/*.c. Thread: any." \
  "learner/train/other.c is upstream, but does not include it"
pass_if "a caller that is not there" lints "Upstream: calls.c; serve/{gone,calls}.c." \
  "there is no serve/gone.c"
pass_if "a file downstream that is not there" lints \
  "Upstream: calls.c. Downstream: learner/train; a\n * b/c.h." "there is no b/c.h"
pass_if "a folder that is not there" lints "Downstream: learner/gone." "there is no learner/gone"

echo 'int header(void);' >lint/learner/train/header.h
no_purpose() { ! lint/scripts/lint.sh >out 2>err && grep -qx "  learner/train/header.h" out; }
pass_if "and a header that does not tell its purpose" no_purpose

# ---- lint.sh: subjects of commits
in_lint() {
  git -C lint -c user.name=a -c user.email=a@b -c commit.gpgsign=false "$@" >/dev/null 2>&1
}
printf '/* A header. */\n' >lint/learner/train/header.h
in_lint commit --allow-empty -m "First"
export LINT_COMMITS_AFTER
LINT_COMMITS_AFTER=$(git -C lint rev-parse HEAD)
# lints_subject SUBJECT STATUS: what lint.sh returns and prints of a commit with this subject, which
# is then removed.
lints_subject() {
  local status printed
  in_lint commit --allow-empty -m "$1" || return
  lint/scripts/lint.sh >out 2>err
  status=$?
  printed=$(grep -cF " $1" out)
  in_lint reset --soft HEAD~1 && is $status "$2" && is "$printed" "$2"
}
line72="rpc: $(printf 'x%.0s' {1..67})"
pass_if "lint.sh takes a subject of area and imperative" lints_subject "rpc, docs: end idle calls" 0
pass_if "and one of 72 characters" lints_subject "$line72" 0
pass_if "it finds one of 73 characters" lints_subject "${line72}x" 1
pass_if "one without an area" lints_subject "end idle calls" 1
pass_if "one with capitals" lints_subject "RPC: End idle calls" 1
pass_if "one that ends with a full stop" lints_subject "rpc: end idle calls." 1
merged() {
  in_lint checkout -b side && in_lint commit --allow-empty -m "rpc: end idle calls" &&
    in_lint checkout - && in_lint merge --no-ff -m "Merge branch 'side'" side &&
    lint/scripts/lint.sh >out 2>err
}
pass_if "and takes merges as they are" merged
no_history() {
  git clone -q --depth=1 "file://$PWD/lint" shallow && shallow/scripts/lint.sh >out 2>err
}
in_lint add -A
in_lint commit -m "No area"
pass_if "a shallow clone has no subjects to check" no_history
# Without a repository the files are found all the same.
tarball() {
  mkdir tarball && git -C lint archive HEAD | tar -x -C tarball || return
  tarball/scripts/lint.sh >out 2>err &&
    cmp -s <(lint/scripts/lint.sh | tail -n 1) <(tail -n 1 out)
}
LINT_COMMITS_AFTER=none
pass_if "nor has a tarball" tarball
unset LINT_COMMITS_AFTER

run catch vtrace 1 4 --total_steps=4k --logdir="$work/run" --seed=1
ended
evaluates() {
  (cd elsewhere && ../bin/eval "$work/run" --episodes=4 >"$work/out" 2>"$work/err") &&
    is "$(grep -c '^evaluation episodes=4 ' out)" 2
}
pass_if "eval.sh plays a run, by a symbolic link" evaluates
finish
