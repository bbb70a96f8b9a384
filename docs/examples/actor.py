#!/usr/bin/env python3
"""An Acorn actor in Python: K environments on one stream, from proto/acorn.proto alone.

It plays CartPole, which the learner knows by that name. To play something else, replace the class
CartPole and the constants above it; for an environment that the learner does not know, start
the learner with --env=join. docs/protocol.md has the rules in full. acorn.actor of the Python
package acorn-rl plays environments of Gymnasium by the functions here.

Needs grpcio, and the two modules that are made from the protocol's description. On Debian:

    scripts/setup.sh python && make all python
    build/learner --env=cartpole --num_envs=16 --listen=127.0.0.1:8686 &
    /usr/bin/python3 docs/examples/actor.py --learner=127.0.0.1:8686 --envs=16

Elsewhere pip install grpcio-tools and make the modules in build/python by hand:

    out=build/python; mkdir -p $out
    python3 -m grpc_tools.protoc -Iproto --python_out=$out --grpc_python_out=$out proto/acorn.proto
"""
import argparse
import math
import os
import queue
import random
import stat
import struct
import sys
import time


def read_options():
    options = argparse.ArgumentParser(description="An Acorn actor that plays CartPole.")
    options.add_argument("--learner", default="127.0.0.1:8686", help="HOST:PORT or unix:PATH")
    options.add_argument("--token_file", help="file with the secret that the learner asks for")
    options.add_argument("--tls_ca", help="PEM file with what has signed the learner's certificate")
    options.add_argument("--tls_cert", help="PEM file with a certificate of this actor")
    options.add_argument("--tls_key", help="PEM file with its private key")
    options.add_argument("--name", default="python/0", help="unlike that of any other actor")
    options.add_argument("--envs", type=int, default=16, help="environments on this stream")
    options.add_argument("--reconnect_s", type=float, default=600, help="how long to look for it")
    given = options.parse_args()
    if bool(given.tls_cert) != bool(given.tls_key):
        options.error("--tls_cert and --tls_key need each other")
    if given.tls_cert and not given.tls_ca:
        options.error("--tls_cert without --tls_ca: name what has signed the learner's certificate")
    return given


# Before the imports, so that --help needs none of them.
OPTIONS = read_options() if __name__ == "__main__" else None
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../build/python"))
try:
    import grpc
    import acorn_pb2
    import acorn_pb2_grpc
except ImportError as missing:
    print(f"{missing}: python3-grpcio, python3-protobuf and protobuf-compiler-grpc are needed "
          "(scripts/setup.sh python installs them for /usr/bin/python3), and the protocol's "
          "modules (make python makes them)", file=sys.stderr)
    sys.exit(2)

# What the environment is to the learner. Bytes are little-endian, arrays in C order.
ENVIRONMENT = "cartpole"
OBSERVATION = [acorn_pb2.Tensor(name="state", dtype=acorn_pb2.DTYPE_FLOAT32, shape=[4])]
ACTION = acorn_pb2.ActionSpace(discrete=2)


class CartPole:
    """A pole on a cart (Barto, Sutton, Anderson 1983); 500 steps at most."""

    def reset(self, seed):
        if seed is not None:
            self.random = random.Random(seed)
        self.state = [self.random.uniform(-0.05, 0.05) for _ in range(4)]
        self.steps = 0
        return self.state

    def step(self, action):
        """Returns observation, reward, terminated, truncated."""
        x, x_dot, theta, theta_dot = self.state
        sine, cosine = math.sin(theta), math.cos(theta)
        force = 10.0 if action == 1 else -10.0
        push = (force + 0.05 * theta_dot * theta_dot * sine) / 1.1
        turn = (9.8 * sine - cosine * push) / (0.5 * (4 / 3 - 0.1 * cosine * cosine / 1.1))
        slide = push - 0.05 * turn * cosine / 1.1
        self.state = [x + 0.02 * x_dot, x_dot + 0.02 * slide,
                      theta + 0.02 * theta_dot, theta_dot + 0.02 * turn]
        self.steps += 1
        fallen = abs(self.state[0]) > 2.4 or abs(self.state[2]) > 12 * math.pi / 180
        return self.state, 1.0, fallen, self.steps >= 500

    def numbers(self):
        """What else of an episode that has ended is worth a mean: up to 16 names and values."""
        return [("distance", abs(self.state[0]))]

    @staticmethod
    def pack(observation):
        return struct.pack("<4f", *observation)

    @staticmethod
    def unpack(actions, count):
        return struct.unpack(f"<{count}i", actions)


class Player:
    """One environment, and the rows that it sends."""

    def __init__(self, world, seed, stride):
        self.world, self.seed, self.stride = world, seed, stride
        self.episode = 0

    def reset(self):
        # Episode e is seeded with seed + e * stride; with a stride of 0 only the first one is.
        seeded = self.episode == 0 or self.stride != 0
        seed = (self.seed + self.episode * self.stride) % 2**64 if seeded else None
        self.episode += 1
        self.total, self.length, self.cut = 0.0, 0, False
        return self.world.reset(seed)

    def first_row(self):
        """The row that starts an episode: observation, reward, flags, finished episode."""
        return self.reset(), 0.0, acorn_pb2.STEP_FIRST, None

    def next_row(self, action):
        if self.cut:  # the row before was TRUNCATED: this action means nothing
            return self.first_row()
        observation, reward, terminated, truncated = self.world.step(action)
        self.total += reward
        self.length += 1
        done = acorn_pb2.Episode(episode_return=self.total, length=self.length)
        if terminated or truncated:
            done.number.extend(acorn_pb2.Number(name=name, value=value)
                               for name, value in self.world.numbers())
        if terminated:  # the row shows the next episode already, with the reward of the last step
            return self.reset(), reward, acorn_pb2.STEP_TERMINATED | acorn_pb2.STEP_FIRST, done
        if truncated:  # the row shows the last observation; the next one is FIRST
            self.cut = True
            return observation, reward, acorn_pb2.STEP_TRUNCATED, done
        return observation, reward, acorn_pb2.STEP_NONE, None


def steps_message(rows, pack):
    """The rows of all environments, in order, as one Steps."""
    message = acorn_pb2.Steps()
    message.reward.extend(reward for _, reward, _, _ in rows)
    message.flags = bytes(flags for _, _, flags, _ in rows)
    message.observation = b"".join(pack(observation) for observation, _, _, _ in rows)
    for k, (_, _, _, episode) in enumerate(rows):
        if episode:
            episode.environment = k
            message.episode.append(episode)
    return message


def read(path):
    with open(path, "rb") as file:
        return file.read()


def read_secret(option, path):
    """Refuses a file that others may read; its group may read root's, as in Kubernetes."""
    info = os.stat(path)
    others = stat.S_IRWXO | stat.S_IWGRP if info.st_uid == 0 else stat.S_IRWXO | stat.S_IRWXG
    if info.st_mode & others:
        sys.exit(f"{option}={path}: others may read this secret "
                 f"(mode {stat.S_IMODE(info.st_mode):04o}): chmod 600 it")
    return read(path)


def token(options):
    """The metadata of every call: the first line of the file."""
    if not options.token_file:
        return ()
    lines = read_secret("--token_file", options.token_file).decode("ascii").split()
    return (("authorization", "Bearer " + lines[0]),) if lines else ()


def connect(options):
    """A channel; the files are read each time, as they may have been replaced."""
    # As the learner: a peer that is gone is noticed, a large message is welcome, no proxy.
    arguments = [
        ("grpc.keepalive_time_ms", 10000), ("grpc.keepalive_timeout_ms", 30000),
        ("grpc.http2.max_pings_without_data", 0), ("grpc.max_receive_message_length", -1),
        ("grpc.enable_http_proxy", 0), ("grpc.use_local_subchannel_pool", 1)]
    if not options.tls_ca or options.learner.startswith("unix:"):  # a Unix socket stays plain
        return grpc.insecure_channel(options.learner, options=arguments)
    security = grpc.ssl_channel_credentials(
        read(options.tls_ca), options.tls_key and read_secret("--tls_key", options.tls_key),
        options.tls_cert and read(options.tls_cert))
    return grpc.secure_channel(options.learner, security, options=arguments)


def play(stub, lease, metadata, make_world):
    """Plays with one lease until its stream ends. Returns when the run is over."""
    players = [Player(make_world(), seed, lease.episode_seed_stride)
               for seed in lease.environment_seed]
    world = players[0].world
    outbox = queue.SimpleQueue()  # what is put here goes out
    stream = stub.Play(iter(outbox.get, None), metadata=metadata)
    try:
        # First the run id alone: the stream then holds the lease while the environments reset.
        outbox.put(acorn_pb2.Steps(run_id=lease.run_id))
        if next(stream, None) is None:
            return  # the run is over
        outbox.put(steps_message([player.first_row() for player in players], world.pack))
        for actions in stream:
            chosen = world.unpack(actions.action, len(players))
            rows = [player.next_row(action) for player, action in zip(players, chosen)]
            outbox.put(steps_message(rows, world.pack))
    finally:
        outbox.put(None)
        # An error's traceback would keep it to the interpreter's end, where gRPC may wait for ever.
        del stream
        for player in players:  # the next lease gets new ones
            if hasattr(player.world, "close"):
                player.world.close()


def join_and_play(options, request, make_world):
    metadata = token(options)
    with connect(options) as channel:
        stub = acorn_pb2_grpc.AcornStub(channel)
        lease = stub.Join(request, timeout=30, metadata=metadata)
        if lease.run_id != 0:  # 0: the run is over, nothing is leased
            play(stub, lease, metadata, make_world)


def should_join_again(code):
    """The learner restarts, is full, or does not answer; anything else would fail again."""
    return code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED,
                    grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.RESOURCE_EXHAUSTED)


# What to do about a connection that fails, by what gRPC reports of it.
REMEDIES = {
    "wrong version number":
        "the learner has no TLS: leave --tls_ca out, or start it with --tls_cert and --tls_key",
    "certificate verify failed":
        "the learner's certificate is not signed by the one in --tls_ca, or is not valid by this "
        "machine's clock",
    "is not in peer certificate":
        "the learner's certificate is another host's: this address is not among its names",
    "empty address list": "the TLS files cannot be used: a certificate in them is damaged, or "
                          "--tls_key is not the key of --tls_cert",
    "socket closed": "the learner hung up: it may ask for TLS (--tls_ca), or for another "
                     "certificate (--tls_cert, --tls_key)",
}
REMEDIES["connection reset"] = REMEDIES["socket closed"]


def explain(details):
    text = details.lower().replace("_", " ")
    return next((remedy for words, remedy in REMEDIES.items() if words in text), details)


def run(options, request, make_world):
    """Joins again and again, until the run is over (0), or it makes no sense (1)."""
    wait_s, lost = 0.1, time.monotonic()
    while True:
        started = time.monotonic()
        try:
            join_and_play(options, request, make_world)
            print("the run is over", file=sys.stderr)
            return 0
        except grpc.RpcError as error:
            if time.monotonic() - started > 5:  # it has played meanwhile
                wait_s, lost = 0.1, time.monotonic()
            if not should_join_again(error.code()) or time.monotonic() - lost > options.reconnect_s:
                print(f"{error.code().name}: {explain(error.details())}", file=sys.stderr)
                return 1
            if wait_s == 0.1:
                print(f"looking for a learner at {options.learner}", file=sys.stderr)
        time.sleep(wait_s)
        wait_s = min(2 * wait_s, 2.0)


def main(options):
    request = acorn_pb2.JoinRequest(
        protocol=1, name=options.name, environment=ENVIRONMENT, observation=OBSERVATION,
        action=ACTION, num_environments=options.envs, role=acorn_pb2.ROLE_TRAIN)
    return run(options, request, CartPole)


if __name__ == "__main__":
    try:
        code = main(OPTIONS)
    except KeyboardInterrupt:
        code = 130  # not ended here, with the traceback: see play
    except OSError as error:
        code = f"cannot read {error.filename}: {error.strerror}"
    sys.exit(code)
