#!/usr/bin/env bash
# The version of this tree: what VERSION holds, and the commit, where git is there; else the second
# word of VERSION, which a bundle has, or "unknown". A commit with "-dirty" behind it has been
# edited.
# Usage: scripts/version.sh [--header=FILE|--name=PROGRAM]
#
#   --header  the C header with both: written if it is not there or differs
#   --name    print what PROGRAM --version prints
set -eu
export LC_ALL=C.UTF-8
# Without lib.sh, which calls it.
root=$(cd "$(dirname "$(readlink -f "$0")")/.." && pwd)
commit=unknown
read -r version commit <"$root/VERSION" || true
# A tree inside that of another project has no commit of its own.
if [ -e "$root/.git" ]; then
  commit=$(git -C "$root" describe --always --dirty --abbrev=12 --exclude='*' 2>/dev/null || true)
fi
commit=${commit:-unknown}
case "${1:-}" in
  --help | -h) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//p}' "$0" ;;
  --header=*)
    header=${1#*=}
    text="#define ACORN_VERSION \"$version\"
#define ACORN_COMMIT \"$commit\""
    [ "$text" != "$(cat "$header" 2>/dev/null)" ] || exit 0
    mkdir -p "$(dirname "$header")"
    # Beside its place first: two runs may build at once.
    echo "$text" >"$header.$$"
    mv "$header.$$" "$header"
    ;;
  --name=*) echo "${1#*=} (Acorn) $version, commit $commit" ;;
  *) echo "$version $commit" ;;
esac
