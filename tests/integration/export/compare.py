"""Compares an exported policy with our own inference of the same checkpoint, row by row, by
onnxruntime: batches of 1 and 7, random episodes, 256 rows or more each. Where the same policy
lies beside it as a safetensors file, the actions of acorn.load (deploy/python) of both as well.

Usage: [ONNX_CASES=FOLDER] compare.py POLICY_ROWS RUN FILE.onnx [CHECKPOINT [DEVICE [ENV]]]. With a
folder, the file, the inputs and our own numbers are kept there, for replay.py. Prints the largest
difference of each output; fails where one is above 1e-5, of an output whose largest number is above
1 above 1e-5 of that.
"""
import json
import os
import shutil
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../deploy/python"))
import acorn  # noqa: E402

onnxruntime.set_default_logger_severity(3)  # it warns of an input with a default, action_mask
LIMIT = 1e-5
ROWS = 256
MASKED = 1e29  # what is below minus that stands for an action that may not be chosen
DTYPES = {"tensor(float)": np.float32, "tensor(uint8)": np.uint8, "tensor(int32)": np.int32}
FIRST = 1
OWN = {"reset", "previous_action", "previous_reward", "state_in", "action_mask"}


class Policy:
    def __init__(self, path):
        model = onnx.load(path)
        onnx.checker.check_model(model, full_check=True)
        assert model.ir_version == 8 and model.opset_import[0].version == 17
        self.session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        initializers = {tensor.name for tensor in model.graph.initializer}
        self.optional = [value.name for value in model.graph.input if value.name in initializers]
        given = self.session.get_inputs() + self.session.get_overridable_initializers()
        declared = {value.name: value for value in model.graph.input}
        # In the file's order, which is that of the observation's tensors.
        self.inputs = {name: next(v for v in given if v.name == name) for name in declared}
        self.shapes = {name: [d.dim_param or d.dim_value for d in v.type.tensor_type.shape.dim]
                       for name, v in declared.items()}
        self.outputs = [value.name for value in self.session.get_outputs()]
        self.metadata = self.session.get_modelmeta().custom_metadata_map
        assert int(self.metadata["updates"]) > 0, "nothing was trained: weights as they began"
        self.space = {}  # the shape of each tensor, by the name of its input
        space = json.loads(self.metadata["space"])
        for tensor in space["observation"]:
            name = tensor["name"]
            self.space[name if name in self.inputs else "observation_" + name] = tensor["shape"]
        self.is_box = "low" in space
        self.numbers = ([len(space["low"])] if self.is_box
                        else space.get("choices") or [space["discrete"]])
        for name, shape in self.shapes.items():
            assert shape[0] == ("one_or_batch" if name in self.optional else "batch"), name

    def run(self, feed):
        return dict(zip(self.outputs, self.session.run(None, feed)))


def random_numbers(random, shape, dtype):
    if dtype == np.uint8:
        return random.integers(0, 256, shape).astype(dtype)
    if dtype == np.int32:
        return random.integers(-5, 6, shape).astype(dtype)
    return (random.normal(size=shape) * 3).astype(dtype)


def random_tensor(random, shape, dtype):
    """Of images, which have more than two dimensions, some are black."""
    x = random_numbers(random, shape, dtype)
    if len(shape) > 2:
        x[random.random(shape[0]) < 0.3] = 0
    return x


def options_of(metadata):
    return dict(line.split(" = ", 1) for line in metadata["options"].splitlines())


def make_rows(policy, random, T, B):
    """For each step what onnxruntime is given; the same as bytes of our rows; and for each step where
    an episode begins."""
    names = [name for name in policy.inputs if name not in OWN]
    stack = int(options_of(policy.metadata)["frame_stack"])
    is_box, numbers = policy.is_box, policy.numbers
    frames, feeds, firsts = {}, [], []
    packed = bytearray(np.array([T, B], np.int32).tobytes())
    for t in range(T):
        first = (random.random(B) < 0.2) | (t == 0)
        reward = (random.normal(size=B) * 2).astype(np.float32)
        if is_box:
            action = random.normal(size=(B, numbers[0])).astype(np.float32)
        else:
            action = np.stack([random.integers(0, n, B) for n in numbers], 1).astype(np.int32)
        mask = (random.random((B, sum(numbers))) < 0.4).astype(np.uint8)
        feed, tensors = {}, {}
        for name in names:
            shape, dtype = policy.shapes[name][1:], DTYPES[policy.inputs[name].type]
            stacked = len(shape) > len(policy.space[name])
            assert shape == [stack] * stacked + policy.space[name], (name, shape)
            x = random_tensor(random, [B] + shape[stacked:], dtype)
            if stacked and not any(other in frames for other in tensors):
                # An oldest frame that is black in all images cannot be told from none.
                x = random_numbers(random, [B] + shape[1:], dtype)
            tensors[name] = x
            if stacked:
                past = frames.get(name, np.zeros([B, stack] + shape[1:], dtype)).copy()
                past[first] = 0
                frames[name] = np.concatenate([x[:, None], past[:, :-1]], 1)
                x = frames[name]
            feed[name] = x
        # What of the step before is nonsense on a first row has to be ignored.
        if "previous_action" in policy.inputs:
            given = action if is_box else action.astype(np.int64)
            feed["previous_action"] = given.reshape([B] + policy.shapes["previous_action"][1:])
        if "previous_reward" in policy.inputs:
            feed["previous_reward"] = reward
        if "reset" in policy.inputs:
            feed["reset"] = first
        if "action_mask" in policy.inputs:
            feed["action_mask"] = mask
            tensors["action_mask"] = mask
        if not is_box:
            action[first] = -1
        feeds.append(feed)
        firsts.append(first)
        for b in range(B):
            packed += bytes([FIRST if first[b] else 0]) + reward[b].tobytes() + action[b].tobytes()
            for name in policy.space:
                packed += tensors[name][b].tobytes()
    return feeds, bytes(packed), firsts


def ours(command, packed, T, B, is_box):
    raw = subprocess.run(command, input=packed, stdout=subprocess.PIPE, check=True).stdout
    stride, size, values, action_bytes, state = np.frombuffer(raw, np.int32, 5)
    row = np.dtype([("head", np.float32, (stride,)), ("q", np.float32, (values,)),
                    ("action", np.float32 if is_box else np.int32, (action_bytes // 4,)),
                    ("state", np.float32, (state,))])
    rows = np.frombuffer(raw, row, offset=20).reshape(T, B)
    return rows, int(size)


def outputs_of(policy, row, size, is_box):
    """The outputs that the file should have, of a step's rows."""
    found = {"action": row["action"] if is_box or row["action"].shape[1] > 1 else
             row["action"][:, 0]}
    if "q" in policy.outputs:
        found["q"] = row["q"]
    elif row["head"].shape[1] == size and is_box:  # sac's: without a value
        found["mean"] = row["head"][:, : size // 2]
        found["log_std"] = row["head"][:, size // 2 :].clip(-20, 2)
    else:
        found["value"] = row["head"][:, size]
        found["mean" if is_box else "logits"] = row["head"][:, :size]
        if is_box:
            found["log_std"] = row["head"][:, size + 1:]
    if row["state"].shape[1]:
        found["state_out"] = row["state"]
    return found


def compare(policy, command, B, seed):
    is_box = policy.is_box
    T = -(-ROWS // B)
    random = np.random.default_rng(seed)
    feeds, packed, _ = make_rows(policy, random, T, B)
    rows, size = ours(command, packed, T, B, is_box)
    state, worst, kept = None, {}, []
    for t, feed in enumerate(feeds):
        if "state_in" in policy.inputs:
            width = policy.shapes["state_in"][1]
            feed["state_in"] = np.full((B, width), 3, np.float32) if state is None else state
        given = policy.run(feed)
        state = given.get("state_out")
        expected = outputs_of(policy, rows[t], size, is_box)
        assert sorted(given) == sorted(expected), (sorted(given), sorted(expected))
        kept.append((feed, {name: x.astype(given[name].dtype) for name, x in expected.items()}))
        for name, x in expected.items():
            y = given[name]
            assert x.shape == y.shape, (name, x.shape, y.shape)
            largest, different = worst.get(name, (1, 0))
            if name == "action" and not is_box:
                worst[name] = 1, max(different, float((x != y).any()))
            else:
                largest = np.abs(x[np.abs(x) < MASKED]).max(initial=largest)
                worst[name] = float(largest), float(np.abs(x - y).max(initial=different))
    keep(command[1], kept)
    return {name: different / largest for name, (largest, different) in worst.items()}


def keep(run, steps):
    """The steps' inputs, of which the state is the first alone, and what is expected of them."""
    folder = os.environ.get("ONNX_CASES")
    if not folder:
        return
    arrays = {f"in/{name}": np.stack([feed[name] for feed, _ in steps]) for name in steps[0][0]}
    if "in/state_in" in arrays:
        arrays["in/state_in"] = arrays["in/state_in"][0]
    for name in steps[0][1]:
        arrays[f"out/{name}"] = np.stack([expected[name] for _, expected in steps])
    name, B = os.path.basename(run), len(next(iter(steps[0][1].values())))
    np.savez(f"{folder}/{name}-{B}.npz", **arrays)
    shutil.copy(f"{run}/policy.onnx", f"{folder}/{name}.onnx")


def compare_library(policy, path, command, B, seed):
    """What it remembers of the step before is overwritten by the rows' own."""
    loaded = acorn.load(path)
    is_box = policy.is_box
    T = -(-ROWS // B)
    feeds, packed, firsts = make_rows(policy, np.random.default_rng(seed), T, B)
    rows, _ = ours(command, packed, T, B, is_box)
    state, worst = None, 0
    for t, feed in enumerate(feeds):
        raw = {tensor.name: feed[name][:, 0] if feed[name].ndim > 1 + len(tensor.shape)
               else feed[name] for tensor in loaded.space.tensors
               for name in (tensor.name, "observation_" + tensor.name) if name in feed}
        if state is not None:
            state[firsts[t]] = 0
            if "previous_action" in feed:
                previous = feed["previous_action"].astype(np.float32 if is_box else np.int32)
                previous = previous.reshape(B, -1).view(np.uint8)
                state[~firsts[t], -previous.shape[1]:] = previous[~firsts[t]]
        action, state = loaded.act(raw, state, feed.get("previous_reward"))
        expected = rows[t]["action"].reshape(action.shape)
        worst = max(worst, np.abs(action - expected).max())
    return float(worst)


def compare_packages(path, parameters, B, seed):
    """acorn.load of both files, over episodes that begin row by row; each keeps its own state."""
    random = np.random.default_rng(seed)
    first, second = acorn.load(path), acorn.load(parameters)
    states, worst = [None, None], 0
    for _ in range(20):
        raw = {tensor.name: random_numbers(random, (B,) + tensor.shape, tensor.dtype)
               for tensor in second.space.tensors}
        if "action_mask" in raw:
            raw["action_mask"] = (random.random(raw["action_mask"].shape) < 0.7).astype(np.uint8)
            raw["action_mask"][~raw["action_mask"].any(1)] = 1
        reward = random.normal(size=B).astype(np.float32)
        (a, states[0]), (b, states[1]) = (policy.act(raw, state, reward)
                                          for policy, state in zip((first, second), states))
        worst = max(worst, float(np.abs(a - b).max() / max(1, np.abs(b).max())))
        for state in states:
            state[reward > 1] = 0
    return worst


def check_optional(policy):
    """Without its mask, a policy allows every action."""
    random = np.random.default_rng(3)
    feed = make_rows(policy, random, 1, 2)[0][0]
    if "state_in" in policy.inputs:
        feed["state_in"] = np.zeros((2, policy.shapes["state_in"][1]), np.float32)
    feed["action_mask"] = np.ones_like(feed["action_mask"])
    whole = policy.run(feed)
    del feed["action_mask"]
    for name, x in policy.run(feed).items():
        assert np.array_equal(x, whole[name]), name


def main():
    program, run, path, *rest = sys.argv[1:]
    checkpoint, device, env = (rest + ["", "cpu", ""][len(rest):])
    policy = Policy(path)
    worst = {}
    for B, seed in ((1, 1), (7, 2)):
        for name, x in compare(policy, [program, run, checkpoint, device, env], B, seed).items():
            worst[name] = max(worst.get(name, 0), x)
    parameters = path.replace(".onnx", ".safetensors")
    if os.path.exists(parameters):
        for B, seed in ((1, 1), (7, 2)):
            found = compare_library(policy, parameters, [program, run, checkpoint, device, env], B,
                                    seed)
            worst["library"] = max(worst.get("library", 0), found)
        worst["package"] = compare_packages(path, parameters, 5, 4)
    if policy.optional:
        check_optional(policy)
    print(" ".join(f"{name}={x:.2e}" for name, x in sorted(worst.items())))
    sys.exit(any(not x <= LIMIT for x in worst.values()))


if __name__ == "__main__":
    main()
