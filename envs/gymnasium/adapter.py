"""What the bridge asks of Python: it finds packages, makes environments and says what they look
like. Stepping them is the business of game.c and atari.c."""

import difflib
import importlib
import inspect
import json
import math
import os
import re
import sys
import traceback
import types
import warnings

import acorn_simulators
from acorn_atari import Atari, flat
from acorn_packages import (
    HOMES, PACKAGES, SETUP, Refusal, gymnasium, in_tree, module, nearest, options_of, pip, tell,
)  # fmt: skip
from acorn_spaces import describe, find_mask

__all__ = ["Atari", "find_mask", "tell"]  # for the bridge

# Mistakes in a program. Others may be of the moment: a server that is not up, a file that is gone.
MISTAKES = (
    TypeError, AttributeError, NameError, ImportError, LookupError, ValueError, ArithmeticError,
    AssertionError, NotImplementedError,
)  # fmt: skip


def explain(exception):
    """One line for the log; where a stranger's code failed, its traceback goes before it."""
    if isinstance(exception, Refusal):
        return str(exception)
    if not exception.__traceback__:  # the bridge's own
        return " ".join(traceback.format_exception_only(exception)[-1].split())
    sys.stderr.write("".join(traceback.format_exception(exception)))
    sys.stderr.flush()
    last = traceback.format_exception_only(exception)[-1].strip()
    return f"{' '.join(last.split())} (the traceback is above, or in the log)"


# ---- environments of Gymnasium


def import_own(path):
    """Imports the file of --module, once. From its text: a run folder gets no __pycache__."""
    name = os.path.splitext(os.path.basename(path))[0]
    loaded = sys.modules.get(name)
    if getattr(loaded, "__file__", None) == path:
        return
    if loaded or name in sys.stdlib_module_names:
        raise Refusal(f"--module: Python has a module '{name}' already: rename {path}")
    own = sys.modules[name] = types.ModuleType(name)
    own.__file__ = path
    try:
        with open(path, "rb") as file:
            exec(compile(file.read(), path, "exec"), own.__dict__)
    except BaseException as error:
        del sys.modules[name]
        refuse_missing(path, error)
        raise


def refuse_missing(path, error):
    """What the file itself imports and is nowhere. A script would find it beside it."""
    if not isinstance(error, ModuleNotFoundError) or not error.name:
        return
    files = [frame.f_code.co_filename for frame, _ in traceback.walk_tb(error.__traceback__)]
    if [file for file in files if not file.startswith("<frozen ")][-1] != path:
        return
    folder, lacks = os.path.dirname(path), error.name.partition(".")[0]
    beside = os.path.join(folder, lacks)
    if os.path.exists(f"{beside}.py") or os.path.isdir(beside):
        raise Refusal(
            f"--module: {path} imports '{lacks}', which lies beside it and is not copied into the "
            f"run: export PYTHONPATH={folder}"
        ) from None
    if lacks == "gym":
        raise Refusal(
            f"--module: {path} imports gym, which Gymnasium has replaced: write `import gymnasium "
            "as gym`"
        ) from None
    raise Refusal(
        f"--module: {path}: No module named '{lacks}': install it, or, where it is a file of your "
        f"own, {lacks}.py, which no run keeps: export PYTHONPATH=its_folder"
    ) from None


def make_gym(name, options, own=None):
    gym = gymnasium()
    check_id(name)
    if options.get("render_mode") == "human":
        raise Refusal(
            "render_mode=human would open a window for each environment, from several threads: "
            "leave it out; scripts/watch.sh shows how a run plays"
        )
    before = set(gym.registry)
    if own:
        import_own(own)
    for beginning, home in HOMES.items():
        if name.startswith(beginning):
            module(home)
    try:
        return gym.make(name, **{**options, "disable_env_checker": True})
    except gym.error.DependencyNotInstalled as missing:
        raise Refusal(what_installs(missing)) from None
    except gym.error.UnregisteredEnv as unknown:
        near = difflib.get_close_matches(name, gym.registry, 3, 0.5)
        hint = f"; the nearest: {', '.join(near)}" if near else ""
        says = " ".join(str(unknown).split()).rstrip(".")
        added = [i for i in gym.registry if i not in before]
        hint = of_atari(name) or hint  # last: ale_py registers its games
        raise Refusal(f"{says}{hint}{where_from(name, own, added)}") from None
    except gym.error.Error as error:
        if is_raised_by(gym.make, error):
            raise Refusal(" ".join(str(error).split())) from None
        raise
    except ModuleNotFoundError as missing:
        refuse_module(name, missing)
        raise
    except TypeError as error:
        # What gym.make raises says little more than its cause.
        refuse_options(gym, name, error.__cause__ or error)
        raise


def of_atari(name):
    """Where the ID is that of a game in an older Gymnasium: PongNoFrameskip-v4, Pong-v5."""
    game = re.sub("(-ram)?(NoFrameskip|Deterministic)?(-v[0-9]+)?$", "", name)
    if not re.fullmatch("[A-Z][A-Za-z]+", game):
        return ""
    try:
        from ale_py.roms import get_all_rom_ids
    except ImportError:
        return ""
    if flat(game) not in map(flat, get_all_rom_ids()):
        return ""
    return f"; that is atari:{game}, or gym:ALE/{game}-v5 with sticky actions"


def where_from(name, own, added):
    """How an environment of the user's own is named."""
    if own:
        return f"; {own} registers {', '.join(added[:9]) or 'nothing'}"
    if ":" in name:
        return ""
    file = in_tree(", or give its file: --module=my_module.py")
    return f"; one that a module of yours registers is gym:my_module:{name}{file}"


def check_id(name):
    """What Gymnasium does not check."""
    home, colon, rest = name.rpartition(":")
    if not rest or (colon and (not home or home.startswith(".") or ":" in home)):
        raise Refusal(
            f"'{name}' is no ID of Gymnasium: write gym:CartPole-v1, or gym:my_module:MyEnv-v0 for "
            "one that a module registers"
        )


def is_raised_by(function, error):
    """Whether the file of that function raised it, and no stranger's code."""
    frames = list(traceback.walk_tb(error.__traceback__))
    return bool(frames) and frames[-1][0].f_code.co_filename == inspect.getfile(function)


def what_installs(missing):
    """Gymnasium names the extra that it lacks, which scripts/setup.sh may not install."""
    words = " ".join(str(missing).split())
    extra = re.search(r"gymnasium\[[\w,-]+\]", words)
    if not extra:
        return words + in_tree(f": {SETUP}")
    return f'{words.split(", run")[0]}; what installs it: {pip()} install "{extra.group()}"'


def refuse_module(name, missing):
    """The module of the ID itself; one that this module misses keeps its traceback."""
    home = name.rpartition(":")[0]
    lacks = getattr(missing.__cause__, "name", None)
    if lacks and (home == lacks or home.startswith(lacks + ".")):
        raise Refusal(
            f"there is no module '{lacks}' to import for {name}: add its folder to PYTHONPATH, or "
            f"install it into {sys.prefix}"
        ) from None


def refuse_options(gym, name, error):
    """Names that the constructor does not take; what its own code says keeps its traceback."""
    if not is_raised_by(gym.make, error):
        return
    takes = names_taken(gym, name)
    said = re.sub(r"\. Did you mean '\w+'\?$", "", str(error))  # Python 3.13's, for some names
    unknown = re.search("unexpected keyword argument '(.*)'", said)
    near = nearest(unknown.group(1), takes) if unknown else ""
    has = f"; it takes: {', '.join(takes)}" if takes else ""
    raise Refusal(f"--env_args: {said}{near}{has}") from None


def names_taken(gym, name):
    """What the environment's constructor takes; empty where that cannot be known."""
    create = gym.spec(name.rpartition(":")[2]).entry_point
    try:
        if isinstance(create, str):
            create = gym.envs.registration.load_env_creator(create)
        parameters = inspect.signature(create).parameters.values()
    except (TypeError, ValueError):
        return []
    many = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [parameter.name for parameter in parameters if parameter.kind not in many]


def make_visible(name, options, own):
    """The same, so that render() gives a picture, where it can."""
    env = make_gym(name, options, own)
    if env.render_mode == "rgb_array" or "rgb_array" not in env.metadata.get("render_modes", ()):
        return env
    env.close()
    return make_gym(name, {**options, "render_mode": "rgb_array"}, own)


# ---- wrappers


def wrapper_class(word):
    """The class that MODULE:CLASS of --wrapper is."""
    home, _, name = word.partition(":")
    if not home or not name or home.startswith("."):
        raise Refusal(
            f"--wrapper: '{word}' names no class: write MODULE:CLASS, as in "
            "minigrid.wrappers:ImgObsWrapper"
        )
    if home.endswith(".py"):
        file = os.path.basename(home)
        option = in_tree(f" --module={home}")
        raise Refusal(f"--wrapper: '{home}' is a file: write {file[:-3]}:{name}{option}")
    try:
        found = importlib.import_module(home)
    except ModuleNotFoundError as missing:
        lacks = missing.name or ""
        if home != lacks and not home.startswith(f"{lacks}."):
            raise
        package = PACKAGES.get(lacks, lacks)
        file = in_tree(f", or --module={lacks}.py")
        says = "" if "." in lacks else f": {pip()} install {package}{file}"
        raise Refusal(
            f"--wrapper: there is no module '{lacks}' to import for {word}{says}"
        ) from None
    names = [key for key, value in vars(found).items() if is_wrapper(value)]
    if name in names:
        return getattr(found, name)
    is_there = hasattr(found, name)
    says = f"{word} is no class derived from gymnasium.Wrapper" if is_there else (
        f"the module {home} has no '{name}'"
    )  # fmt: skip
    has = f"; it has: {', '.join(names[:9])}" if names else ""
    raise Refusal(f"--wrapper: {says}{nearest(name, names)}{has}")


def is_wrapper(value):
    return isinstance(value, type) and issubclass(value, gymnasium().Wrapper)


def wrapped(env, words):
    """In the classes of --wrapper, of which the first is the innermost."""
    if not isinstance(words, str):
        raise Refusal(f"--wrapper: {json.dumps(words)} is no text: write MODULE:CLASS")
    for word in filter(None, (word.strip() for word in words.split(","))):
        kind = wrapper_class(word)
        try:
            env = kind(env)
        except TypeError as error:
            if not is_raised_by(wrapped, error):
                raise
            raise Refusal(
                f"--wrapper: {word} needs more than the environment ({error}): derive a class from "
                f"it that passes the rest{in_tree(', in the file of --module')}"
            ) from None
    return env


def make(word, text, renders, most_actions, most_numbers, most_choices, own, quiet):
    """The environment after --env=, and what it looks like. own: the file of --module, or None;
    quiet: another process prints Gymnasium's warnings."""
    kind, _, name = word.partition(":")
    if quiet and kind == "gym":
        gymnasium()  # which sets a filter of its own
        warnings.simplefilter("ignore")
    if kind == "gym":
        options = options_of(text)
        words = options.pop("wrapper", "")
        env = wrapped((make_visible if renders else make_gym)(name, options, own), words)
    elif word == "football":
        env = acorn_simulators.Football(options_of(text))
    elif word == "dmlab":
        env = acorn_simulators.Lab(options_of(text))
    else:
        raise Refusal(f"'{word}' is none of gym:ID, atari, football, dmlab")
    return describe(env, word, most_actions, most_numbers, most_choices)


def picture(env):
    """What it shows of itself, an array (height, width, 3) of bytes; None: nothing."""
    if getattr(env, "render_mode", None) != "rgb_array":
        return None
    import numpy

    try:
        shown = numpy.ascontiguousarray(env.render())
    except gymnasium().error.DependencyNotInstalled as missing:
        raise Refusal(f"it cannot be drawn: {what_installs(missing)}") from None
    if shown.dtype != numpy.uint8 or shown.ndim != 3 or shown.shape[2] != 3:
        raise Refusal(
            f"render() gives {shown.dtype}{list(shown.shape)}, not uint8[height,width,3]"
        )
    return shown


# ---- what an episode's last info says

MOST_NUMBERS = 16


def number_of(value):
    """A scalar as a float, of Python or numpy, True as 1; None: it is none, or not finite."""
    kind = getattr(getattr(value, "dtype", None), "kind", None)
    is_scalar = getattr(value, "shape", None) == () and kind in ("b", "i", "u", "f")
    if not is_scalar and not isinstance(value, (bool, int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def numbers(info):
    """(name, value) of is_success and the first scalars, with names as metrics have them."""
    found = {}
    items = info.items() if isinstance(info, dict) else ()
    for key, value in sorted(items, key=lambda item: item[0] != "is_success"):
        name = re.sub(r"[^A-Za-z0-9_./-]", "_", key) if isinstance(key, str) else ""
        number = number_of(value)
        if 0 < len(name) <= 63 and number is not None:
            found.setdefault(name, number)
        if len(found) > MOST_NUMBERS:
            warnings.warn(f"the last info has more than {MOST_NUMBERS} scalars: the first are kept")
            break
    return list(found.items())[:MOST_NUMBERS]
