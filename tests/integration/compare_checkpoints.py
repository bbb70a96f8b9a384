"""Reads checkpoint files, with Python's standard library alone, and compares two of them bit for bit.

Usage: compare_checkpoints.py RUN RUN, two run folders. Compares the floating-point arrays (parameters,
optimiser, entropy coefficient) of the newest checkpoint of each; file names, shapes and counters may
differ. Prints "equal (N arrays, U updates)" and exits with 0, or prints the first array that differs with
the largest difference in it and exits with 1.
"""
import array
import glob
import math
import struct
import sys

TYPES = {1: "f", 2: "d", 3: "q", 4: "B"}  # dtype -> that of array.array
VERSION = "update/version"


def read_checkpoint(path):
    """The arrays of a checkpoint, (shape, array.array) by name, in the order of the file (the layout
    is described in learner/params/checkpoint.h)."""
    data = open(path, "rb").read()
    magic, layout, count = struct.unpack_from("<8sII", data)
    assert magic == b"ACORNCKP" and layout == 1, path
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
        entries.append((name, TYPES[dtype], shape, size))
    at += 4
    arrays = {}
    for name, dtype, shape, size in entries:
        at += -at % 64
        arrays[name] = shape, array.array(dtype, data[at:at + size])
        at += size
    return arrays


def updates(arrays):
    return arrays[VERSION][1][0]


def newest(run):
    """The arrays of the newest checkpoint of a run folder; exits with 1 if there is none."""
    paths = glob.glob(run + "/checkpoints/checkpoint-*.acorn")
    if not paths:
        sys.exit(f"there is no checkpoint in {run}/checkpoints")
    return max(map(read_checkpoint, paths), key=updates)


def floats(arrays):
    return {name: x for name, (_, x) in arrays.items() if x.typecode in "fd"}


def difference(a, b):
    """Describes how two arrays differ; None if they are equal bit for bit."""
    if a is None or b is None:
        return "only in the %s run" % ("first" if b is None else "second")
    if (a.typecode, len(a)) != (b.typecode, len(b)):
        return "%d numbers of type %s, %d of type %s" % (len(a), a.typecode, len(b), b.typecode)
    if a.tobytes() == b.tobytes():
        return None
    apart = [abs(x - y) for x, y in zip(a, b)]
    if any(map(math.isnan, apart)):
        return "at least one is NaN, or infinite in both"
    at = max(range(len(apart)), key=apart.__getitem__)
    return "largest difference %.3g, between %.9g and %.9g" % (apart[at], a[at], b[at])


def main():
    runs = [newest(run) for run in sys.argv[1:3]]
    first, second = map(floats, runs)
    names = list(first) + [name for name in second if name not in first]
    differ = [(name, text) for name in names
              if (text := difference(first.get(name), second.get(name)))]
    if differ:
        print("%d of %d arrays differ, the first is %s: %s" % (len(differ), len(names), *differ[0]))
        sys.exit(1)
    print(f"equal ({len(names)} arrays, {updates(runs[0])} updates)")


if __name__ == "__main__":
    main()
