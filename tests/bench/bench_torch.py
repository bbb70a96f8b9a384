#!/usr/bin/env python3
"""One V-trace update of impala_shallow with an LSTM that resets inside the sequence, in PyTorch on one
thread: eager, with channels last, and compiled. What tests/bench/pixels.sh compares with: the same
sizes, the same work (bytes in, gradients clipped, Adam). Times are the process's CPU time.
Usage: tests/bench/bench_torch.py [float32|bf16 [SECONDS]]
Prints "<way>_us=..." for each way and "best_us=... best=<way>"."""

import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

T, N, A, H = 20, 32, 6, 256
PRECISION = sys.argv[1] if len(sys.argv) > 1 else "float32"
SECONDS = float(sys.argv[2]) if len(sys.argv) > 2 else 8
torch.set_num_threads(1)
torch.manual_seed(1)


class Shallow(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv0 = nn.Conv2d(1, 16, 8, 4)
        self.conv1 = nn.Conv2d(16, 32, 4, 2)
        self.hidden = nn.Linear(9 * 9 * 32, 256)
        self.input = nn.Linear(256 + A + 1, 4 * H)
        self.recurrent = nn.Linear(H, 4 * H, bias=False)
        self.head = nn.Linear(H, A + 1)

    def forward(self, image, extras, keep, h, c):
        x = F.relu(self.conv0(image.to(torch.float32) / 255))
        x = F.relu(self.conv1(x))
        x = F.relu(self.hidden(x.flatten(1)))
        gates = self.input(torch.cat([x, extras], 1)).unflatten(0, (T + 1, N))
        rows = []
        for t in range(T + 1):
            h, c = h * keep[t], c * keep[t]
            i, f, g, o = (gates[t] + self.recurrent(h)).chunk(4, 1)
            c = torch.sigmoid(f + 1) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
            rows.append(h)
        return self.head(torch.cat(rows)).float()


def targets(log_prob, values, behaviour, reward, discount):
    rho = (log_prob - behaviour).exp().clamp(max=1)
    delta = rho * (reward + discount * values[1:] - values[:-1])
    excess, vs = torch.zeros(N), [values[T]]
    for t in reversed(range(T)):
        excess = delta[t] + discount[t] * rho[t] * excess
        vs.append(values[t] + excess)
    vs = torch.stack(vs[::-1])
    return vs[:-1], rho * (reward + discount * vs[1:] - values[:-1])


def loss_of(model, batch):
    image, extras, keep, h, c, action, behaviour, reward, discount = batch
    with torch.autocast("cpu", torch.bfloat16, enabled=PRECISION == "bf16"):
        head = model(image, extras, keep, h, c)
    logits, values = head[: T * N, :A], head[:, A].unflatten(0, (T + 1, N))
    log_p = F.log_softmax(logits, 1)
    log_prob = log_p.gather(1, action).squeeze(1).unflatten(0, (T, N))
    with torch.no_grad():
        vs, advantage = targets(log_prob, values, behaviour, reward, discount)
    entropy = -(log_p.exp() * log_p).sum(1).mean()
    baseline = 0.5 * (vs - values[:-1]).square().mean()
    return -(log_prob * advantage).mean() + 0.5 * baseline - 0.01 * entropy


def make_batch():
    rows = (T + 1) * N
    keep = (torch.rand(T + 1, N, 1) > 0.02).float()
    return (
        torch.randint(0, 256, (rows, 1, 84, 84), dtype=torch.uint8),
        torch.rand(rows, A + 1),
        keep,
        torch.zeros(N, H),
        torch.zeros(N, H),
        torch.randint(0, A, (T * N, 1)),
        torch.full((T, N), -1.8),
        torch.randint(0, 2, (T, N)).float(),
        0.99 * keep[1:, :, 0],
    )


def measure(way):
    model, batch = Shallow(), make_batch()
    if way == "channels_last":
        model = model.to(memory_format=torch.channels_last)
    optimizer = torch.optim.Adam(model.parameters(), 1e-4, fused=True)
    loss = torch.compile(loss_of) if way == "compiled" else loss_of

    def update():
        optimizer.zero_grad(set_to_none=True)
        loss(model, batch).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 40)
        optimizer.step()

    for _ in range(3):
        update()
    times, end = [], time.monotonic() + SECONDS
    while len(times) < 5 or time.monotonic() < end:
        start = time.process_time()
        update()
        times.append(time.process_time() - start)
    return sorted(times)[len(times) // 2] * 1e6


best, best_way = float("inf"), "none"
for way in ("eager", "channels_last", "compiled"):
    try:
        us = measure(way)
    except Exception as error:  # a machine without a C++ compiler cannot compile
        print("%s failed: %s" % (way, str(error).splitlines()[0][:200]))
        continue
    print("%s_us=%.0f" % (way, us))
    if us < best:
        best, best_way = us, way
print("best_us=%.0f best=%s" % (best, best_way))
