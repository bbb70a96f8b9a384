#!/usr/bin/env bash
# A whole run on this machine: ./run_local.sh ENV AGENT NUM_ACTORS [ENVS_PER_ACTOR] [--flag=value
# ...] Installs what is missing, builds, starts a learner and its actors. ./run_local.sh --help
# lists the options.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/scripts/lib.sh"
"$root/scripts/setup.sh"
build all
exec "$root/build/launch" "$@"
