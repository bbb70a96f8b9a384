#!/usr/bin/env bash
# What a running learner does: totals, then every actor. ADDRESS is HOST:PORT, unix:PATH or a run
# folder, or a folder of them: the newest run that goes on; without it that of runs/.
# Usage: scripts/status.sh [ADDRESS] [--watch[=SECONDS]] [--json]; --help lists the options
set -euo pipefail
. "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/lib.sh"
"$root/scripts/setup.sh"
build build/status
hand_over "$root/build/status" "$@"
