#!/usr/bin/env bash
# What was found on this machine: processor, system, compiler, libraries.
# Usage: scripts/info.sh
set -u
. "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/lib.sh"
offer_help "$@"

row() {
  printf '  %s %-22s %s\n' "$1" "$2" "$3"
}

# program NAME WHAT FOR
program() {
  local version
  if version=$("$1" --version 2>/dev/null | head -n 1) && [ -n "$version" ]; then
    row "✓" "$1" "$version"
  else
    row "✗" "$1" "missing: $2"
  fi
}

# package NAME WHAT FOR
package() {
  local version
  version=$(dpkg-query -W -f '${db:Status-Status} ${Version}\n' "$1" 2>/dev/null |
    sed -n 's/^installed //p' | head -n 1)
  if [ -n "$version" ]; then row "✓" "$1" "$version"; else row "✗" "$1" "missing: $2"; fi
}

echo "machine"
row " " processor "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $(nproc) cores"
row " " memory "$(awk '/^MemTotal/ {printf "%.1f GiB", $2 / 1048576}' /proc/meminfo)"
flags=" $(sed -n 's/^flags[^:]*: //p' /proc/cpuinfo | head -n 1) "
for flag in avx2 avx512f; do
  case "$flags" in
    *" $flag "*) row "✓" "$flag" "" ;;
    *) row "✗" "$flag" "slower kernels are used" ;;
  esac
done
row " " system "$(sed -n 's/^PRETTY_NAME="\(.*\)"/\1/p' /etc/os-release), $(uname -sr)"
echo "to build and run (scripts/setup.sh)"
program gcc "scripts/setup.sh installs it"
program g++ "scripts/setup.sh installs it"
program make "scripts/setup.sh installs it"
program protoc-c "scripts/setup.sh installs it"
for name in libgrpc-dev libabsl-dev libprotobuf-c-dev libuv1-dev libjansson-dev \
  libmicrohttpd-dev libdnnl-dev libssl-dev; do
  package $name "scripts/setup.sh installs it"
done
echo "to draw learning curves (scripts/setup.sh plot)"
program gnuplot "scripts/setup.sh plot installs it"
echo "to record play (scripts/setup.sh watch)"
package ffmpeg "scripts/setup.sh watch installs it"
echo "to compute on a GPU (scripts/setup.sh cuda)"
nvcc=$("$root/scripts/find_cuda.sh" nvcc)
if [ -n "$nvcc" ]; then
  row "✓" nvcc "$("$nvcc" --version | sed -n 's/.*release \([^,]*\),.*/\1/p'), $nvcc"
else
  row "✗" nvcc "missing: without it no plugin is built; scripts/setup.sh cuda installs it"
fi
blas=$("$root/scripts/find_cuda.sh" blas)
if [ -n "$blas" ]; then
  row "✓" cuBLAS "$blas"
else
  row "✗" cuBLAS "none of CUDA 13: large products are slower"
fi
dnn=$("$root/scripts/find_cuda.sh" dnn)
if [ -n "$dnn" ]; then row "✓" cuDNN "$dnn"; else row "✗" cuDNN "convolutions do without"; fi
gpus=$(nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null)
if [ -n "$gpus" ]; then
  while read -r gpu; do row "✓" GPU "$gpu"; done <<<"$gpus"
else
  row "✗" GPU "none, or no driver of NVIDIA's (nvidia-smi)"
fi
if [ -e "$root/build/libacorn_cuda.so" ]; then
  row "✓" plugin build/libacorn_cuda.so
else
  row "✗" plugin "not built: make"
fi
echo "to test (scripts/setup.sh test)"
package libcmocka-dev "scripts/setup.sh test installs it"
echo "to fuzz (scripts/setup.sh fuzz)"
program clang "scripts/setup.sh fuzz installs it"
package libclang-rt-dev "scripts/setup.sh fuzz installs it"
echo "to check everything (scripts/setup.sh all)"
program git "scripts/setup.sh all installs it"
program clang-format "the format check needs it, version 14"
package python3-numpy "the test of exported parameters needs it"
