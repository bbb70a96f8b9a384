#!/usr/bin/env bash
# Writes what the documentation takes from the programs' tables: docs/options.md, and in
# docs/algorithms.md what stands between the two comments. --check writes nothing: it fails, and
# names the page, if one is not up to date, or if docs/operations.md has no row for a metric of an
# algorithm's loss.
# Usage: scripts/docs.sh [--check]
set -euo pipefail
. "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/lib.sh"
offer_help "$@"
cd "$root"
case "${1:-}" in
  "" | --check) ;;
  *)
    echo "usage: scripts/docs.sh [--check]" >&2
    exit 2
    ;;
esac
scripts/setup.sh
build all

options() {
  cat <<'TEXT'
# Options

Written by `scripts/docs.sh` from the tables in `learner/run/options.c`, `actor/options.c` and
`deploy/launch/options.c`; `--help` prints the same.

An option is given as `--name=value` or `--name value`, a switch as `--name` or `--no_name`; a dash
in a name is the same as an underscore. Numbers may be written 1e6, 500k or 2M. The later one counts
where an option is given twice. `--config=FILE` reads lines `name = value` (`#` starts a comment);
the command line wins over it. `run_local.sh` takes the options of all three programs.

Options that are left alone get values that suit the environment: the run folder's `config.txt`
shows what they came to, and may be given to `--config`.

TEXT
  build/launch --help=markdown
  build/learner --help=markdown
  build/actor --help=markdown
}

# docs/algorithms.md with what build/learner prints between the two comments.
algorithms() {
  table=$(build/learner --help=algorithms) awk '
    $0 == "<!-- written by scripts/docs.sh: begin -->" {
      print $0 "\n\n" ENVIRON["table"] "\n"
      begun++
    }
    $0 == "<!-- written by scripts/docs.sh: end -->" {ended += begun}
    begun == ended || !begun
    END {exit !(begun == 1 && ended == 1)}' docs/algorithms.md || {
    echo "docs/algorithms.md has not the two comments that the tables stand between" >&2
    return 1
  }
}

failed=0

# update PAGE TEXT CHECK: writes the page, or compares it where CHECK is not empty.
update() {
  if [ -z "$3" ]; then
    printf '%s\n' "$2" >"$1"
  elif [ "$2" != "$(cat "$1" 2>/dev/null)" ]; then
    echo "$1 is not what the tables in the code say; write it anew with scripts/docs.sh" >&2
    failed=1
  fi
}

# Metrics of losses, of all algorithms.
terms() {
  build/learner --help=algorithms | sed -n 's/^| `\([a-z_]*\/[a-z_]*\)` |.*/\1/p' | sort -u
}

check_operations() {
  local term
  for term in $(terms); do
    grep -qF "| \`$term\` |" docs/operations.md && continue
    echo "docs/operations.md has no row for the metric $term of an algorithm's loss" >&2
    failed=1
  done
}

text=$(options)
update docs/options.md "$text" "${1:-}"
text=$(algorithms)
update docs/algorithms.md "$text" "${1:-}"
[ -z "${1:-}" ] || check_operations
exit $failed
