#!/usr/bin/env python3
"""curiosity.txt: updates with random network distillation (Burda et al. 2018) by PyTorch in float64,
each a step or steps of torch.optim.Adam on the losses of the policy, its value, the predictor and
the intrinsic value together, behind a clip of the norm of all their gradients. The layout
is that of gae.txt (gae.py), with 15 digits; the cases, of outputs alone:
  a2c   three updates, each of the whole batch
  ppo   two updates of 4 epochs of 4 minibatches (ppo.py), with the value on the scale of its targets
The policy's network is hidden0 (8 tanh) and the head (A logits, then the value). Of the observation
alone, less its running mean and over its running deviation (of the root of variance + 1e-8, within
+-5), which steps 0 to T - 1 of the batch join behind each update, there are
  rnd_target     hidden0 (128 relu), head (64), never trained
  rnd_predictor  hidden0, hidden1 (128 relu each), head (64)
  rnd_value      hidden0, hidden1, head (1), times the deviation of the last batch's targets, plus
                 their mean; it learns what gives this batch's targets with the mean and deviation
                 of these
The novelty of step t is the mean squared difference of the first two at observation t + 1, rounded
to float32. Its advantages (lambda as that of rewards) go on over terminal states and not over
truncated steps; over the deviation of their targets, and times 1, they join those of rewards, over
theirs and times 2. The predictor learns from the steps whose uniform number is below 0.5, each
counted twice.
Each case has
  means: of the last update, over its steps: policy loss, value loss, intrinsic reward (novelty over
    the deviation), predictor loss, intrinsic value loss
  norm: mean of the gradient's norms, before they are clipped
  all parameters after the update but the target's: those of more than 16 numbers by the
    root of the mean of their squares and 16 numbers, number k the one of index k count / 16
  observation/mean, observation/variance, value/... and rnd_value/value/...: the statistics

What goes in is that of ppo.py, with all parameters in the order above, but each 16th number of the
observations is 16 times as large. Uniform numbers: as those of sac.py, of epoch e and step i of the
batch number e T N + i.

Needs PyTorch (2.15.0 was used). Usage: tests/golden/algorithms/curiosity.py"""

import math
import os
import sys

import torch

sys.dont_write_bytecode = True  # no __pycache__ in the source tree
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "networks"))
import gae
import ppo
from ppo import A, MINIBATCHES, N, SEED, T, TRUNCATED

PURPOSE, H, FEATURES, OBSERVATION, SHARE, LIMIT = 9, 128, 64, 4, 0.5, 5
DISCOUNT, INTRINSIC, EXTRINSIC, LEAST = 0.96875, 1, 2, 1e-6
LAYERS = {"target": (H, FEATURES), "predictor": (H, H, FEATURES), "value": (H, H, 1)}


def parameters():
    shapes = {"hidden0/w": (OBSERVATION, 8), "hidden0/b": (8,), "head/w": (8, A + 1), "head/b": (A + 1,)}
    for network, sizes in LAYERS.items():
        inputs = OBSERVATION
        for i, size in enumerate(sizes):
            layer = "head" if i + 1 == len(sizes) else f"hidden{i}"
            shapes[f"rnd_{network}/{layer}/w"] = (inputs, size)
            shapes[f"rnd_{network}/{layer}/b"] = (size,)
            inputs = size
    numbers, arrays, at = ppo.value(0, sum(map(math.prod, shapes.values()))), {}, 0
    for name, shape in shapes.items():
        power = 1 - int(math.log2(shape[0])) // 2 if len(shape) == 2 else -4
        count = math.prod(shape)
        arrays[name] = (numbers[at : at + count] * 2.0**power).reshape(shape)
        arrays[name].requires_grad_("target" not in name)
        at += count
    return arrays


def uniforms(update, count):
    low, high = ppo.philox((0, update, 0, PURPOSE), SEED)[:2]
    words = [ppo.philox((0, 0, row, PURPOSE), high << 32 | low)[0] for row in range(count)]
    return torch.tensor([(word >> 8) * 2.0**-24 for word in words])


def layers(params, network, x):
    for i in range(len(LAYERS[network]) - 1):
        x = torch.relu(ppo.linear(params, f"rnd_{network}/hidden{i}", x))
    return ppo.linear(params, f"rnd_{network}/head", x)


def look(world, params, windows):
    """Novelty (T, n) and intrinsic value (T+1, n)"""
    _, mean, variance = world["seen"]
    x = ((world["observation"][:, windows] - mean) / (variance + 1e-8).sqrt()).clamp(-LIMIT, LIMIT)
    error = layers(params, "predictor", x[1:]) - layers(params, "target", x[1:])
    _, mean, deviation = world["returns"]
    return (error**2).mean(-1), deviation * layers(params, "value", x)[..., 0] + mean


def intrinsic_advantages(world, novelty, values):
    reward, result = novelty.float().double(), torch.zeros(T, N)
    delta = reward + DISCOUNT * values[1:] - values[:-1]
    for t in range(T):
        factor = torch.ones(N)
        for u in range(t, T):
            factor = factor * (world["flags"][u] & TRUNCATED == 0)
            result[t] += factor * delta[u]
            factor = factor * DISCOUNT * ppo.LAMBDA
    return result


def joined(statistics, numbers):
    """With these too, from their definition: count, mean and variance."""
    count, mean, variance = statistics
    total = count + len(numbers)
    next_mean = (count * mean + numbers.sum(0)) / total
    squares = count * (variance + (mean - next_mean) ** 2) + ((numbers - next_mean) ** 2).sum(0)
    return total, next_mean, squares / total


def scale_of(targets):
    """As statistics of a value: of none before, their mean and deviation."""
    return 0, targets.mean(), max(targets.std(correction=0), torch.tensor(LEAST))


def measure_a2c(world, params, old):
    counts = world["flags"][:T] & TRUNCATED == 0
    out, values = ppo.heads(params, world, list(range(N)))
    log_prob, entropy = ppo.score(params, out[:T], world["action"][:T])
    policy = (-log_prob * old["advantage"])[counts]
    baseline = 0.5 * ((values[:T] - old["target"])[counts]) ** 2
    log_ratio = (log_prob - world["behaviour"][:T])[counts]
    kl = log_ratio.exp() - 1 - log_ratio
    loss = policy + ppo.BASELINE * baseline - ppo.ENTROPY * entropy[counts] + ppo.KL * kl
    return loss.mean(), torch.stack([policy.detach().sum(), baseline.detach().sum()]), len(policy)


def measure(world, params, old, windows, epoch):
    """The loss of these windows, and sums over their steps."""
    if world["ppo"]:
        loss, sums, steps, _ = ppo.measure(world, params, windows, old)
        sums = sums[:2]
    else:
        loss, sums, steps = measure_a2c(world, params, old)
    counts = world["flags"][:T, windows] & TRUNCATED == 0
    novelty, values = look(world, params, windows)
    drawn = old["uniform"][epoch][:, windows] < SHARE
    (_, mean, deviation), (_, next_mean, unit) = world["returns"], old["next_returns"]
    predictor = (novelty * drawn / SHARE)[counts]
    target = (old["intrinsic_target"][:, windows] - next_mean) / unit
    error = ((values[:T] - mean) / deviation - target)[counts]
    loss = loss + (predictor + ppo.BASELINE * 0.5 * error**2).mean()
    more = torch.stack([x.detach().sum() for x in (novelty[counts] / unit, predictor, 0.5 * error**2)])
    return loss, torch.cat([sums, more]), steps


def prepare(world, params, number):
    everything = list(range(N))
    with torch.no_grad():
        values = ppo.heads(params, world, everything)[1]
        advantage = ppo.advantages(world, values)
        novelty, intrinsic_values = look(world, params, everything)
        intrinsic = intrinsic_advantages(world, novelty, intrinsic_values)
    counts = world["flags"][:T] & TRUNCATED == 0
    old = {"value": values, "target": values[:T] + advantage,
           "intrinsic_target": intrinsic_values[:T] + intrinsic, "deviation": 1}
    old["next_returns"] = scale_of(old["intrinsic_target"][counts])
    if world["ppo"]:
        old["statistics"] = ppo.joined(world["statistics"], old["target"][counts])
        old["deviation"] = old["statistics"][2]
    unit = old["deviation"] / old["next_returns"][2]
    old["advantage"] = EXTRINSIC * advantage + INTRINSIC * unit * intrinsic
    epochs = ppo.EPOCHS if world["ppo"] else 1
    old["uniform"] = uniforms(number, epochs * T * N).reshape(epochs, T, N)
    return old


def settle(world, params, old):
    if world["ppo"]:
        ppo.adopt(world, params, old["statistics"])
    world["returns"] = old["next_returns"]
    world["seen"] = joined(world["seen"], world["observation"][:T].reshape(-1, OBSERVATION))


def clip(params):
    """The norm of all gradients, which come down to MAX_NORM; torch adds 1e-6 to it."""
    gradients = [x.grad for x in params.values() if x.requires_grad]
    norm = sum((x**2).sum() for x in gradients).sqrt()
    for x in gradients:
        x *= min(1, ppo.MAX_NORM / norm)
    return norm


def update(world, params, optimizer, number):
    old, sums, steps, norms = prepare(world, params, number), 0, 0, []
    size = N // MINIBATCHES if world["ppo"] else N
    for epoch in range(len(old["uniform"])):
        order = ppo.shuffled(number, epoch) if world["ppo"] else list(range(N))
        for first in range(0, N, size):
            loss, of_pass, count = measure(world, params, old, order[first : first + size], epoch)
            optimizer.zero_grad()
            loss.backward()
            norms.append(clip(params).item())
            optimizer.step()
            sums, steps = sums + of_pass, steps + count
    settle(world, params, old)
    return sums / steps, torch.tensor([sum(norms) / len(norms)])


def sampled(x):
    x = x.detach().flatten()
    if len(x) <= 16:
        return x
    return torch.cat([(x**2).mean().sqrt().reshape(1), x[[k * len(x) // 16 for k in range(16)]]])


def main():
    torch.set_default_dtype(torch.float64)
    larger = torch.where(torch.arange((T + 1) * N * OBSERVATION) % 16 == 0, 16.0, 1.0)
    cases = []
    for name, updates in ("a2c", 3), ("ppo", 2):
        observation = ppo.value(ppo.OBSERVATION, T + 1, N, OBSERVATION)
        world = {
            "observation": observation * larger.reshape(T + 1, N, OBSERVATION),
            "reward": 2 * ppo.value(ppo.REWARD, T + 1, N), "flags": ppo.make_flags(),
            "action": ppo.below(ppo.ACTION, A, T + 1, N),
            "behaviour": ppo.value(ppo.BEHAVIOUR, T + 1, N) / 2 - 1,
            "ppo": name == "ppo", "statistics": (0, 0, 1),
            "seen": (0, torch.zeros(OBSERVATION), torch.ones(OBSERVATION)),
            "returns": (0, torch.tensor(0.0), torch.tensor(1.0)),
        }
        params = parameters()
        trained = [x for x in params.values() if x.requires_grad]
        optimizer = torch.optim.Adam(trained, ppo.RATE, ppo.BETAS, ppo.EPSILON)
        for number in range(1, updates + 1):
            means, norm = update(world, params, optimizer, number)
        results = {"means": means, "norm": norm}
        results |= {key: sampled(x) for key, x in params.items() if "target" not in key}
        results |= {"observation/mean": world["seen"][1], "observation/variance": world["seen"][2]}
        for prefix, statistics in ("", world["statistics"]), ("rnd_value/", world["returns"]):
            for key, number in zip(("count", "mean", "deviation"), statistics):
                results[prefix + "value/" + key] = torch.tensor([float(number)])
        cases.append((name, results))
    gae.write("curiosity.txt", cases, 15)


if __name__ == "__main__":
    main()
