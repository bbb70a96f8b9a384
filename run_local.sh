#!/usr/bin/env bash
# A whole run on this machine: ./run_local.sh ENV [AGENT [NUM_ACTORS [ENVS_PER_ACTOR]]]
# [--flag=value ...]. Installs what is missing, builds, starts a learner and its actors.
# ./run_local.sh --help lists the options.
set -euo pipefail
. "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/scripts/lib.sh"
build_for_run "${1:-none}"
offer_plot
hand_over "$root/build/launch" "$@"
