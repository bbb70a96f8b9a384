#!/usr/bin/env bash
# How large the product is: lines of .c, .h, .cu, .sh and .py without the tests, and of those of
# launchers, beside those of COMMIT; what the losses, the distributions and the noise of all devices
# take, but not the statistics of observations and values, and what of that are sac and curiosity;
# the operations of a device, and the lines of device.h; how long functions are, of which nine of
# ten are at most p90.
# Usage: tests/bench/size.sh [COMMIT]
set -eu
. "$(dirname "$(readlink -f "$0")")/lib.sh"
commit=${1:-}

product='[.](c|h|cu|sh|py)$'
launch='^(run_local.sh|scripts/acorn.sbatch|deploy/launch/.*|deploy/[a-z_]*.sh)$'
chosen() { grep -v '^tests/' | grep -E "$1"; } # PATTERN
lines_now() { git ls-files | chosen "$1" | tr '\n' '\0' | xargs -0 cat | wc -l; }
lines_then() {
  git ls-tree -r --name-only "$commit" | chosen "$1" | sed "s/^/$commit:/" |
    git cat-file --batch |
    awk '/^[0-9a-f]+ blob [0-9]+$/ {blobs++; next} {lines++} END {print lines - blobs}'
}
count() { # WHAT PATTERN
  echo "$1: $(lines_now "$2") lines"
  [ -z "$commit" ] || echo "$1 at $commit: $(lines_then "$2") lines"
}

# Of every function, its lines and where it is: from its head to the brace that ends it. Tables,
# structs and macros are none.
functions() {
  git ls-files | grep -E '[.](c|h|cu)$' | grep -v '^tests/' | python3 -c '
import re, sys
function = re.compile(r"^[A-Za-z_][\w\s*,()<>&:\[\].]*\)\s*\{\n.*?^\}", re.MULTILINE | re.DOTALL)
for path in sys.stdin.read().split():
    text = open(path).read()
    for found in function.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        print(found[0].count("\n") + 1, f"{path}:{line}")'
}

count product "$product"
count "  of which launch programs" "$launch"
rules='^learner/(rules|device)/.*([.]rule[.]h$|noise|divergence)'
rules_now() { git ls-files | grep -E "$rules" | grep "$@" | xargs cat | wc -l; }
echo "losses, distributions, noise: $(rules_now -vE '/(observation|value)[.]rule') lines"
echo "  of which sac and curiosity: $(rules_now -E '/(sac|curiosity)[.]rule') lines"
echo "operations of a device: $(sed -n '/^struct device_ops {/,/^};/p' learner/device/device.h |
  grep -c '(\*')"
echo "learner/device/device.h: $(wc -l <learner/device/device.h) lines"
functions | sort -n | awk '{length_of[NR] = $1; name = $2}
  END {printf "functions: %d, p90 %d lines, longest %d (%s)\n", NR, length_of[int(NR * 0.9)],
       length_of[NR], name}'
