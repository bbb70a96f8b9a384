"""Environments for the tests: one with every kind of observation, and those that do wrong."""

import ctypes
import multiprocessing
import os
import signal
import sqlite3
import subprocess
import threading
import time

import gymnasium
import numpy as np
from gymnasium import spaces


class Everything(gymnasium.Env):
    """Episodes of `length` steps; what is seen tells the step, the seed and the last action."""

    observation_space = spaces.Dict(
        {
            "image": spaces.Box(0, 20, (2, 3), np.uint8),
            "motto": spaces.Text(5),
            "place": spaces.Box(-1, 1, (2,), np.float64),
            "speed": spaces.Box(-1, 1, (), np.float32),
            "big": spaces.Box(-9, 9, (1,), np.int64),
            "room": spaces.Discrete(5, start=3),
            "keys": spaces.MultiBinary(3),
            "pair": spaces.Tuple((spaces.MultiDiscrete([4, 4]), spaces.Discrete(9))),
        }
    )
    action_space = spaces.Discrete(3, start=-1)

    def __init__(self, length=4, cut=False, scalars=0):
        self.length, self.cut, self.scalars = length, cut, scalars

    def look(self):
        image = np.arange(12, dtype=np.uint8).reshape(2, 6)[:, ::2] + self.t  # not contiguous
        return {
            "image": image,
            "motto": "onward",
            "place": np.array([self.t / 8, -0.5]),
            "speed": np.float32(self.chance),
            "big": np.array([self.action - 7]),
            "room": np.int64(3 + self.t % 5),
            "keys": np.array([1, 0, self.t % 2], np.int8),
            "pair": (np.array([self.t % 4, 2]), 8),
        }

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t, self.action, self.chance = 0, 0, self.np_random.random()
        return self.look(), {}

    def step(self, action):
        self.t, self.action = self.t + 1, action
        ends = self.t == self.length
        info = {
            "is_success": np.bool_(True), "Wins, %": 3, "x/y": np.float32(0.5), "zero": np.array(2),
            "text": "4", "list": [1], "array": np.ones(2), 5: 1, "huge": 10**400, "nan": float("nan"),
            "n" * 64: 1,
        }
        if self.scalars:
            info = {f"inf{i}": np.inf for i in range(20)}
            info.update({**{f"key{i}": i for i in range(self.scalars)}, "is_success": True})
        return self.look(), float(action), ends and not self.cut, ends and self.cut, info


# What Wrong says of its end in the third step.
ENDS = {
    "word end": "False", "no end": None, "far end": 7, "half end": 0.5,
    "numpy end": np.True_, "whole end": 1, "numpy whole end": np.int64(1), "array end": np.array(True),
}  # fmt: skip


class Wrong(gymnasium.Env):
    """Does `what` in its third step."""

    observation_space = spaces.Box(-1, 1, (2,), np.float32)
    action_space = spaces.Discrete(2)
    right = np.zeros(2, np.float32)

    def __init__(self, what):
        self.what = what
        if what in ("a part less", "no parts"):
            self.observation_space = spaces.Dict(a=self.observation_space, b=self.observation_space)
            self.right = {"a": self.right, "b": self.right}
        if what == "no number":
            self.observation_space, self.right = spaces.Discrete(4), 3
        if what == "make":
            raise RuntimeError("no such level")
        if what == "hang in make":
            time.sleep(1000)
        if what == "leave in make":
            os._exit(0)
        if what == "crash in make":
            os.kill(os.getpid(), signal.SIGSEGV)
        self.t = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if self.what == "reset":
            raise RuntimeError("the door is shut")
        return (self.right, {}) if self.what != "old" else self.right

    def step(self, action):
        self.t += 1
        result = [self.right, 0.0, self.t % 9 == 0, False, {}]
        if self.t % 50 != 3:
            return tuple(result)
        if self.what == "step":
            raise RuntimeError("the lamp broke")
        if self.what == "words":
            raise RuntimeError("the lamp \udc80 broke")
        if self.what == "exit":
            raise SystemExit(7)
        if self.what == "leave":
            os._exit(0)
        if self.what == "hang":
            time.sleep(1000)
        if self.what == "four":
            return tuple(result[:4])
        if self.what in ("nan reward", "no reward"):
            result[1] = float("nan") if self.what == "nan reward" else None
        if self.what == "word reward":
            result[1] = "1.0"
        result[2] = ENDS.get(self.what, result[2])
        result[3] = "no" if self.what == "word truncated" else False
        result[0] = {
            "shape": np.zeros(3, np.float32),
            "dtype": np.zeros(2, np.int32),
            "list": [0.0, 0.0],
            "half dtype": np.zeros(2, np.float16),
            "big end": np.zeros(2, ">f4"),
            "objects": np.array([0.0, None]),
            "texts": np.array(["0.0", "0"]),
            "memory": memoryview(b"ab"),
            "nan": np.array([0, np.nan], np.float32),
            "a part less": {"a": np.zeros(2, np.float32)},
            "no parts": np.zeros(2, np.float32),
            "no number": 1.5,
        }.get(self.what, self.right)
        return tuple(result)


class Loose(gymnasium.Env):
    """Sees float64 where its space says float32, and has a mask that fits no actions. mistake: in
    reset."""

    observation_space = spaces.Box(-1, 1, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, mistake=False):
        self.mistake, self.t = mistake, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.array([0.1, self.t + None if self.mistake else 0.5]), {"action_mask": [1, 1]}

    def step(self, action):
        self.t += 1
        seen = np.array([0.1, 0.9, 0.7])[::2]  # not contiguous
        return seen, 0.0, self.t % 9 == 0, False, {"action_mask": [1, 1]}


class Masked(gymnasium.Env):
    """One of seven actions is right, the one that is seen; some others fail, as the mask says, which
    is in the observation (what: the name of its space) or in info."""

    action_space = spaces.Discrete(7, start=2)

    def __init__(self, what="info"):
        self.what, self.t = what, 0
        masks = {
            "bytes": spaces.Box(0, 1, (7,), np.uint8),
            "signed": spaces.Box(0, 1, (7,), np.int8),
            "truth": spaces.Box(0, 1, (7,), np.bool_),
            "floats": spaces.Box(0, 1, (7,), np.float32),
            "binary": spaces.MultiBinary(7),
            "choices": spaces.MultiDiscrete([2] * 7),
            "empty": spaces.Box(0, 1, (0,), np.uint8),
            "one": spaces.Discrete(7),
        }
        seen = spaces.Discrete(7)
        self.observation_space = seen if what == "info" else spaces.Dict({"action_mask": masks[what], "seen": seen})

    def look(self):
        self.right = int(self.np_random.integers(1, 7))
        self.mask = self.np_random.integers(2, size=7).astype(np.int8)
        self.mask[0], self.mask[self.right] = 0, 1
        if self.what == "info":
            return self.right, {"action_mask": self.mask} if self.t != 3 else {}
        space = self.observation_space["action_mask"]
        return {"action_mask": self.mask.astype(space.dtype), "seen": self.right}, {}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self.look()

    def step(self, action):
        if not self.mask[action - 2] and not (self.what == "info" and self.t == 3):
            raise ValueError(f"{action} is forbidden")
        reward = float(action - 2 == self.right)
        self.t += 1
        seen, info = self.look()
        if self.t == 8:
            self.mask[:] = 0
        return seen, reward, False, self.t == 8, info


def numbers_of(action, space):
    """The numbers of an action of several choices, one after the other, from 0 on."""
    if isinstance(space, spaces.Dict):
        return [n for key in space.spaces for n in numbers_of(action[key], space[key])]
    if isinstance(space, spaces.Tuple):
        return [n for part, of in zip(action, space) for n in numbers_of(part, of)]
    start = getattr(space, "start", 0)
    return np.ravel(np.asarray(action) - (0 if start is None else start)).tolist()


SEVERAL = {
    "multi": spaces.MultiDiscrete([3, 2, 4]),
    "square": spaces.MultiDiscrete([[2, 3], [1, 4]]),
    "binary": spaces.MultiBinary((2, 2)),
    "tuple": spaces.Tuple((spaces.Discrete(3, start=2), spaces.MultiDiscrete([2, 2], dtype=np.int32))),
    "dict": spaces.Dict({"jump": spaces.Discrete(2), "arm": spaces.Tuple((spaces.MultiBinary(2), spaces.Discrete(3)))}),
    "alone": spaces.Tuple((spaces.Discrete(4),)),
    "box": spaces.Tuple((spaces.Discrete(3), spaces.Box(-1, 1, (2,), np.float32))),
    "many": spaces.MultiBinary(65),
}


class Several(gymnasium.Env):
    """An action has several choices, each of which is to be the number that is seen; what: the space.
    With masks half of the other numbers fail; "parts": in parts, which are not read."""

    def __init__(self, what="multi", masks=False):
        self.action_space, self.masks = SEVERAL[what], masks
        zeros = numbers_of(self.action_space.sample(), self.action_space)
        self.most = np.zeros(len(zeros), int)
        for _ in range(200):  # enough to see the largest number of each
            self.most = np.maximum(self.most, numbers_of(self.action_space.sample(), self.action_space))
        seen = spaces.MultiDiscrete(self.most + 1)
        mask = spaces.MultiBinary(int((self.most + 1).sum()))
        if masks == "parts":
            mask = spaces.Tuple([spaces.MultiBinary(int(most) + 1) for most in self.most])
        self.observation_space = spaces.Dict({"seen": seen, "action_mask": mask}) if masks else seen

    def look(self):
        self.right = self.np_random.integers(self.most + 1)
        if not self.masks:
            return self.right
        self.allowed = [self.np_random.integers(2, size=most + 1) for most in self.most]
        for allowed, right in zip(self.allowed, self.right):
            allowed[right] = 1
        return {"seen": self.right, "action_mask": np.concatenate(self.allowed).astype(np.int8)}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self.look(), {}

    def step(self, action):
        if not self.action_space.contains(action):
            raise TypeError(f"{action!r} is no action of {self.action_space}")
        numbers = numbers_of(action, self.action_space)
        if self.masks and not all(allowed[n] for allowed, n in zip(self.allowed, numbers)):
            raise ValueError(f"{action} is forbidden")
        self.t += 1
        reward = float(np.mean(self.right == numbers))
        return self.look(), reward, False, self.t == 8, {}


class Bound(gymnasium.Env):
    """Works only in the thread that has made it, as a database does."""

    observation_space = spaces.Box(-1, 1, (2,), np.float32)
    action_space = spaces.Discrete(2)
    own = threading.local()

    def __init__(self):
        self.database = sqlite3.connect(":memory:")
        self.own.made = True
        self.t = 0

    def reset(self, *, seed=None, options=None):
        self.database.execute("select 1")
        return np.zeros(2, np.float32), {}

    def step(self, action):
        assert self.own.made
        self.database.execute("select 1")
        self.t += 1
        return np.zeros(2, np.float32), 0.0, self.t % 9 == 0, False, {}

    def close(self):
        self.database.close()
        print("closed in its thread", flush=True)


class Greedy(gymnasium.Env):
    """The last of `number` that are made hangs in its third step, and keeps Python's lock."""

    observation_space = spaces.Box(-1, 1, (2,), np.float32)
    action_space = spaces.Discrete(2)
    made = 0

    def __init__(self, number):
        Greedy.made += 1
        self.hangs, self.t = Greedy.made == number, 0

    def reset(self, *, seed=None, options=None):
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.t += 1
        if self.t == 3 and self.hangs:
            ctypes.PyDLL(None).sleep(1000)
        return np.zeros(2, np.float32), 0.0, self.t % 9 == 0, False, {}


class Helped(gymnasium.Env):
    """Starts processes, in the constructor and in the third step, and ends them as one does."""

    observation_space = spaces.Box(-1, 1, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self):
        self.t = 0
        self.help()

    def help(self):
        for vfork in (True, False):
            subprocess._USE_VFORK = vfork
            program = subprocess.Popen(["sleep", "1000"])
            program.terminate()
            assert program.wait() == -15
        fork = multiprocessing.get_context("fork").Process(target=time.sleep, args=(1000,))
        fork.start()
        fork.terminate()
        fork.join()
        assert fork.exitcode == -15

    def reset(self, *, seed=None, options=None):
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.t += 1
        if self.t == 3:
            self.help()
        return np.zeros(2, np.float32), 0.0, self.t % 9 == 0, False, {}


class Boxed(gymnasium.Env):
    """Shows the action, which it changes, as an environment may."""

    action_space = spaces.Box(np.array([[0.1], [-7.7]]), np.array([[0.7], [-7.1]]), dtype=np.float64)
    observation_space = spaces.Box(-9, 9, (2,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        shown = action.flatten().astype(np.float32)
        action *= 2
        return shown, 0.0, False, False, {}


class Plus(gymnasium.ObservationWrapper):
    """One more."""

    def observation(self, observation):
        return observation + np.float32(1)


class Twice(gymnasium.ObservationWrapper):
    """Twice as much."""

    def observation(self, observation):
        return observation * np.float32(2)


class Broken(gymnasium.Wrapper):
    """Fails while it is made."""

    def __init__(self, env):
        raise TypeError("the glue has dried")


class Strange(gymnasium.Env):
    """Spaces that are not read."""

    observation_space = spaces.Box(-1, 1, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, action=None, observation=None):
        self.action_space = {
            "free": spaces.Box(-1, np.inf, (2,)),
            "wide": spaces.Box(-1e300, 1e300, (2,), np.float64),
            "long": spaces.Box(-1, 1, (5, 13)),
            "whole": spaces.Box(-3, 3, (2,), np.int32),
            "words": spaces.Text(5),
            "wordy": spaces.Dict({"go": spaces.Discrete(2), "say": spaces.Text(5)}),
            "vast": spaces.Tuple((spaces.Discrete(2), spaces.Discrete(2**62))),
            "many": spaces.Discrete(65537),
            "countless": spaces.Discrete(2**62),
        }.get(action, self.action_space)
        self.observation_space = {
            "text": spaces.Dict({"words": spaces.Text(5)}),
            "half": spaces.Box(-1, 1, (2,), np.float16),
            "many": spaces.Tuple([spaces.Discrete(2)] * 9),
            "deep": spaces.Box(-1, 1, (1, 1, 1, 1, 2)),
            "empty": spaces.Dict({"far": spaces.Box(-1, 1, (3, 0))}),
            "blank": spaces.Dict({"far away": spaces.Discrete(2)}),
            "twice": spaces.Dict({"a.b": spaces.Discrete(2), "a": spaces.Dict({"b": spaces.Discrete(2)})}),
            "countless": spaces.Dict({"star": spaces.Discrete(2**31 + 1)}),
        }.get(observation, self.observation_space)


class Choices(gymnasium.Env):
    """Numbers that name something: what the action asks for, counted from the first values."""

    action_space = spaces.Discrete(24)

    def __init__(self, large=False, small=False):
        counts = np.array([[3, 2], [2, 5000 if large else 4]])
        self.start = np.array([[1, -1], [0, 5]])
        if small:  # bytes
            counts, self.start = np.full((6, 2, 2), 200, np.uint8), np.full((6, 2, 2), 9, np.uint8)
        self.observation_space = spaces.MultiDiscrete(counts, counts.dtype, start=self.start)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        return self.start.copy(), {}

    def step(self, action):
        seen = self.start + [[action // 8, 1], [1, action % 8]]
        return seen.astype(self.start.dtype), 0.0, False, False, {}


class Stars(gymnasium.Env):
    """The largest space of whole numbers that is read, and a number in its last step but one that is
    far from it."""

    observation_space = spaces.Discrete(2**31, start=-5)
    action_space = spaces.Discrete(65536)

    def reset(self, *, seed=None, options=None):
        self.t = 0
        return -5, {}

    def step(self, action):
        self.t += 1
        star = {1: 2**31 - 6, 2: 2**63 - 1}.get(self.t, -5)
        return star, 0.0, self.t == 3, False, {}


class Numbers(gymnasium.Env):
    """Sees numbers that no int32 may be; in its first step that number."""

    action_space = spaces.Discrete(2)

    def __init__(self, dtype, number):
        self.observation_space = spaces.Box(0, 9, (2,), np.dtype(dtype))
        self.number = np.array([1, int(number)], np.dtype(dtype))

    def reset(self, *, seed=None, options=None):
        return np.zeros_like(self.number), {}

    def step(self, action):
        return self.number, 0.0, False, False, {}


class Painter(Everything):
    """Draws the step as a picture, or what is none."""

    metadata = {"render_modes": ["human", "rgb_array"]}

    def __init__(self, render_mode=None, what=""):
        super().__init__()
        self.render_mode, self.what, self.pictures = render_mode, what, 0

    def render(self):
        self.pictures += 1
        if self.what == "grows":
            return np.zeros((4, 4 + self.pictures, 3), np.uint8)
        if self.what == "grey":
            return np.zeros((4, 5), np.uint8)
        if self.what == "broken":
            raise RuntimeError("the brush broke")
        return np.full((8, 10, 3), self.t, np.uint8)[::2, ::2]  # not contiguous


class Pictures(gymnasium.Env):
    """Images of every kind, each with its bounds and a number between."""

    observation_space = spaces.Dict(
        {
            "bytes": spaces.Box(0, 9, (36, 40), np.uint8),
            "depth": spaces.Box(100, 1100, (1, 36, 40), np.uint16),
            "wide": spaces.Box(0, 255, (36, 40, 3), np.float64),
            "unit": spaces.Box(-1, 1, (36, 40), np.float32),
            "mask": spaces.Box(0, 1, (36, 40), np.bool_),
            "open": spaces.Box(-np.inf, np.inf, (36, 40), np.float32),
            "huge": spaces.Box(-(2**40), 2**40, (36, 40), np.int64),
            "vector": spaces.Box(0, 255, (40,), np.float32),
        }
    )
    numbers = {"bytes": 3, "depth": 600, "wide": 51, "unit": -0.5, "mask": 1, "open": 7, "huge": 8, "vector": 51}
    action_space = spaces.Discrete(2)

    def look(self):
        parts = self.observation_space.items()
        return {name: np.full(space.shape, self.numbers[name], space.dtype) for name, space in parts}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.look(), {}

    def step(self, action):
        seen = self.look()
        seen["bytes"] += 7 * action
        return seen, 0.0, False, False, {}


gymnasium.register("Pictures-v0", Pictures)
gymnasium.register("Everything-v0", Everything)
gymnasium.register("Painter-v0", Painter)
gymnasium.register("Wrong-v0", Wrong)
gymnasium.register("Bound-v0", Bound)
gymnasium.register("Loose-v0", Loose)
gymnasium.register("Masked-v0", Masked)
gymnasium.register("Several-v0", Several)
gymnasium.register("Numbers-v0", Numbers)
gymnasium.register("Greedy-v0", Greedy)
gymnasium.register("Helped-v0", Helped)
gymnasium.register("Choices-v0", Choices)
gymnasium.register("Stars-v0", Stars)
gymnasium.register("Boxed-v0", Boxed)
gymnasium.register("Strange-v0", Strange)
