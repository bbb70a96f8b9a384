"""An actor with environments of Gymnasium: it joins a learner that runs with --env=join, or with
the same environment.

    import acorn, gymnasium
    acorn.actor.run(lambda: gymnasium.make("CartPole-v1"), learner="127.0.0.1:8686")

The messages are those of docs/protocol.md, by the functions of docs/examples/actor.py.
"""
import importlib.util
import json
import os
import sys
import types

import numpy as np

from acorn.bundle import ROOT, AcornError
from acorn.environment import Environment

_DTYPES = {np.dtype(np.uint8): "DTYPE_UINT8", np.dtype(np.int32): "DTYPE_INT32",
           np.dtype(np.float32): "DTYPE_FLOAT32"}


def _modules():
    """acorn_pb2 and acorn_pb2_grpc, of the protocol's description: no generated code, which would
    need one version of protobuf."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    messages, stubs = types.ModuleType("acorn_pb2"), types.ModuleType("acorn_pb2_grpc")
    pool = descriptor_pool.DescriptorPool()
    described = descriptor_pb2.FileDescriptorSet.FromString(
        (ROOT / "build/protocol.desc").read_bytes())
    file = pool.AddSerializedFile(described.file[0].SerializeToString())
    file = file or pool.FindFileByName(described.file[0].name)
    for name, message in file.message_types_by_name.items():
        setattr(messages, name, message_factory.GetMessageClass(message))
    for enum in file.enum_types_by_name.values():
        for value in enum.values:
            setattr(messages, value.name, value.number)
    service = file.services_by_name["Acorn"]

    class AcornStub:
        def __init__(self, channel):
            for method in service.methods:
                kind = channel.stream_stream if method.name == "Play" else channel.unary_unary
                setattr(self, method.name, kind(
                    f"/{service.full_name}/{method.name}",
                    getattr(messages, method.input_type.name).SerializeToString,
                    getattr(messages, method.output_type.name).FromString))

    stubs.AcornStub = AcornStub
    return messages, stubs


def _load_example():
    messages, stubs = _modules()
    sys.modules.setdefault("acorn_pb2", messages)
    sys.modules.setdefault("acorn_pb2_grpc", stubs)
    path = ROOT / "docs/examples/actor.py"
    spec = importlib.util.spec_from_file_location("acorn._actor_example", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _flatten(space, name=""):
    """(name, dtype, shape, function from a value to an array) of each part of an observation."""
    from gymnasium import spaces
    if isinstance(space, (spaces.Dict, spaces.Tuple)):
        pairs = space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
        return [(n, dtype, shape, lambda value, key=key, take=take: take(value[key]))
                for key, part in pairs for n, dtype, shape, take
                in _flatten(part, f"{name}.{key}" if name else str(key))]
    name = name or "observation"
    if isinstance(space, spaces.Discrete):
        n, start = int(space.n), int(space.start)  # one-hot, as docs/gymnasium.md has it
        return [(name, np.uint8, (n,), lambda value: np.eye(
            1, n, int(value) - start, dtype=np.uint8) * np.uint8(255))]
    if isinstance(space, (spaces.Box, spaces.MultiBinary)):
        dtype = space.dtype if space.dtype in _DTYPES else np.float32
        return [(name, dtype, space.shape, lambda value: np.asarray(value, dtype))]
    raise AcornError(f"observation {name} is a {type(space).__name__}: it may be a Box, Discrete, "
                     "MultiBinary, or a Dict or Tuple of them; wrap the environment")


def _action(space, protocol):
    """The learner's action space, and a function from bytes and a count to actions."""
    from gymnasium import spaces
    if isinstance(space, spaces.Discrete):
        start = int(space.start)
        return (protocol.ActionSpace(discrete=int(space.n)),
                lambda data, count: [int(x) + start for x in np.frombuffer(data, np.int32)])
    if isinstance(space, spaces.MultiDiscrete) and space.nvec.ndim == 1:
        return (protocol.ActionSpace(choices=[int(n) for n in space.nvec]),
                lambda data, count: np.frombuffer(data, np.int32).reshape(count, -1) + space.start)
    if isinstance(space, spaces.Box):
        return (protocol.ActionSpace(low=space.low.ravel(), high=space.high.ravel()),
                lambda data, count: np.frombuffer(data, np.float32).astype(space.dtype)
                .reshape(count, *space.shape))
    raise AcornError(f"the action is a {type(space).__name__}: it may be Discrete, MultiDiscrete "
                     "or Box; wrap the environment")


class _World:
    """An environment of Gymnasium as docs/examples/actor.py steps one."""
    mark = None  # a file that is made at this process's first step

    def __init__(self, env, parts, unpack):
        self.env, self.parts, self.unpack = env, parts, unpack

    def reset(self, seed):
        return self.env.reset(seed=None if seed is None else int(seed))[0]

    def step(self, action):
        observation, reward, terminated, truncated, _ = self.env.step(action)
        if _World.mark:
            open(_World.mark, "w").close()
            _World.mark = None
        return observation, float(reward), bool(terminated), bool(truncated)

    def pack(self, observation):
        return b"".join(take(observation).tobytes() for _, _, _, take in self.parts)


def run(make_env, learner="127.0.0.1:8686", *, envs=1, name=None, environment=None,
        evaluates=False, token_file=None, tls_ca=None, tls_cert=None, tls_key=None,
        reconnect_s=600):
    """Plays until the run is over.

    make_env: called for each environment, and once more for its spaces. learner: HOST:PORT or
    unix:PATH. envs: environments that step together. name: of the actor, unlike that of any other.
    environment: what the learner knows it by; default: the id of Gymnasium. evaluates: so does
    the learner. Errors: AcornError: the learner refuses the actor (the reason is on stderr), or is
    not found for reconnect_s. Actors of one learner name the same environment and have the same
    spaces.
    """
    example = _load_example()
    protocol = example.acorn_pb2
    first = make_env()
    parts = _flatten(first.observation_space)
    action, unpack = _action(first.action_space, protocol)
    environment = Environment(
        environment or getattr(first.spec, "id", type(first.unwrapped).__name__)).name()
    first.close()
    tensors = [protocol.Tensor(name=n, dtype=getattr(protocol, _DTYPES[np.dtype(dtype)]),
                               shape=shape) for n, dtype, shape, _ in parts]
    request = protocol.JoinRequest(
        protocol=1, name=name or f"python/{os.getpid()}",
        environment=environment, observation=tensors, action=action, num_environments=envs,
        role=protocol.ROLE_EVAL if evaluates else protocol.ROLE_TRAIN)
    options = types.SimpleNamespace(learner=learner, token_file=token_file, tls_ca=tls_ca,
                                    tls_cert=tls_cert, tls_key=tls_key, reconnect_s=reconnect_s)
    try:
        code = example.run(options, request, lambda: _World(make_env(), parts, unpack))
    except SystemExit as refused:  # a secret that others may read
        raise AcornError(str(refused)) from None
    if code:
        raise AcornError(f"the actor cannot play at {learner}: the reason is on stderr")


def _main(gym_id, args, name, learner, envs, role, index, mark):
    """An actor that `acorn train` starts: it ends with its learner."""
    import signal

    from acorn.train import EXIT_RUN_OVER
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _World.mark = mark
    environment = Environment(gym_id, json.loads(args))
    run(environment.make, learner, envs=int(envs), name=f"python/{index}",
        environment=name, evaluates=role == "evaluate", reconnect_s=60)
    return EXIT_RUN_OVER


if __name__ == "__main__":
    sys.exit(_main(*sys.argv[1:]))
