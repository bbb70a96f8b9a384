#!/usr/bin/env bash
# What is in a checkpoint: version, steps, size, names and shapes of its arrays, and the
# hyperparameters of its run. Every checksum is verified; a damaged file is an error that says what
# is damaged and where.
#
# Usage: scripts/checkpoint.sh RUN|FILE
#
#   RUN      a run folder: its newest whole checkpoint
#   FILE     a checkpoint file
# scripts/export.sh RUN --format=safetensors writes the parameters for other programs.
set -euo pipefail
. "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/lib.sh"
need_words "$@"
set_up
build all
hand_over "$root/build/checkpoint" "$@"
