#!/usr/bin/env python3
"""r2d2.txt: one update of R2D2 (Kapturowski et al. 2019, section 2.3) by PyTorch in float64:
burn-in of two networks from the stored state, the loss of q_loss.py on the unroll, and the gradient
of each parameter. The layout is that of gae.txt (gae.py), with 15 digits; the file has one case, of
outputs alone:
  online target (T+1, N, A+1): heads of the unroll, A advantages, then the value
  td (T, N); priority (N); loss; sums as in q_loss.txt
  hidden0/w ... head/value/b: the loss's gradient at each parameter of the online network, whole

Everything that goes in follows from the hash of tests/golden/networks/make.py: number i of a stream
is a value in [-1, 1), or 32 bits. Rows are time-major, N = 3 windows of burn_in 4, T 6 and one
more: row t of window n is number 3 t + n of 33; the unroll begins with t = 4.
  stream 0, 1   parameters of the online and of the target network, all arrays one behind the
                other in the order of the file; value * 2^(1 - floor(floor(log2(inputs)) / 2)) for
                weights (inputs, outputs), value / 16 for biases
  stream 2      observation (33, 4): value
  stream 3      action (33): bits % 3
  stream 4      reward (33): 2 value
  stream 5      stored state (3, 12), before row 0, for both networks: h, then c; value
  stream 6      previous action of row 0 (3): bits % 3; elsewhere that of the row before
  stream 7      weight (3): (value + 1) / 2
Flags (FLAGS) are first 1, terminated 2, truncated 4. The network `lstm` reads the observation, the
previous action (one-hot) and the reward as received, both zeros on first rows: hidden0 8 tanh, an
LSTM of 6 (gates i f g o, 1 added to f, state 0 before first rows), two streams of 5 relu each.
Returns of 3 steps, double Q, discount 0.997, rescaling 1e-3, eta 0.9 (as float32), no reward scale
or clip, squared loss, summed over time, mean over the windows. All T steps count.

Needs PyTorch (2.15.0 was used). Usage: tests/golden/algorithms/r2d2.py"""

import math
import os
import sys

import numpy as np
import torch
import torch.nn.functional as F

sys.dont_write_bytecode = True  # no __pycache__ in the source tree
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "networks"))
import gae
import make
import q_loss

BURN_IN, T, N, A, H = 4, 6, 3, 3, 6
ROWS = BURN_IN + T + 1
ONLINE, TARGET, OBSERVATION, ACTION, REWARD, STATE, PREVIOUS, WEIGHT = range(8)
FIRST = 1
FLAGS = torch.tensor([[0, 0, 1],
                      [3, 0, 0],
                      [0, 0, 4],
                      [0, 0, 1],
                      [0, 0, 0],  # the unroll
                      [0, 0, 0],
                      [0, 3, 0],
                      [4, 3, 0],
                      [1, 0, 3],
                      [0, 0, 0],
                      [0, 0, 4]])
DENSE = [("hidden0", 4 + A + 1, 8), ("lstm", 8, 4 * H), ("head/advantage_hidden", H, 5),
         ("head/advantage", 5, A), ("head/value_hidden", H, 5), ("head/value", 5, 1)]
MARGIN = 1e-4  # of a relu's input from 0, more than a float32 may err by


def value(stream, *shape):
    return torch.tensor(make.value(stream, math.prod(shape)).reshape(shape))


def below(stream, count, limit):
    return torch.tensor((make.bits(stream, count) % np.uint64(limit)).astype(np.int64))


# ---- the network


def parameters(stream):
    """By name, in the order of the network's declaration."""
    shapes = {}
    for name, inputs, outputs in DENSE:
        shapes |= {name + "/w": (inputs, outputs), name + "/b": (outputs,)}
        if name == "lstm":
            shapes["lstm/wh"] = (H, 4 * H)
    numbers = value(stream, sum(math.prod(shape) for shape in shapes.values()))
    arrays, at = {}, 0
    for name, shape in shapes.items():
        power = 1 - int(math.log2(shape[0])) // 2 if len(shape) == 2 else -4
        count = math.prod(shape)
        arrays[name] = (numbers[at : at + count] * 2.0**power).reshape(shape).requires_grad_()
        at += count
    return arrays


def relu(x):
    assert x.abs().min() > MARGIN, "an input of a relu is close to 0: take other streams"
    return F.relu(x)


def linear(params, name, x):
    return x @ params[name + "/w"] + params[name + "/b"]


def head(params, x):
    streams = [linear(params, name, relu(linear(params, name + "_hidden", x)))
               for name in ("head/advantage", "head/value")]
    return torch.cat(streams, -1)


def run(params, inputs, flags, state):
    """Heads (rows, N, A+1) of consecutive rows, and the state (h, c) after them."""
    h, c = state
    heads = []
    for x, flag in zip(inputs, flags):
        keep = (flag & FIRST == 0).unsqueeze(1)
        h, c = h * keep, c * keep
        x = torch.tanh(linear(params, "hidden0", x))
        i, f, g, o = (linear(params, "lstm", x) + h @ params["lstm/wh"]).split(H, 1)
        c = torch.sigmoid(f + 1) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        heads.append(head(params, h))
    return torch.stack(heads), (h, c)


# ---- the update


def make_inputs(action, reward):
    """(rows, N, 4 + A + 1)"""
    before = torch.cat([below(PREVIOUS, N, A).unsqueeze(0), action[:-1]])
    keep = (FLAGS & FIRST == 0).unsqueeze(2)
    previous = F.one_hot(before, A) * keep
    return torch.cat([value(OBSERVATION, ROWS, N, 4), previous, reward.unsqueeze(2) * keep], 2)


def unroll_heads(params, inputs):
    state = value(STATE, N, 2 * H).split(H, 1)
    with torch.no_grad():
        _, state = run(params, inputs[:BURN_IN], FLAGS[:BURN_IN], state)
    return run(params, inputs[BURN_IN:], FLAGS[BURN_IN:], state)[0]


def main():
    action = below(ACTION, ROWS * N, A).reshape(ROWS, N)
    reward = 2 * value(REWARD, ROWS, N)
    inputs = make_inputs(action, reward)
    online, target = parameters(ONLINE), parameters(TARGET)
    case = q_loss.PLAIN | {
        "T": T, "N": N, "A": A, "dueling": 1, "counted": T, "n_steps": 3, "double_q": 1,
        "over_time": 1, "discount": gae.float32(0.997), "rescaling": gae.float32(1e-3),
        "eta": gae.float32(0.9), "action": action[BURN_IN:], "reward": reward[BURN_IN:],
        "flags": FLAGS[BURN_IN:], "weight": (value(WEIGHT, N) + 1) / 2,
    }
    heads = {"online": unroll_heads(online, inputs), "target": unroll_heads(target, inputs)}
    loss, results = q_loss.loss_of(case, heads["online"], heads["target"])
    loss.backward()
    results = {name: x.detach() for name, x in (heads | results).items()}
    gradient = {name: x.grad for name, x in online.items()}
    gae.write("r2d2.txt", [("r2d2", results | gradient)], 15)


if __name__ == "__main__":
    main()
