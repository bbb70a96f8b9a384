"""Compares what serve answers with our own inference of the same checkpoint (policy_rows), row by
row: the action has to be the same, other outputs within 1e-5, or within 1e-5 of their largest
number. A policy with a memory is asked for sequences that begin anew now and then, each from a
connection of one of several threads; another one for batches.

Usage: compare.py POLICY_ROWS URL MODEL RUN [SEQUENCES [STEPS]]
"""
import http.client
import json
import random
import struct
import subprocess
import sys
import threading
import urllib.parse

FIRST = 1
THREADS = 16
LOW, HIGH = -20, 2  # of log_std, as sac has it
FORMATS = {"FP32": "f", "UINT8": "B", "INT32": "i"}


class Server:
    def __init__(self, url):
        self.connection = http.client.HTTPConnection(urllib.parse.urlsplit(url).netloc, timeout=60)

    def ask(self, path, body=None):
        self.connection.request("POST" if body else "GET", path, json.dumps(body) if body else None)
        response = self.connection.getresponse()
        text = response.read()
        assert response.status == 200, (response.status, text)
        return json.loads(text)


def count(shape):
    numbers = 1
    for size in shape:
        numbers *= size
    return numbers


def number(kind):
    if kind == "UINT8":
        return random.randrange(256)
    if kind == "INT32":
        return random.randrange(-5, 6)
    return struct.unpack("f", struct.pack("f", random.gauss(0, 2)))[0]


def values(tensor):
    numbers = [number(tensor["datatype"]) for _ in range(count(tensor["shape"][1:]))]
    if tensor["name"] == "action_mask":  # all but one, so that each choice has an action
        numbers = [1] * len(numbers)
        numbers[random.randrange(len(numbers))] = 0
    return numbers


def infer(server, model, metadata, rows, parameters):
    """The outputs of some rows, each a dict by name."""
    inputs = [dict(name=tensor["name"], datatype=tensor["datatype"],
                   shape=[len(rows)] + tensor["shape"][1:],
                   data=[x for row in rows for x in row["inputs"][tensor["name"]]])
              for tensor in metadata["inputs"]]
    found = server.ask("/v2/models/%s/infer" % model,
                       {"inputs": inputs, "parameters": parameters})
    for b, row in enumerate(rows):
        row["outputs"] = {}
        for output in found["outputs"]:
            n = count(output["shape"][1:])
            row["outputs"][output["name"]] = output["data"][b * n:(b + 1) * n]


def play(url, model, metadata, sequences):
    """Every step of these sequences, step by step, so that they are mixed."""
    server = Server(url)
    for t in range(len(sequences[0]["rows"])):
        if metadata["parameters"]["sequence"]:
            for sequence in sequences:
                row = sequence["rows"][t]
                infer(server, model, metadata, [row],
                      {"sequence_id": sequence["id"], "sequence_start": row["first"]})
        else:
            infer(server, model, metadata, [sequence["rows"][t] for sequence in sequences], {})


def make(metadata, steps, b):
    remembers = metadata["parameters"]["sequence"]
    rows = [dict(first=remembers and (t == 0 or random.random() < 0.2),
                 inputs={tensor["name"]: values(tensor) for tensor in metadata["inputs"]})
            for t in range(steps)]
    return {"id": b + 1, "rows": rows}


def packed(metadata, sequences, steps):
    """The same rows for policy_rows: with the action before, as it was chosen."""
    discrete = any(output["name"] in ("logits", "q") for output in metadata["outputs"])
    data = struct.pack("ii", steps, len(sequences))
    for t in range(steps):
        for sequence in sequences:
            row, before = sequence["rows"][t], sequence["rows"][t - 1]["outputs"]
            action = before["action" if discrete else "mean"]
            if row["first"]:
                action = [-1 if discrete else 0] * len(action)
            reward = row["inputs"].get("previous_reward", [0])[0]
            data += struct.pack("=Bf%d%s" % (len(action), "i" if discrete else "f"),
                                FIRST if row["first"] else 0, reward, *action)
            for tensor in metadata["inputs"]:
                if tensor["name"] != "previous_reward":
                    numbers = row["inputs"][tensor["name"]]
                    data += struct.pack("=%d%s" % (len(numbers), FORMATS[tensor["datatype"]]),
                                        *numbers)
    return data


def compare(metadata, sequences, steps, raw):
    stride, size, actions, action_bytes, state = struct.unpack_from("5i", raw)
    box = any(output["name"] == "mean" for output in metadata["outputs"])
    at, differences, largest = 20, {}, {}
    for t in range(steps):
        for sequence in sequences:
            head = struct.unpack_from("%df" % stride, raw, at)
            q = struct.unpack_from("%df" % actions, raw, at + 4 * stride)
            action = struct.unpack_from("%d%s" % (action_bytes // 4, "f" if box else "i"), raw,
                                        at + 4 * (stride + actions))
            at += 4 * (stride + actions + state) + action_bytes
            ours = {"action": action, "q": q, "value": head[size:size + 1], "logits": head[:size]}
            n = action_bytes // 4  # the first and the last outputs of a box
            ours["mean"], ours["log_std"] = head[:n], [min(max(x, LOW), HIGH) for x in head[-n:]]
            for name, theirs in sequence["rows"][t]["outputs"].items():
                assert len(theirs) == len(ours[name]), (name, theirs, ours[name])
                if name == "action" and not box:
                    assert list(theirs) == list(ours[name]), (t, sequence["id"], theirs, ours[name])
                for x, y in zip(theirs, ours[name]):
                    if abs(y) < 1e29:  # a masked one
                        largest[name] = max(largest.get(name, 1), abs(y))
                        differences[name] = max(differences.get(name, 0), abs(x - y))
    assert at == len(raw)
    return {name: d / largest[name] for name, d in differences.items()}


def main():
    policy_rows, url, model, run = sys.argv[1:5]
    B = int(sys.argv[5]) if len(sys.argv) > 5 else 21
    steps = int(sys.argv[6]) if len(sys.argv) > 6 else 6
    random.seed(1)
    metadata = Server(url).ask("/v2/models/" + model)
    sequences = [make(metadata, steps, b) for b in range(B)]
    threads = [threading.Thread(target=play, args=(url, model, metadata, sequences[i::THREADS]))
               for i in range(min(THREADS, B))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    raw = subprocess.run([policy_rows, run, "best", "cpu", ""],
                         input=packed(metadata, sequences, steps), stdout=subprocess.PIPE,
                         check=True).stdout
    found = compare(metadata, sequences, steps, raw)
    print(" ".join("%s %.1e" % pair for pair in sorted(found.items())))
    sys.exit(max(found.values()) > 1e-5)


main()
