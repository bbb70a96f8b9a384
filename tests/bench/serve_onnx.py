"""What scripts/serve.sh is compared with: a gRPC server in Python for one exported policy, by
onnxruntime, as one would write it in 30 lines. A stream holds a thread as long as it lasts.

Usage: serve_onnx.py FILE.onnx PORT THREADS
"""
import sys
from concurrent import futures

import grpc
import numpy as np
import onnxruntime
from tritonclient.grpc import service_pb2 as messages, service_pb2_grpc

options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
session = onnxruntime.InferenceSession(sys.argv[1], options)
names = [output.name for output in session.get_outputs()]


class Server(service_pb2_grpc.GRPCInferenceServiceServicer):
    def ModelInfer(self, request, context):
        feed = {tensor.name: np.frombuffer(raw, np.float32).reshape(tensor.shape)
                for tensor, raw in zip(request.inputs, request.raw_input_contents)}
        response = messages.ModelInferResponse(model_name=request.model_name)
        for name, values in zip(names, session.run(names, feed)):
            response.outputs.add(name=name, shape=values.shape,
                                 datatype="INT64" if values.dtype == np.int64 else "FP32")
            response.raw_output_contents.append(values.tobytes())
        return response

    def ModelStreamInfer(self, requests, context):
        for request in requests:
            yield messages.ModelStreamInferResponse(
                infer_response=self.ModelInfer(request, context))


server = grpc.server(futures.ThreadPoolExecutor(int(sys.argv[3])))
service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(Server(), server)
server.add_insecure_port("127.0.0.1:" + sys.argv[2])
server.start()
server.wait_for_termination()
