"""What the observations and actions of an environment are to the learner."""

import math
import re

from acorn_packages import Refusal, gymnasium, tell

# ---- observations

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
        is_whole = dtype in INTEGERS or isinstance(space, spaces.MultiDiscrete)
        ours = INT32 if is_whole else DTYPES.get(dtype)
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
    names = set()
    for name, _, _, shape, *_ in leaves:
        if name in names:
            raise Refusal(
                f"two parts of its observation are named '{name}': wrap the environment, and name "
                "one of them otherwise"
            )
        names.add(name)
        if not re.fullmatch("[!-~]+", name):
            raise Refusal(
                f"the part '{name}' of its observation has a character in its name that is no "
                "visible ASCII, or a blank: wrap the environment, and name it otherwise"
            )
        if 0 in shape:
            raise Refusal(
                f"its observation '{name}' has no number {shape}: wrap the environment, without it"
            )
        if len(name) > 31:
            raise Refusal(f"the part '{name}' of its observation has more than 31 characters")
        if len(shape) > 4:
            raise Refusal(f"its observation '{name}' has {len(shape)} dimensions; there may be 4")
    return env, leaves, *actions_of(env.action_space, most_actions, most_numbers, most_choices)
