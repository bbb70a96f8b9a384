"""Asks a model from several connections again and again, until the file STOP is there or the server
takes no more connections, and checks each answer against what its version has to give. Prints how
many were answered, lost (no answer to a request that was sent) and wrong, and how many versions
answered.

Usage: load.py URL MODEL STOP THREADS [ODD EVEN]: ODD and EVEN are models that versions of odd and
even numbers are copies of; without them an answer need only be one.
"""
import http.client
import json
import os
import sys
import threading
import urllib.parse

BODY = json.dumps({"inputs": [{"name": "state", "datatype": "FP32", "shape": [1, 4],
                               "data": [0.1, 0.2, 0.3, 0.4]}]})
counts = {"answered": 0, "refused": 0, "lost": 0, "wrong": 0}
versions, lock = set(), threading.Lock()


def ask(connection, model):
    connection.request("POST", "/v2/models/%s/infer" % model, BODY)
    response = connection.getresponse()
    return response.status, json.loads(response.read()), response.getheader("Connection")


def add(what):
    with lock:
        counts[what] += 1
        if sum(counts.values()) == 1:
            print("loading", flush=True)


def load(place, model, stop, expected):
    connection = None
    while not os.path.exists(stop):
        if not connection:
            connection = http.client.HTTPConnection(place, timeout=30)
            try:
                connection.connect()
            except OSError:
                return
        try:
            status, found, after = ask(connection, model)
        except (OSError, http.client.HTTPException) as error:
            print(repr(error), file=sys.stderr)
            add("lost")
            return
        if status == 200:
            version = int(found["model_version"])
            with lock:
                versions.add(version)
            right = not expected or found["outputs"] == expected[version % 2]
            add("answered" if right else "wrong")
        elif status == 503 and "try again later" in found["error"]:
            add("refused")
        else:
            print(status, found, file=sys.stderr)
            add("wrong")
        if after == "close":
            connection.close()
            connection = None


url, model, stop, threads = sys.argv[1:5]
place = urllib.parse.urlsplit(url).netloc
expected = {}
if len(sys.argv) > 6:
    for odd, of in ((1, sys.argv[5]), (0, sys.argv[6])):
        expected[odd] = ask(http.client.HTTPConnection(place), of)[1]["outputs"]
    assert expected[0] != expected[1]
all_threads = [threading.Thread(target=load, args=(place, model, stop, expected))
               for _ in range(int(threads))]
for thread in all_threads:
    thread.start()
for thread in all_threads:
    thread.join()
print(*("%s=%d" % pair for pair in counts.items()), "versions=%d" % len(versions))
