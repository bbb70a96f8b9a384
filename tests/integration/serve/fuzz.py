"""Sends damaged requests to a running serve: bodies, paths and headers over HTTP, messages and
names of methods over gRPC (with grpcio; without it HTTP alone). After them it still answers what is
right, and its memory has not grown with their number.

Usage: fuzz.py PID HTTP GRPC MODEL RECURRENT REQUESTS [SEED]: addresses HOST:PORT; MODEL is of
CartPole, RECURRENT of T-maze. Every request that is a request to HTTP gets a response; those with
damaged headers may be cut off instead.
"""
import collections
import json
import os
import random
import socket
import sys

try:
    import grpc
    from tritonclient.grpc import service_pb2 as messages
except ImportError:
    grpc = None

pid, http, grpc_address, model, recurrent, count = sys.argv[1:7]
chance = random.Random(int((sys.argv[7:] or [1])[0]))
ROW = [0.1, 0.2, 0.3, 0.4]
GROWTH_MIB = 64
MAX_CALLS = 50
WORDS = [b"\0", b"\xff", b"\xff\xfe", b"{", b"[", b'"', b"}", b"null", b"true", b"1e999", b"-0",
         b"NaN", b"18446744073709551616", b"-1", b"\\u0000", b'{"b64":"AAAA"}', b"[" * 3000,
         b"\x80" * 11, b"%00", b"%2f", b"../", b"/", b":predict", b"\r\n", b" " * 300]
CODES = {"OK", "INVALID_ARGUMENT", "NOT_FOUND", "UNIMPLEMENTED", "RESOURCE_EXHAUSTED"}
STATUSES = {200, 400, 404, 405, 413, 503}  # of what is a request to HTTP
step = {"sequence_id": 7, "sequence_start": True}
signs = {"signs": [0, 0, 0, 1], "previous_reward": 0}
tensor = {"name": "state", "datatype": "FP32", "shape": [1, 4], "data": ROW}
BODIES = [json.dumps(body).encode() for body in (
    {"id": "x", "inputs": [tensor], "outputs": [{"name": "value"}]}, {"instances": [ROW, ROW]},
    {"instances": [{"state": {"b64": "zczMPc3MTD6amZk+zczMPg=="}}]}, {"inputs": {"state": [ROW]}},
    {"parameters": step, "instances": [signs]},
    {"inputs": [{**tensor, "parameters": {"binary_data_size": 16}}]})]
PATHS = [path.encode() for name in (model, recurrent) for path in (
    "/v2", "/v2/health/ready", f"/v2/models/{name}", f"/v2/models/{name}/ready",
    f"/v2/models/{name}/infer", f"/v2/models/{name}/versions/1/infer", f"/v1/models/{name}",
    f"/v1/models/{name}:predict", f"/v1/models/{name}/labels/x:predict",
    f"/v1/models/{name}/metadata", "/metrics")]
INFERENCES = [path for path in PATHS if path.endswith((b":predict", b"/infer"))]
HEADERS = [b"Inference-Header-Content-Length: 90", b"Content-Type: application/json",
           b"Authorization: Bearer x", b"Transfer-Encoding: chunked", b"Expect: 100-continue",
           b"Content-Length: 5", b"Connection: close", b"Cookie: a=b"]


def damage(data):
    data = bytearray(data)
    for _ in range(chance.choice((0, 1, 1, 2, 4))):
        at = chance.randrange(len(data) + 1)
        to = min(len(data), at + chance.choice((1, 2, 8, 64)))
        what = chance.randrange(5)
        if what == 0:
            data[at:at] = chance.choice(WORDS)
        elif what == 1:
            del data[at:to]
        elif what == 2:
            data[at:at] = data[at:to]
        elif what == 3:
            data[at:to] = chance.randbytes(to - at)
        else:
            del data[at:]
    return bytes(data)


class Http:
    def __init__(self):
        self.socket = None

    def close(self):
        if self.socket:
            self.socket.close()
        self.socket = None

    def send(self, data, ends=False):
        """The status; None: the connection was closed instead. ends: nothing comes after it."""
        if not self.socket:
            host, port = http.rsplit(":", 1)
            self.socket = socket.create_connection((host, int(port)), timeout=60)
        try:
            self.socket.sendall(data)
            if ends:
                self.socket.shutdown(socket.SHUT_WR)
            return self.receive()
        except ConnectionError:
            self.close()
            return None

    def receive(self):
        found = b""
        while b"\r\n\r\n" not in found:
            more = self.socket.recv(65536)
            if not more:
                self.close()
                return None
            found += more
        head, body = found.split(b"\r\n\r\n", 1)
        fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
        while len(body) < int(fields.get(b"content-length", 0)):
            more = self.socket.recv(65536)
            assert more, "a response was cut"
            body += more
        if fields.get(b"connection") == b"close":
            self.close()
        return int(head.split()[1])


client, calls, seen = Http(), [], collections.Counter()


def by_http():
    path, body = chance.choice(PATHS + 4 * INFERENCES), chance.choice(BODIES)
    if chance.random() < 0.7:
        body = damage(body)
    if chance.random() < 0.2:
        path = b"/" + bytes(c for c in damage(path) if 32 < c < 127)
    takes_post = path.endswith((b":predict", b"/infer"))
    method = b"POST" if takes_post != (chance.random() < 0.05) else b"GET"
    request = b"%s %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n" % (method, path, len(body))
    if chance.random() < 0.2:
        request += b"Inference-Header-Content-Length: %d\r\n" % chance.randrange(len(body) + 9)
    if chance.random() < 0.9:
        status = client.send(request + b"\r\n" + body)
        assert status in STATUSES, (status, request, body)
    else:  # what follows is not a request any more
        client.close()
        request += damage(chance.choice(HEADERS)) + b"\r\n" + chance.choice(HEADERS) + b"\r\n"
        status = client.send(damage(request + b"\r\n" + body), ends=True)
        client.close()
    seen[status] += 1


def messages_of_grpc():
    request = messages.ModelInferRequest(model_name=model, id="x")
    request.inputs.add(name="state", datatype="FP32", shape=[1, 4])
    contents = messages.ModelInferRequest()
    contents.CopyFrom(request)
    contents.inputs[0].contents.fp32_contents.extend(ROW)
    request.raw_input_contents.append(bytes(16))
    sequence = messages.ModelInferRequest(model_name=recurrent)
    sequence.parameters["sequence_id"].int64_param = 7
    sequence.parameters["sequence_start"].bool_param = True
    sequence.inputs.add(name="signs", datatype="FP32", shape=[1, 4])
    sequence.inputs.add(name="previous_reward", datatype="FP32", shape=[1])
    sequence.raw_input_contents.extend([bytes(16), bytes(4)])
    return [message.SerializeToString() for message in (request, contents, sequence)]


def by_grpc(channel, seeds):
    name = chance.choice(["ModelInfer"] * 5 + ["ModelReady", "ModelMetadata", "ServerReady"])
    path = "/inference.GRPCInferenceService/" + name
    message = damage(chance.choice(seeds))
    if chance.random() < 0.02:
        path = "/" + bytes(c for c in damage(path.encode()) if 32 < c < 127).decode()
    if chance.random() < 0.2:
        path = path.replace(name, "ModelStreamInfer")
        sent = [message] + [damage(seed) for seed in seeds]
        calls.append((channel.stream_stream(path)(iter(sent), timeout=60), path, sent))
    else:
        calls.append((channel.unary_unary(path).future(message, timeout=60), path, message))
    if len(calls) == MAX_CALLS:
        settle()


def settle():
    """The calls that are under way end."""
    for call, path, sent in calls:
        if isinstance(sent, list):
            try:
                for _ in call:
                    seen["messages"] += 1
            except grpc.RpcError:
                pass
        code = call.code().name
        assert code in CODES, (code, path, sent)
        seen[code] += 1
    calls.clear()


def memory_mib():
    with open(f"/proc/{pid}/status") as status:
        return int(next(line for line in status if line.startswith("VmRSS")).split()[1]) / 1024


def answers():
    connection = Http()
    body = BODIES[0]
    head = b"POST /v2/models/%s/infer HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
    assert connection.send(head % (model.encode(), len(body)) + body) == 200
    connection.close()
    if grpc:
        channel = grpc.insecure_channel(grpc_address)
        channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")(messages_of_grpc()[0])


channel = grpc.insecure_channel(grpc_address) if grpc else None
seeds = messages_of_grpc() if grpc else []
total, middle = int(count), 0
for i in range(total):
    if grpc and i % 2:
        by_grpc(channel, seeds)
    else:
        by_http()
    if i == total // 2:
        middle = memory_mib()
settle()
answers()
grown = memory_mib() - middle
print(f"{total} requests:", *(f"{key}={n}" for key, n in sorted(seen.items(), key=str)),
      f"memory={middle:.0f}MiB grown={grown:.1f}MiB")
assert seen[200] > total / 50 and seen[400] > total / 50
assert grown < GROWTH_MIB, "memory grows with the number of requests"
sys.stdout.flush()
os._exit(0)  # gRPC's threads may keep the interpreter from its end
