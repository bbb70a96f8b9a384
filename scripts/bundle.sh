#!/usr/bin/env bash
# Makes build/bundle/acorn: the programs and the shared libraries that they need, for machines that
# do not have this system's; the GPU plugin too, where it is built, but none of CUDA's libraries;
# and build/bundle/acorn.tar.gz of it. The programs find the libraries beside themselves, by a path
# relative to their own ($ORIGIN/../lib); libc is the machine's own.
# Usage: scripts/bundle.sh PROGRAM...; `make bundle` calls it.
set -euo pipefail
. "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/lib.sh"
offer_help "$@"
[ $# -gt 0 ] || { echo "bundle.sh: name the programs, as make bundle does" >&2; exit 2; }
cd "$root"
bundle=build/bundle/acorn
# What belongs to libc comes with the machine's loader; mixing versions would end badly.
libc='^(ld-linux.*|lib(c|m|dl|pthread|rt|resolv|util|anl|mvec)\.so\..*|linux-vdso.*)$'

# CUDA's libraries are large, and their terms are NVIDIA's: the plugin looks them up on the machine.
cuda='^lib(cu|nv|nccl).*\.so.*$'

# Prints the paths of the libraries that a program loads, libc's and CUDA's left out.
libraries() {
  ldd "$@" | awk '$2 == "=>" && $3 ~ /^\// {print $1, $3}' | sort -u | while read -r name path; do
    if [[ ! $name =~ $libc && ! $name =~ $cuda ]]; then echo "$path"; fi
  done
}

# Prints the newest version of libc that any of these files asks for.
needed_libc() {
  local file
  for file in "$@"; do objdump -T "$file"; done | grep -o 'GLIBC_2\.[0-9]*' | sort -uV | tail -n 1
}

# Copies what the packages of these libraries say of their authors and terms.
copy_terms() {
  local path package
  for path in "$@"; do
    package=$(dpkg -S "$(realpath "$path")" 2>/dev/null | head -n 1 | cut -d : -f 1) || true
    [ -e "/usr/share/doc/$package/copyright" ] || continue
    cp "/usr/share/doc/$package/copyright" "$bundle/lib/terms/$package"
  done
}

# What scripts/gpu_check.sh and scripts/cuda_plugin.sh need besides the programs.
copy_check() {
  cp scripts/{gpu_check,find_cuda,run_units,cuda_plugin}.sh "$bundle/scripts"
  cp --parents learner/device/cuda/* learner/device/*.h learner/rules/*.{h,inc} common/base/*.h \
    common/base/{decimal,status}.c learner/device/shapes.c "$bundle"
  cp --parents tests/bench/{lib.sh,bench_torch_gpu.py} tests/golden/*/*.txt "$bundle"
  scripts/version.sh | cut -d ' ' -f 2 >"$bundle/COMMIT"
}

rm -rf "$bundle"
mkdir -p "$bundle/build" "$bundle/lib/terms" "$bundle/deploy" "$bundle/scripts"
(cd build && cp --parents "${@#build/}" ../"$bundle/build")
mapfile -t paths < <(libraries "$@")
cp -L "${paths[@]}" "$bundle/lib"
mapfile -t files < <(find "$bundle/build" "$bundle/lib" -type f)
strip "${files[@]}"
copy_terms "${paths[@]}"
cp deploy/*.sh "$bundle/deploy"
cp scripts/{lib,version,checkpoint,eval,export,parameters,plot,serve,status,watch}.sh \
  scripts/{sweep,track}.py \
  scripts/acorn.sbatch "$bundle/scripts"
scripts/version.sh >"$bundle/VERSION"
if [ -e "$bundle/build/tests" ]; then copy_check; fi
cp run_local.sh LICENSE "$bundle"
needs=$(needed_libc "${files[@]}")
echo "needs ${needs/_/ } or newer, x86-64-v2; the libraries in lib/ come from $(
  . /etc/os-release
  echo "$PRETTY_NAME"
)" >"$bundle/README"
cat >>"$bundle/README" <<'TEXT'
run_local.sh, deploy/run_task.sh, deploy/fleet.sh and the scripts in scripts/ work from here;
plot.sh needs gnuplot, watch.sh ffmpeg, sweep.py and track.py Python. Environments in Python
(gym:NAME, atari) need a bridge to this machine's Python, which is made in the source tree.

build/libacorn_cuda.so, if it is there, is for --device=cuda. It needs NVIDIA's driver, and is
slower without cuBLAS in LD_LIBRARY_PATH, in CUDA_HOME or /usr/local/cuda, or in pip's folders
(nvidia-cublas).
scripts/gpu_check.sh, if it is there, tests and measures it on this machine's GPU, and
scripts/cuda_plugin.sh builds it anew from the sources in learner/, with nvcc and gcc.
TEXT
# An archive that is cut short would count as made.
tar -C build/bundle -czf build/bundle/acorn.tar.gz.new acorn
mv build/bundle/acorn.tar.gz.new build/bundle/acorn.tar.gz
echo "$bundle: $(du -sh "$bundle" | cut -f 1), ${#paths[@]} libraries;" \
  "$(head -n 1 "$bundle/README")"
