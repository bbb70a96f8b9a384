"""Reads an exported safetensors file by the package of that name and compares it with the
checkpoint that it is from.

Usage: weights.py CHECKPOINT FILE. Fails where they differ; prints the number of arrays.
"""
import os
import sys

import numpy as np
from safetensors import safe_open

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from compare_checkpoints import read_checkpoint  # noqa: E402

checkpoint, path = sys.argv[1:]
ours = {name[len("params/"):]: np.array(numbers, np.float32).reshape(shape)
        for name, (shape, numbers) in read_checkpoint(checkpoint).items()
        if name.startswith("params/")}
with safe_open(path, "numpy") as file:
    assert sorted(file.keys()) == sorted(ours), (list(file.keys()), list(ours))
    for name, array in ours.items():
        theirs = file.get_tensor(name)
        assert theirs.dtype == np.float32 and np.array_equal(theirs, array), name
    about = file.metadata()
assert {"environment", "agent", "network", "options", "space", "steps"} < set(about), about
print(len(ours))
