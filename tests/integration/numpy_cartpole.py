"""Checks an exported safetensors file against the checkpoint that it is from, both read by Python,
and plays CartPole with it in numpy: greedily, from the seeds SEED, SEED + 1, ...

Usage: numpy_cartpole.py CHECKPOINT FILE SEED EPISODES. Prints "equal", then the mean return.
"""
import json
import sys

import numpy as np

sys.dont_write_bytecode = True  # no __pycache__ in the source tree
from compare_checkpoints import read_checkpoint


def act(params, state):
    x = state.astype(np.float32)
    for layer in ("hidden0", "hidden1"):
        x = np.tanh(x @ params[layer + "/w"] + params[layer + "/b"])
    return int(np.argmax((x @ params["head/w"] + params["head/b"])[:2]))


def step(s, action):
    force = 10.0 if action == 1 else -10.0
    cosine, sine = np.cos(s[2]), np.sin(s[2])
    temp = (force + 0.05 * s[3] ** 2 * sine) / 1.1
    angular = (9.8 * sine - cosine * temp) / (0.5 * (4 / 3 - 0.1 * cosine ** 2 / 1.1))
    linear = temp - 0.05 * angular * cosine / 1.1
    return s + 0.02 * np.array([s[1], linear, s[3], angular])


def play(params, seed):
    state = np.random.default_rng(seed).uniform(-0.05, 0.05, 4)
    for steps in range(1, 501):
        state = step(state, act(params, state))
        if abs(state[0]) > 2.4 or abs(state[2]) > 12 * 2 * np.pi / 360:
            return steps
    return 500


def read(path):
    """The texts and the arrays of a safetensors file."""
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        data = file.read()
    texts = header.pop("__metadata__")
    assert all(entry["dtype"] == "F32" for entry in header.values())
    return texts, {name: np.frombuffer(data[slice(*entry["data_offsets"])], np.float32)
                   .reshape(entry["shape"]) for name, entry in header.items()}


def main():
    checkpoint, path, seed, episodes = sys.argv[1:]
    ours = {name[len("params/"):]: np.array(numbers).reshape(shape)
            for name, (shape, numbers) in read_checkpoint(checkpoint).items()
            if name.startswith("params/")}
    texts, theirs = read(path)
    assert texts["network"] == "mlp" and "activation = " in texts["options"], texts
    assert sorted(theirs) == sorted(ours), (list(theirs), list(ours))
    for name, array in ours.items():
        assert theirs[name].dtype == array.dtype and theirs[name].shape == array.shape, name
        assert np.array_equal(theirs[name], array), name
    print("equal")
    print(np.mean([play(theirs, int(seed) + i) for i in range(int(episodes))]))


if __name__ == "__main__":  # everyday.sh takes step from here
    main()
