"""The messages of acorn.proto as bytes, right or wrong as asked for."""
import struct


def varint(value):
    out = []
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out + [value])


def number(field, value):
    return varint(field << 3) + varint(value)


def block(field, data):
    return varint(field << 3 | 2) + varint(len(data)) + data


def double(field, value):
    return varint(field << 3 | 1) + struct.pack("<d", value)


def tensor(name="state", dtype=3, shape=(4,)):
    return block(1, name.encode()) + number(2, dtype) + block(3, b"".join(varint(d) for d in shape))


def join(name, environments=2, environment="cartpole", tensors=None, action=number(1, 2), protocol=1, role=0):
    name = name if isinstance(name, bytes) else name.encode()
    out = number(1, protocol) + block(2, name) + block(3, environment.encode())
    for t in [tensor()] if tensors is None else tensors:
        out += block(4, t)
    return out + block(5, action) + number(6, environments) + number(7, role)


def join_reply_run_id(payload):
    """fixed64 field 1, the first in the message."""
    if payload[:1] != b"\x09":
        raise ValueError("no run id in %r" % payload)
    return struct.unpack_from("<Q", payload, 1)[0]


def episode(environment=0, value=1.0, length=3, numbers=b""):
    return number(1, environment) + double(2, value) + number(3, length) + numbers


def steps(run_id=0, reward=(0.0, 0.0), flags=b"\1\1", observation=(0.0,) * 8, episodes=(), raw_observation=None,
          raw_reward=None):
    out = varint(1 << 3 | 1) + struct.pack("<Q", run_id) if run_id else b""
    out += block(2, struct.pack("<%df" % len(reward), *reward) if raw_reward is None else raw_reward)
    out += block(3, flags)
    for e in episodes:
        out += block(4, e)
    if raw_observation is None:
        raw_observation = struct.pack("<%df" % len(observation), *observation)
    return out + block(15, raw_observation)
