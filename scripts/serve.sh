#!/usr/bin/env bash
# Answers inference requests for the policies of run folders, over HTTP and gRPC, until Ctrl-C
# or SIGTERM.
# docs/serving.md describes it.
#
# Usage: scripts/serve.sh [NAME=]RUN ... [--port=8501] [--grpc_port=8500] [--address=127.0.0.1]
#        [--token_file=FILE] [--policy=latest:1] [--checkpoint=best] [--env=PATH]
#        [--env_args=JSON] [--no_code] [--flag=value ...]
#        scripts/serve.sh --models=FILE [--flag=value ...]
#
#   RUN       a run folder, which may be of a run that is going on: each new best checkpoint becomes
#             a version; or a folder with a run folder for each version, by its number
#   NAME      of the model; default: the folder's own
#   --models  a JSON file that names the models, with their versions and labels
#   --env     where the environment is here, if the run's is a file that lies elsewhere: it is asked
#             for its observations and actions
#   --no_code refuses a run whose environment is a plugin or has a Python module, which would be
#             run: for a run folder of somebody else's
# build/serve --help lists all flags.
set -euo pipefail
. "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/lib.sh"
need_words "$@"

env='' folders=()
for word in "$@"; do
  case "$word" in
    --help | -h) print_head && exit ;;
    --env=*) env=${word#*=} ;;
    --models=*)
      mapfile -t folders < <(grep -o '"path" *: *"[^"]*"' "${word#*=}" | sed 's/"$//; s/.*"//')
      ;;
    -*) ;;
    *) # a path may have "=" in it, as those of sweep.py have
      [[ ${word%%=*} == */* || -d $word ]] || word=${word#*=}
      folders+=("$word")
      ;;
  esac
done
set_up
build all
# Environments in Python need the bridge to it.
for folder in "${folders[@]}"; do
  for config in "$folder"/config.txt "$folder"/[0-9]*/config.txt; do
    run=$(dirname "$config")
    if [ -f "$config" ]; then build_for_run "$env"; fi
  done
done
hand_over "$root/build/serve" "$@"
