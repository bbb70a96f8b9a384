#!/usr/bin/env python3
"""The updates and the inference that scripts/gpu_check.sh measures, in PyTorch at its best: the same
networks, batches, losses and precision (autocast to bf16), channels last, fused Adam, cuDNN's LSTM,
compiled and captured in a CUDA graph as a whole; the fastest way of several counts. What spares
PyTorch work is left to it: images come stacked and lie on the GPU, and cuDNN's LSTM does not reset
its state inside a sequence, which ours does.

Usage: tests/bench/bench_torch_gpu.py [deep|shallow|r2d2|mlp|inference ...] [--device=cpu] [--quick]
       [--parameters] [--seconds=S]
Prints each way on a line that begins with "#", and "NAME STEPS_PER_SECOND WAY" (inference:
microseconds of a batch) when it is the best so far: the last such line counts. --parameters prints
"NAME COUNT" instead."""

import argparse
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

A = 6  # actions
EXTRAS = A + 1  # the previous action and the reward
FRAMES, SIDE = 4, 84


# ---- networks


class Shallow(nn.Module):
    outputs = 256

    def __init__(self):
        super().__init__()
        self.conv0 = nn.Conv2d(FRAMES, 16, 8, 4)
        self.conv1 = nn.Conv2d(16, 32, 4, 2)
        self.hidden = nn.Linear(9 * 9 * 32, 256)

    def forward(self, x):
        x = F.relu(self.conv1(F.relu(self.conv0(x))))
        return F.relu(self.hidden(x.flatten(1)))


class Nature(nn.Module):
    outputs = 512

    def __init__(self):
        super().__init__()
        self.conv0 = nn.Conv2d(FRAMES, 32, 8, 4)
        self.conv1 = nn.Conv2d(32, 64, 4, 2)
        self.conv2 = nn.Conv2d(64, 64, 3, 1)
        self.hidden = nn.Linear(7 * 7 * 64, 512)

    def forward(self, x):
        x = F.relu(self.conv2(F.relu(self.conv1(F.relu(self.conv0(x))))))
        return F.relu(self.hidden(x.flatten(1)))


class Block(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv0 = nn.Conv2d(channels, channels, 3, 1, 1)
        self.conv1 = nn.Conv2d(channels, channels, 3, 1, 1)

    def forward(self, x):
        return x + self.conv1(F.relu(self.conv0(F.relu(x))))


class Deep(nn.Module):
    outputs = 256

    def __init__(self):
        super().__init__()
        layers, before = [], FRAMES
        for channels in (16, 32, 32):
            layers += [nn.Conv2d(before, channels, 3, 1, 1), nn.MaxPool2d(3, 2, 1)]
            layers += [Block(channels), Block(channels)]
            before = channels
        self.layers = nn.Sequential(*layers)
        self.hidden = nn.Linear(11 * 11 * 32, 256)

    def forward(self, x):
        return F.relu(self.hidden(F.relu(self.layers(x)).flatten(1)))


class LSTM(nn.LSTM):
    """cuDNN's has two biases where one would do; the second stays out of the count."""

    def spare(self):
        return 4 * self.hidden_size


class Recurrent(nn.Module):
    """Images, the previous action and reward, an LSTM, a head: (T*N, A + 1)."""

    def __init__(self, torso, core, head_hidden=0):
        super().__init__()
        self.torso = torso()
        self.lstm = LSTM(self.torso.outputs + EXTRAS, core)
        self.core, self.head_hidden = core, head_hidden
        if head_hidden:
            self.advantage_hidden = nn.Linear(core, head_hidden)
            self.advantage = nn.Linear(head_hidden, A)
            self.value_hidden = nn.Linear(core, head_hidden)
            self.value = nn.Linear(head_hidden, 1)
        else:
            self.head = nn.Linear(core, A + 1)

    def forward(self, image, extras, state, T, N):
        x = self.torso(image.to(torch.float32) / 255)
        x = torch.cat([x, extras.to(x.dtype)], 1).unflatten(0, (T, N))
        h, state = self.lstm(x, state)
        h = h.flatten(0, 1)
        if not self.head_hidden:
            return self.head(h).float(), state
        advantage = self.advantage(F.relu(self.advantage_hidden(h)))
        value = self.value(F.relu(self.value_hidden(h)))
        return torch.cat([advantage, value], 1).float(), state


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 3)
        )

    def forward(self, x):
        return self.layers(x)


def count_parameters(model):
    spare = sum(m.spare() for m in model.modules() if isinstance(m, LSTM))
    return sum(p.numel() for p in model.parameters()) - spare


# ---- losses


def vtrace_loss(head, actions, action, behaviour, reward, discount, T, N):
    logits, values = head[: T * N, :actions], head[:, actions].unflatten(0, (T + 1, N))
    log_p = F.log_softmax(logits, 1)
    log_prob = log_p.gather(1, action).squeeze(1).unflatten(0, (T, N))
    with torch.no_grad():
        rho = (log_prob - behaviour).exp().clamp(max=1)
        delta = rho * (reward + discount * values[1:] - values[:-1])
        excess, vs = torch.zeros_like(delta[0]), [values[T]]
        for t in reversed(range(T)):
            excess = delta[t] + discount[t] * rho[t] * excess
            vs.append(values[t] + excess)
        vs = torch.stack(vs[::-1])
        advantage = rho * (reward + discount * vs[1:] - values[:-1])
    entropy = -(log_p.exp() * log_p).sum(1).mean()
    baseline = 0.5 * (vs[:-1] - values[:-1]).square().mean()
    return -(log_prob * advantage).mean() + 0.5 * baseline - 0.01 * entropy


def rescale(x):
    return x.sign() * ((x.abs() + 1).sqrt() - 1) + 1e-3 * x


def unrescale(x):
    root = (1 + 4e-3 * (x.abs() + 1 + 1e-3)).sqrt()
    return x.sign() * (((root - 1) / 2e-3).square() - 1)


def action_values(head, T, N):
    advantage, value = head[:, :A], head[:, A:]
    return (value + advantage - advantage.mean(1, keepdim=True)).unflatten(0, (T, N))


def q_loss(online, target, action, reward, discount, weight, T, N, n_steps=5):
    """online, target: heads of T + 1 steps. The n-step return's rewards are summed; its target is
    rescaled. Returns the loss and the priorities."""
    values = action_values(online, T + 1, N)
    chosen = values[:T].gather(2, action).squeeze(2)
    with torch.no_grad():
        best = values.argmax(2, keepdim=True)
        bootstrap = unrescale(action_values(target, T + 1, N).gather(2, best).squeeze(2))
        total, factor = torch.zeros_like(reward), torch.ones_like(reward)
        ahead, on = reward, discount
        for _ in range(n_steps):
            total, factor = total + factor * ahead, factor * on
            ahead = torch.cat([ahead[1:], torch.zeros_like(ahead[:1])])
            on = torch.cat([on[1:], torch.ones_like(on[:1])])
        at = torch.arange(n_steps, T + n_steps, device=reward.device).clamp(max=T)
        goal = rescale(total + factor * bootstrap[at])
    error = goal - chosen
    with torch.no_grad():
        absolute = error.abs()
        priority = 0.9 * absolute.amax(0) + 0.1 * absolute.mean(0)
    return (0.5 * error.square() * weight).sum(0).mean(), priority


# ---- cases


class Case:
    """A model with what its loss takes. sizes: T, N, and so on; see case()."""

    def __init__(self, name, device, quick):
        self.name, self.device = name, device
        self.bf16 = name != "mlp"
        T, N, core = (4, 4, 32) if quick else (20, 64, 256)
        self.burn_in = 0
        if name == "mlp":
            N = 8 if quick else 256
            self.model = MLP()
        elif name == "r2d2":
            self.burn_in, T, core = (1, 2, 32) if quick else (40, 80, 512)
            self.model = Recurrent(Nature, core, core)
            self.target = Recurrent(Nature, core, core).to(device)
        else:
            if name == "inference":
                T, N = 1, 8 if quick else 256
            self.model = Recurrent(Shallow if name == "shallow" else Deep, core)
        self.T, self.N, self.core = T, N, core
        self.model = self.model.to(device)
        self.steps = T * N

    def channels_last(self):
        if self.name == "mlp":
            return
        self.model.to(memory_format=torch.channels_last)
        if self.name == "r2d2":
            self.target.to(memory_format=torch.channels_last)

    def rows(self, T):
        """Images, extras and the state before them."""
        d, rows = self.device, T * self.N
        image = torch.randint(0, 256, (rows, FRAMES, SIDE, SIDE), dtype=torch.uint8, device=d)
        image = image.contiguous(memory_format=torch.channels_last)
        state = tuple(torch.zeros(1, self.N, self.core, device=d) for _ in range(2))
        return image, torch.rand(rows, EXTRAS, device=d), state

    def make_batch(self):
        d, T, N = self.device, self.T, self.N
        actions = 2 if self.name == "mlp" else A
        discount = 0.99 * (torch.rand(T, N, device=d) > 0.02).float()
        reward = torch.randint(0, 2, (T, N), device=d).float()
        behaviour = torch.full((T, N), -1.8, device=d)
        if self.name == "r2d2":
            action = torch.randint(0, A, (T, N, 1), device=d)
            weight = torch.rand(N, device=d)
            return (*self.rows(self.burn_in + T + 1), action, reward, discount, weight)
        action = torch.randint(0, actions, (T * N, 1), device=d)
        if self.name == "mlp":
            return (torch.rand((T + 1) * N, 4, device=d), action, behaviour, reward, discount)
        return (*self.rows(T + 1), action, behaviour, reward, discount)

    def autocast(self):
        return torch.autocast(self.device, torch.bfloat16, enabled=self.bf16, cache_enabled=False)

    def loss(self, *batch):
        T, N = self.T, self.N
        if self.name == "r2d2":
            return self.loss_of_values(*batch)
        with self.autocast():
            if self.name == "mlp":
                head, batch = self.model(batch[0]), batch[1:]
            else:
                head, _ = self.model(*batch[:3], T + 1, N)
                batch = batch[3:]
        return vtrace_loss(head, 2 if self.name == "mlp" else A, *batch, T, N)

    def loss_of_values(self, image, extras, state, action, reward, discount, weight):
        T, N, cut = self.T, self.N, self.burn_in * self.N
        with self.autocast():
            with torch.no_grad():
                _, own = self.model(image[:cut], extras[:cut], state, self.burn_in, N)
                _, other = self.target(image[:cut], extras[:cut], state, self.burn_in, N)
                target, _ = self.target(image[cut:], extras[cut:], other, T + 1, N)
            online, _ = self.model(image[cut:], extras[cut:], own, T + 1, N)
        loss, priority = q_loss(online, target, action, reward, discount, weight, T, N)
        self.priority = priority.detach()
        return loss


# ---- ways to run it


def make_update(case, compiled):
    batch = case.make_batch()
    parameters = list(case.model.parameters())
    on_gpu = case.device == "cuda"
    optimizer = torch.optim.Adam(parameters, 1e-4, fused=True, capturable=on_gpu)
    loss_of = torch.compile(case.loss) if compiled else case.loss

    def update():
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(*batch)
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 40, foreach=True)
        optimizer.step()
        return loss

    return update


def make_inference(case, compiled):
    """Rows from pinned memory, the stack of frames moved on, forward, a sampled action, and back."""
    d, N = case.device, case.N
    pin = {"pin_memory": True} if d == "cuda" else {}
    rows = torch.randint(0, 256, (N, 1, SIDE, SIDE), dtype=torch.uint8, **pin)
    actions = torch.zeros(N, dtype=torch.int64, **pin)
    stack, extras, state = case.rows(1)

    def step(newest, stack, extras, h, c):
        stack = torch.cat([newest, stack[:, :-1]], 1)
        with case.autocast():
            head, (h, c) = case.model(stack, extras, (h, c), 1, N)
        noise = -torch.empty_like(head[:, :A]).exponential_().log()
        return stack, (head[:, :A] + noise).argmax(1), h, c

    step = torch.compile(step) if compiled else step

    @torch.no_grad()
    def serve():
        newest = rows.to(d, non_blocking=True)
        moved, action, h, c = step(newest, stack, extras, *state)
        stack.copy_(moved)
        state[0].copy_(h)
        state[1].copy_(c)
        actions.copy_(action, non_blocking=True)
        return actions

    return serve


def synchronize(case):
    if case.device == "cuda":
        torch.cuda.synchronize()


def capture(function):
    """Everything before the capture runs on a stream beside the default one, as PyTorch asks for."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(5):
            function()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        function()
    return graph.replay


def prepare(name, way, args):
    case = Case(name, args.device, args.quick)
    if "last" in way:
        case.channels_last()
    make = make_inference if name == "inference" else make_update
    function = make(case, "compiled" in way)
    if "graph" in way:
        return case, capture(function)
    for _ in range(5):
        function()
    synchronize(case)
    return case, function


def measure(name, way, args):
    """Seconds of one update; inference waits for each batch, as actors do for their actions."""
    case, function = prepare(name, way, args)
    begin, count, times = time.perf_counter(), 0, []
    while count < 3 or time.perf_counter() - begin < args.seconds:
        start = time.perf_counter()
        for _ in range(1 if name == "inference" else 5):
            function()
            count += 1
        synchronize(case)
        times.append(time.perf_counter() - start)
    if name == "inference":
        return sorted(times)[len(times) // 2], case
    return (time.perf_counter() - begin) / count, case


def ways(args):
    if args.device != "cuda":
        return ["eager", "last"] if args.quick else ["eager", "last", "last_compiled"]
    if args.quick:
        return ["last_graph"]
    return ["last_graph", "last_compiled_graph", "graph", "compiled_graph", "last"]


def bench(name, args):
    best = float("inf")
    for way in ways(args):
        try:
            seconds, case = measure(name, way, args)
        except Exception as error:  # a way that this version cannot go
            print("# %s %s failed: %s" % (name, way, str(error).splitlines()[0][:160]), flush=True)
            continue
        print("# %s %s %.1f us" % (name, way, seconds * 1e6), flush=True)
        if seconds < best:
            best = seconds
            figure = best * 1e6 if name == "inference" else case.steps / best
            print("%s %.1f %s" % (name, figure, way), flush=True)
    return int(best == float("inf"))


def main():
    names = ["deep", "shallow", "r2d2", "mlp", "inference"]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--parameters", action="store_true")
    parser.add_argument("--seconds", type=float, default=3)
    args = parser.parse_args()
    if args.quick:
        args.seconds = 0
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.benchmark = True
    if set(args.names) - set(names):
        parser.error("names are " + ", ".join(names))
    if args.parameters:
        for name in args.names or names:
            print(name, count_parameters(Case(name, "cpu", args.quick).model))
        return 0
    if args.device == "cuda" and not torch.cuda.is_available():
        print("bench_torch_gpu.py: PyTorch %s finds no GPU" % torch.__version__, file=sys.stderr)
        return 2
    return max(bench(name, args) for name in args.names or names)


sys.exit(main())
