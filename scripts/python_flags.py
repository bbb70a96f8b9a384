#!/usr/bin/env python3
"""Prints the compiler's flags for embedding the interpreter that runs this file: `make gymnasium
PYTHON=...` uses them for one that is not the system's (conda, pyenv, uv), which has no or another
python3-config.

Usage: PYTHON scripts/python_flags.py include|link
"""

import os
import sys
import sysconfig

OLDEST = (3, 10)


def refuse(reason):
    sys.exit(f"python_flags: {sys.executable}: {reason}")


def include():
    """The place that the interpreter names, or the usual one where its tree has been moved."""
    name = f"python{sysconfig.get_config_var('LDVERSION')}"
    places = [sysconfig.get_path("include"), os.path.join(sys.base_prefix, "include", name)]
    for place in places:
        if os.path.exists(os.path.join(place, "Python.h")):
            return f"-isystem {place}"
    refuse(
        f"there is no Python.h in {places[0]}: install its headers (Debian: python3-dev; conda and "
        "pyenv have them)"
    )


def link():
    name = f"python{sysconfig.get_config_var('LDVERSION')}"
    folders = [
        os.path.join(sys.base_prefix, "lib"),
        os.path.join(sys.base_prefix, "lib", sysconfig.get_config_var("MULTIARCH") or ""),
        sysconfig.get_config_var("LIBDIR"),
    ]
    for folder in folders:
        if folder and os.path.exists(os.path.join(folder, f"lib{name}.so")):
            folder = os.path.realpath(folder)
            return f"-L{folder} -l{name} -Wl,-rpath,{folder}"
    refuse(
        f"there is no lib{name}.so in {folders[0]}: an interpreter that is embedded needs its shared "
        "library (pyenv: PYTHON_CONFIGURE_OPTS=--enable-shared pyenv install ...)"
    )


if sys.argv[1:] not in (["include"], ["link"]):
    sys.exit(__doc__)
if sys.version_info < OLDEST:
    refuse(f"Python {'.'.join(map(str, OLDEST))} or later is needed")
print(include() if sys.argv[1] == "include" else link())
