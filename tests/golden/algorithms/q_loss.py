#!/usr/bin/env python3
"""q_loss.txt: the loss of action values, by PyTorch in float64: n-step double Q-learning with value
rescaling (Kapturowski et al. 2019, section 2.3), and the categorical one (Bellemare et al. 2017,
algorithm 1); each target by the definition, from the rows that its return consists of.

The layout is that of gae.txt (gae.py), and so are flags. Inputs are numbers that a float32 holds
exactly; the file has 15 digits:
  T N A, Z atoms (1: a head has values, not logits of distributions) from low to high
  dueling: a row of a head is A*Z advantages, then Z values; else A*Z values or logits
  counted: of the T steps the first that count; n_steps, double_q, over_time (the loss is a sum over
    time, divided by N; else the mean over the steps that count), discount, reward_scale,
    reward_clip (0: none), rescaling (0: none), huber (0: squared), eta
  online target (T+1, N, row), action reward flags (T+1, N), weight (N)
Outputs:
  td (T, N): y - Q(x_t, a_t), or the KL divergence of the target's distribution from the online one;
    0 where a step does not count
  priority (N); loss; sums: steps that count, weighted loss, |td|, Q(x_t, a_t), y (the mean of the
    target's distribution), rewards; dhead (T, N, row), the loss's gradient

Needs PyTorch (2.15.0 was used). Usage: tests/golden/algorithms/q_loss.py"""

import math
import random
import sys

import torch

sys.dont_write_bytecode = True  # no __pycache__ in the source tree
import gae

FIRST, TERMINATED, TRUNCATED = 1, 2, 4
MARGIN = 1e-4  # between the best value of a row and the next: more than a float32 may err by
PLAIN = {"Z": 1, "low": 0, "high": 0, "dueling": 0, "n_steps": 1, "double_q": 0, "over_time": 0,
         "reward_scale": 1, "reward_clip": 0, "rescaling": 0, "huber": 0}
RAINBOW = {"dueling": 1, "double_q": 1, "n_steps": 3, "low": -4, "high": 4}
CASES = [
    ("dqn", {"T": 6, "N": 3, "A": 4}),
    ("double_dueling", {"T": 6, "N": 3, "A": 4, "dueling": 1, "double_q": 1, "n_steps": 2}),
    ("r2d2", {"T": 9, "N": 3, "A": 3, "dueling": 1, "double_q": 1, "n_steps": 3,
              "over_time": 1, "rescaling": 1e-3}),
    ("r2d2_long_return", {"T": 5, "N": 4, "A": 6, "double_q": 1, "n_steps": 7, "over_time": 1,
                          "rescaling": 1e-2, "reward_scale": 8}),
    ("huber_clipped", {"T": 8, "N": 2, "A": 5, "n_steps": 5, "counted": 5, "huber": 0.75,
                       "reward_scale": 0.6, "reward_clip": 0.5}),
    ("one_action", {"T": 1, "N": 2, "A": 1}),
    ("c51", {"T": 4, "N": 3, "A": 3, "Z": 11, "low": -3, "high": 3}),
    ("rainbow", {"T": 5, "N": 3, "A": 3, "Z": 11, "counted": 4, **RAINBOW}),
    ("rainbow_51", {"T": 2, "N": 2, "A": 3, "Z": 51, "over_time": 1, **RAINBOW}),
]


# ---- inputs


def numbers(rng, scale, *shape):
    """Uniform in +-scale, in steps that a float32 holds exactly."""
    count = torch.Size(shape).numel()
    x = torch.tensor([rng.randint(-(2**20), 2**20) / 2**20 * scale for _ in range(count)])
    return x.reshape(shape)


def make_case(index, settings):
    case = PLAIN | settings
    rng, T, N, A = random.Random(1000 + index), case["T"], case["N"], case["A"]
    case.setdefault("counted", T)
    case |= {name: gae.float32(case[name]) for name in ("reward_scale", "rescaling", "huber")}
    case |= {"discount": gae.float32(0.97), "eta": gae.float32(0.9)}
    row = (A + case["dueling"]) * case["Z"]
    columns = [gae.column_flags(rng, T, gae.ROW_0[(index + n) % 4], gae.ROW_T[(2 * index + n) % 3])
               for n in range(N)]
    flags = torch.tensor(columns).T
    reset = (flags & FIRST != 0) & (flags & TERMINATED == 0)
    return case | {
        "online": numbers(rng, 2, T + 1, N, row),
        "target": numbers(rng, 2, T + 1, N, row),
        "action": torch.tensor([[rng.randrange(A) for _ in range(N)] for _ in range(T + 1)]),
        "reward": numbers(rng, 2, T + 1, N) * ~reset,
        "flags": flags,
        "weight": numbers(rng, 0.5, N) + 0.5,
    }


# ---- heads


def actions_of(case, head):
    """(T+1, N, A, Z): values, or logits of distributions."""
    A, Z = case["A"], case["Z"]
    advantage = head[..., : A * Z].unflatten(-1, (A, Z))
    if not case["dueling"]:
        return advantage
    return head[..., A * Z :].unsqueeze(-2) + advantage - advantage.mean(-2, keepdim=True)


def atoms(case):
    return torch.linspace(case["low"], case["high"], case["Z"])


def values_of(case, actions):
    """(T+1, N, A)"""
    if case["Z"] == 1:
        return actions.squeeze(-1)
    return (actions.softmax(-1) * atoms(case)).sum(-1)


def best_actions(case, values):
    """(T+1, N). Which is best must not hang on a float32's last digits."""
    if case["A"] > 1:
        two = values.topk(2, -1).values
        assert (two[..., 0] - two[..., 1]).min() > MARGIN, "two best actions: take another seed"
    return values.argmax(-1)


# ---- returns


def rescale(x, epsilon):
    return x.sign() * ((x.abs() + 1).sqrt() - 1) + epsilon * x if epsilon else x


def rescale_back(x, epsilon):
    if not epsilon:
        return x
    root = ((1 + 4 * epsilon * (x.abs() + 1 + epsilon)).sqrt() - 1) / (2 * epsilon)
    return x.sign() * (root**2 - 1)


def rewards(case):
    x = case["reward"] * case["reward_scale"]
    return x.clamp(-case["reward_clip"], case["reward_clip"]) if case["reward_clip"] else x


def n_step_return(case, t, n):
    """(sum of discounted rewards, discount, row): the return is the sum + discount * v(row)."""
    flags, after = case["flags"][:, n].tolist(), rewards(case)[:, n]
    last = min(t + case["n_steps"], case["T"])
    ends = [row for row in range(t + 1, last) if flags[row] & (TERMINATED | TRUNCATED)]
    last = ends[0] if ends else last
    total = sum(case["discount"] ** (row - t - 1) * after[row] for row in range(t + 1, last + 1))
    return total, 0.0 if flags[last] & TERMINATED else case["discount"] ** (last - t), last


def projected(case, reward, discount, p):
    """The distribution of reward + discount * z, z distributed as p, on the atoms."""
    z, m = atoms(case), torch.zeros(case["Z"])
    place = (reward + discount * z).clamp(case["low"], case["high"]) - case["low"]
    place = (place / (z[1] - z[0])).clamp(0, case["Z"] - 1)
    for j in range(case["Z"]):
        low = min(math.floor(place[j]), case["Z"] - 2)
        m[low] += p[j] * (low + 1 - place[j])
        m[low + 1] += p[j] * (place[j] - low)
    return m


# ---- the loss


def counts(case):
    kept = case["flags"][:-1] & TRUNCATED == 0
    kept[case["counted"] :] = False
    return kept


def targets(case, online, target):
    """y (T, N), or the target's distributions (T, N, Z). Heads (T+1, N, row)."""
    actions = actions_of(case, target)
    chooser = actions_of(case, online) if case["double_q"] else actions
    best = best_actions(case, values_of(case, chooser)).unsqueeze(-1)
    if case["Z"] == 1:
        v = rescale_back(values_of(case, actions).gather(-1, best).squeeze(-1), case["rescaling"])
    y = torch.zeros(case["T"], case["N"], case["Z"])
    for t in range(case["T"]):
        for n in range(case["N"]):
            reward, discount, row = n_step_return(case, t, n)
            if case["Z"] == 1:
                y[t, n] = rescale(reward + discount * v[row, n], case["rescaling"])
            else:
                p = actions[row, n, best[row, n, 0]].softmax(-1)
                y[t, n] = projected(case, reward, discount, p)
    return y.squeeze(-1) if case["Z"] == 1 else y


def loss_of(case, online, target):
    """The loss, for its gradient at `online`, and the other outputs but that."""
    T, kept = case["T"], counts(case)
    with torch.no_grad():
        y = targets(case, online, target)
    actions = actions_of(case, online)[:T]
    at = case["action"][:T].unsqueeze(-1)
    value = values_of(case, actions).gather(-1, at).squeeze(-1)
    if case["Z"] == 1:
        td = y - value
        step = 0.5 * td**2
        if case["huber"]:
            linear = case["huber"] * (td.abs() - case["huber"] / 2)
            step = torch.where(td.abs() > case["huber"], linear, step)
        y_value = y
    else:
        index = at.unsqueeze(-1).expand(-1, -1, -1, case["Z"])
        log_q = actions.gather(2, index).squeeze(2).log_softmax(-1)
        step = -(y * log_q).sum(-1)
        td = step + torch.xlogy(y, y).sum(-1)
        y_value = (y * atoms(case)).sum(-1)
    loss = (kept * case["weight"] * step).sum()
    loss = loss / (case["N"] if case["over_time"] else max(1, kept.sum()))
    td = torch.where(kept, td, 0)
    most, mean = td.abs().amax(0), td.abs().sum(0) / kept.sum(0).clamp(min=1)
    one, weighted = torch.ones_like(td), case["weight"] * step
    parts = (one, weighted, td.abs(), value, y_value, rewards(case)[1:])
    return loss, {
        "td": td,
        "priority": case["eta"] * most + (1 - case["eta"]) * mean,
        "loss": loss,
        "sums": torch.stack([(kept * x).sum() for x in parts]),
    }


def main():
    out = []
    for index, (name, settings) in enumerate(CASES):
        case = make_case(index, settings)
        online = case["online"].clone().requires_grad_()
        loss, results = loss_of(case, online, case["target"])
        loss.backward()
        assert (online.grad[case["T"]] == 0).all()
        results = {key: x.detach() for key, x in results.items()}
        out.append((name, case | results | {"dhead": online.grad[: case["T"]]}))
    gae.write("q_loss.txt", out, 15)


if __name__ == "__main__":
    main()
