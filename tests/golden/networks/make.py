#!/usr/bin/env python3
"""Golden files of the networks for images, by PyTorch in float64: heads, the gradient of the V-trace
loss, and parameters after three steps of torch.optim.Adam. Parameters, images and everything else
follow from a hash (value below), which the test computes too, so that the files stay small; of each
parameter array they hold sum, sum of squares and eight elements.

At a ReLU's zero and where two values of a pool's window are equal the gradient jumps, so that float32
may fall on the other side than float64. The images of a case are the first whose distance from every
jump is at least MARGIN of the layer's size, in as many of the three steps as the case says: the
hundreds of thousands of jumps of impala_deep leave no such images for more than one step, on 84 x 84
for none; there the test is wider.
Needs PyTorch (2.15.0 was used). Usage: tests/golden/networks/make.py, in the tree's root."""

import io
import math
import os

import numpy as np
import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)
A, T, N = 4, 4, 3
FIRST, TERMINATED, TRUNCATED = 1, 2, 4
FLAGS = [[0, FIRST, 0], [0, 0, TRUNCATED], [0, FIRST | TERMINATED, FIRST], [0, 0, 0], [0, 0, 0]]
DISCOUNT, LAMBDA, BASELINE, ENTROPY, RATE, EPSILON = 0.9, 0.95, 0.5, 0.01, 0.001, 0.001
CASES = [  # name, network, size of the image, frames, LSTM, steps that keep away from jumps
    ("impala_shallow_lstm", "impala_shallow", 84, 1, 256, 3),
    ("impala_shallow_stack", "impala_shallow", 84, 4, 0, 3),
    ("nature_lstm", "nature", 84, 1, 256, 3),
    ("nature_stack", "nature", 84, 4, 0, 3),
    ("impala_deep_lstm", "impala_deep", 84, 1, 256, 0),
    ("impala_deep_stack", "impala_deep", 37, 4, 0, 1),
]
MARGIN = 2e-6  # some ten times what a float32 loses in 15 convolutions
PARAMETERS, IMAGES, OLDER, ACTIONS, BEHAVIOUR, REWARDS, STATES, PREVIOUS = range(0, 800, 100)


def bits(stream, count):
    """32 bits for each of `count` indices of a stream."""
    x = (np.arange(count, dtype=np.uint64) + np.uint64(stream) * np.uint64(0x10000000))
    mask = np.uint64(0xFFFFFFFF)
    x &= mask
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        x ^= x >> np.uint64(shift)
        x = (x * np.uint64(factor)) & mask
    return x ^ (x >> np.uint64(16))


def value(stream, count):
    """Numbers in [-1, 1) that a float holds exactly."""
    return (bits(stream, count) >> np.uint64(8)).astype(np.float64) * 2.0**-23 - 1


class Margin:
    """The smallest distance from a jump that a network has met, over the layer's size."""

    smallest = math.inf

    @classmethod
    def meet(cls, distance, x):
        size = x[torch.isfinite(x)].square().mean().sqrt()
        cls.smallest = min(cls.smallest, (distance.min() / size).item())


def relu(x):
    Margin.meet(x.detach().abs(), x.detach())
    return F.relu(x)


def max_pool(x):
    windows = x.detach().unfold(2, 3, 2).unfold(3, 3, 2).flatten(4)
    best = windows.topk(2, -1).values
    Margin.meet(best[..., 0] - best[..., 1], x.detach())
    return F.max_pool2d(x, 3, 2)


class Network:
    def __init__(self, network, size, stack, lstm):
        self.network, self.stack, self.lstm = network, stack, lstm
        self.names, self.arrays = [], []
        channels, side = stack, size
        self.layers = []
        if network == "impala_deep":
            for outputs in (16, 32, 32):
                self.conv(channels, outputs, 3, 1, True, False)
                self.layers.append(("pool",))
                for _ in range(2):
                    self.block(outputs)
                channels, side = outputs, (side + 1) // 2
            self.layers.append(("relu",))
            hidden = 256
        else:
            plan = {
                "impala_shallow": [(16, 8, 4), (32, 4, 2)],
                "nature": [(32, 8, 4), (64, 4, 2), (64, 3, 1)],
            }[network]
            for outputs, kernel, stride in plan:
                self.conv(channels, outputs, kernel, stride, False, True)
                channels, side = outputs, (side - kernel) // stride + 1
            hidden = 512 if network == "nature" else 256
        width = self.dense("hidden", side * side * channels, hidden) + A + 1
        if lstm:
            self.dense("lstm", width, 4 * lstm)
            self.add("lstm/wh", (lstm, 4 * lstm))
            width = lstm
        self.dense("head", width, A + 1)

    def add(self, name, shape):
        count = int(np.prod(shape))
        inputs = int(np.prod(shape[:-1])) if len(shape) > 1 else 0
        power = 1 - int(math.log2(inputs)) // 2 if inputs else -4
        x = value(PARAMETERS + len(self.arrays), count) * 2.0**power
        self.names.append(name)
        self.arrays.append(torch.tensor(x.reshape(shape), requires_grad=True))
        return len(self.arrays) - 1

    def dense(self, name, inputs, outputs):
        self.add(name + "/w", (inputs, outputs))
        self.add(name + "/b", (outputs,))
        return outputs

    def weights(self, name, inputs, outputs, kernel):
        w = self.add(name + "/w", (kernel, kernel, inputs, outputs))
        return w, self.add(name + "/b", (outputs,))

    def conv(self, inputs, outputs, kernel, stride, same, relu):
        name = "conv%d" % len(self.layers)
        self.layers.append(
            ("conv", self.weights(name, inputs, outputs, kernel), stride, same, relu)
        )

    def block(self, channels):
        name = "conv%d" % len(self.layers)
        first = self.weights(name + "a", channels, channels, 3)
        self.layers.append(("block", first, self.weights(name + "b", channels, channels, 3)))

    def get(self, name):
        return self.arrays[self.names.index(name)]

    def linear(self, x, name):
        return x @ self.get(name + "/w") + self.get(name + "/b")

    def convolve(self, x, index, stride, same):
        w = self.arrays[index[0]].permute(3, 2, 0, 1)
        return F.conv2d(x, w, self.arrays[index[1]], stride, w.shape[2] // 2 if same else 0)

    def features(self, x):
        for layer in self.layers:
            if layer[0] == "conv":
                x = self.convolve(x, *layer[1:4])
                x = relu(x) if layer[4] else x
            elif layer[0] == "pool":  # ceil(side / 2) places, the odd zero below and on the right
                pad = 1 - x.shape[2] % 2
                x = F.pad(x, (1 - pad, 1, 1 - pad, 1), value=-math.inf)
                x = max_pool(x)
            elif layer[0] == "block":
                y = self.convolve(relu(x), layer[1], 1, True)
                x = x + self.convolve(relu(y), layer[2], 1, True)
            else:
                x = relu(x)
        return x.permute(0, 2, 3, 1).flatten(1)

    def recurrence(self, x, state, flags):
        H, rows = self.lstm, []
        h, c = state[:, :H], state[:, H:]
        for t in range(T + 1):
            keep = 1.0 - (flags[t] & FIRST).unsqueeze(1).to(x.dtype)
            h, c = h * keep, c * keep
            gates = self.linear(x[t * N : (t + 1) * N], "lstm") + h @ self.get("lstm/wh")
            i, f, g, o = gates.split(H, 1)
            c = torch.sigmoid(f + 1) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
            rows.append(h)
        return torch.cat(rows)

    def head(self, batch):
        x = relu(self.linear(self.features(batch["image"]), "hidden"))
        x = torch.cat([x, batch["previous"], batch["reward_input"]], 1)
        if self.lstm:
            x = self.recurrence(x, batch["state"], batch["flags"])
        return self.linear(x, "head")


def make_batch(size, stack, lstm, images):
    rows, pixels = (T + 1) * N, size * size
    frames = (bits(IMAGES + images, rows * pixels) & np.uint64(255)).reshape(T + 1, N, pixels)
    older = (bits(OLDER, 3 * N * pixels) & np.uint64(255)).reshape(3, N, pixels)
    image = np.zeros((T + 1, N, stack, pixels))
    for n in range(N):
        depth = min(n, stack - 1)
        for t in range(T + 1):
            depth = 0 if FLAGS[t][n] & FIRST else depth
            for k in range(depth + 1):
                image[t, n, k] = frames[t - k, n] if k <= t else older[k - t - 1, n]
            depth = min(depth + 1, stack - 1)
    flags = torch.tensor(FLAGS)
    action = torch.tensor((bits(ACTIONS, rows) % np.uint64(A)).astype(np.int64))
    before = torch.tensor((bits(PREVIOUS, N) % np.uint64(A)).astype(np.int64))
    previous = F.one_hot(torch.cat([before, action[:-N]]), A).to(torch.float64)
    first = (flags.flatten() & FIRST).to(torch.float64).unsqueeze(1)
    reward = torch.tensor(2 * value(REWARDS, rows))
    return {
        "image": torch.tensor(image.reshape(rows, stack, size, size) / 255),
        "flags": flags,
        "action": action[: T * N],
        "previous": previous * (1 - first),
        "reward": reward,
        "reward_input": reward.clamp(-1, 1).unsqueeze(1) * (1 - first),
        "behaviour": torch.tensor(value(BEHAVIOUR, rows)[: T * N] - 1.5),
        "state": torch.tensor(value(STATES, N * 2 * lstm).reshape(N, 2 * lstm)) if lstm else None,
    }


def vtrace(log_prob, values, batch):
    """Targets and advantages: Espeholt et al. 2018, remark 1."""
    flags, reward = batch["flags"], batch["reward"].reshape(T + 1, N).clamp(-1, 1)
    rho = torch.exp(log_prob.reshape(T, N) - batch["behaviour"].reshape(T, N)).clamp(max=1)
    vs, advantage = values.clone(), torch.zeros(T, N)
    for n in range(N):
        excess = 0.0
        for t in reversed(range(T)):
            if flags[t, n] & TRUNCATED:
                excess = 0.0
                continue
            discount = 0.0 if flags[t + 1, n] & TERMINATED else DISCOUNT
            after = reward[t + 1, n]
            advantage[t, n] = rho[t, n] * (after + discount * vs[t + 1, n] - values[t, n])
            delta = rho[t, n] * (after + discount * values[t + 1, n] - values[t, n])
            excess = delta + discount * LAMBDA * rho[t, n] * excess
            vs[t, n] = values[t, n] + excess
    return vs[:T], advantage


def loss_of(network, batch):
    head = network.head(batch)
    logits, values = head[: T * N, :A], head[:, A].reshape(T + 1, N)
    log_p = F.log_softmax(logits, 1)
    log_prob = log_p.gather(1, batch["action"].unsqueeze(1)).squeeze(1)
    with torch.no_grad():
        vs, advantage = vtrace(log_prob, values, batch)
    kept = ((batch["flags"][:T] & TRUNCATED) == 0).to(torch.float64).flatten()
    policy = -(log_prob * advantage.flatten())
    baseline = 0.5 * (vs - values[:T]).flatten() ** 2
    entropy = -(log_p.exp() * log_p).sum(1)
    total = (policy + BASELINE * baseline - ENTROPY * entropy) * kept
    return head, total.sum() / kept.sum()


def describe(file, word, names, arrays):
    for j, (name, x) in enumerate(zip(names, arrays)):
        x = x.detach().numpy().flatten()
        at = bits(700 + j, 8) % np.uint64(len(x))
        numbers = [x.sum(), (x * x).sum()] + [x[int(i)] for i in at]
        file.write("%s %s %s\n" % (word, name, " ".join("%.12g" % v for v in numbers)))


def train(network, batch, file):
    """Returns the distance from the nearest jump in each step."""
    margins = []
    optimizer = torch.optim.Adam(network.arrays, RATE, (0.9, 0.99), EPSILON)
    for step in range(3):
        optimizer.zero_grad()
        Margin.smallest = math.inf
        head, loss = loss_of(network, batch)
        margins.append(Margin.smallest)
        loss.backward()
        if step == 0:
            for row in head.detach().numpy():
                file.write("head %s\n" % " ".join("%.12g" % v for v in row))
            describe(file, "gradient", network.names, [x.grad for x in network.arrays])
        file.write("loss %.12g\n" % loss.item())
        optimizer.step()
    describe(file, "after", network.names, network.arrays)
    return margins


def make(name, kind, size, stack, lstm, steps):
    for images in range(100):
        text = io.StringIO()
        text.write("case %s %d %d %d %d\n" % (kind, size, stack, lstm, images))
        batch = make_batch(size, stack, lstm, images)
        margins = train(Network(kind, size, stack, lstm), batch, text)
        if all(margin >= MARGIN for margin in margins[:steps]):
            break
    else:
        raise SystemExit("%s: none of 100 images keeps away from every jump" % name)
    print("%s: images %d, %s from a jump" % (name, images, ["%.2g" % m for m in margins]))
    with open(os.path.join(os.path.dirname(__file__), name + ".txt"), "w") as file:
        file.write(text.getvalue())


if __name__ == "__main__":
    for case in CASES:
        make(*case)
