"""An environment of Gymnasium as docs/examples/actor.py steps it. What its spaces are to the
learner is said by the modules of envs/gymnasium, as in the source tree; here is what C does there.
"""
import importlib.util
import operator
import sys
import traceback
from typing import NamedTuple

import numpy as np

from acorn.bundle import ROOT, AcornError

MOST_ACTIONS, MOST_NUMBERS, MOST_CHOICES = 65536, 64, 64  # common/base/space.h
DTYPES = {1: np.uint8, 2: np.int32, 3: np.float32}  # of envs/gymnasium/spaces.py


def load_module(name, path):
    """The module of a file of the package."""
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, ROOT / path)
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
    return sys.modules[name]


def adapter():
    """envs/gymnasium/adapter.py, after those that it imports."""
    for name in ("packages", "spaces", "atari", "simulators", "adapter"):
        module = load_module(f"acorn_{name}", f"envs/gymnasium/{name}.py")
    sys.modules["acorn_packages"].IN_PACKAGE = True
    return module


def ask(function, *words):
    """What a function of those modules gives. Errors: AcornError, as they refuse."""
    try:
        return function(*words)
    except sys.modules["acorn_packages"].Refusal as refusal:
        raise AcornError(str(refusal)) from None


class Tensor(NamedTuple):
    """A part of an observation, as leaves_of and with_mask describe it."""
    name: str
    code: int
    source: str  # the dtype of Python's array; "": a whole number
    source_shape: tuple
    choices: tuple  # (first, how many) of numbers that name something
    path: tuple
    scale: tuple
    is_mask: bool

    def is_one_hot(self):
        return bool(self.choices) and self.code == 1

    def shape(self):
        is_row = self.is_one_hot()
        return (sum(count for _, count in self.choices),) if is_row else self.source_shape

    def read(self, result):
        """The array that the learner gets of what reset or step returned."""
        value = result[self.path[0]]
        try:
            for key in self.path[1:]:
                value = value[key]
        except KeyError:
            if self.path[0] == 0:
                raise
            return np.ones(self.source_shape, np.uint8)  # an info that says nothing forbids nothing
        if not self.source:
            return self._places([operator.index(value)])
        array = np.asarray(value)
        is_wider = self.source == "float32" and array.dtype == np.float64
        if array.shape != self.source_shape or not (is_wider or str(array.dtype) == self.source):
            raise TypeError(f"the observation '{self.name}' is {array.dtype}{list(array.shape)}, "
                            f"the space says {self.source}{list(self.source_shape)}")
        if self.is_mask:
            return (array != 0).astype(np.uint8)
        return self._places(array.ravel().tolist()) if self.choices else self._numbers(array)

    def _places(self, numbers):
        """One-hot, or the place where there are too many for that."""
        row, begin = np.zeros(self.shape() if self.is_one_hot() else 0, np.uint8), 0
        for i, (number, (first, count)) in enumerate(zip(numbers, self.choices)):
            place = number - first
            if not 0 <= place < count:
                where = f" at place {i}" if len(numbers) > 1 else ""
                raise ValueError(f"the observation '{self.name}' is {number}{where}, the space "
                                 f"says {first}..{first + count - 1}")
            if not self.is_one_hot():
                return np.array(place, np.int32)
            row[begin + place] = 255
            begin += count
        return row

    def _numbers(self, array):
        low, high = self.scale
        if low < high and self.code == 1:
            wrong = np.flatnonzero((array < low) | (array > high))
            if wrong.size:
                place = wrong[0]
                raise ValueError(f"the observation '{self.name}' is {array.flat[place]} at place "
                                 f"{place}, the space says {low:g}..{high:g}")
            return ((array - low) * (255 / (high - low)) + 0.5).astype(np.uint8)
        if low < high:
            return ((array.astype(np.float64) - low) * (1 / (high - low))).astype(np.float32)
        numbers = array.astype(DTYPES[self.code])
        wrong = np.flatnonzero(numbers != array) if self.code == 2 else ()
        if len(wrong):
            raise ValueError(f"the observation '{self.name}' has a number at place {wrong[0]} that "
                             "no int32 is")
        return numbers


class View:
    """What an environment is to the learner; the same for each that is made like it. name: that of
    the environment. Errors: AcornError: a space that cannot be learned."""

    def __init__(self, env, name):
        asked, word = adapter(), f"gym:{name}"
        sys.modules["acorn_spaces"].INFO_MASKS.pop(word, None)  # that of one made otherwise
        asked.find_mask(env, word)
        described = ask(asked.describe, env, word, MOST_ACTIONS, MOST_NUMBERS, MOST_CHOICES)
        _, leaves, self.first, self.count, self.box, self.choices = described
        self.tensors = [Tensor(*leaf) for leaf in leaves]

    def tensors_for(self, protocol):
        dtypes = {1: protocol.DTYPE_UINT8, 2: protocol.DTYPE_INT32, 3: protocol.DTYPE_FLOAT32}
        return [protocol.Tensor(name=tensor.name, dtype=dtypes[tensor.code], shape=tensor.shape())
                for tensor in self.tensors]

    def action_for(self, protocol):
        if self.box:
            low, high = (np.frombuffer(side, np.float32) for side in self.box[:2])
            return protocol.ActionSpace(low=low, high=high)
        if self.choices:
            return protocol.ActionSpace(choices=np.frombuffer(self.choices[0], np.int32))
        return protocol.ActionSpace(discrete=self.count)

    def read(self, result):
        return {tensor.name: tensor.read(result) for tensor in self.tensors}

    def pack(self, observation):
        return b"".join(array.tobytes() for array in observation.values())

    def unpack(self, data, count):
        """What step gets of the actions of so many environments."""
        if self.count:
            return [self.first + number for number in np.frombuffer(data, np.int32).tolist()]
        make = (self.box or self.choices)[-1]
        size = len(data) // count
        return [make(data[i * size:(i + 1) * size]) for i in range(count)]


def _truth(value, name):
    """Of an end. What else Python takes for true ("False" is) would be a slip."""
    if isinstance(value, np.ndarray) and value.dtype == bool and value.size == 1:
        return value.item()
    if isinstance(value, (bool, np.bool_, int, np.integer)) and value in (0, 1):
        return bool(value)
    raise TypeError(f"'{name}' must be True or False, not {value!r} ({type(value).__name__})")


def _reward(value):
    if isinstance(value, (str, bytes, bytearray)):  # which float() takes
        raise TypeError(f"the reward must be a real number, not {type(value).__name__}")
    return float(value)


def _expect_tuple(result, size, what):
    if not isinstance(result, tuple) or len(result) != size:
        raise TypeError(f"it is no environment of Gymnasium 1: {what}")
    return result


class World:
    mark = None  # a file that is made at this process's first valid step

    def __init__(self, env, view):
        self.env, self.view = env, view
        self.pack, self.unpack = view.pack, view.unpack

    def reset(self, seed):
        # Gymnasium's environments take 64 bits; what wraps them often takes 31.
        result = self.env.reset(seed=None if seed is None else int(seed) & 0x7fffffff)
        return self.view.read(_expect_tuple(
            result, 2, "reset does not return (observation, info)"))

    def step(self, action):
        result = _expect_tuple(
            self.env.step(action), 5,
            "step does not return (observation, reward, terminated, truncated, info)")
        _, reward, terminated, truncated, self.info = result
        ends = [_truth(terminated, "terminated"), _truth(truncated, "truncated")]
        row = self.view.read(result), _reward(reward), *ends
        if World.mark:
            open(World.mark, "w").close()
            World.mark = None
        return row

    def numbers(self):
        return adapter().numbers(self.info)

    def close(self):
        try:
            self.env.close()
        except Exception:  # what was played counts all the same
            traceback.print_exc()
