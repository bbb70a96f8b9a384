"""Asks serve over gRPC for what a limit refuses.

Usage: limits.py ADDRESS full MODEL: of two requests at once, the queue of a server with
--max_queue=1 and a delay of a second refuses one and answers the other.
       limits.py ADDRESS evicted MODEL: a third sequence evicts the first where there is room for
two, MODEL being of T-maze.
"""
import sys

import grpc
from tritonclient.grpc import service_pb2 as messages, service_pb2_grpc

address, what, model = sys.argv[1:]
stub = service_pb2_grpc.GRPCInferenceServiceStub(grpc.insecure_channel(address))


def request(**inputs):
    message = messages.ModelInferRequest(model_name=model)
    for name, row in inputs.items():
        tensor = message.inputs.add(name=name, datatype="FP32", shape=[1, len(row)])
        tensor.contents.fp32_contents.extend(row)
    return message


def full():
    both = [stub.ModelInfer.future(request(state=[0.1, 0.2, 0.3, 0.4]), timeout=60)
            for _ in range(2)]
    refused = [call.exception() for call in both if call.exception()]
    assert len(refused) == 1, refused
    assert refused[0].code() == grpc.StatusCode.RESOURCE_EXHAUSTED, refused
    assert "the queue is full: 1 requests wait" in refused[0].details(), refused
    assert sum(len(call.result().outputs) for call in both if not call.exception()) == 3


def step(sequence, start=False):
    message = request(signs=[0, 0, 0, 1], previous_reward=[0])
    del message.inputs[1].shape[1:]
    message.parameters["sequence_id"].int64_param = sequence
    message.parameters["sequence_start"].bool_param = start
    return stub.ModelInfer(message, timeout=60)


def evicted():
    for sequence in (1, 2, 3):
        step(sequence, start=True)
    step(2)
    try:
        step(1)
    except grpc.RpcError as error:
        assert error.code() == grpc.StatusCode.NOT_FOUND, error
        assert "evicted as the one idle for longest of 2" in error.details(), error
    else:
        raise AssertionError("sequence 1 was answered")


{"full": full, "evicted": evicted}[what]()
