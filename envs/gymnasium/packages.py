"""What this folder's other modules share: refusals, warnings, packages that may be missing, options.
The texts of all of them are parts of gymnasium.so, which loads them in the order of their imports;
the Python package acorn-rl loads them from their files."""

import difflib
import json
import os
import sys
import sysconfig

SETUP = "scripts/setup.sh gym installs what is needed; ACORN_PYTHON names another Python"
PACKAGES = {"gymnasium": "gymnasium", "ale_py": "ale-py"}
OLDEST = {"gymnasium": (1, 0), "ale_py": (0, 10)}
HOMES = {"ALE/": "ale_py", "MiniGrid-": "minigrid", "BabyAI-": "minigrid"}  # what registers IDs

IN_PACKAGE = False  # the Python package acorn-rl sets it


class Refusal(Exception):
    """What the user asked for cannot be had; the message says why and what to do."""


def in_tree(text):
    """That text, but in the Python package, where it does not hold: it has no --module, and its
    Gymnasium is one that pip installs."""
    return "" if IN_PACKAGE else text


TOLD = set()


def tell(text):
    """Once in a process, unless another one tells it."""
    if text not in TOLD and not os.environ.get("ACORN_QUIET"):
        print(f"warning: {text}", file=sys.stderr, flush=True)
    TOLD.add(text)


def pip():
    return os.path.join(sys.prefix, "bin", "pip")


def what_installs_module(name):
    """The command for the interpreter that runs: scripts/setup.sh installs for its own only."""
    chosen = os.environ.get("ACORN_PYTHON")
    package = PACKAGES.get(name)
    if IN_PACKAGE or (name in HOMES.values() and not package):
        return f"what installs it: {pip()} install {package or name}"
    if not chosen or not package:
        return SETUP
    package = f"'{package}>={'.'.join(map(str, OLDEST[name]))}'"
    mark = os.path.join(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED")
    if sys.prefix == sys.base_prefix and os.path.exists(mark):
        # The distribution's own: pip refuses to install there.
        return (
            f"{chosen} -m venv my_venv && my_venv/bin/pip install {package}, then "
            "ACORN_PYTHON=my_venv/bin/python; without ACORN_PYTHON .venv is used"
        )
    return f"{chosen} -m pip install {package}; without ACORN_PYTHON .venv is used"


def module(name, instructions=None):
    """The module of that name, if it is not older than needed."""
    instructions = instructions or what_installs_module(name)
    oldest = OLDEST.get(name, (0,))
    try:
        found = __import__(name)
    except ModuleNotFoundError as missing:
        if missing.name != name:
            raise
        version = ".".join(map(str, sys.version_info[:2]))
        raise Refusal(
            f"the module {name} is missing in Python {version} ({sys.prefix}): {instructions}"
        ) from None
    has = str(getattr(found, "__version__", "0"))
    number = tuple(int(part) for part in has.split(".")[:2] if part.isdigit())
    if number < oldest:
        wants = ".".join(map(str, oldest))
        raise Refusal(f"{name} {has} is too old, {wants} is needed: {instructions}")
    return found


def gymnasium():
    return module("gymnasium")


def options_of(text):
    return json.loads(text or "{}")


def nearest(word, words):
    """'; did you mean ...?', or nothing."""
    near = difflib.get_close_matches(word, words, 1, 0.4)
    return f"; did you mean '{near[0]}'?" if near else ""


def chosen(options, defaults, name):
    """The defaults with the user's values, checked against the defaults' names and types."""
    for key, value in options.items():
        if key not in defaults:
            raise Refusal(
                f"--env_args: {name} has no option '{key}'{nearest(key, defaults)}; it has: "
                f"{', '.join(defaults)}"
            )
        kind = type(defaults[key])
        fits = type(value) in ((int, float) if kind is float else (kind,))
        if not fits:
            words = {bool: "true or false", int: "a whole number", float: "a number", str: "a word"}
            raise Refusal(
                f"--env_args: {name}'s option '{key}' takes {words[kind]}, not {json.dumps(value)}"
            )
    return {**defaults, **options}
