"""Floods a learner from one process and keeps it up until the learner ends the connections.

Usage: flood.py ADDRESS status | connections COUNT | unfinished COUNT | trickle KB_A_SECOND. Says "ready ..." on a line of
its own once the flood is at its height, and "ended ..." when the learner has gone."""
import os
import select
import selectors
import socket
import sys
import time

import http2
import messages as m

CALLS_AT_ONCE, READY_CALLS = 300, 3000
STATUS, PLAY = "/acorn.Acorn/Status", "/acorn.Acorn/Play"
address = sys.argv[1]


def say(text):
    print(text, flush=True)


def head_of_a_call():
    """The header block of a Status call; built once, for speed."""
    return b"".join(http2.literal(n, v) for n, v in [
        (":method", "POST"), (":scheme", "http"), (":path", STATUS), (":authority", "test"),
        ("te", "trailers"), ("content-type", "application/grpc")])


def ask(s, first, count, head):
    """Calls with the odd numbers from `first` on, in one write."""
    numbers = range(first, first + 2 * count, 2)
    s.sendall(b"".join(http2.frame(http2.HEADERS, http2.END_HEADERS, i, head) +
                       http2.frame(http2.DATA, http2.END_STREAM, i, http2.message(b""))
                       for i in numbers))


def count_ends(s, buffer):
    """Reads once: (calls that have ended, replies that came, the frame that is not whole yet)."""
    data = s.recv(1 << 18)
    if not data:
        raise http2.Ended
    buffer, at, ends, replies = buffer + data, 0, 0, 0
    while len(buffer) - at >= 9:
        length, kind, flags = int.from_bytes(buffer[at:at + 3], "big"), buffer[at + 3], buffer[at + 4]
        if len(buffer) - at < 9 + length:
            break
        if kind == http2.PING and not flags & http2.ACK:
            s.sendall(http2.frame(http2.PING, http2.ACK, 0, buffer[at + 9:at + 17]))
        elif kind == http2.SETTINGS and not flags & http2.ACK:
            s.sendall(http2.frame(http2.SETTINGS, http2.ACK, 0))
        replies += kind == http2.DATA
        ends += kind == http2.HEADERS and flags & http2.END_STREAM
        at += 9 + length
    return ends, replies, buffer[at:]


def status():
    """Asks without a pause: there are always hundreds of calls that wait for their answer."""
    s = http2.connect(address, timeout=20)
    endless_window = http2.frame(http2.WINDOW_UPDATE, 0, 0, (0x7fffffff - 65535).to_bytes(4, "big"))
    s.sendall(http2.PREFACE + http2.frame(http2.SETTINGS, 0, 0) + endless_window)
    head, next_call, open_calls, answered, buffer = head_of_a_call(), 1, 0, 0, b""
    try:
        while True:
            if open_calls <= CALLS_AT_ONCE // 2:
                ask(s, next_call, CALLS_AT_ONCE // 2, head)
                next_call += CALLS_AT_ONCE
                open_calls += CALLS_AT_ONCE // 2
            ends, replies, buffer = count_ends(s, buffer)
            open_calls -= ends
            if answered < READY_CALLS <= answered + replies:
                say("ready %d" % READY_CALLS)
            answered += replies
    except (OSError, http2.Ended):
        say("ended %d" % answered)


def wait_until_all_are_closed(sockets):
    """Reads what comes, and answers nothing."""
    watched = selectors.DefaultSelector()
    for s in sockets:
        s.setblocking(False)
        watched.register(s, selectors.EVENT_READ)
    while watched.get_map():
        for key, _ in watched.select():
            try:
                over = not key.fileobj.recv(65536)
            except OSError:
                over = True
            if over:
                watched.unregister(key.fileobj)
    say("ended %d" % len(sockets))


def connections(count):
    """Connects and says nothing, or the preface alone."""
    held = []
    for i in range(count):
        try:
            held.append(http2.connect(address, timeout=5))
            if i % 2:
                held[-1].sendall(http2.PREFACE)
        except OSError:
            pass
    time.sleep(0.5)
    say("ready %d" % len(held))
    wait_until_all_are_closed(held)


def begin_messages(c, calls=16, announced=60000, kept_back=100):
    """Messages of which the end is missing, on calls of their own."""
    for _ in range(calls):
        call = http2.Call(c, PLAY)
        body = http2.message(os.urandom(announced - kept_back), length=announced)
        if call.send(body) < len(body):
            return


def unfinished(count):
    """Nearly a megabyte of unfinished messages on each of the connections."""
    held = []
    for _ in range(count):
        try:
            c = http2.Connection(address, timeout=2)
            held.append(c.socket)
            begin_messages(c)
        except (OSError, http2.Ended):
            pass
    say("ready %d" % len(held))
    wait_until_all_are_closed(held)


def trickle(kb_a_second):
    """Messages that are begun, piece by piece, and never finished; pings are answered."""
    c = http2.Connection(address)
    piece, call, left = bytes(kb_a_second * 100), None, 0
    say("ready 1")
    try:
        while True:
            if left < len(piece):
                call, left = http2.Call(c, PLAY), 60000
                call.send(http2.message(b"", length=left + 1))
            call.send(piece)
            left -= len(piece)
            time.sleep(0.1)
            while select.select([c.socket], [], [], 0)[0]:
                c.handle()
    except (OSError, http2.Ended):
        say("ended 1")


def main():
    kind, count = sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 0
    if kind == "status":
        status()
    else:
        {"connections": connections, "unfinished": unfinished, "trickle": trickle}[kind](count)


main()
