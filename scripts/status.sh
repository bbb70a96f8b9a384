#!/usr/bin/env bash
# What a running learner does: totals, then every actor. ADDRESS is HOST:PORT, unix:PATH, a run
# folder, a folder of them: the newest run that goes on; or a folder of deploy/fleet.sh
# (runs/fleet-HOST-PORT). Without it the newest run in runs/.
# Usage: scripts/status.sh [ADDRESS] [--watch[=SECONDS]] [--json]; --help lists the options
set -euo pipefail
. "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/lib.sh"
set_up
build build/status

# A folder of deploy/fleet.sh becomes the learner's address and the actors' credentials. It may be
# somebody else's: nothing in it is run.
fleet_words() {
  words+=("$(sed -n 's/^declare -- learner="\(.*\)"$/\1/p' "$1/fleet.conf")")
  [ ! -f "$1/credentials/token" ] || words+=(--token_file="$1/credentials/token"
    --tls_ca="$1/credentials/ca.crt" --tls_cert="$1/credentials/actor/tls.crt"
    --tls_key="$1/credentials/actor/tls.key")
}
words=()
for word in "$@"; do
  if [ -f "$word/fleet.conf" ]; then fleet_words "$word"; else words+=("$word"); fi
done
hand_over "$root/build/status" "${words[@]}"
