#!/usr/bin/env python3
"""observation.txt: running means and variances of observations, and observations normalised by them,
by numpy in float64, straight from their definition: of all numbers so far, each with its weight. The
layout is that of gae.txt (gae.py), with 15 digits. Each case has
  batches, rows, places: sizes; most: the count stays at it
  x: (batches, rows, places), numbers that a float32 holds exactly: about 0; about 100; of about
    0.001; and of the last place the same one always (where there are so many places)
  count, mean, variance: (batches, places), after each batch
  normalized: (rows, places), the last batch by the statistics after it, clipped to +-1.5
Once the count is `most` a batch of n takes its share of the weights, n / (most + n), from all numbers
before it alike.

Needs numpy (2.4.6 was used). Usage: tests/golden/algorithms/observation.py"""

import os

import numpy as np

CASES = {"first": (1, 7, 1, 1000), "sets": (3, 33, 4, 1000), "wide": (2, 5, 37, 1000),
         "single": (4, 1, 5, 1000), "window": (9, 16, 3, 40)}
CENTRES, SCALES = [0.25, 100, 0, -3], [2, 1, 0.001, 0]
EPSILON, LIMIT = 1e-8, 1.5


def make_case(seed, batches, rows, places, most):
    rng = np.random.default_rng(seed)
    centres, scales = np.resize(CENTRES, places), np.resize(SCALES, places)
    moves = np.arange(batches).reshape(-1, 1, 1)  # later batches lie elsewhere
    x = centres + scales * (rng.uniform(-1, 1, (batches, rows, places)) + 0.5 * moves)
    x = x.astype(np.float32).astype(np.float64)
    statistics, weights, total = {"count": [], "mean": [], "variance": []}, np.zeros(0), 0
    for batch in range(batches):
        weights = weights * (min(total, most) / total if total else 1)
        weights = np.concatenate([weights, np.ones(rows)])
        total = min(total, most) + rows
        seen = x[:batch + 1].reshape(-1, places)
        mean = np.average(seen, 0, weights)
        statistics["count"].append(np.full(places, min(total, most)))
        statistics["mean"].append(mean)
        statistics["variance"].append(np.average((seen - mean) ** 2, 0, weights))
    deviation = np.sqrt(statistics["variance"][-1] + EPSILON)
    normalized = np.clip((x[-1] - statistics["mean"][-1]) / deviation, -LIMIT, LIMIT)
    sizes = {"batches": batches, "rows": rows, "places": places, "most": most}
    return sizes | {"x": x} | statistics | {"normalized": normalized}


def main():
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "observation.txt")
    with open(path, "w", encoding="ascii") as file:
        for seed, (name, sizes) in enumerate(CASES.items()):
            print("case", name, file=file)
            for array, numbers in make_case(seed, *sizes).items():
                numbers = np.asarray(numbers, np.float64).ravel()
                print(array, len(numbers), *("%.15g" % x for x in numbers), file=file)


if __name__ == "__main__":
    main()
