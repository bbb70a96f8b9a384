#!/usr/bin/env bash
# The parameters of a running learner: written to a safetensors file, or set from one, all or some,
# between two updates. ADDRESS is HOST:PORT, unix:PATH or a run folder of this machine.
# Usage: scripts/parameters.sh get|set ADDRESS FILE [OPTIONS]; --help lists the options
set -euo pipefail
. "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/lib.sh"
set_up
build build/parameters
hand_over "$root/build/parameters" "$@"
