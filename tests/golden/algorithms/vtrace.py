#!/usr/bin/env python3
"""vtrace.txt: V-trace (Espeholt et al. 2018, eq. 1, with lambda in the trace's weights) on the cases
of gae.py, by PyTorch in float64; written forward, as sums over the rest of the episode.

The layout is that of gae.txt (gae.py). Further inputs: rho_clip c_clip pg_rho_clip; behaviour (T, N),
the log-probability of the action under the policy that acted. target is the value target vs, and
advantage that of the policy gradient, with its clipped importance weight.

Needs PyTorch (2.15.0 was used). Usage: tests/golden/algorithms/vtrace.py"""

import math
import random
import sys

import torch

sys.dont_write_bytecode = True  # no __pycache__ in the source tree
import gae

CLIPS = [(1, 1, 1), (1.5, 0.75, 2), (0.75, 1.25, 1)]  # of rho, c, and the policy gradient's rho


def log_probs(logits, action):
    return torch.log_softmax(logits, 2).gather(2, action.unsqueeze(2)).squeeze(2)


def add_behaviour(case, index):
    """The policy that acted is not the one that is trained."""
    noise = gae.numbers(random.Random(100 + index), 1, *case["logits"].shape)
    behaviour = log_probs(case["logits"] + noise, case["action"])
    clips = zip(("rho_clip", "c_clip", "pg_rho_clip"), CLIPS[index % len(CLIPS)])
    return case | dict(clips) | {"behaviour": (behaviour * 1024).round() / 1024}


def vtrace(case):
    T, N = case["T"], case["N"]
    rho = torch.exp(log_probs(case["logits"], case["action"]) - case["behaviour"])
    weight = {name: rho.clamp(max=case[name]) for name in ("rho_clip", "c_clip", "pg_rho_clip")}
    advantage, target = torch.zeros(T, N), case["value"][:T].clone()
    decay = case["discount"] * case["lambda"]
    for n in range(N):
        for start, end in gae.episodes(case["flags"][:, n].tolist()):
            c, rho_n = weight["c_clip"][:, n].tolist(), weight["rho_clip"][:, n].tolist()
            for t in range(start, end):
                target[t, n] += sum(decay ** (k - t) * math.prod(c[t:k]) * rho_n[k]
                                    * gae.delta(case, k, n) for k in range(t, end))
            for t in range(start, end):
                after = target[t + 1, n] if t + 1 < end else gae.value_into(case, end, n)
                gain = (gae.rewards(case)[t + 1, n] + case["discount"] * after
                        - case["value"][t, n])
                advantage[t, n] = weight["pg_rho_clip"][t, n] * gain
    return advantage, target


def main():
    out = []
    for index, (name, case) in enumerate(gae.all_cases()):
        case = add_behaviour(case, index)
        out.append((name, case | gae.results(case, *vtrace(case))))
    gae.write("vtrace.txt", out)


main()
