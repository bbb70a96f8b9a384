"""Checks an exported .npz against the checkpoint that it is from, with a reader of its own, and plays
CartPole with it in numpy: greedily, from the seeds SEED, SEED + 1, ...

Usage: npz.py CHECKPOINT NPZ SEED EPISODES. Prints "equal", then the mean return.
"""
import struct
import sys

import numpy as np

DTYPES = {1: "<f4", 2: "<f8", 3: "<i8", 4: "|u1"}


def read_checkpoint(path):
    """The arrays of a checkpoint by name (the layout stands in learner/params/checkpoint.h)."""
    data = open(path, "rb").read()
    magic, _, count = struct.unpack_from("<8sII", data)
    assert magic == b"ACORNCKP"
    at, entries = 16, []
    for _ in range(count):
        (length,) = struct.unpack_from("<H", data, at)
        name = data[at + 2:at + 2 + length].decode()
        at += 2 + length
        dtype, rank = struct.unpack_from("<BB", data, at)
        shape = struct.unpack_from(f"<{rank}Q", data, at + 2)
        at += 2 + 8 * rank
        size, _ = struct.unpack_from("<QI", data, at)
        at += 12
        entries.append((name, dtype, shape, size))
    at += 4
    arrays = {}
    for name, dtype, shape, size in entries:
        at += -at % 64
        arrays[name] = np.frombuffer(data, DTYPES[dtype], size // np.dtype(DTYPES[dtype]).itemsize,
                                     at).reshape(shape)
        at += size
    return arrays


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


def main():
    checkpoint, npz, seed, episodes = sys.argv[1:]
    ours = {name[len("params/"):]: array for name, array in read_checkpoint(checkpoint).items()
            if name.startswith("params/")}
    theirs = np.load(npz)
    assert sorted(theirs.files) == sorted(ours), (theirs.files, list(ours))
    for name, array in ours.items():
        assert theirs[name].dtype == array.dtype and theirs[name].shape == array.shape, name
        assert np.array_equal(theirs[name], array), name
    print("equal")
    params = {name: theirs[name] for name in theirs.files}
    print(np.mean([play(params, int(seed) + i) for i in range(int(episodes))]))


main()
