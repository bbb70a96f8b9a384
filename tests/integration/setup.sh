#!/usr/bin/env bash
# scripts/setup.sh on the systems that it knows and on another one, where nothing is installed; and
# whether a warning of the compiler found there fails the build.
. "$(dirname "$(readlink -f "$0")")/lib.sh"

# A machine where no package is there and none can be had.
mkdir bin
ln -s /usr/bin/* /usr/local/bin/* bin/ 2>/dev/null
rm -f bin/dpkg-query bin/apt-get bin/sudo bin/gnuplot
printf '#!/bin/sh\nexit 1\n' >bin/dpkg-query
printf '#!/bin/sh\necho no network; exit 100\n' >bin/apt-get
chmod +x bin/dpkg-query bin/apt-get

# setup SYSTEM GROUP...: as on that system (ID-VERSION); the exit code is in $code.
setup() {
  printf 'ID=%s\nVERSION_ID="%s"\n' "${1%-*}" "${1#*-}" >os-release
  shift
  code=0
  OS_RELEASE=$work/os-release PATH=$work/bin "$tree/scripts/setup.sh" "$@" >out 2>err </dev/null ||
    code=$?
}

# wants PACKAGE: the command by hand names it.
wants() { grep "apt-get install" err | tr ' ' '\n' | grep -qxF -- "$1"; }

builds() {
  setup "$1"
  is "$code" 1 && wants libdnnl-dev && wants libgrpc-dev && wants g++ && ! wants libcmocka-dev
}
tests() {
  setup "$1" test
  is "$code" 1 && wants libcmocka-dev && wants libdnnl-dev && ! wants ffmpeg
}
several() {
  setup "$1" plot watch
  is "$code" 1 && wants gnuplot-nox && wants ffmpeg
}
has_promtool_in() {
  setup "$1" all
  is "$code" 1 && wants "$2" && ! wants "$3" && wants libclang-rt-dev && wants python3-venv
}
for system in debian-12 debian-13 ubuntu-24.04; do
  pass_if "$system: what a run needs" builds $system
  pass_if "$system: what the tests need" tests $system
  pass_if "$system: several groups at once" several $system
done
pass_if "debian-12: promtool is a part of prometheus" has_promtool_in debian-12 prometheus promtool
pass_if "debian-13: it is a package" has_promtool_in debian-13 promtool prometheus

elsewhere() {
  setup fedora-42 plot
  is "$code" 1 && says "this machine lacks: gnuplot" && says "install what corresponds" &&
    says " gnuplot-nox" && ! says "apt-get"
}
pass_if "another system: what is missing, and what Debian calls it" elsewhere
nothing_lacks() {
  setup fedora-42
  is "$code" 0 && [ ! -s err ]
}
pass_if "another system where all is there" nothing_lacks
unknown() {
  setup debian-12 plot everything
  is "$code" 2 && says "'everything' is none of plot, "
}
pass_if "a group that there is not" unknown

# strict [NAME=VALUE]: whether a warning is an error.
strict() { make -C "$tree" -n -B build/obj/common/base/log.o "$@" | grep -q -- -Werror; }
unset WERROR
lenient() { ! strict; }
pass_if "a warning does not fail a user's build" lenient
pass_if "with WERROR=1 it does" strict WERROR=1
finish
