"""Trained policies: of a run folder, a checkpoint, a file of `acorn export`."""
import ctypes
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from acorn.bundle import ROOT, AcornError, check_system
from acorn.library import Space, Tensor, call, library


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
            raise AcornError(done.stderr.strip() or f"export ended with {done.returncode}")
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
        if not np.can_cast(given.dtype, tensor.dtype, "same_kind"):
            raise AcornError(f"{tensor.name} is {given.dtype}; it is {tensor}")
        given = given[None] if single else given
        rows.append(np.ascontiguousarray(given, tensor.dtype))
        counts.add((len(given), single))
    if len(counts) != 1:
        raise AcornError("the parts of the observation have different numbers of rows")
    return rows, counts.pop()[1]


class Policy:
    """A policy by Acorn's own inference. `space`: what it sees and does; `metadata(name)`: a text
    of its file ("environment", "steps", "options")."""

    def __init__(self, path):
        self._handle = None
        self._handle = call("policy_open", str(path).encode())
        self.space = Space(self.metadata("space"))
        self._state_bytes = library().acorn_policy_state_bytes(self._handle)

    def close(self):
        """Frees what it holds; it cannot act any more."""
        handle, self._handle = self._handle, None
        if handle:
            library().acorn_policy_close(handle)

    def __del__(self):
        self.close()

    def _check_open(self):
        if not self._handle:
            raise AcornError("this policy is closed")

    def metadata(self, name):
        self._check_open()
        text = library().acorn_policy_text(self._handle, name.encode())
        return None if text is None else text.decode()

    def act(self, observation, state=None, reward=None):
        """The greedy action, as the environment takes it, and the state for the next call.

        observation: an array of the observation's shape, or of rows of it; of several parts a dict.
        state: None where an episode begins, then what the last call gave (of rows, zeros in that of
        a row begin an episode there: state[done] = 0). reward: of the step before, for policies
        trained with --previous_reward.
        """
        self._check_open()
        rows, single = take_rows(self.space.tensors, observation)
        count = len(rows[0])
        if not all(np.isfinite(part).all() for part in rows):
            raise AcornError("a number of the observation is NaN or infinite")
        shape = (count, self._state_bytes)
        state = np.zeros(shape, np.uint8) if state is None else np.array(state, np.uint8, order="C")
        if state.shape != shape:
            raise AcornError(f"state has the shape {state.shape}, not {shape}: give None, or what "
                             "act gave for as many rows")
        if reward is not None:
            reward = np.ascontiguousarray(np.broadcast_to(reward, count), np.float32)
        action = self.space.action_array(count)
        places = (ctypes.c_void_p * len(rows))(*(part.ctypes.data for part in rows))
        call("policy_act", self._handle, action.ctypes.data, state.ctypes.data, places,
             None if reward is None else reward.ctypes.data, count)
        return (action[0] if single else action), state


class OnnxPolicy:
    """A policy of an ONNX file, by onnxruntime: act as Policy's, but state is a dict."""

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
        inputs = self._session.get_inputs() + self._session.get_overridable_initializers()
        self._inputs = {x.name: x for x in inputs}
        self._outputs = [x.name for x in self._session.get_outputs()]
        own = {"previous_action", "previous_reward", "state_in", "reset"}
        self._tensors = [Tensor(x.name, self._dtype(x), x.shape[1:])
                         for x in inputs if x.name not in own]

    @staticmethod
    def _dtype(tensor):
        names = {"tensor(float)": "float32", "tensor(bool)": "bool"}
        return names.get(tensor.type, tensor.type[len("tensor("):-1])

    def metadata(self, name):
        return self._metadata.get(name)

    def act(self, observation, state=None, reward=None):
        """See Policy.act. Of images with several frames the observation has all of them."""
        rows, single = take_rows(self._tensors, observation)
        feed = {tensor.name: x for tensor, x in zip(self._tensors, rows)}
        count = len(rows[0])
        for name, x in self._inputs.items():
            if name in feed:
                continue
            value = (state or {}).get(name)
            if name == "reset":
                value = np.full(count, state is None)
            elif name == "previous_reward":
                value = np.broadcast_to(np.asarray(reward or 0, np.float32), count)
            elif value is None:
                value = np.zeros([count] + x.shape[1:], self._dtype(x))
            feed[name] = value
        found = dict(zip(self._outputs, self._session.run(None, feed)))
        action = found["action"]
        previous = found.get("mean", action)
        state = {"state_in": found.get("state_out"), "previous_action": previous}
        return (action[0] if single else action), state
