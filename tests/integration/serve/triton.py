"""Asks serve by Triton's own clients, over HTTP and gRPC: health, metadata, inference in every form
of inputs, sequences, versions, what is refused.

Usage: triton.py HTTP GRPC MODEL RECURRENT VERSION [TOKEN [CERTIFICATE]]: addresses HOST:PORT; MODEL
is of CartPole, RECURRENT of T-maze.
"""
import os
import queue
import sys

import numpy as np
import tritonclient.grpc
import tritonclient.http
from tritonclient.utils import InferenceServerException

http, grpc, model, recurrent, version, token, certificate = (sys.argv[1:] + ["", ""])[:7]
STATE = np.array([[0.1, 0.2, 0.3, 0.4], [-1, 0, 1, 2]], np.float32)
SIGNS = np.array([[0, 0, 0, 1]], np.float32)
NO_REWARD = np.zeros([1], np.float32)


def more():
    """Arguments of each call, made anew, as the client for HTTP adds headers of its own."""
    return {"headers": {"authorization": "Bearer " + token} if token else {}}


def fails(code, text, ask, *args, **kwargs):
    try:
        ask(*args, **kwargs)
    except InferenceServerException as error:
        assert text in str(error.message()), error
        assert code in str(error.status()), error
        return
    raise AssertionError("was not refused: " + text)


def tensor(package, name, values, datatype="FP32", **kwargs):
    given = package.InferInput(name, list(values.shape), datatype)
    given.set_data_from_numpy(values, **kwargs)
    return given


def check(package, client, codes):
    bad, gone = codes
    server, about = client.get_server_metadata(**more()), client.get_model_metadata(model, **more())
    assert client.is_server_live(**more()) and client.is_server_ready(**more())
    assert client.is_model_ready(model, **more()) and client.is_model_ready(model, version, **more())
    assert not client.is_model_ready(model, "123456", **more())
    if package is tritonclient.http:
        names = server["name"], [v["name"] for v in about["inputs"] + about["outputs"]]
        shapes, versions = [v["shape"] for v in about["outputs"]], about["versions"]
    else:
        names = server.name, [v.name for v in list(about.inputs) + list(about.outputs)]
        shapes, versions = [list(v.shape) for v in about.outputs], list(about.versions)
    assert names == ("acorn", ["state", "action", "logits", "value"]), names
    assert shapes == [[-1], [-1, 2], [-1]] and versions == [version], (shapes, versions)

    state = tensor(package, "state", STATE)
    found = client.infer(model, [state], request_id="r", **more())
    action, logits = found.as_numpy("action"), found.as_numpy("logits")
    assert action.dtype == np.int64 and action.shape == (2,) and logits.shape == (2, 2)
    assert (logits.argmax(1) == action).all() and found.as_numpy("value").shape == (2,)
    wanted = [package.InferRequestedOutput("value")]
    alone = client.infer(model, [state], outputs=wanted, model_version=version, **more())
    assert alone.as_numpy("action") is None
    assert (alone.as_numpy("value") == found.as_numpy("value")).all()

    fails(bad, "is FP32, the request has FP64", client.infer, model,
          [tensor(package, "state", STATE.astype(np.float64), "FP64")], **more())
    fails(bad, "has the shape [rows,4], the request [2,3]", client.infer, model,
          [tensor(package, "state", STATE[:, :3].copy())], **more())
    fails(bad, "is not finite", client.infer, model,
          [tensor(package, "state", STATE * np.float32(np.nan))], **more())
    fails(bad, "no input 'x'", client.infer, model, [tensor(package, "x", STATE)], **more())
    fails(gone, "no model 'x'", client.infer, "x", [state], **more())
    fails(gone, "does not serve version 123456", client.infer, model, [state], "123456", **more())

    if package is tritonclient.grpc:
        large = tensor(package, "state", np.zeros([300_000, 4], np.float32))
        fails("RESOURCE_EXHAUSTED", "larger than max", client.infer, model, [large], **more())
        fails(gone, "no label 'x'", client.infer, model, [state], "x", **more())

    step = [tensor(package, "signs", SIGNS), tensor(package, "previous_reward", NO_REWARD)]
    fails(bad, "give the parameter sequence_id", client.infer, recurrent, step, **more())
    fails(gone, "sequence 987654 is not known", client.infer, recurrent, step, sequence_id=987654, **more())
    values = [[client.infer(recurrent, step, sequence_id=id, sequence_start=t == 0,
                            sequence_end=t == 2, **more()).as_numpy("value")[0] for t in range(3)]
              for id in (5, "five")]
    assert values[0] == values[1] and values[0][0] != values[0][1], values
    fails(gone, "sequence 5 is not known", client.infer, recurrent, step, sequence_id=5, **more())
    return logits, values


def check_stream(client, expected):
    """Requests of one stream are answered in their order; one that is refused does not end it."""
    answers = queue.Queue()
    client.start_stream(lambda result, error: answers.put((result, error)), **more())
    package = tritonclient.grpc
    bad = tensor(package, "state", STATE[:, :3].copy())
    for i in range(100):
        state = tensor(package, "state", STATE[i % 2:i % 2 + 1])
        client.async_stream_infer(model, [bad if i == 50 else state], request_id=str(i))
    for i in range(100):
        found, error = answers.get(timeout=20)
        if i == 50:
            assert "has the shape [rows,4], the request [2,3]" in str(error), error
            continue
        assert found.get_response().id == str(i) and not error, error
        assert np.allclose(found.as_numpy("logits"), expected[i % 2], atol=1e-6)
    step = [tensor(package, "signs", SIGNS), tensor(package, "previous_reward", NO_REWARD)]
    for t in range(3):
        client.async_stream_infer(recurrent, step, sequence_id=8, sequence_start=t == 0,
                                  sequence_end=t == 2)
    values = [answers.get(timeout=20)[0].as_numpy("value")[0] for _ in range(3)]
    client.stop_stream()
    return values


def check_contents():
    """Numbers in the message in place of raw contents, which the client has no way to send."""
    import grpc as grpc_core
    from tritonclient.grpc import service_pb2 as messages, service_pb2_grpc
    channel = grpc_core.insecure_channel(grpc)
    stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
    request = messages.ModelInferRequest(model_name=model)
    request.inputs.add(name="state", datatype="FP32", shape=[2, 4]).contents.fp32_contents.extend(
        STATE.flatten().tolist())
    found = stub.ModelInfer(request)
    assert np.frombuffer(found.raw_output_contents[1], np.float32).shape == (4,)
    request.raw_input_contents.extend([b"", b""])
    any_bytes = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
    for bytes_, text in ((request.SerializeToString(), "2 raw_input_contents for 1 inputs"),
                         (b"\xff\xff", "is no ModelInferRequest")):
        try:
            any_bytes(bytes_)
        except grpc_core.RpcError as error:
            assert error.code() == grpc_core.StatusCode.INVALID_ARGUMENT, error
            assert text in error.details(), error
        else:
            raise AssertionError("was not refused: " + text)
    return np.frombuffer(found.raw_output_contents[1], np.float32).reshape(2, 2)


tls = {"ssl": True, "ssl_options": {"ca_certs": certificate}} if certificate else {}
by_http = check(tritonclient.http, tritonclient.http.InferenceServerClient(http, **tls),
                ("400", "404"))
tls = {"ssl": True, "root_certificates": certificate} if certificate else {}
client = tritonclient.grpc.InferenceServerClient(grpc, **tls)
by_grpc = check(tritonclient.grpc, client, ("INVALID_ARGUMENT", "NOT_FOUND"))
assert np.array_equal(by_http[0], by_grpc[0]) and by_http[1] == by_grpc[1]
assert check_stream(client, by_grpc[0]) == by_grpc[1][0]
if not token and not certificate:
    assert np.array_equal(check_contents(), by_http[0])
sys.stdout.flush()
os._exit(0)  # gRPC's threads may keep the interpreter from its end
