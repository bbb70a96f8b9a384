#!/usr/bin/env bash
# Installs what is missing to build and run (no word), to draw learning curves (`plot`), to record
# play (`watch`), for environments in Python (`gym`, `atari`), for actors in Python (`python`), for
# learners that meet by MPI (`mpi`), to build and run the GPU plugin on a machine that has NVIDIA's
# driver (`cuda`), to test (`test`), for the tests that compare with other programs or need them
# (`compare`: without them they are skipped), to fuzz (`fuzz`), or to check everything as CI does
# (`all`). Silent when all is there.
# Packages of Debian 12, Debian 13 and Ubuntu 24.04 (not tested), and Python's in .venv; on other
# systems it prints what is needed.
# Usage: scripts/setup.sh [plot|watch|gym|atari|python|mpi|cuda|test|compare|fuzz|all ...]
set -euo pipefail
. "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/lib.sh"
offer_help "$@"

# ---- systems

# "debian 12" and the like. OS_RELEASE names another file, for tests.
system=$(
  . "${OS_RELEASE:-/etc/os-release}" 2>/dev/null && echo "${ID:-} ${VERSION_ID:-}"
) || system=
case "$system" in
  "debian 12" | "debian 13" | "ubuntu 24.04") is_known=1 ;;
  *) is_known= ;;
esac

# ---- what the groups need

packages=() # by Debian 12's names, see name_here
headers=()  # that the compiler has to find, where packages are not known
programs=() # that have to be there, likewise
venv=()     # groups of setup_python.sh

# Python's own packages, in .venv.
add_venv() {
  packages+=(python3-dev python3-venv)
  programs+=(/usr/bin/python3-config)
  venv+=("$@")
}

# add GROUP
add() {
  local group
  case "$1" in
    run)
      packages+=(gcc g++ libc6-dev make libgrpc-dev libabsl-dev libprotobuf-c-dev
        protobuf-c-compiler libuv1-dev libjansson-dev libmicrohttpd-dev libdnnl-dev libssl-dev)
      headers+=(grpc/grpc.h absl/synchronization/mutex.h protobuf-c/protobuf-c.h uv.h jansson.h
        microhttpd.h oneapi/dnnl/dnnl.h openssl/hmac.h)
      programs+=(gcc g++ make protoc-c)
      ;;
    plot)
      packages+=(gnuplot-nox)
      programs+=(gnuplot)
      ;;
    watch)
      packages+=(ffmpeg)
      programs+=(ffmpeg)
      ;;
    gym | atari) add_venv gym ;;
    cuda)
      # A toolkit that is there already will do.
      [ "$("$root/scripts/find_cuda.sh" nvcc)" ] && [ "$("$root/scripts/find_cuda.sh" blas)" ] ||
        add_venv cuda
      ;;
    python)
      packages+=(python3 python3-grpcio python3-protobuf protobuf-compiler-grpc)
      programs+=(protoc grpc_python_plugin)
      ;;
    mpi)
      packages+=(mpich libmpich-dev)
      programs+=(mpicc mpiexec)
      ;;
    test)
      packages+=(libcmocka-dev python3)
      headers+=(cmocka.h)
      programs+=(python3)
      ;;
    compare)
      # Readers of what the learner writes, numpy and TensorBoard among them; a locale.
      for group in plot watch gym python mpi; do add $group; done
      packages+=(python3-numpy locales)
      # promtool, where it comes without a server.
      [ "$system" != "debian 13" ] || packages+=(prometheus)
      add_venv tensorboard cv2 notebooks kubernetes onnx triton
      ;;
    fuzz)
      packages+=(clang libclang-rt-dev)
      programs+=(clang)
      ;;
    all)
      for group in test compare fuzz; do add $group; done
      add_venv trackers
      # clang-format checks the format where it is version 14. promtool is in prometheus.
      packages+=(git clang-format prometheus)
      programs+=(git clang-format promtool)
      ;;
    *)
      echo "setup: '$1' is none of plot, watch, gym, atari, python, mpi, cuda, test, compare," \
        "fuzz, all" >&2
      exit 2
      ;;
  esac
}

add run
for group in "$@"; do add "$group"; done

# name_here PACKAGE: what Debian 12's package is called here.
name_here() {
  case "$system $1" in
    "debian 13 prometheus") echo promtool ;; # was a part of it
    *) echo "$1" ;;
  esac
}

# Prints the packages that are not installed.
missing_packages() {
  local installed package
  installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "$@" 2>/dev/null |
    sed -n 's/^installed //p') || true
  for package in "$@"; do
    grep -qxF -e "$package" <<<"$installed" || echo "$package"
  done
}

# Prints the programs and headers that the compiler does not find.
missing_parts() {
  local part
  for part in "${programs[@]}"; do
    command -v "$part" >/dev/null || echo "$part"
  done
  command -v g++ >/dev/null || return 0
  for part in "${headers[@]}"; do
    echo "#include <$part>" | g++ -E -x c++ - >/dev/null 2>&1 || echo "$part"
  done
}

say() {
  echo "setup: $*" >&2
}

# The packages are there. Without those of Python a test is skipped; where a group was asked for by
# itself, it fails.
finish() {
  local group
  for group in ${venv[@]+"${venv[@]}"}; do
    "$root/scripts/setup_python.sh" "$group" && continue
    case " $asked " in *" all "* | *" compare "*) ;; *) exit 1 ;; esac
  done
  exit 0
}

# ---- what is missing here

asked=$*
if [ -z "$is_known" ]; then
  parts=$(missing_parts | tr '\n' ' ')
  [ -z "$parts" ] && finish
  say "this machine lacks: $parts"
  say "packages are installed by this script on Debian 12, Debian 13 and Ubuntu 24.04 only;" \
    "install what corresponds to these:"
  say "  ${packages[*]}"
  exit 1
fi

mapfile -t names < <(for package in "${packages[@]}"; do name_here "$package"; done | sort -u)
mapfile -t missing < <(missing_packages "${names[@]}")
[ ${#missing[@]} -eq 0 ] && finish
by_hand="apt-get update && apt-get install -y --no-install-recommends ${missing[*]}"

as_root=()
if [ "$(id -u)" != 0 ]; then
  if ! command -v sudo >/dev/null || ! { [ -t 0 ] || sudo -n true 2>/dev/null; }; then
    say "these packages are missing: ${missing[*]}"
    say "installing them needs root, and sudo is not at hand; have somebody run:"
    say "  $by_hand"
    exit 1
  fi
  as_root=(sudo)
fi

[ "$system" != "ubuntu 24.04" ] ||
  say "Ubuntu 24.04 is not tested; its packages were chosen by their names and versions"
say "installing ${missing[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get -o DPkg::Lock::Timeout=300 "$@" >>"$log" 2>&1 </dev/null
}
# The package lists may be absent or old: they are fetched only if the installation fails without.
install=(install -y --no-install-recommends "${missing[@]}")
if ! apt "${install[@]}" && ! { apt update && apt "${install[@]}"; }; then
  tail -n 15 "$log" >&2
  say "the installation failed (above); is there a network? By hand it is, as root:"
  say "  $by_hand"
  exit 1
fi
finish
