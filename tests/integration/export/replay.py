"""Runs policies by an onnxruntime that is not the pinned one, over what compare.py has kept in a
folder (ONNX_CASES): inputs of each step, and what our own inference gave. Needs numpy alone beside
it. Usage: replay.py FOLDER. Prints the largest difference of each case; fails as compare.py does."""
import sys
from pathlib import Path

import numpy as np
import onnxruntime

onnxruntime.set_default_logger_severity(3)
LIMIT = 1e-5
MASKED = 1e29  # see compare.py


def difference(expected, given):
    assert expected.shape == given.shape, (expected.shape, given.shape)
    if expected.dtype != np.float32:
        return float((expected != given).any())
    largest = np.abs(expected[np.abs(expected) < MASKED]).max(initial=1)
    return float(np.abs(expected - given).max()) / largest


def replay(case):
    session = onnxruntime.InferenceSession(str(case.parent / f"{case.stem.rpartition('-')[0]}.onnx"),
                                           providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    with np.load(case) as arrays:
        feeds = {key[3:]: arrays[key] for key in arrays if key.startswith("in/")}
        expected = {key[4:]: arrays[key] for key in arrays if key.startswith("out/")}
    assert sorted(names) == sorted(expected), (names, sorted(expected))
    state, given = feeds.pop("state_in", None), {name: [] for name in names}
    for t in range(len(next(iter(expected.values())))):
        feed = {name: rows[t] for name, rows in feeds.items()}
        if state is not None:
            feed["state_in"] = state
        outputs = dict(zip(names, session.run(None, feed)))
        state = outputs.get("state_out")
        for name in names:
            given[name].append(outputs[name])
    return max(difference(expected[name], np.stack(given[name])) for name in names)


def main():
    cases = sorted(Path(sys.argv[1]).glob("*.npz"))
    print(f"onnxruntime {onnxruntime.__version__}, Python {sys.version.split()[0]}: "
          f"{len(cases)} cases")
    worst = 1.0 if not cases else 0.0
    for case in cases:
        found = replay(case)
        worst = max(worst, found)
        print(f"{case.stem:<12} {found:.2e} {'ok' if found <= LIMIT else 'MISSED'}")
    sys.exit(not worst <= LIMIT)


if __name__ == "__main__":
    main()
