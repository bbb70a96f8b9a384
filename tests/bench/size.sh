#!/usr/bin/env bash
# How large the product is: lines of .c, .h, .cu, .sh and .py without the tests, and beside those of
# COMMIT; what the losses, the distributions and the noise of all devices take, but not the
# statistics of observations and values; the operations of a device, and the lines of device.h; how
# long functions are, of which nine of ten are at most p90.
# Usage: tests/bench/size.sh [COMMIT]
set -eu
. "$(dirname "$(readlink -f "$0")")/lib.sh"
commit=${1:-}

product() { grep -E '[.](c|h|cu|sh|py)$' | grep -v '^tests/'; }
lines_now() { git ls-files | product | tr '\n' '\0' | xargs -0 cat | wc -l; }
lines_then() {
  git ls-tree -r --name-only "$commit" | product | sed "s/^/$commit:/" | git cat-file --batch |
    awk '/^[0-9a-f]+ blob [0-9]+$/ {blobs++; next} {lines++} END {print lines - blobs}'
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

echo "product: $(lines_now) lines"
[ -z "$commit" ] || echo "product at $commit: $(lines_then) lines"
echo "losses, distributions, noise: $(git ls-files learner/rules learner/device |
  grep -E '[.]rule[.]h$|noise|divergence' | grep -vE '/(observation|value)[.]rule' |
  xargs cat | wc -l) lines"
echo "operations of a device: $(sed -n '/^struct device_ops {/,/^};/p' learner/device/device.h |
  grep -c '(\*')"
echo "learner/device/device.h: $(wc -l <learner/device/device.h) lines"
functions | sort -n | awk '{length_of[NR] = $1; name = $2}
  END {printf "functions: %d, p90 %d lines, longest %d (%s)\n", NR, length_of[int(NR * 0.9)],
       length_of[NR], name}'
