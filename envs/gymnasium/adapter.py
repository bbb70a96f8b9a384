"""What the bridge asks of Python: it finds packages, makes environments and says what they look
like. Stepping them is the business of game.c and atari.c. This text is a part of gymnasium.so, and
so is simulators.py."""

import difflib
import importlib
import inspect
import json
import math
import os
import re
import sys
import sysconfig
import traceback
import types
import warnings

SETUP = "scripts/setup.sh gym installs what is needed; ACORN_PYTHON names another Python"
PACKAGES = {"gymnasium": "gymnasium", "ale_py": "ale-py"}
OLDEST = {"gymnasium": (1, 0), "ale_py": (0, 10)}
HOMES = {"ALE/": "ale_py", "MiniGrid-": "minigrid", "BabyAI-": "minigrid"}  # what registers IDs


class Refusal(Exception):
    """What the user asked for cannot be had; the message says why and what to do."""


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
    return f"{' '.join(last.split())} (the traceback is in the log)"


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
    if name in HOMES.values() and not package:
        return f"what installs it: {pip()} install {name}"
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


# ---- observations and actions

DTYPES = {"uint8": 1, "float32": 3, "float64": 3}
INTEGERS = ("bool", "int8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
UINT8, INT32, FLOAT32 = 1, 2, 3
MOST_VALUES = 2**31  # of a whole number, which becomes an int32 from 0 on
MOST_PLACES = 4096  # of choices that become one-hot
LEAST_SIDE = 36  # of an image: IMAGES_LEAST_SIDE of learner/network/images.h
MOST_LEVELS = 2**16  # of an image of integers


def is_one_hot(choices):
    """Numbers that name something are one-hot: as numbers, near ones would look alike."""
    return 0 < sum(count for _, count in choices) <= MOST_PLACES


def choices_of(space):
    """(first value, how many) of each number of a MultiDiscrete space."""
    counts = space.nvec.flatten().tolist()
    starts = getattr(space, "start", None)
    starts = [0] * len(counts) if starts is None else starts.flatten().tolist()
    return tuple(zip(starts, counts))


AS_IT_IS = (0.0, 0.0)


def is_image(shape):
    """Two neighbouring sides that convolutions fit."""
    sides = [length >= LEAST_SIDE for length in shape]
    return len(shape) <= 4 and any(a and b for a, b in zip(sides, sides[1:]))


def range_of(space):
    """(low, high) of an image of bytes, which becomes 0..255 here and 0..1 in the learner; and of
    other bytes and another image, which become 0..1 here: bytes that are no image are numbers, which
    the learner normalises where they are floats. Floats within -1..1 and numbers without bounds stay
    as they are."""
    dtype = str(space.dtype)
    if 0 in space.shape or (dtype != "uint8" and not is_image(space.shape)):
        return AS_IT_IS
    low, high = float(space.low.min()), float(space.high.max())
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        return AS_IT_IS
    if dtype == "uint8":
        stays = is_image(space.shape) and (low, high) == (0, 255)
    elif dtype in DTYPES:
        stays = -1 <= low and high <= 1
    else:
        stays = high - low > MOST_LEVELS
    return AS_IT_IS if stays else (low, high)


def is_text(space):
    """Gymnasium's Text, and spaces of other packages with words for values."""
    return getattr(space.dtype, "kind", "") == "U"


def leaves_of(space, name=(), path=()):
    """(name, dtype here, dtype there, shape there, choices, path, range) of each tensor. With
    choices and uint8 it is one-hot here; with a range low..high it is 0..1 here, bytes 0..255. A
    path begins with the place in what reset and step return: 0, the observation, or -1, info."""
    spaces = gymnasium().spaces
    title = ".".join(name) or "observation"
    if isinstance(space, spaces.Dict):
        parts = space.spaces.items()
    elif isinstance(space, spaces.Tuple):
        parts = enumerate(space.spaces)
    elif isinstance(space, spaces.Discrete):
        if space.n > MOST_VALUES:
            raise Refusal(
                f"its observation '{title}' is one of {space.n} values; {MOST_VALUES} can be told "
                "apart: wrap the environment"
            )
        choices = ((int(space.start), int(space.n)),)
        return [(title, UINT8 if is_one_hot(choices) else INT32, "", (), choices, path, AS_IT_IS)]
    elif isinstance(space, spaces.MultiDiscrete) and is_one_hot(choices_of(space)):
        shape = tuple(map(int, space.shape))
        return [(title, UINT8, str(space.dtype), shape, choices_of(space), path, AS_IT_IS)]
    elif isinstance(space, (spaces.Box, spaces.MultiBinary, spaces.MultiDiscrete)):
        dtype = str(space.dtype)
        ours = INT32 if dtype in INTEGERS else DTYPES.get(dtype)
        if ours:
            scale = range_of(space) if isinstance(space, spaces.Box) else AS_IT_IS
            if scale != AS_IT_IS and not (ours == UINT8 and is_image(space.shape)):
                ours = FLOAT32
            return [(title, ours, dtype, tuple(map(int, space.shape)), (), path, scale)]
        raise Refusal(
            f"its observation '{title}' is {dtype}; uint8, integers, float32 and float64 are read"
        )
    else:
        raise Refusal(
            f"its observation '{title}' is a {type(space).__name__} space; Box, Discrete, "
            "MultiBinary, MultiDiscrete, and Dict and Tuple of these are read: wrap the environment"
        )
    found = []
    for key, part in parts:
        if is_text(part):
            tell(f"its observation '{'.'.join((*name, str(key)))}' is text, which is left out")
        else:
            found += leaves_of(part, name + (str(key),), path + (key,))
    return found


def box_of(space, most):
    """(low, high, what makes the array that step gets) of a Box of actions: of bytes of float32."""
    import numpy

    if str(space.dtype) not in DTYPES or space.dtype == numpy.uint8:
        raise Refusal(f"its actions are {space.dtype}; float32 and float64 can be learned")
    count = int(numpy.prod(space.shape))
    if not 1 <= count <= most:
        raise Refusal(f"its actions have {count} numbers; there may be 1 to {most}")
    with numpy.errstate(over="ignore"):
        low, high = space.low.astype(numpy.float32), space.high.astype(numpy.float32)
    if not (numpy.isfinite(low).all() and numpy.isfinite(high).all()):
        raise Refusal(
            f"its actions ({space}) have numbers without finite bounds: wrap the environment, "
            "with an action_space of bounds that suit it"
        )

    def array_of(numbers):
        action = numpy.frombuffer(numbers, numpy.float32).reshape(space.shape)
        if action.dtype == space.dtype:
            return action.copy()
        return action.astype(space.dtype).clip(space.low, space.high)  # float32 may have rounded

    return low.tobytes(), high.tobytes(), array_of


def parts_of(space):
    """(among, of so many numbers what step gets) of discrete spaces and of Dict and Tuple of these:
    what each choice is among."""
    spaces = gymnasium().spaces
    if isinstance(space, spaces.Discrete):
        first, kind = int(space.start), space.dtype.type
        return [int(space.n)], lambda numbers: kind(first + numbers[0])
    if isinstance(space, (spaces.MultiDiscrete, spaces.MultiBinary)):
        import numpy

        multi = isinstance(space, spaces.MultiDiscrete)
        pairs = choices_of(space) if multi else [(0, 2)] * math.prod(space.shape)
        firsts = numpy.array([first for first, _ in pairs], numpy.int64)
        shape, dtype = space.shape, space.dtype
        return [int(count) for _, count in pairs], lambda numbers: (
            (numpy.array(numbers, numpy.int64) + firsts).astype(dtype).reshape(shape)
        )
    if not isinstance(space, (spaces.Dict, spaces.Tuple)):
        kind = type(space).__name__
        raise Refusal(f"a part of its actions is a {kind} space ({space}); {ACTIONS}")
    named = isinstance(space, spaces.Dict)
    keys = list(space.spaces) if named else range(len(space.spaces))
    parts = [parts_of(space.spaces[key]) for key in keys]

    def collect(numbers):
        values, at = [], 0
        for among, part in parts:
            values.append(part(numbers[at : at + len(among)]))
            at += len(among)
        return dict(zip(keys, values)) if named else tuple(values)

    return [count for among, _ in parts for count in among], collect


def among_of(space):
    """What each choice of a discrete action is among; empty for other spaces."""
    try:
        return parts_of(space)[0]
    except Refusal:
        return []


def choices_made(space, most_actions, most_choices):
    """(among as bytes of int32, what makes the action that step gets of the bytes of one)."""
    import numpy

    among, make = parts_of(space)
    if not 1 <= len(among) <= most_choices or sum(among) > most_actions:
        raise Refusal(
            f"its actions have {len(among)} choices among {sum(among)}; there may be 1 to "
            f"{most_choices} among {most_actions} together: wrap the environment"
        )
    return numpy.array(among, numpy.int32).tobytes(), lambda numbers: make(
        numpy.frombuffer(numbers, numpy.int32).tolist()
    )


ACTIONS = (
    "Discrete, MultiDiscrete, MultiBinary, Dict and Tuple of these, and Box can be learned: wrap "
    "the environment"
)


def actions_of(space, most_actions, most_numbers, most_choices):
    """(first, how many, None, None); or (0, 0, a box_of, None), or (0, 0, None, a choices_made)."""
    spaces = gymnasium().spaces
    if isinstance(space, spaces.Box):
        return 0, 0, box_of(space, most_numbers), None
    if isinstance(space, spaces.Discrete):
        if space.n > most_actions:
            raise Refusal(
                f"it has {space.n} actions; there may be {most_actions}: wrap the environment"
            )
        return int(space.start), int(space.n), None, None
    if isinstance(space, (spaces.MultiDiscrete, spaces.MultiBinary, spaces.Dict, spaces.Tuple)):
        return 0, 0, None, choices_made(space, most_actions, most_choices)
    raise Refusal(f"its actions are a {type(space).__name__} space ({space}); {ACTIONS}")


MASK = "action_mask"
INFO_MASKS = {}  # by --env: (dtype, shape) of info["action_mask"], if there is one that fits


def with_mask(leaves, word, space):
    """The same, each with whether it is the mask of discrete actions: bytes, of which 0 forbids."""
    count, found = sum(among_of(space)), []
    if not count:
        return [(*leaf, False) for leaf in leaves]
    for name, ours, dtype, shape, choices, path, scale in leaves:
        is_mask = name.split(".")[0] == MASK
        if is_mask and not (name == MASK and dtype and math.prod(shape) == count):
            raise Refusal(
                f"the part '{MASK}' of its observation is no array of {count} numbers, one for "
                "each action, choice after choice: wrap the environment, or name it otherwise"
            )
        if is_mask:
            ours, choices, scale = UINT8, (), AS_IT_IS
        found.append((name, ours, dtype, shape, choices, path, scale, is_mask))
    if INFO_MASKS.get(word) and not any(leaf[-1] for leaf in found):
        dtype, shape = INFO_MASKS[word]
        found.append((MASK, UINT8, dtype, shape, (), (-1, MASK), AS_IT_IS, True))
    return found


def find_mask(env, word):
    """Whether its info has a mask, which only playing it tells: then the environment is described
    anew. Called once, before what it looks like is told."""
    if word in INFO_MASKS or not word.startswith("gym:"):
        return False
    INFO_MASKS[word] = None
    try:
        mask = env.reset()[1][MASK]
    except Exception:  # there is none; what else fails, fails again where it is told of
        return False
    count = sum(among_of(env.action_space))
    dtype = str(getattr(mask, "dtype", ""))
    shape = getattr(mask, "shape", ())
    if count and math.prod(shape) == count and (dtype in DTYPES or dtype in INTEGERS):
        INFO_MASKS[word] = dtype, shape
        return True
    tell(
        f'info["{MASK}"] is not read: it is no array of a number for each discrete action, so '
        "that the policy may choose every action"
    )
    return False


def describe(env, word, most_actions, most_numbers, most_choices):
    leaves = with_mask(leaves_of(env.observation_space, path=(0,)), word, env.action_space)
    if not leaves:
        raise Refusal("its observation has no part but text: wrap the environment")
    if len(leaves) > 8:
        raise Refusal(
            f"its observation has {len(leaves)} parts, a mask among them; there may be 1 to 8"
            if any(leaf[-1] for leaf in leaves)
            else f"its observation has {len(leaves)} parts; there may be 1 to 8"
        )
    for name, _, _, shape, *_ in leaves:
        if len(name) > 31:
            raise Refusal(f"the part '{name}' of its observation has more than 31 characters")
        if len(shape) > 4:
            raise Refusal(f"its observation '{name}' has {len(shape)} dimensions; there may be 4")
    return env, leaves, *actions_of(env.action_space, most_actions, most_numbers, most_choices)


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
    raise Refusal(
        f"--module: {path}: No module named '{lacks}': install it, or, where it is a file of your "
        f"own, {lacks}.py, which no run keeps: export PYTHONPATH=its_folder"
    ) from None


def make_gym(name, options, own=None):
    gym = gymnasium()
    check_id(name)
    before = set(gym.registry)
    if own:
        import_own(own)
    for beginning, home in HOMES.items():
        if name.startswith(beginning):
            module(home)
    try:
        return gym.make(name, disable_env_checker=True, **options)
    except gym.error.DependencyNotInstalled as missing:
        raise Refusal(what_installs(missing)) from None
    except gym.error.UnregisteredEnv as unknown:
        near = difflib.get_close_matches(name, gym.registry, 3, 0.5)
        hint = f"; the nearest: {', '.join(near)}" if near else ""
        says = " ".join(str(unknown).split()).rstrip(".")
        added = [i for i in gym.registry if i not in before]
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


def where_from(name, own, added):
    """How an environment of the user's own is named."""
    if own:
        return f"; {own} registers {', '.join(added[:9]) or 'nothing'}"
    if ":" in name:
        return ""
    return (
        f"; one that a module of yours registers is gym:my_module:{name}, or give its file: "
        "--module=my_module.py"
    )


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
        return f"{words}: {SETUP}"
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
        raise Refusal(f"--wrapper: '{home}' is a file: write {file[:-3]}:{name} --module={home}")
    try:
        found = importlib.import_module(home)
    except ModuleNotFoundError as missing:
        lacks = missing.name or ""
        if home != lacks and not home.startswith(f"{lacks}."):
            raise
        package = PACKAGES.get(lacks, lacks)
        says = "" if "." in lacks else f": {pip()} install {package}, or --module={lacks}.py"
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
                "it that passes the rest, in the file of --module"
            ) from None
    return env


def simulators():
    """They need what stands here."""
    import acorn_simulators

    return acorn_simulators


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
        env = simulators().Football(options_of(text))
    elif word == "dmlab":
        env = simulators().Lab(options_of(text))
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
    """A scalar as a float, of Python or numpy, True as 1; None: it is none."""
    kind = getattr(getattr(value, "dtype", None), "kind", None)
    is_scalar = getattr(value, "shape", None) == () and kind in ("b", "i", "u", "f")
    if not is_scalar and not isinstance(value, (bool, int, float)):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


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


# ---- the Atari


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


def within(name, value, low, high):
    if not low <= value <= high:
        raise Refusal(
            f"--env_args: atari's option '{name}' is {value}, which is not in {low}..{high}"
        )


def flat(name):
    return re.sub("[-_ ]", "", name).lower()


class Atari:
    """One emulator with a game; atari.c plays it through the methods of `emulator`."""

    DEFAULTS = {
        "game": "Pong",
        "frame_skip": 4,
        "noops": 30,
        "max_frames": 108000,
        "sticky_actions": 0.0,
        "life_loss": False,
        "full_actions": False,
        "resize": "area",
        "mode": -1,
        "difficulty": -1,
    }

    DESCRIBED = {}

    def __init__(self, text):
        ale_py = module("ale_py")
        import ale_py.roms
        import numpy

        options = chosen(options_of(text), self.DEFAULTS, "atari")
        for name, low, high in (
            ("frame_skip", 1, 1000),
            ("noops", 0, 10000),
            ("max_frames", 1, 2**31 - 1),
            ("sticky_actions", 0, 1),
            ("mode", -1, 2**31 - 1),
            ("difficulty", -1, 2**31 - 1),
        ):
            within(name, options[name], low, high)
        if options["resize"] not in ("area", "linear"):
            raise Refusal(
                f"--env_args: atari's option 'resize' is '{options['resize']}', not area or linear"
            )
        ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
        self.emulator = ale_py.ALEInterface()
        self.emulator.setFloat("repeat_action_probability", float(options["sticky_actions"]))
        self.emulator.setInt("max_num_frames_per_episode", 0)
        self.rom = self.find(ale_py.roms, options["game"])
        self.mode, self.difficulty = options["mode"], options["difficulty"]
        self.actions, (height, width) = self.describe(bool(options["full_actions"]))
        self.screens = tuple(numpy.zeros((height, width), numpy.uint8) for _ in range(2))
        # Not the first action: the own actions of backgammon and video_checkers have no no-op.
        self.noop = ale_py.Action.NOOP
        self.names = [action.name.lower() for action in self.actions]
        for name in ("frame_skip", "noops", "max_frames", "life_loss"):
            setattr(self, name, int(options[name]))
        self.linear = int(options["resize"] == "linear")

    def describe(self, full):
        """The actions and the size of the screen. They need the cartridge, which takes a tenth of a
        second to put in: of many emulators with one game, only the first is asked."""
        key = self.rom, full, self.mode, self.difficulty
        if key not in self.DESCRIBED:
            self.insert(0)
            emulator = self.emulator
            actions = emulator.getLegalActionSet() if full else emulator.getMinimalActionSet()
            self.DESCRIBED[key] = list(actions), emulator.getScreenDims()
        return self.DESCRIBED[key]

    # ale-py ends the process when it is given one of these.
    NOT_EMULATED = ("combat", "joust", "maze_craze", "warlords")

    @classmethod
    def find(cls, roms, game):
        ids = {flat(rom): rom for rom in roms.get_all_rom_ids()}
        rom = ids.get(flat(game))
        path = rom and roms.get_rom_path(rom)
        if rom in cls.NOT_EMULATED:
            raise Refusal(f"ale-py has the game '{game}', but does not emulate its cartridge")
        if path:
            return str(path)
        for rom in cls.NOT_EMULATED:
            ids.pop(flat(rom), None)
        near = difflib.get_close_matches(flat(game), ids, 3, 0.5)
        names = [ids[key].title().replace("_", "") for key in near]
        hint = f"; the nearest: {', '.join(names)}" if near else ""
        raise Refusal(f"there is no game '{game}'{hint} ({len(ids)} games are in ale-py)")

    def insert(self, seed):
        """Puts the cartridge in: the emulator's chance follows from the seed."""
        self.emulator.setInt("random_seed", seed)
        self.emulator.loadROM(self.rom)
        for value, there, put in (
            (self.mode, self.emulator.getAvailableModes, self.emulator.setMode),
            (self.difficulty, self.emulator.getAvailableDifficulties, self.emulator.setDifficulty),
        ):
            if value < 0:
                continue
            if value not in there():
                raise Refusal(
                    f"--env_args: this game has the modes or difficulties {there()}, not {value}"
                )
            put(value)
