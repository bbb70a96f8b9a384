"""Asks a model from several connections again and again, until the file STOP is there or the server
takes no more, and checks each answer against what its version has to give. Prints how many were
answered, refused, lost (no answer to a request that was sent) and wrong, and how many versions
answered.

Usage: load.py URL MODEL STOP THREADS [ODD EVEN]: http://HOST:PORT; grpc://HOST:PORT, a call for
each request, and stream://HOST:PORT, a message of one call, with Triton's client. ODD and EVEN are
models that versions of odd and even numbers are copies of; without them an answer need only be one.
"""
import http.client
import json
import os
import queue
import sys
import threading
import urllib.parse

ROW = [0.1, 0.2, 0.3, 0.4]
counts = {"answered": 0, "refused": 0, "lost": 0, "wrong": 0}
versions, lock = set(), threading.Lock()


class Refused(Exception):
    last = False  # no other request is to be sent


class Lost(Exception):
    pass


class Gone(Exception):
    """No connection: nothing was sent."""


class Http:
    BODY = json.dumps({"inputs": [{"name": "state", "datatype": "FP32", "shape": [1, 4],
                                   "data": ROW}]})

    def __init__(self, place):
        self.place, self.connection = place, None

    def ask(self, model):
        if not self.connection:
            self.connection = http.client.HTTPConnection(self.place, timeout=30)
            try:
                self.connection.connect()
            except OSError as error:
                raise Gone() from error
        try:
            self.connection.request("POST", "/v2/models/%s/infer" % model, self.BODY)
            response = self.connection.getresponse()
            found = json.loads(response.read())
        except (OSError, http.client.HTTPException) as error:
            raise Lost(repr(error)) from error
        if response.getheader("Connection") == "close":
            self.connection.close()
            self.connection = None
        if response.status == 503 and "try again later" in found["error"]:
            raise Refused()
        assert response.status == 200, (response.status, found)
        return int(found["model_version"]), found["outputs"]


class Grpc:
    def __init__(self, place):
        import grpc
        from tritonclient.grpc import service_pb2, service_pb2_grpc
        self.grpc, self.messages = grpc, service_pb2
        # A connection each: channels with the same arguments would share one.
        self.channel = grpc.insecure_channel(place, [("grpc.use_local_subchannel_pool", 1)])
        self.stub = service_pb2_grpc.GRPCInferenceServiceStub(self.channel)

    def request(self, model):
        request = self.messages.ModelInferRequest(model_name=model)
        tensor = request.inputs.add(name="state", datatype="FP32", shape=[1, 4])
        tensor.contents.fp32_contents.extend(ROW)
        return request

    def send(self, request):
        return self.stub.ModelInfer(request, timeout=30)

    def ask(self, model):
        try:
            found = self.send(self.request(model))
        except self.grpc.RpcError as error:
            code, text = error.code().name, error.details()
            refused = Refused()
            refused.last = code == "UNAVAILABLE" and "is stopping" in text
            if refused.last or (code == "RESOURCE_EXHAUSTED" and "try again later" in text):
                raise refused from error
            if code == "UNAVAILABLE" and "failed to connect" in text.lower():
                raise Gone() from error
            raise Lost("%s: %s" % (code, text)) from error
        return int(found.model_version), list(found.raw_output_contents)


class Stream(Grpc):
    responses = None

    def send(self, request):
        if self.responses is None:
            self.requests = queue.Queue()
            self.responses = self.stub.ModelStreamInfer(iter(self.requests.get, None))
        self.requests.put(request)
        try:
            found = next(self.responses)
        except self.grpc.RpcError:
            self.requests.put(None)
            self.responses = None
            raise
        assert not found.error_message, found.error_message
        return found.infer_response


def add(what):
    with lock:
        counts[what] += 1
        if sum(counts.values()) == 1:
            print("loading", flush=True)


def load(client, model, stop, expected):
    while not os.path.exists(stop):
        try:
            version, outputs = client.ask(model)
        except Refused as error:
            add("refused")
            if error.last:
                return
        except Gone:
            return
        except Lost as error:
            print(error, file=sys.stderr)
            add("lost")
            return
        except Exception as error:
            print(repr(error), file=sys.stderr)
            add("wrong")
            return
        else:
            with lock:
                versions.add(version)
            add("answered" if not expected or outputs == expected[version % 2] else "wrong")


def main():
    url, model, stop, threads = sys.argv[1:5]
    scheme, place = urllib.parse.urlsplit(url)[:2]
    connect = {"http": Http, "grpc": Grpc, "stream": Stream}[scheme]
    expected = {}
    if len(sys.argv) > 6:
        client = connect(place)
        expected = {odd: client.ask(of)[1] for odd, of in ((1, sys.argv[5]), (0, sys.argv[6]))}
        assert expected[0] != expected[1]
    all_threads = [threading.Thread(target=load, args=(connect(place), model, stop, expected))
                   for _ in range(int(threads))]
    for thread in all_threads:
        thread.start()
    for thread in all_threads:
        thread.join()
    print(*("%s=%d" % pair for pair in counts.items()), "versions=%d" % len(versions), flush=True)
    os._exit(0)  # a stream that is open would be waited for


main()
