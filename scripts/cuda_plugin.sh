#!/usr/bin/env bash
# Builds libacorn_cuda.so anew, with nvcc and gcc alone, in an unpacked bundle (make bundle): for a
# GPU on which something fails. By default for the GPUs that are here.
# Usage: scripts/cuda_plugin.sh [ARCHITECTURE...], as in: scripts/cuda_plugin.sh 90
set -euo pipefail
. "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/lib.sh"
offer_help "$@"
cd "$root"
nvcc=$(scripts/find_cuda.sh nvcc)
[ -n "$nvcc" ] || { echo "cuda_plugin.sh: no nvcc: set CUDA_HOME to CUDA's folder" >&2; exit 2; }
if [ $# -eq 0 ] && ! compgen -G '/dev/nvidia[0-9]*' >/dev/null; then
  echo "cuda_plugin.sh: no GPU is here: name an architecture, as in: scripts/cuda_plugin.sh 90" >&2
  exit 2
fi
mkdir -p build
headers=$(scripts/find_cuda.sh dnn_headers)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
code=(-arch=native)
[ $# -eq 0 ] || code=()
for arch in "$@"; do code+=(-gencode "arch=compute_$arch,code=sm_$arch"); done
kernels=("$nvcc" -D_GNU_SOURCE -I. ${headers:+-isystem "$headers"} -std=c++17 -O3 "${code[@]}"
  -Xcompiler -fPIC,-fvisibility=hidden -c)
plain=(gcc -D_GNU_SOURCE -I. -std=gnu11 -O2 -fPIC -fvisibility=hidden -c)

# compile COMMAND...: of each file on stdin, as many at a time as there are cores.
compile() {
  xargs -I{} -P "$(nproc)" bash -c 'object=$1/${2//\//-}.o && shift && "${@:2}" -o "$object" "$1"' \
    - "$work" {} "$@"
}
printf '%s\n' learner/device/cuda/*.cu | compile "${kernels[@]}"
printf '%s\n' common/base/{decimal,status}.c learner/device/shapes.c | compile "${plain[@]}"
# pip has the runtime in lib, where its nvcc does not look.
"$nvcc" -shared -cudart static -L"$(dirname "$nvcc")/../lib" -Xlinker -z,defs \
  -o "$work/plugin.so" "$work"/*.o
mv "$work/plugin.so" build/libacorn_cuda.so
echo "build/libacorn_cuda.so is new"
