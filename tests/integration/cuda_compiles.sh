#!/usr/bin/env bash
# The CUDA device's kernels, compiled for every architecture that it supports without a warning:
# registers fit, and nothing lies in local memory but what is listed here. Needs nvcc, no GPU. The
# sources become PTX once, and that becomes code for each architecture.
. "$(dirname "$(readlink -f "$0")")/lib.sh"

architectures=(80 86 89 90 100 120)
registers=65536 # of a multiprocessor
threads=256     # of a block, where a kernel has no launch bounds

# Kernels that have local memory: the most bytes of a thread, and why.
cat >listed <<'END'
sum_gradient<2,4,true>   152 its sums fill what 18 warps have of registers; fewer warps hide less
sum_gradient<2,4,false>  64  likewise
sum_gradient<1,4,true>   96  likewise
sum_gradient<1,4,false>  8   likewise
sum_gradient<2,2,true>   64  likewise
sum_gradient<1,2,true>   8   likewise
convolve<2,1,false>      8   24 warps on a multiprocessor have 80 registers each
forward_steps            16  all blocks of a pass must be on the GPU together
backward_steps           16  likewise
factor_noise             40  the argument reduction of cosf
END

nvcc=$("$tree/scripts/find_cuda.sh" nvcc)
if [ -z "$nvcc" ]; then
  echo "SKIP the kernels compile for all architectures: no nvcc (scripts/setup.sh cuda)"
  finish
fi
ptxas=$(dirname "$nvcc")/ptxas
headers=$("$tree/scripts/find_cuda.sh" dnn_headers)

to_ptx() { # SOURCE
  "$nvcc" -I"$tree" ${headers:+-isystem "$headers"} -std=c++17 -O3 -arch=compute_80 --ptx \
    -Xcompiler -Wall,-Wextra,-Wshadow,-Werror -Werror all-warnings -o "$(basename "$1").ptx" "$1"
}
to_code() { # PTX ARCH
  "$ptxas" --warning-as-error -v -arch="sm_$2" -o /dev/null "$1" >"$1.$2" 2>&1
}
export -f to_ptx to_code
export nvcc ptxas headers tree
# compile SOURCE...: what ptxas says of each for each architecture, in FILE.ptx.ARCH.
compile() {
  local code=0
  rm -f ./*.ptx ./*.ptx.*
  printf '%s\0' "$@" | xargs -0 -n 1 -P "$(nproc)" bash -c 'to_ptx "$1" || exit 1' - || code=1
  printf '%s\n' *.ptx | xargs -I{} printf '{} %s\n' "${architectures[@]}" |
    xargs -n 2 -P "$(nproc)" bash -c 'to_code "$@" || exit 1' - || code=1
  return $code
}

# Lines ARCH KERNEL LOCAL_BYTES REGISTERS THREADS of all that was compiled.
kernels() {
  local file kernel='([A-Za-z_0-9]+(<[^(]*>)?)' # without its arguments
  for file in *.ptx.*; do
    awk -v arch="${file##*.}" -v most="$threads" '
      FNR == NR {
        if (match($0, /\.entry [A-Za-z0-9_]+/)) name = substr($0, RSTART + 7, RLENGTH - 7)
        if ($1 == ".maxntid") bound[name] = $2 + 0
        next
      }
      /Function properties for/ {name = $NF}
      /bytes stack frame/ {bytes = $1}
      match($0, /Used [0-9]+ registers/) {
        split(substr($0, RSTART), word, " ")
        print arch, name, bytes, word[2], name in bound ? bound[name] : most
      }' "${file%.*}" "$file"
  done | c++filt | sed -E "s/ (void )?$kernel"'\(.*\) ([0-9]+ [0-9]+ [0-9]+)$/ \2 \4/; s/, /,/g'
}

# judge LIST: what is wrong, a line each. Registers are given to a warp, 8 of each thread at a time.
judge() {
  awk -v registers="$registers" '
    FNR == NR {most[$1] = $2; next}
    {
      name = "sm_" $1 ", " $2 ": "
      listed = $2 in most ? most[$2] : 0
      if ($3 > listed) print name $3 " bytes of local memory, listed are " listed
      if ($3 > 0) seen[$2] = 1
      warps = int(($5 + 31) / 32)
      if (int(($4 + 7) / 8) * 8 * 32 * warps > registers)
        print name $4 " registers of " $5 " threads, more than there are"
    }
    END {for (kernel in most) if (!(kernel in seen)) print kernel ": listed, but has none"}' \
    "$1" <(kernels)
}

compiles() { compile "$tree"/learner/device/cuda/*.cu 2>err; }
pass_if "the kernels compile for ${architectures[*]} without a warning" compiles
number=$(kernels | awk '{print $2}' | sort -u | wc -l)
fits() {
  judge listed >out
  [ "$number" -gt 100 ] && [ ! -s out ]
}
pass_if "of $number kernels none has local memory that is not listed, and registers fit" fits

# A kernel that keeps an array by a number of run time, and one that is listed and has nothing.
cat >plant.cu <<'END'
__global__ void planted(float *y, int n) {
  float kept[40];
  for (int i = 0; i < 40; i++) kept[i] = y[i];
  for (int i = 0; i < n; i++) kept[i * n % 40] += (float)i;
  for (int i = 0; i < 40; i++) y[i] = kept[i];
}
END
echo "idle 8 nothing" >planted_list
finds() {
  compile plant.cu && judge planted_list >out
  [ "$(grep -c 'planted: 160 bytes of local memory, listed are 0' out)" = 6 ] &&
    grep -q '^idle: listed, but has none$' out
}
pass_if "local memory that is not listed is found, and a line that is not needed" finds
finish
