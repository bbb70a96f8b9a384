#!/usr/bin/env python3
"""gae.txt: generalised advantage estimation (Schulman et al. 2016, eq. 16) and the actor-critic loss
on it with its gradients, by PyTorch in float64; written forward, as sums over the rest of the episode.

A line is "case NAME" or "ARRAY COUNT numbers"; every array of a case follows its line. T steps, N
sequences, A actions; arrays are time-major. Row t of flags is about the observation x_t, reward[t] is
that of the step into x_t:
  first (1)       x_t begins an episode
  terminated (2)  the step into x_t ended its episode, whose last value is 0; always with first
  truncated (4)   x_t is the final observation of an episode that was cut off: step t is masked (no
                  advantage, no loss, not counted), its target is V(x_t), and the step before
                  bootstraps from V(x_t); the row after it is first with reward 0
Inputs are numbers that a float32 holds exactly:
  T N A discount lambda reward_scale reward_clip (0: none) baseline_cost entropy_cost
  flags reward value (T+1, N); action (T, N); logits (T, N, A)
Outputs:
  advantage target (T, N)
  loss_mean: total, policy, baseline, entropy, means over the unmasked steps, where the total is
    policy + baseline_cost baseline - entropy_cost entropy; d_logits_mean (T, N, A) and d_value_mean
    (T+1, N), the total's gradients
  loss_sum_over_time, d_logits_sum_over_time, d_value_sum_over_time: the same with sums over the
    unmasked steps of a sequence and the mean over the N sequences

Needs PyTorch (2.15.0 was used). Usage: tests/golden/algorithms/gae.py"""

import os
import random

import torch

torch.set_default_dtype(torch.float64)
FIRST, TERMINATED, TRUNCATED = 1, 2, 4
A = 4
SHAPES = [(5, 3), (20, 4), (1, 2)]
LAMBDAS = [0, 0.95, 1]
SCALED = {(20, 4, 0.95): (0.6, 0.75), (5, 3, 1): (1.5, 1)}  # reward_scale, reward_clip
ROW_0 = [0, FIRST, FIRST | TERMINATED, TRUNCATED]
ROW_T = [0, FIRST | TERMINATED, TRUNCATED]


def float32(x):
    return torch.tensor(x, dtype=torch.float32).item()


def numbers(rng, scale, *shape):
    """Uniform in +-scale, in steps that a float32 holds exactly."""
    count = torch.Size(shape).numel()
    return torch.tensor([rng.randint(-1024, 1024) / 1024 * scale for _ in range(count)]).reshape(shape)


# ---- inputs


def column_flags(rng, T, row_0, row_T):
    flags = [row_0]
    for t in range(1, T + 1):
        ends = rng.choices(ROW_T, (4, 1, 1))[0] if t < T else row_T
        flags.append(FIRST if flags[-1] & TRUNCATED else ends)
    return flags


def make_case(index, shape, trace):
    """The inputs; kinds of rows at the borders take turns over the columns of all cases."""
    (T, N), rng = shape, random.Random(index)
    scale, clip = SCALED.get((T, N, trace), (1, 0))
    columns = [column_flags(rng, T, ROW_0[(index + n) % 4], ROW_T[(2 * index + n) % 3])
               for n in range(N)]
    flags = torch.tensor(columns).T
    reset = (flags & FIRST != 0) & (flags & TERMINATED == 0)
    return {
        "T": T, "N": N, "A": A,
        "discount": float32(0.99), "lambda": float32(trace),
        "reward_scale": float32(scale), "reward_clip": float32(clip),
        "baseline_cost": float32(0.5), "entropy_cost": float32(0.01),
        "flags": flags,
        "reward": numbers(rng, 2, T + 1, N) * ~reset,
        "value": numbers(rng, 4, T + 1, N),
        "action": torch.tensor([[rng.randrange(A) for _ in range(N)] for _ in range(T)]),
        "logits": numbers(rng, 2, T, N, A),
    }


def check_variety(cases):
    """Every kind of row is there, at the borders and inside, and episodes of one step."""
    seen = set()
    for case in cases:
        for column in case["flags"].T.tolist():
            T, pieces = case["T"], episodes(column)
            seen |= {("row 0", column[0]), ("row T", column[T])}
            seen |= {("inside", flag) for flag in column[1:T]}
            seen |= {"many" for _ in pieces[3:]} | {"single" for s, e in pieces if e - s == 1 < T}
    wanted = {("row 0", flag) for flag in ROW_0} | {("row T", flag) for flag in ROW_T + [FIRST]}
    wanted |= {("inside", flag) for flag in ROW_T + [FIRST]} | {"many", "single"}
    assert wanted <= seen, wanted - seen


# ---- advantages


def episodes(flags):
    """(start, end) of the parts of episodes in one sequence: steps start..end - 1 were played in
    it, and the last of them led to row end."""
    pieces, start = [], 0
    for t, flag in enumerate(flags):
        if flag & (TERMINATED | TRUNCATED) or t == len(flags) - 1:
            if t > start:
                pieces.append((start, t))
            start = t + 1 if flag & TRUNCATED else t
    return pieces


def rewards(case):
    x = case["reward"] * case["reward_scale"]
    return x.clamp(-case["reward_clip"], case["reward_clip"]) if case["reward_clip"] else x


def value_into(case, t, n):
    """The value of row t for the step before it: 0 if that ended the episode."""
    return 0.0 if case["flags"][t, n] & TERMINATED else case["value"][t, n].item()


def delta(case, t, n):
    return (rewards(case)[t + 1, n].item() + case["discount"] * value_into(case, t + 1, n)
            - case["value"][t, n].item())


def gae(case):
    T, N, decay = case["T"], case["N"], case["discount"] * case["lambda"]
    advantage = torch.zeros(T, N)
    for n in range(N):
        for start, end in episodes(case["flags"][:, n].tolist()):
            for t in range(start, end):
                advantage[t, n] = sum(decay ** (k - t) * delta(case, k, n) for k in range(t, end))
    return advantage, advantage + case["value"][:T]


def check_returns(case, target):
    """With lambda = 1 the target is the discounted return, with the value of the last row."""
    for n in range(case["N"]):
        for start, end in episodes(case["flags"][:, n].tolist()):
            for t in range(start, end):
                back = [case["discount"] ** (k - t) for k in range(t, end + 1)]
                sums = sum(b * r for b, r in zip(back, rewards(case)[t + 1:end + 1, n].tolist()))
                expected = sums + back[-1] * value_into(case, end, n)
                assert abs(target[t, n] - expected) < 1e-12, (t, n)


# ---- the loss


def losses(case, advantage, target, over_time):
    """total, policy, baseline, entropy, and the total's gradients at logits and values."""
    logits = case["logits"].clone().requires_grad_()
    value = case["value"].clone().requires_grad_()
    log_p = torch.log_softmax(logits, 2)
    log_prob = log_p.gather(2, case["action"].unsqueeze(2)).squeeze(2)
    kept = (case["flags"][:-1] & TRUNCATED) == 0
    policy = -log_prob * advantage
    baseline = 0.5 * (value[:-1] - target) ** 2
    entropy = -(log_p.exp() * log_p).sum(2)
    parts = [(x * kept).sum() / (case["N"] if over_time else kept.sum())
             for x in (policy, baseline, entropy)]
    total = parts[0] + case["baseline_cost"] * parts[1] - case["entropy_cost"] * parts[2]
    total.backward()
    return torch.stack([total, *parts]).detach(), logits.grad, value.grad


def results(case, advantage, target):
    out = {"advantage": advantage, "target": target}
    for name, over_time in (("mean", False), ("sum_over_time", True)):
        loss, d_logits, d_value = losses(case, advantage, target, over_time)
        out |= {"loss_" + name: loss, "d_logits_" + name: d_logits, "d_value_" + name: d_value}
    return out


# ---- the file


def write(name, cases, digits=12):
    """Cases with their results as (name, dictionary)."""
    with open(os.path.join(os.path.dirname(__file__), name), "w") as file:
        for case, arrays in cases:
            file.write("case %s\n" % case)
            for array, x in arrays.items():
                x = torch.as_tensor(x).flatten().tolist()
                file.write("%s %d %s\n" % (array, len(x), " ".join("%.*g" % (digits, v) for v in x)))


def all_cases():
    """(name, inputs)"""
    pairs = [(shape, trace) for shape in SHAPES for trace in LAMBDAS]
    cases = [("%dx%d_lambda_%g" % (*shape, trace), make_case(i, shape, trace))
             for i, (shape, trace) in enumerate(pairs)]
    check_variety([case for _, case in cases])
    return cases


def main():
    out = []
    for name, case in all_cases():
        advantage, target = gae(case)
        if case["lambda"] == 1:
            check_returns(case, target)
        out.append((name, case | results(case, advantage, target)))
    write("gae.txt", out)


if __name__ == "__main__":
    main()
