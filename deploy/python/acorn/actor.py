"""An actor with environments of Gymnasium: it joins a learner that runs with --env=join, or with
the same environment.

    import acorn, gymnasium
    acorn.actor.run(lambda: gymnasium.make("CartPole-v1"), learner="127.0.0.1:8686")

The messages are those of docs/protocol.md, by the functions of docs/examples/actor.py.
"""
import json
import os
import sys
import types

from acorn.bundle import ROOT, AcornError
from acorn.environment import Environment
from acorn.world import View, World, load_module


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
    return load_module("acorn._actor_example", "docs/examples/actor.py")


def run(make_env, learner="127.0.0.1:8686", *, envs=1, name=None, environment=None,
        evaluates=False, token_file=None, tls_ca=None, tls_cert=None, tls_key=None,
        reconnect_s=600):
    """Plays until the run is over.

    make_env: called for each environment, and once more for its spaces; that one is reset, to find
    a mask of actions in its info. learner: HOST:PORT or unix:PATH. envs: environments that step
    together. name: of the actor, unlike that of any other.
    environment: what the learner knows it by; default: the id of Gymnasium. evaluates: so does
    the learner. Errors: AcornError: the learner refuses the actor (the reason is on stderr), or is
    not found for reconnect_s. Actors of one learner name the same environment and have the same
    spaces.
    """
    example = _load_example()
    protocol = example.acorn_pb2
    first = make_env()
    gym_id = environment or getattr(first.spec, "id", type(first.unwrapped).__name__)
    view = View(first, gym_id)
    first.close()
    request = protocol.JoinRequest(
        protocol=1, name=name or f"python/{os.getpid()}", environment=Environment(gym_id).name(),
        observation=view.tensors_for(protocol), action=view.action_for(protocol),
        num_environments=envs, role=protocol.ROLE_EVAL if evaluates else protocol.ROLE_TRAIN)
    options = types.SimpleNamespace(learner=learner, token_file=token_file, tls_ca=tls_ca,
                                    tls_cert=tls_cert, tls_key=tls_key, reconnect_s=reconnect_s)
    try:
        code = example.run(options, request, lambda: World(make_env(), view))
    except SystemExit as refused:  # a secret that others may read
        raise AcornError(str(refused)) from None
    if code:
        raise AcornError(f"the actor cannot play at {learner}: the reason is on stderr")


def _main(gym_id, args, name, learner, envs, role, index, mark):
    """An actor that `acorn train` starts: it ends with its learner."""
    import signal

    from acorn.train import EXIT_RUN_OVER
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    World.mark = mark
    environment = Environment(gym_id, json.loads(args))
    run(environment.make, learner, envs=int(envs), name=f"python/{index}",
        environment=name, evaluates=role == "evaluate", reconnect_s=60)
    return EXIT_RUN_OVER


if __name__ == "__main__":
    sys.exit(_main(*sys.argv[1:]))
