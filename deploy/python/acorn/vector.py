"""Acorn's environments in C, and plugins, as a vector environment of Gymnasium."""
import ctypes
import json

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import batch_space

from acorn.bundle import AcornError
from acorn.library import Space, call, library


def _observation_space(tensors):
    def one(tensor):
        if tensor.dtype == np.float32:
            return spaces.Box(-np.inf, np.inf, tensor.shape, tensor.dtype)
        limits = np.iinfo(tensor.dtype)
        return spaces.Box(limits.min, limits.max, tensor.shape, tensor.dtype)

    if len(tensors) == 1:
        return one(tensors[0])
    return spaces.Dict({tensor.name: one(tensor) for tensor in tensors})


def _action_space(space):
    if space.box is not None:
        return spaces.Box(*space.box, dtype=np.float32)
    return spaces.MultiDiscrete(space.choices) if space.choices else spaces.Discrete(space.discrete)


class VectorEnv(gymnasium.vector.VectorEnv):
    """So many environments, stepped in one call of C.

    env: "cartpole", "catch", "tmaze", or the path of a plugin (docs/environments.md). An episode
    that has ended is reset by the next step, whose action means nothing there
    (AutoresetMode.NEXT_STEP). Seeds: environment i is reset with seed + i, or with seed[i].
    Errors: AcornError, with the environment's sentence.
    """

    metadata = {"render_modes": ["rgb_array"],
                "autoreset_mode": gymnasium.vector.AutoresetMode.NEXT_STEP}

    def __init__(self, env, num_envs=1, env_args=None, render_mode=None):
        self._handle = None
        if str(env).startswith("gym:"):
            raise AcornError(f"{env}: Gymnasium makes its own: gymnasium.make_vec('{env[4:]}', "
                             f"{num_envs})")
        self._handle = call("vector_open", str(env).encode(),
                            json.dumps(env_args or {}).encode(), num_envs)
        self.num_envs, self.render_mode = num_envs, render_mode
        self._was_reset = np.zeros(num_envs, bool)
        space = Space(library().acorn_vector_space(self._handle).decode())
        self.single_observation_space = _observation_space(space.tensors)
        self.single_action_space = _action_space(space)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        # Arrays whose addresses are known to C; what a step returns are copies.
        self._names = None if len(space.tensors) == 1 else [x.name for x in space.tensors]
        self._observation = [np.zeros((num_envs, *x.shape), x.dtype) for x in space.tensors]
        self._places = (ctypes.c_void_p * len(space.tensors))(
            *(x.ctypes.data for x in self._observation))
        self._action = space.action_array(num_envs)
        self._reward = np.zeros(num_envs, np.float32)
        self._ended = np.zeros((2, num_envs), bool)
        self._step = library().acorn_vector_step
        self._error = ctypes.create_string_buffer(1024)
        ended = self._ended.ctypes.data
        self._arguments = [ctypes.c_void_p(self._handle), self._places] + [
            ctypes.c_void_p(place) for place in (self._reward.ctypes.data, ended, ended + num_envs,
                                                 self._action.ctypes.data)]
        self._arguments += [self._error, ctypes.c_size_t(1024)]

    def _check_open(self):
        if not self._handle:
            raise AcornError("these environments are closed")

    def _actions(self, given):
        """As C takes them; nothing is broadcast, cut or wrapped."""
        given = np.asarray(given)
        if given.shape != self._action.shape:
            raise AcornError(f"actions have the shape {given.shape}, not {self._action.shape}")
        if not np.can_cast(given.dtype, self._action.dtype, "same_kind"):
            raise AcornError(f"actions are {given.dtype}, not {self._action.dtype}")
        np.copyto(self._action, given, casting="same_kind")
        if given.dtype.kind in "iu" and not np.array_equal(self._action, given):
            raise AcornError("an action is out of range")

    def _look(self):
        if self._names is None:
            return self._observation[0].copy()
        return {name: x.copy() for name, x in zip(self._names, self._observation)}

    def reset(self, *, seed=None, options=None):
        self._check_open()
        super().reset(seed=seed if isinstance(seed, int) else None)
        if seed is None and not self._was_reset.all():  # each another one, each time
            seed = np.random.SeedSequence().generate_state(self.num_envs, np.uint32)
        if seed is not None:
            whole = isinstance(seed, (int, np.integer))
            seeds = range(seed, seed + self.num_envs) if whole else seed
            seed = np.array([int(x) for x in seeds], np.uint64)
            if len(seed) != self.num_envs:
                raise ValueError(f"{len(seed)} seeds for {self.num_envs} environments")
        mask = (options or {}).get("reset_mask")
        if mask is not None:
            # One that was never reset has nothing to show, and no seed.
            mask = np.broadcast_to(mask, self.num_envs).astype(bool) | ~self._was_reset
        call("vector_reset", self._handle, self._places,
             None if seed is None else seed.ctypes.data, None if mask is None else mask.ctypes.data)
        self._was_reset[:] = True
        return self._look(), {}

    def step(self, actions):
        self._check_open()
        if not self._was_reset.all():
            raise AcornError("call reset before the first step")
        self._actions(actions)
        if self._step(*self._arguments) != 0:
            raise AcornError(self._error.value.decode(errors="replace"))
        terminated, truncated = self._ended.copy()
        return self._look(), self._reward.astype(np.float64), terminated, truncated, {}

    def render(self):
        """A picture of each environment; None where it draws none."""
        self._check_open()
        if self.render_mode != "rgb_array":
            return None
        return tuple(self._render_one(i) for i in range(self.num_envs))

    def _render_one(self, index):
        width, height = ctypes.c_int(), ctypes.c_int()
        size = ctypes.byref(width), ctypes.byref(height)
        call("vector_render", self._handle, index, *size, None)
        if not width.value:
            return None
        picture = np.zeros((height.value, width.value, 3), np.uint8)
        call("vector_render", self._handle, index, *size, picture.ctypes.data)
        return picture

    def close_extras(self, **kwargs):
        if self._handle:
            library().acorn_vector_close(self._handle)
            self._handle = None
