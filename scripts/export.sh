#!/usr/bin/env bash
# Writes the policy of a run's checkpoint as an ONNX file, which onnxruntime runs in any program:
# observation in, action out; or its parameters as a safetensors file (docs/export.md).
#
# Usage: scripts/export.sh RUN|FILE [--format=onnx|safetensors] [--checkpoint=latest]
#        [--output=FILE] [--env=PATH] [--env_args=JSON] [--no_code]
#
#   RUN         a run folder: its best checkpoint, or the newest while there is no best one
#   FILE        a checkpoint file in a run folder
#   --checkpoint=latest: the newest whole checkpoint of the run folder; best; or a file
#   --output    default: policy.onnx or policy.safetensors in the run folder
#   --env       where the environment is here, if the run's is a file that lies elsewhere: it is
#               asked for its observations and actions
#   --no_code   refuses a run whose environment is a plugin or has a Python module, which would be
#               run: for a run folder of somebody else's
set -euo pipefail
. "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/lib.sh"
need_run "$@"

take_run "$1"
env='' flags=()
[ -z "$checkpoint" ] || flags+=("--checkpoint=$checkpoint")
for word in "${@:2}"; do
  case "$word" in
    --help | -h) print_head && exit ;;
    --env=*) env=${word#*=} ;;&
    *) flags+=("$word") ;;
  esac
done
build_for_run "$env"
hand_over "$root/build/export" "$run" "${flags[@]}"
