#!/usr/bin/env python3
"""normal.txt: log-probability and entropy of independent normal distributions, and their gradients
at means and logarithms of deviations, by torch.distributions in float64. The layout is that of
gae.txt (gae.py), with 15 digits. Each case (its name: rows x numbers) has
  mean, log_std, action: (rows, numbers), what goes in; every other action is 1 or -1 exactly, where
    the bounds of an environment lie
  d_log_prob, d_entropy: (rows), the gradients from above
  log_prob, entropy: (rows)
  d_mean, d_log_std: (rows, numbers), of the sum of d_log_prob log_prob + d_entropy entropy
Numbers that go in are those of tests/golden/networks/make.py, so that a float holds them.

Needs PyTorch (2.15.0 was used). Usage: tests/golden/algorithms/normal.py"""

import math
import os
import sys

import torch

sys.dont_write_bytecode = True  # no __pycache__ in the source tree
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "networks"))
import gae
import make

SHAPES = (1, 1), (9, 3), (5, 17), (3, 64)


def value(stream, *shape):
    return torch.tensor(make.value(stream, math.prod(shape)).reshape(shape))


def make_case(stream, rows, numbers):
    mean, log_std, action = (value(stream + k, rows, numbers) for k in range(3))
    action.flatten()[::2] = action.flatten()[::2].sign()
    inputs = {"mean": mean, "log_std": 2 * log_std, "action": action}
    above = {"d_log_prob": value(stream + 3, rows), "d_entropy": value(stream + 4, rows)}
    trained = [inputs["mean"].requires_grad_(), inputs["log_std"].requires_grad_()]
    policy = torch.distributions.Normal(inputs["mean"], inputs["log_std"].exp())
    log_prob, entropy = policy.log_prob(action).sum(1), policy.entropy().sum(1)
    total = (above["d_log_prob"] * log_prob + above["d_entropy"] * entropy).sum()
    gradients = torch.autograd.grad(total, trained)
    results = {"log_prob": log_prob, "entropy": entropy, "d_mean": gradients[0],
               "d_log_std": gradients[1]}
    return {name: x.detach() for name, x in (inputs | above | results).items()}


def main():
    torch.set_default_dtype(torch.float64)
    cases = [("%dx%d" % shape, make_case(10 * i, *shape)) for i, shape in enumerate(SHAPES)]
    gae.write("normal.txt", cases, 15)


if __name__ == "__main__":
    main()
