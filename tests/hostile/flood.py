"""Floods a learner from one process and keeps it up until the learner ends the connections.

Usage: flood.py ADDRESS status | connections COUNT | unfinished COUNT | unread CONNECTIONS CALLS |
open CONNECTIONS CALLS | strangers SECONDS. Prints "ready ..." on a line of its own once the flood is at its height, and
"ended ..." when the learner has gone, or has ended what it should."""
import os
import select
import selectors
import socket
import sys
import time

import http2
import messages

CALLS_AT_ONCE, READY_CALLS = 60, 3000
STATUS, PLAY = "/acorn.Acorn/Status", "/acorn.Acorn/Play"
address = sys.argv[1]


def say(text):
    print(text, flush=True)


def head_of_a_call(path=STATUS):
    """The header block of a call; built once, for speed."""
    return b"".join(http2.literal(n, v) for n, v in [
        (":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "test"),
        ("te", "trailers"), ("content-type", "application/grpc"), *http2.CREDENTIALS])


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


def begin_messages(c, calls=4, announced=240000, kept_back=100):
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


class Reader:
    """Reads a connection without keeping anything but which calls have ended."""

    def __init__(self, first_settings=b"", answer_settings=True):
        self.socket = http2.connect(address)
        self.answer_settings = answer_settings
        self.buffer, self.ended = b"", set()
        self.socket.sendall(http2.PREFACE + http2.frame(http2.SETTINGS, 0, 0, first_settings))

    def read(self, seconds=0):
        """What has come; waits for so long if nothing has."""
        while select.select([self.socket], [], [], seconds)[0]:
            data = self.socket.recv(1 << 18)
            if not data:
                raise http2.Ended
            self.buffer += data
            self.take_frames()
            seconds = 0

    def take_frames(self):
        at, answer = 0, b""
        while len(self.buffer) - at >= 9:
            head = self.buffer[at:at + 9]
            length, kind, flags = int.from_bytes(head[:3], "big"), head[3], head[4]
            if len(self.buffer) - at < 9 + length:
                break
            stream, payload = int.from_bytes(head[5:], "big"), self.buffer[at + 9:at + 9 + length]
            if kind == http2.PING and not flags & http2.ACK:
                answer += http2.frame(http2.PING, http2.ACK, 0, payload)
            elif kind == http2.SETTINGS and not flags & http2.ACK and self.answer_settings:
                answer += http2.frame(http2.SETTINGS, http2.ACK, 0)
            elif kind == http2.RST_STREAM or kind == http2.HEADERS and flags & http2.END_STREAM:
                self.ended.add(stream)
            at += 9 + length
        self.buffer = self.buffer[at:]
        if answer:
            self.socket.sendall(answer)


def ask_and_never_read(calls):
    """Status calls whose answers have nowhere to go; a peer that does not agree to anything else."""
    reader = Reader(first_settings=b"\0\4\0\0\0\0", answer_settings=False)
    ask(reader.socket, 1, calls, head_of_a_call())
    return reader


def count_until_all_end(readers, calls):
    ended = closed = 0
    while ended < calls and any(readers):
        for i, reader in enumerate(readers):
            try:
                if not reader:
                    continue
                before = len(reader.ended)
                reader.read()
                ended += len(reader.ended) - before
            except (OSError, http2.Ended):
                readers[i] = None
                closed += 1
        time.sleep(0.05)
    say("ended %d calls, %d connections" % (ended, closed))


def unread(connections, calls):
    """Status calls whose answers are never read."""
    readers = [ask_and_never_read(calls) for _ in range(connections)]
    say("ready %d" % (connections * calls))
    count_until_all_end(readers, connections * calls)


def open_calls(connections, calls):
    """Plays that are opened and say nothing."""
    readers = [Reader() for _ in range(connections)]
    head = head_of_a_call(PLAY)
    for reader in readers:
        reader.socket.sendall(b"".join(
            http2.frame(http2.HEADERS, http2.END_HEADERS, 2 * i + 1, head) for i in range(calls)))
    say("ready %d" % (connections * calls))
    count_until_all_end(readers, connections * calls)


def join_calls():
    """Good Joins, but for the credentials, in one write; the connection is closed at once."""
    s = http2.connect(address, timeout=5)
    body = http2.message(messages.join("stranger/0/0", environments=1))
    head = head_of_a_call("/acorn.Acorn/Join")
    s.sendall(http2.PREFACE + http2.frame(http2.SETTINGS, 0, 0) + b"".join(
        http2.frame(http2.HEADERS, http2.END_HEADERS, i, head) +
        http2.frame(http2.DATA, http2.END_STREAM, i, body) for i in range(1, 100, 2)))
    return s


def strangers(seconds):
    """Half a core's worth of connections, calls and unfinished messages; keeps the newest 200."""
    held, count, end = [], 0, time.monotonic() + seconds
    say("ready")
    while time.monotonic() < end:
        work_end = time.monotonic() + 0.05
        while time.monotonic() < work_end:
            try:
                if count % 3 == 0:
                    held.append(http2.connect(address, timeout=5))
                elif count % 3 == 1:
                    held.append(join_calls())
                else:
                    c = http2.Connection(address, timeout=1)
                    held.append(c.socket)
                    begin_messages(c, calls=2)
            except (OSError, http2.Ended):
                pass
            count += 1
        for s in held[:-200]:
            s.close()
        del held[:-200]
        time.sleep(0.05)
    say("ended %d connections" % count)


KINDS = {"status": status, "connections": connections, "unfinished": unfinished, "unread": unread,
         "open": open_calls, "strangers": strangers}
KINDS[sys.argv[2]](*map(int, sys.argv[3:]))
