#!/usr/bin/env bash
# Writes docs/options.md from the programs' option tables; --check only says whether it is up to
# date.
# Usage: scripts/docs.sh [--check]
set -euo pipefail
. "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/lib.sh"
offer_help "$@"
cd "$root"
scripts/setup.sh
build all

options() {
  cat <<'TEXT'
# Options

Written by `scripts/docs.sh` from the tables in `learner/options.c`, `actor/options.c` and
`deploy/options.c`; `--help` prints the same.

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

page=docs/options.md
text=$(options)
case "${1:-}" in
  "") printf '%s\n' "$text" >"$page" ;;
  --check)
    [ "$text" = "$(cat "$page" 2>/dev/null)" ] && exit 0
    echo "$page is not what the option tables say; write it anew with scripts/docs.sh" >&2
    exit 1
    ;;
  *)
    echo "usage: scripts/docs.sh [--check]" >&2
    exit 2
    ;;
esac
