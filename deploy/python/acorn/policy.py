"""Trained policies: of a run folder, a checkpoint, a file of `acorn export`."""
import ctypes
import re
import subprocess
import tempfile
import threading
from pathlib import Path

import numpy as np

from acorn.bundle import ROOT, AcornError, check_system
from acorn.library import Space, call, library


def load(source, *, checkpoint="", env=None):
    """A policy that plays greedily.

    source: a run folder; a checkpoint file in one; or what `acorn export` has written: a
    .safetensors file, or an .onnx file, which needs the package onnxruntime. checkpoint: "best"
    or "latest" of a run folder; "": the best, and the latest while there is no best one. env:
    where the run's environment is here, if that is a file that lies elsewhere. Errors: AcornError,
    with what is wrong and what to do.
    """
    path = Path(source)
    if path.suffix == ".onnx":
        return OnnxPolicy(path)
    if path.suffix == ".safetensors":
        return Policy(path)
    if path.is_file():
        path, checkpoint = path.resolve().parents[1], str(path)
    if not (path / "config.txt").is_file():
        raise AcornError(f"{source} is no run folder, nor a checkpoint in one: there is no "
                         f"{path / 'config.txt'}")
    check_system()
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "policy.safetensors"
        words = [ROOT / "build/export", path, "--format=safetensors", f"--output={output}",
                 f"--checkpoint={checkpoint}"] + ([f"--env={env}"] if env else [])
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode != 0:
            said = re.sub(r"(?m)^[0-9.]+ export: (error: )?", "", done.stderr.strip())
            raise AcornError(said or f"export ended with {done.returncode}")
        return Policy(output)


def take_rows(tensors, observation):
    """An observation as an array of rows for each tensor, and whether it was a single row."""
    if not isinstance(observation, dict):
        if len(tensors) == 1:
            observation = {tensors[0].name: observation}
        else:
            observation = dict(zip((tensor.name for tensor in tensors), observation))
    rows, counts = [], set()
    for tensor in tensors:
        if tensor.name not in observation:
            raise AcornError(f"the observation has no {tensor.name}; it is {tensors}")
        given = np.asarray(observation[tensor.name])
        single = given.shape == tensor.shape
        if not single and given.shape[1:] != tensor.shape:
            raise AcornError(f"{tensor.name} has the shape {list(given.shape)}; it is {tensor}, or "
                             "rows of it")
        if given.dtype == np.uint8 and tensor.dtype == np.float32:
            raise AcornError(f"{tensor.name} is uint8; it is {tensor}: convert it as the run did "
                             '(docs/gymnasium.md, "Spaces")')
        is_whole = given.dtype.kind in "iu" and tensor.dtype.kind in "iu"  # its numbers have to fit
        if not is_whole and not np.can_cast(given.dtype, tensor.dtype, "same_kind"):
            raise AcornError(f"{tensor.name} is {given.dtype}; it is {tensor}")
        with np.errstate(over="ignore"):
            given = given[None] if single else given
            taken = np.ascontiguousarray(given, tensor.dtype)
        if taken.dtype.kind in "iu" and not np.array_equal(taken, given):
            raise AcornError(f"a number of {tensor.name} does not fit {tensor.dtype}")
        if not np.isfinite(taken).all():
            raise AcornError("a number of the observation is NaN or infinite, or too large for "
                             f"{tensor.dtype}")
        rows.append(taken)
        counts.add((len(taken), single))
    if len(counts) != 1:
        raise AcornError("the parts of the observation have different numbers of rows")
    return rows, counts.pop()[1]


def take_state(state, shape):
    """A copy of what the last call gave, or of a beginning."""
    state = np.zeros(shape, np.uint8) if state is None else np.array(state, np.uint8, order="C")
    if state.shape != shape:
        raise AcornError(f"state has the shape {state.shape}, not {shape}: give None, or what "
                         "act gave for as many rows")
    return state


def take_reward(reward, state, is_read):
    """That of each row. Where all begin an episode there is none."""
    if reward is None:
        if is_read and state.any():
            raise AcornError("reward is missing: this policy reads that of the step before "
                             "(--previous_reward): give reward=, a number or one for each row")
        reward = 0
    return np.array(np.broadcast_to(reward, len(state)), np.float32)


class Policy:
    """A policy by Acorn's own inference. `space`: what it sees and does; `metadata(name)`: a text
    of its file ("environment", "steps", "options")."""

    def __init__(self, path):
        self._handle, self._lock = None, threading.Lock()  # closed by one thread, used by others
        self._handle = call("policy_open", str(path).encode())
        self.space = Space(self.metadata("space"))
        self._state_bytes = library().acorn_policy_state_bytes(self._handle)
        self._reads_reward = "previous_reward = true" in self.metadata("options").splitlines()

    def close(self):
        """Frees what it holds; it cannot act any more."""
        with self._lock:
            handle, self._handle = self._handle, None
            if handle:
                library().acorn_policy_close(handle)

    def __del__(self):
        self.close()

    def _check_open(self):
        if not self._handle:
            raise AcornError("this policy is closed")

    def metadata(self, name):
        with self._lock:
            self._check_open()
            text = library().acorn_policy_text(self._handle, name.encode())
        return None if text is None else text.decode()

    def act(self, observation, state=None, reward=None):
        """The greedy action, of discrete ones by its index from 0, and the state for the next call.

        observation: an array of the observation's shape, or of rows of it; of several parts a dict.
        state: None where an episode begins, then what the last call gave (of rows, zeros in that of
        a row begin an episode there: with a VectorEnv state[ended] = 0 after the step behind an
        episode's last, which resets it). reward: of the step before; policies trained with
        --previous_reward need it, but where each row begins an episode.
        """
        rows, single = take_rows(self.space.tensors, observation)
        count = len(rows[0])
        state = take_state(state, (count, self._state_bytes))
        reward = take_reward(reward, state, self._reads_reward)
        action = self.space.action_array(count)
        places = (ctypes.c_void_p * len(rows))(*(part.ctypes.data for part in rows))
        with self._lock:
            self._check_open()
            call("policy_act", self._handle, action.ctypes.data, state.ctypes.data, places,
                 reward.ctypes.data, count)
        return (action[0] if single else action), state


# Inputs of an ONNX file that are no part of the observation.
OWN = {"reset", "previous_action", "previous_reward", "state_in"}


class OnnxPolicy:
    """A policy of an ONNX file, by onnxruntime: space, metadata and act as Policy's."""

    def __init__(self, path):
        try:
            import onnxruntime
        except ImportError:
            raise AcornError(f"{path} needs the package onnxruntime: pip install onnxruntime; or "
                             "load a run folder or a .safetensors file") from None
        try:
            self._session = onnxruntime.InferenceSession(str(path),
                                                         providers=["CPUExecutionProvider"])
        except Exception as error:  # of types of its own
            raise AcornError(f"{path}: {error}") from None
        self._metadata = self._session.get_modelmeta().custom_metadata_map
        if "space" not in self._metadata:
            raise AcornError(f"{path} is no file of `acorn export` of this version: its metadata "
                             "have no space; export the run again")
        self.space = Space(self._metadata["space"])
        inputs = self._session.get_inputs() + self._session.get_overridable_initializers()
        self._inputs = {x.name: (self._dtype(x), x.shape[1:]) for x in inputs}
        self._outputs = [x.name for x in self._session.get_outputs()]
        self._find_tensors()
        # What the network was given as the action before: a box's on its scale of -1 to 1.
        self._squashes = "mean" in self._outputs and self._metadata.get("agent") == "sac"

    @staticmethod
    def _dtype(tensor):
        names = {"tensor(float)": "float32", "tensor(bool)": "bool"}
        return np.dtype(names.get(tensor.type, tensor.type[len("tensor("):-1]))

    def _find_tensors(self):
        """The inputs of the observation's tensors, and those that a row's state has: a byte that
        is 0 where an episode begins, then the value of each."""
        self._names, self._kept = [], []
        for tensor in self.space.tensors:
            is_input = tensor.name in self._inputs and tensor.name not in OWN
            self._names.append(tensor.name if is_input else "observation_" + tensor.name)
            if len(self._inputs[self._names[-1]][1]) > len(tensor.shape):
                self._kept.append(self._names[-1])
        self._kept += [name for name in ("state_in", "previous_action") if name in self._inputs]
        self._state_bytes = 1 + sum(dtype.itemsize * int(np.prod(shape)) for dtype, shape in
                                    (self._inputs[name] for name in self._kept))

    def close(self):
        """See Policy.close."""
        self._session = None

    def metadata(self, name):
        return self._metadata.get(name)

    def _unpack(self, state):
        """What the state has for each input."""
        values, at = {}, 1
        for name in self._kept:
            dtype, shape = self._inputs[name]
            end = at + dtype.itemsize * int(np.prod(shape))
            values[name] = state[:, at:end].copy().view(dtype).reshape([len(state)] + shape)
            at = end
        return values

    def _pack(self, values, count):
        parts = [np.ascontiguousarray(values[name], self._inputs[name][0]).reshape(count, -1)
                 for name in self._kept]
        return np.concatenate([np.ones((count, 1), np.uint8)] +
                              [part.view(np.uint8) for part in parts], 1)

    def act(self, observation, state=None, reward=None):
        """See Policy.act."""
        if not self._session:
            raise AcornError("this policy is closed")
        rows, single = take_rows(self.space.tensors, observation)
        count = len(rows[0])
        state = take_state(state, (count, self._state_bytes))
        feed = self._unpack(state)
        for name, x in zip(self._names, rows):
            frames = feed.get(name)  # the newest first
            feed[name] = (x.reshape([count] + self._inputs[name][1]) if frames is None  # a flat mask
                          else np.concatenate([x[:, None], frames[:, :-1]], 1))
        if "reset" in self._inputs:
            feed["reset"] = state[:, 0] == 0
        reads_reward = "previous_reward" in self._inputs
        reward = take_reward(reward, state, reads_reward)
        if reads_reward:
            feed["previous_reward"] = reward
        found = dict(zip(self._outputs, self._session.run(None, feed)))
        action = found["action"]
        drawn = found.get("mean", action)
        state = self._pack({**feed, "state_in": found.get("state_out"),
                            "previous_action": np.tanh(drawn) if self._squashes else drawn}, count)
        action = action.astype(self.space.action_array(0).dtype)
        return (action[0] if single else action), state
