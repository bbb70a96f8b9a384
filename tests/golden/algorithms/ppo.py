#!/usr/bin/env python3
"""ppo.txt: one update of PPO (Schulman et al. 2017, algorithm 1) by PyTorch in float64: 4 epochs of
4 minibatches, each a step of torch.optim.Adam behind torch's clipping of the gradient's norm. The
layout is that of gae.txt (gae.py), with 15 digits; the cases, of outputs alone:
  mlp     hidden0 (8 tanh) and the head (A logits, then the value)
  lstm    hidden0, an LSTM of 6 (gates i f g o, 1 added to f, state 0 before first rows), the head
  stopped that network, with an update that ends before the first step whose mean KL divergence,
          ratio - 1 - log ratio, is above 0.1
  none    the network of mlp, likewise, above 0.0625: before the first step of all
  box     actions of 3 numbers: hidden0, the head (3 means, then the value), and the logarithms of
          the deviations, which no input reaches
  scaled  the network of mlp, whose value v stands for deviation v + mean (van Hasselt et al. 2016,
          PopArt): three updates, one after the other, on the same batch. Before the passes of an
          update its targets (of steps that are not truncated) join the statistics, whose deviation
          is what errors of values, and the reach of their clip, are divided by; behind them the
          head's column and bias move against the statistics. steps of all updates, the rest of the
          last one
each with
  steps: of the optimiser
  means: over the steps of all minibatches up to the last one that was looked at: policy loss,
    value loss, entropy, KL divergence, share of clipped ratios, value, target
  norm: mean of the gradient's norms, before they are clipped
  hidden0/w ... head/b (head/log_std): each parameter after the update, whole
  value/count, value/mean, value/deviation (scaled): the statistics, which were 0, 0 and 1

Everything that goes in follows from the hash of tests/golden/networks/make.py: number i of a stream
is a value in [-1, 1), or 32 bits. Rows are time-major, N = 8 windows of T = 6 steps and one more:
row t of window n is number 8 t + n of 56.
  stream 0  parameters, all arrays one behind the other in the order of the file;
            value * 2^(1 - floor(floor(log2(inputs)) / 2)) for weights (inputs, outputs), value / 16
            for biases and logarithms of deviations
  stream 1  observation (56, 4): value
  stream 2  action (56): bits % 3; box: (56, 3), value
  stream 3  reward (56): 2 value
  stream 4  stored state (8, 12), before row 0: h, then c; value
  stream 5  log mu (56): value / 2 - 1; box: value / 2 - 4
  stream 6  bits % 8: 0, terminated and first (3); 1, truncated (4), and first (1) the row after;
            after a truncated row and in row 0 this is not looked at
Which windows a minibatch has: in each epoch they are shuffled (Fisher and Yates, from the last on;
the other place is floor(word (i + 1) / 2^32)), word the second of Philox4x32's block of the counter
(i, update from 1 on, epoch, 8) and the key 11; the first two make the first minibatch.
The loss is a mean over the steps of a minibatch that are not truncated, and so are the advantages'
mean and deviation (unbiased), less and over which they are taken.

Needs PyTorch (2.15.0 was used). Usage: tests/golden/algorithms/ppo.py"""

import math
import os
import sys

import numpy as np
import torch

sys.dont_write_bytecode = True  # no __pycache__ in the source tree
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "networks"))
import gae
import make

T, N, A, H, MINIBATCHES, EPOCHS = 6, 8, 3, 6, 4, 4
PARAMETERS, OBSERVATION, ACTION, REWARD, STATE, BEHAVIOUR, FLAGS = range(7)
FIRST, TERMINATED, TRUNCATED = 1, 2, 4
SEED, PURPOSE, UPDATES, MOST_TARGETS = 11, 8, 3, 1 << 17
DISCOUNT, LAMBDA, REWARD_SCALE, REWARD_CLIP = 0.875, 0.875, 0.75, 1
CLIP, VALUE_CLIP, BASELINE, ENTROPY, KL, MAX_NORM = 0.25, 0.25, 0.5, 2**-6, 2**-6, 0.5
RATE, BETAS, EPSILON = 2**-6, (0.875, 0.96875), 2**-17


def value(stream, *shape):
    return torch.tensor(make.value(stream, math.prod(shape)).reshape(shape))


def below(stream, limit, *shape):
    bits = make.bits(stream, math.prod(shape)) % np.uint64(limit)
    return torch.tensor(bits.astype(np.int64).reshape(shape))


def make_flags():
    draws, flags = below(FLAGS, 8, T + 1, N), torch.zeros(T + 1, N, dtype=torch.int64)
    for t in range(1, T + 1):
        for n in range(N):
            if flags[t - 1, n] & TRUNCATED:
                flags[t, n] = FIRST
            else:
                flags[t, n] = {0: FIRST | TERMINATED, 1: TRUNCATED}.get(int(draws[t, n]), 0)
    return flags


# ---- the network


def parameters(recurrent, box):
    shapes = {"hidden0/w": (4, 8), "hidden0/b": (8,)}
    if recurrent:
        shapes |= {"lstm/w": (8, 4 * H), "lstm/b": (4 * H,), "lstm/wh": (H, 4 * H)}
    shapes |= {"head/w": (H if recurrent else 8, A + 1), "head/b": (A + 1,)}
    shapes |= {"head/log_std": (A,)} if box else {}
    numbers = value(PARAMETERS, sum(math.prod(shape) for shape in shapes.values()))
    arrays, at = {}, 0
    for name, shape in shapes.items():
        power = 1 - int(math.log2(shape[0])) // 2 if len(shape) == 2 else -4
        count = math.prod(shape)
        arrays[name] = (numbers[at : at + count] * 2.0**power).reshape(shape).requires_grad_()
        at += count
    return arrays


def linear(params, name, x):
    return x @ params[name + "/w"] + params[name + "/b"]


def heads(params, world, windows):
    """The policy's outputs (T+1, n, A) and value (T+1, n)"""
    x = torch.tanh(linear(params, "hidden0", world["observation"][:, windows]))
    if "lstm/w" in params:
        h, c = world["state"][windows].split(H, 1)
        rows = []
        for t in range(T + 1):
            keep = (world["flags"][t, windows] & FIRST == 0).unsqueeze(1)
            h, c = h * keep, c * keep
            i, f, g, o = (linear(params, "lstm", x[t]) + h @ params["lstm/wh"]).split(H, 1)
            c = torch.sigmoid(f + 1) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
            rows.append(h)
        x = torch.stack(rows)
    out = linear(params, "head", x)
    _, mean, deviation = world["statistics"]
    return out[..., :A], deviation * out[..., A] + mean


def score(params, out, action):
    """log pi of the actions, and the entropy"""
    if "head/log_std" in params:
        normal = torch.distributions.Normal(out, params["head/log_std"].exp())
        return normal.log_prob(action).sum(2), normal.entropy().sum(2)
    log_pi = torch.log_softmax(out, -1)
    chosen = log_pi.gather(2, action.unsqueeze(2)).squeeze(2)
    return chosen, -(log_pi.exp() * log_pi).sum(2)


# ---- before the passes


def advantages(world, values):
    """The definition, as a sum over the rest of each episode; (T, N)."""
    reward = (world["reward"] * REWARD_SCALE).clamp(-REWARD_CLIP, REWARD_CLIP)
    goes_on = (world["flags"] & TERMINATED == 0).double() * DISCOUNT
    delta = reward[1:] + goes_on[1:] * values[1:] - values[:-1]
    result = torch.zeros(T, N)
    for t in range(T):
        factor = torch.ones(N)
        for u in range(t, T):
            factor = factor * (world["flags"][u] & TRUNCATED == 0)
            result[t] += factor * delta[u]
            factor = factor * goes_on[u + 1] * LAMBDA
    return result


def philox(counter, key):
    counter, key = list(counter), [key & 0xFFFFFFFF, key >> 32]
    for _ in range(10):
        a, b = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [b >> 32 ^ counter[1] ^ key[0], b & 0xFFFFFFFF,
                   a >> 32 ^ counter[3] ^ key[1], a & 0xFFFFFFFF]
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return counter


def shuffled(update, epoch):
    windows = list(range(N))
    for i in range(N - 1, 0, -1):
        other = philox((i, update, epoch, PURPOSE), SEED)[1] * (i + 1) >> 32
        windows[i], windows[other] = windows[other], windows[i]
    return windows


# ---- a pass


def measure(world, params, windows, old):
    """The loss of a minibatch, and sums over its steps."""
    out, values = heads(params, world, windows)
    out, values = out[:T], values[:T]
    counts = world["flags"][:T, windows] & TRUNCATED == 0
    log_prob, entropy = score(params, out, world["action"][:T, windows])
    log_prob, entropy = log_prob[counts], entropy[counts]
    value_now, value_old = values[counts], old["value"][:T][:, windows][counts]
    target, advantage = old["target"][:, windows][counts], old["advantage"][:, windows][counts]
    advantage = (advantage - advantage.mean()) / max(advantage.std(), torch.tensor(0.01))
    log_ratio = log_prob - world["behaviour"][:T, windows][counts]
    ratio = log_ratio.exp()
    assert ((ratio - 1).abs() - CLIP).abs().min() > 1e-4, "a ratio is close to its clip"
    policy = torch.max(-advantage * ratio, -advantage * ratio.clamp(1 - CLIP, 1 + CLIP))
    unit = old["deviation"]
    near = value_old + (value_now - value_old).clamp(-VALUE_CLIP * unit, VALUE_CLIP * unit)
    baseline = 0.5 * torch.max(((value_now - target) / unit) ** 2, ((near - target) / unit) ** 2)
    kl = ratio - 1 - log_ratio
    loss = (policy + BASELINE * baseline - ENTROPY * entropy + KL * kl).mean()
    clipped = ((ratio - 1).abs() > CLIP).double()
    sums = torch.stack([x.detach().sum() for x in (policy, baseline, entropy, kl, clipped,
                                                    value_now, target)])
    return loss, sums, len(policy), kl.mean().item()


# ---- the scale of values


def joined(statistics, targets):
    """With these targets too: count, mean and deviation, from their definition."""
    count, mean, deviation = statistics
    total = count + len(targets)
    next_mean = (count * mean + targets.sum()) / total
    squares = count * (deviation**2 + (mean - next_mean) ** 2) + ((targets - next_mean) ** 2).sum()
    return min(total, MOST_TARGETS), next_mean, max((squares / total).sqrt(), torch.tensor(1e-2))


def adopt(world, params, statistics):
    """What the head's value stands for stays as it is; with the first statistics it follows a mean
    that is more than three deviations away."""
    count, mean, deviation = world["statistics"]
    _, next_mean, next_deviation = statistics
    if count == 0:
        mean = next_mean + (mean - next_mean).clamp(-3 * next_deviation, 3 * next_deviation)
    with torch.no_grad():
        params["head/w"][:, A] *= deviation / next_deviation
        params["head/b"][A] = (deviation * params["head/b"][A] + mean - next_mean) / next_deviation
    world["statistics"] = statistics


# ---- an update


def update(world, params, limit, optimizer, number=1):
    with torch.no_grad():
        values = heads(params, world, list(range(N)))[1]
        advantage = advantages(world, values)
    old = {"value": values, "advantage": advantage, "target": values[:T] + advantage,
           "deviation": 1}
    statistics = world["statistics"]
    if world["scaled"]:
        statistics = joined(statistics, old["target"][world["flags"][:T] & TRUNCATED == 0])
        old["deviation"] = statistics[2]
    sums, steps, applied, norms = 0, 0, 0, []
    size = N // MINIBATCHES
    for epoch in range(EPOCHS):
        order = shuffled(number, epoch)
        for first in range(0, N, size):
            loss, of_pass, count, kl = measure(world, params, order[first : first + size], old)
            optimizer.zero_grad()
            loss.backward()
            norms.append(torch.nn.utils.clip_grad_norm_(params.values(), MAX_NORM).item())
            sums, steps = sums + of_pass, steps + count
            assert abs(kl - limit) > 1e-4, "a KL divergence is close to its limit"
            if kl > limit:
                return applied, sums / steps, norms
            optimizer.step()
            applied += 1
    if world["scaled"]:
        adopt(world, params, statistics)
    return applied, sums / steps, norms


def main():
    torch.set_default_dtype(torch.float64)
    world = {
        "observation": value(OBSERVATION, T + 1, N, 4),
        "reward": 2 * value(REWARD, T + 1, N), "state": value(STATE, N, 2 * H),
        "flags": make_flags(),
    }
    cases = []
    for name, recurrent, limit in (("mlp", False, 1e9), ("lstm", True, 1e9),
                                   ("stopped", True, 0.1), ("none", False, 0.0625),
                                   ("box", False, 1e9), ("scaled", False, 1e9)):
        box = name == "box"
        world["scaled"], world["statistics"] = name == "scaled", (0, 0, 1)
        world["action"] = value(ACTION, T + 1, N, A) if box else below(ACTION, A, T + 1, N)
        world["behaviour"] = value(BEHAVIOUR, T + 1, N) / 2 - (4 if box else 1)
        params = parameters(recurrent, box)
        optimizer = torch.optim.Adam(params.values(), RATE, BETAS, EPSILON)
        applied = 0
        for number in range(1, 1 + (UPDATES if world["scaled"] else 1)):
            more, means, norms = update(world, params, limit, optimizer, number)
            applied += more
        results = {"steps": torch.tensor([float(applied)]), "means": means,
                   "norm": torch.tensor([sum(norms) / len(norms)])}
        results |= {key: x.detach() for key, x in params.items()}
        if world["scaled"]:
            for key, number in zip(("count", "mean", "deviation"), world["statistics"]):
                results["value/" + key] = torch.tensor([float(number)])
        cases.append((name, results))
    gae.write("ppo.txt", cases, 15)


if __name__ == "__main__":
    main()
