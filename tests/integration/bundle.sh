#!/usr/bin/env bash
# The bundle: its programs load their libraries from it, and it trains where none are installed.
# SLOW_TESTS=1 builds the GPU plugin anew from it.
. "$(dirname "$(readlink -f "$0")")/lib.sh"
bundle=$tree/build/bundle/acorn
unset LD_LIBRARY_PATH

. "$tree/scripts/lib.sh" # fleet.sh, which makes it too, may run beside this test
made() { build bundle >out 2>err; }
pass_if "make bundle" made
out_of_date() { ! make -sq -C "$tree" -W "scripts/$1" bundle; } # once that is changed
pass_if "which copies acorn.sbatch anew once it is changed" out_of_date acorn.sbatch
# A small tree, and a tar that stops in the middle.
cut_short() {
  mkdir -p small/build broken
  cp -r "$tree"/{scripts,deploy,run_local.sh,LICENSE,VERSION} small
  cp "$tree/build/checkpoint" small/build
  printf '#!/bin/sh\necho half >"$4" && exit 1\n' >broken/tar && chmod +x broken/tar
  ! PATH=$work/broken:$PATH small/scripts/bundle.sh build/checkpoint >out 2>err &&
    [ -e small/build/bundle/acorn/README ] && [ ! -e small/build/bundle/acorn.tar.gz ]
}
pass_if "an archive that was cut short does not count as made" cut_short

# Each program that a script of its name starts has that script.
scripts_are_there() {
  local program
  for program in "$bundle"/build/*; do
    program=$(basename "$program")
    [ ! -e "$tree/scripts/$program.sh" ] || [ -e "$bundle/scripts/$program.sh" ] ||
      { echo "  $program" && return 1; }
  done
  "$bundle/scripts/serve.sh" nowhere >out 2>err || grep -q nowhere err
}
pass_if "the scripts of its programs are in it, and serve.sh starts there" scripts_are_there

# Every library but those of libc itself.
elsewhere() {
  find "$bundle/build" -type f ! -name '*.so' -exec ldd {} + |
    awk '$2 == "=>" {print $1, $3}' | sort -u |
    grep -vE '^lib(c|m|dl|pthread|rt|resolv)\.so|^linux-vdso' | grep -vF " $bundle/"
}
none_elsewhere() { [ -s "$bundle/lib/libgrpc.so.29" ] && ! elsewhere; }
pass_if "every library comes from the bundle" none_elsewhere

if [ -n "$("$tree/scripts/find_cuda.sh" nvcc)" ]; then
  carries() {
    [ -s "$bundle/build/libacorn_cuda.so" ] &&
      [ -z "$(find "$bundle" -name 'libcu*' -o -name 'libnv*')" ] &&
      [ "$(du -m "$bundle.tar.gz" | cut -f 1)" -le 60 ]
  }
  pass_if "with the GPU plugin it has at most 60 MiB, and none of CUDA's libraries" carries
  needs_none() { ! ldd "$bundle/build/libacorn_cuda.so" | grep -E 'libcu|libnv|not found'; }
  pass_if "the plugin is linked with none of them" needs_none
  checks() {
    ACORN_CUDA_PLUGIN=$tree/build/tests/libacorn_cuda_emulated.so \
      "$work/acorn/scripts/gpu_check.sh" test --quick >out 2>err </dev/null
    [ -s "$work/acorn/build/gpu_check/test.md" ] && grep -q '^Result: pass' out
  }
  build build/tests/libacorn_cuda_emulated.so && tar -C "$work" -xzf "$bundle.tar.gz"
  pass_if "its gpu_check.sh runs where it is unpacked" checks
else
  echo "SKIP the GPU plugin in the bundle: there is no nvcc here"
fi

mkdir unpacked
tar -C unpacked -xzf "$bundle.tar.gz"
train() { # in: the folder of the bundle, and what goes before the command
  "${@:2}" "$1/build/launch" cartpole vtrace 2 8 --total_steps=100k --listen=127.0.0.1:"$port" \
    --logdir=/tmp/run >out 2>err </dev/null
}

# ---- a root with libc alone

make_root() {
  local path
  mkdir -p root/proc root/tmp root/dev root/opt
  : >root/dev/null
  for path in $(ldd "$bundle"/build/learner | grep -oE '/\S*/(ld-linux|lib[cm]\.)\S*'); do
    mkdir -p "root${path%/*}"
    cp -L "$path" "root$path"
  done
  cp -r unpacked/acorn root/opt
}
make_root
user=()
[ "$(id -u)" = 0 ] || user=(--user --map-root-user)
# In namespaces of its own: nothing of it is left afterwards.
inside() {
  unshare "${user[@]}" --mount --pid --fork --kill-child bash -c '
    mount -t proc proc root/proc && mount --bind /dev root/dev && exec chroot root "$@"' - "$@"
}
if ! unshare "${user[@]}" --mount --pid --fork mount -t proc proc root/proc >out 2>err; then
  echo "SKIP the bundle in an empty root: $(tail -n 1 err)"
  finish
fi
port=$(free_port)
train /opt/acorn inside
trained() { grep -q '^result env=cartpole .*reason=total_steps' out; }
pass_if "it trains in a root that holds libc alone" trained

# ---- the first try of a GPU, beside what its scripts call and Python

tools=(bash env sed grep awk tar gzip find xargs ldd uname mktemp mkdir rm cp cat cut date
  dirname basename head nproc readlink realpath sleep sort tail tee timeout touch tr)
# add_tool NAME PATH: the program, where it is here, with the libraries that it loads.
add_tool() {
  local path
  [ "$2" = "/usr/bin/$1" ] || ln -s "$2" "root/usr/bin/$1"
  for path in "$2" $(ldd "$2" 2>/dev/null | grep -oE '/\S+'); do
    [ -e "root$path" ] || { mkdir -p "root${path%/*}" && cp -L "$path" "root$path"; }
  done
}
add_tools() {
  local name stdlib
  mkdir -p root/usr/bin
  ln -s usr/bin root/bin && ln -s bash root/usr/bin/sh
  for name in "${tools[@]}"; do
    add_tool "$name" "$(readlink -f "$(command -v "$name")")" || return 1
  done
  add_tool python3 "$(readlink -f "$(python3 -c 'import sys; print(sys.executable)')")"
  stdlib=$(python3 -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')
  tar -C / --exclude='*-packages' --exclude=test -cf - "${stdlib#/}" | tar -C root -xf -
}
# Of the plugin that is emulated, libstdc++ is the bundle's.
smokes() {
  build build/tests/libacorn_cuda_emulated.so && add_tools &&
    cp "$tree/build/tests/libacorn_cuda_emulated.so" root/opt || return 1
  inside /usr/bin/env PATH=/usr/bin OUT=/tmp/logs \
    ACORN_CUDA_PLUGIN=/opt/libacorn_cuda_emulated.so /opt/acorn/scripts/gpu_check.sh smoke --quick \
    >out 2>err </dev/null &&
    grep -q '^Result: pass' root/tmp/logs/smoke.md &&
    tar -xOf root/tmp/logs/smoke.tar.gz ./environment | grep -q '^Python 3'
}
if [ -e root/opt/acorn/scripts/gpu_check.sh ]; then
  pass_if "gpu_check.sh smoke passes in a root with libstdc++, a shell and Python" smokes
fi

rm -r root/opt/acorn/lib
broken() { ! inside /opt/acorn/build/actor --help >out 2>err && grep -q 'shared libraries' err; }
pass_if "which it does not without its libraries" broken

# ---- the GPU plugin, built anew by nvcc and gcc

[ -e unpacked/acorn/build/libacorn_cuda.so ] && [ -n "${SLOW_TESTS:-}" ] || finish
export ACORN_CUDA_PLUGIN=$work/unpacked/acorn/build/libacorn_cuda.so
rm "$ACORN_CUDA_PLUGIN"
# Where no header of the packages that the programs need is to be seen.
alone() {
  unshare "${user[@]}" --mount bash -c '
    for folder in /usr/include/{grpc,protobuf-c,google,absl,uv}; do
      mount -t tmpfs none "$folder" || exit
    done
    exec "$@"' - "$@"
}
rebuilds() {
  alone unpacked/acorn/scripts/cuda_plugin.sh 90 >out 2>err || return 1
  unpacked/acorn/build/tests/bench/bench_device train 0 --env=cartpole --device=cuda >out 2>&1 ||
    grep -q 'no NVIDIA driver' out
}
pass_if "the GPU plugin can be built anew from it by nvcc and gcc, and is loaded" rebuilds
finish
