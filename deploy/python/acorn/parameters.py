"""Parameters of a running learner, as arrays by name."""
import json
import re
import struct
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from acorn.bundle import ROOT, AcornError, check_system


def _read(path):
    data = path.read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__", None)
    return {name: np.frombuffer(data, "<f4", offset=8 + length + entry["data_offsets"][0],
                                count=int(np.prod(entry["shape"]))).reshape(entry["shape"]).copy()
            for name, entry in header.items()}


def _write(path, arrays):
    header, at = {}, 0
    arrays = {name: np.ascontiguousarray(array, "<f4") for name, array in arrays.items()}
    for name, array in arrays.items():
        header[name] = {"dtype": "F32", "shape": list(np.shape(array)),
                        "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    text = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for array in arrays.values():
            file.write(array.tobytes())


def _call(what, folder, path, token_file, *words):
    """Returns the updates that the learner had made."""
    check_system()
    words += (f"--token_file={token_file}",) if token_file else ()
    done = subprocess.run([ROOT / "build/parameters", what, folder, path, *words],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        raise AcornError(done.stderr.strip() or f"parameters ended with {done.returncode}")
    return int(re.search(r" update (\d+)$", done.stdout.strip())[1])


def get(folder, token_file):
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary) / "parameters.safetensors"
        updates = _call("get", folder, path, token_file)
        return _read(path), updates


def set_some(folder, arrays, expected_version, token_file):
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary) / "parameters.safetensors"
        _write(path, arrays)
        words = [] if expected_version is None else [f"--expected_version={expected_version}"]
        return _call("set", folder, path, token_file, *words)
