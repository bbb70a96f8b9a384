"""Safetensors files of parameters, with Python's standard library alone.

Usage: file.py updates FILE        prints the updates of its metadata
       file.py edit FILE OUT HOW   writes it again: renamed, reshaped, with NaN, with a long
                                   header, with an unprintable name, doubled, or the head alone
       file.py same FILE RUN       whether its arrays are those of the run's newest checkpoint, bit for bit
"""
import json
import os
import struct
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from compare_checkpoints import newest


def read(path):
    with open(path, "rb") as file:
        data = file.read()
    (length,) = struct.unpack_from("<Q", data)
    return json.loads(data[8:8 + length]), bytearray(data[8 + length:])


def write(path, header, data):
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def edit(path, out, how):
    header, data = read(path)
    begin, end = header["head/b"]["data_offsets"]
    if how == "rename":
        header["head/x"] = header.pop("head/b")
    elif how == "reshape":
        header["head/b"]["shape"] = [1, (end - begin) // 4]
    elif how == "nan":
        struct.pack_into("<f", data, begin, float("nan"))
    elif how == "long":
        header, data = {"__metadata__": {"text": "x" * (128 << 10)}}, b""
    elif how == "escape":
        header["head/\n\x1b[2J"] = header.pop("head/b")
    elif how == "double":
        numbers = struct.unpack(f"<{len(data) // 4}f", data)
        data = struct.pack(f"<{len(numbers)}f", *(2 * number for number in numbers))
    elif how == "head":
        header = {"head/b": header["head/b"]}
    write(out, header, data)


def same(path, run):
    header, data = read(path)
    updates = header.pop("__metadata__")["updates"]
    arrays = newest(run)
    of_checkpoint = {}
    for name, (shape, numbers) in arrays.items():
        if name.startswith(("params/", "own/")):
            of_checkpoint[name.removeprefix("params/")] = list(shape), numbers.tobytes()
    of_file = {name: (entry["shape"], bytes(data[slice(*entry["data_offsets"])]))
               for name, entry in header.items()}
    assert of_file == of_checkpoint, (sorted(of_file), sorted(of_checkpoint))
    assert arrays["update/version"][1][0] == int(updates), updates


if __name__ == "__main__":
    if sys.argv[1] == "updates":
        print(read(sys.argv[2])[0]["__metadata__"]["updates"])
    else:
        {"edit": edit, "same": same}[sys.argv[1]](*sys.argv[2:])
