#!/usr/bin/env python3
"""sac.txt: three updates of soft actor-critic (Haarnoja et al. 2018, "Soft actor-critic algorithms
and applications", algorithm 1) by PyTorch in float64, one after the other, on the same batch. Policy,
critics and temperature take one step of torch.optim.Adam at once, behind torch's clipping of the norm
of all their gradients; then the targets move an eighth of the way. The layout is that of gae.txt
(gae.py), with 15 digits; the cases, of outputs alone:
  plain   a policy of hidden0 (8 tanh) and the head (2 means, then 2 logarithms of deviations), critics
          of hidden0 (8 tanh) and the head (1) above observation and action
  fixed   the same with a temperature of 0.25, which is not learned
  scaled  the same as plain above observations less their running mean, over their running deviation
          (of the root of variance + 1e-8, within +-10): steps 0 to T - 1 of the batch join the
          statistics behind each update, those of the policy, of both critics and of their targets
each with
  means: of the last update, over its steps: value loss, policy loss, entropy, temperature, value (of
    the first critic), target, reward
  norm: of its gradient, before it is clipped
  hidden0/w ... head/b, critic_1/hidden0/w ..., critic_2/..., log_temperature: each parameter after the
    last update, whole; scaled: observation/mean and observation/variance, of the policy and of the
    critics alike
  target/critic_1/..., target/critic_2/...: the targets

Everything that goes in follows from the hash of tests/golden/networks/make.py: number i of a stream
is a value in [-1, 1), or 32 bits. Rows are time-major, N = 8 windows of T = 3 steps and one more:
row t of window n is number 8 t + n of 32.
  stream 0  parameters, all arrays one behind the other in the order of the file;
            value * 2^(1 - floor(floor(log2(inputs)) / 2)) for weights (inputs, outputs), value / 16
            for others
  stream 1  observation (32, 4): value
  stream 2  action (32, 2): value
  stream 3  reward (32): 2 value
  stream 4  bits % 8: 0, terminated and first (3); 1, truncated (4), and first (1) the row after;
            after a truncated row and in row 0 this is not looked at
  stream 5  the targets' parameters, as those of stream 0
Actions that the policy chooses are tanh(mean + deviation z). z is the normal number below which lie
(u + 2^-25) of all; u, a whole number of 2^-24, is the upper 24 bits of the first word of Philox4x32's
block of the counter (0, 0, row, 9 + 256 number), its key the first two words of the block of the
counter (0, update from 1 on, 0, 9) and the key 11, the first word the lower half.

Needs PyTorch (2.15.0 was used). Usage: tests/golden/algorithms/sac.py"""

import math
import os
import sys

import torch

sys.dont_write_bytecode = True  # no __pycache__ in the source tree
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "networks"))
import gae
from ppo import philox, value
import make

T, N, A, OBSERVATION, H, UPDATES = 3, 8, 2, 4, 8, 3
PARAMETERS, OBSERVATIONS, ACTION, REWARD, FLAGS, TARGETS = range(6)
FIRST, TERMINATED, TRUNCATED = 1, 2, 4
SEED, PURPOSE = 11, 9
DISCOUNT, REWARD_SCALE, REWARD_CLIP, WANTED, POLYAK = 0.875, 0.75, 1, -0.5 * A, 0.125
RATE, BETAS, EPSILON, MAX_NORM = 2**-6, (0.875, 0.96875), 2**-17, 0.5


def make_flags():
    draws = make.bits(FLAGS, (T + 1) * N).reshape(T + 1, N) % 8
    flags = torch.zeros(T + 1, N, dtype=torch.int64)
    for t in range(1, T + 1):
        for n in range(N):
            ends = {0: FIRST | TERMINATED, 1: TRUNCATED}.get(int(draws[t, n]), 0)
            flags[t, n] = FIRST if flags[t - 1, n] & TRUNCATED else ends
    return flags


def parameters(stream):
    shapes = {"hidden0/w": (OBSERVATION, H), "hidden0/b": (H,), "head/w": (H, 2 * A),
              "head/b": (2 * A,)}
    for critic in ("critic_1/", "critic_2/"):
        shapes |= {critic + "hidden0/w": (OBSERVATION + A, H), critic + "hidden0/b": (H,),
                   critic + "head/w": (H, 1), critic + "head/b": (1,)}
    shapes["log_temperature"] = (1,)
    numbers, arrays, at = value(stream, sum(map(math.prod, shapes.values()))), {}, 0
    for name, shape in shapes.items():
        power = 1 - int(math.log2(shape[0])) // 2 if len(shape) == 2 else -4
        count = math.prod(shape)
        arrays[name] = (numbers[at : at + count] * 2.0**power).reshape(shape).requires_grad_()
        at += count
    return arrays


def normal_numbers(update):
    """(T+1, N, A)"""
    low, high = philox((0, update, 0, PURPOSE), SEED)[:2]
    words = [philox((0, 0, row, PURPOSE + 256 * k), high << 32 | low)[0]
             for row in range((T + 1) * N) for k in range(A)]
    uniform = torch.tensor([(word >> 8) * 2.0**-24 for word in words]).reshape(T + 1, N, A)
    return math.sqrt(2) * torch.erfinv(2 * uniform - 1 + 2.0**-24)


# ---- networks


def scaled(observation, statistics):
    _, mean, variance = statistics
    return ((observation - mean) / (variance + 1e-8).sqrt()).clamp(-10, 10)


def layers(params, prefix, x):
    x = torch.tanh(x @ params[prefix + "hidden0/w"] + params[prefix + "hidden0/b"])
    return x @ params[prefix + "head/w"] + params[prefix + "head/b"]


def critics(params, observation, action):
    x = torch.cat([observation, action], -1)
    return [layers(params, prefix, x).squeeze(-1) for prefix in ("critic_1/", "critic_2/")]


def act(params, observation, normal):
    mean, log_std = layers(params, "", observation).split(A, -1)
    policy = torch.distributions.Normal(mean, log_std.clamp(-20, 2).exp())
    before = mean + policy.stddev * normal
    action = torch.tanh(before)
    return action, (policy.log_prob(before) - torch.log1p(-(action**2))).sum(-1)


# ---- an update


def losses(world, params, targets, number):
    observation = scaled(world["observation"], world["statistics"])
    action, log_prob = act(params, observation, normal_numbers(number))
    temperature = params["log_temperature"].exp().squeeze()
    flags, counts = world["flags"], world["flags"][:T] & TRUNCATED == 0
    with torch.no_grad():
        soft = torch.min(*critics(targets, observation[1:], action[1:])) - (
            temperature * log_prob[1:])
        reward = (world["reward"][1:] * REWARD_SCALE).clamp(-REWARD_CLIP, REWARD_CLIP)
        target = reward + DISCOUNT * soft * (flags[1:] & TERMINATED == 0)
    taken = critics(params, observation[:T], world["action"][:T])
    value_loss = 0.5 * sum((q - target) ** 2 for q in taken)
    constant = {name: x.detach() for name, x in params.items()}
    chosen = torch.min(*critics(constant, observation[:T], action[:T]))
    policy_loss = temperature.detach() * log_prob[:T] - chosen
    temperature_loss = -params["log_temperature"] * (log_prob[:T].detach() + WANTED)
    if not world["learned"]:
        temperature_loss = 0 * temperature_loss
    figures = value_loss, policy_loss, -log_prob[:T], temperature.expand(T, N), taken[0], target, reward
    loss = (value_loss + policy_loss + temperature_loss)[counts].mean()
    return loss, torch.stack([x.detach()[counts].mean() for x in figures])


def joined(statistics, observation):
    """With these, too: count, mean and variance, from their definition."""
    count, mean, variance = statistics
    total = count + len(observation)
    next_mean = (count * mean + observation.sum(0)) / total
    squares = count * (variance + (mean - next_mean) ** 2) + ((observation - next_mean) ** 2).sum(0)
    return total, next_mean, squares / total


def follow(targets, online):
    return targets + POLYAK * (online - targets)


def update(world, params, targets, optimizer, number):
    loss, means = losses(world, params, targets, number)
    optimizer.zero_grad()
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(params.values(), MAX_NORM)
    optimizer.step()
    with torch.no_grad():
        for name in targets:
            targets[name].copy_(follow(targets[name], params[name]))
    if world["scaled"]:
        seen = world["observation"][:T].reshape(-1, OBSERVATION)
        world["statistics"] = joined(world["statistics"], seen)
    return means, norm


def main():
    torch.set_default_dtype(torch.float64)
    cases = []
    for name in "plain", "fixed", "scaled":
        params, targets = parameters(PARAMETERS), parameters(TARGETS)
        none = [0.0, torch.zeros(OBSERVATION), torch.ones(OBSERVATION)]
        world = {
            "observation": value(OBSERVATIONS, T + 1, N, OBSERVATION),
            "action": value(ACTION, T + 1, N, A), "reward": 2 * value(REWARD, T + 1, N),
            "flags": make_flags(), "learned": name != "fixed", "scaled": name == "scaled",
            "statistics": none,
        }
        if name == "fixed":
            params["log_temperature"] = torch.tensor([math.log(0.25)]).requires_grad_()
        optimizer = torch.optim.Adam(params.values(), RATE, BETAS, EPSILON)
        for number in range(1, UPDATES + 1):
            means, norm = update(world, params, targets, optimizer, number)
        results = {"means": means, "norm": norm.reshape(1)}
        results |= {key: x.detach() for key, x in params.items()}
        if world["scaled"]:
            for key, numbers in zip(("mean", "variance"), world["statistics"][1:]):
                results["observation/" + key] = numbers
        results |= {"target/" + key: x.detach() for key, x in targets.items() if "/" in key and
                    key.startswith("critic")}
        cases.append((name, results))
    gae.write("sac.txt", cases, 15)


if __name__ == "__main__":
    main()
