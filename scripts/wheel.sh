#!/usr/bin/env bash
# Makes build/wheel/acorn_rl-*.whl: the bundle (scripts/bundle.sh) as a Python package, with the
# modules of deploy/python. hatchling, which builds it, comes from PyPI into an environment apart.
# Usage: scripts/wheel.sh; `make wheel` calls it. PYTHON names another python3 (3.9 or later)
set -euo pipefail
. "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/lib.sh"
offer_help "$@"
cd "$root"
venv=build/wheel/venv
# A sub-make of pip's would take this one's options for its own.
unset MAKEFLAGS MAKELEVEL MFLAGS
# Under the lock of builds, which the package's own make does not take: it finds nothing to do.
build bundle build/protocol.desc
"${PYTHON:-/usr/bin/python3}" -m venv "$venv"
rm -f build/wheel/*.whl
"$venv/bin/python" -m pip --disable-pip-version-check wheel -q --no-deps -w build/wheel \
  deploy/python
ls -s --block-size=M build/wheel/*.whl
