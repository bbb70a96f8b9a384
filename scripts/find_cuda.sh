#!/usr/bin/env bash
# Prints where a part of CUDA is: in the path or the loader's cache, in CUDA's folder, or where
# scripts/setup.sh cuda installs it; prints nothing if it is nowhere.
# Usage: scripts/find_cuda.sh nvcc|blas|dnn|dnn_headers|cupti|sanitizer
set -u
. "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/lib.sh"
offer_help "$@"
shopt -s nullglob
folders=(${CUDA_HOME:+"$CUDA_HOME"} ${CUDA_PATH:+"$CUDA_PATH"} /usr/local/cuda
  ${VIRTUAL_ENV:+"$VIRTUAL_ENV"/lib/python3*/site-packages/nvidia/*}
  "$root"/.venv/lib/python3*/site-packages/nvidia/*)

# library NAME
library() {
  local folder path
  for folder in "${folders[@]}"; do
    for path in "$folder"/{,extras/CUPTI/}lib{64,}/"$1"*; do
      echo "$path"
      return
    done
  done
  ldconfig -p 2>/dev/null | awk -v name="$1" 'index($1, name) == 1 {print $NF; exit}'
}

# program NAME
program() {
  local folder
  command -v "$1" && return
  for folder in "${folders[@]}"; do
    [ -x "$folder/bin/$1" ] && echo "$folder/bin/$1" && return
  done
}

case "${1:-}" in
  nvcc) program nvcc ;;
  sanitizer) program compute-sanitizer ;;
  cupti) library libcupti.so ;;
  blas) library libcublasLt.so.13 ;; # the plugin's, of CUDA 13
  dnn) library libcudnn.so ;;
  dnn_headers)
    for folder in "${folders[@]}"; do
      [ -e "$folder/include/cudnn.h" ] && echo "$folder/include" && exit
    done
    ;;
  *)
    echo "usage: scripts/find_cuda.sh nvcc|blas|dnn|dnn_headers|cupti|sanitizer" >&2
    exit 2
    ;;
esac
exit 0
