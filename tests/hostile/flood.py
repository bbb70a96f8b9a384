"""Floods a learner from one process and keeps it up until the learner ends the connections.

Usage: flood.py ADDRESS status | connections COUNT | unfinished COUNT | trickle KB_A_SECOND | interleaved |
unread CONNECTIONS CALLS [again] | burst TIMES CALLS | silent CONNECTIONS CALLS. Says "ready ..." on a line of its own once the flood is at its height, and "ended ..."
when the learner has gone, or has closed what it should."""
import os
import select
import selectors
import socket
import sys
import time

import http2
import messages as m

CALLS_AT_ONCE, READY_CALLS = 60, 3000
STATUS, PLAY = "/acorn.Acorn/Status", "/acorn.Acorn/Play"
address = sys.argv[1]


def say(text):
    print(text, flush=True)


def head_of_a_call(path=STATUS, remembered=False):
    """The header block of a call; built once, for speed. remembered: the peer keeps it, and the next may be INDEXED."""
    block = (http2.literal(n, v) for n, v in [
        (":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "test"),
        ("te", "trailers"), ("content-type", "application/grpc")])
    return b"".join(b"\x40" + field[1:] if remembered else field for field in block)


INDEXED = bytes(range(0x80 | 67, 0x80 | 61, -1))  # the same six again, in six bytes


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


class Reader:
    """Reads a connection without keeping anything: windows, and how many calls have ended."""

    def __init__(self, first_settings=b"", answer_settings=True):
        self.socket = http2.connect(address)
        self.answer_settings = answer_settings
        self.buffer, self.window, self.ended = b"", {0: 65535}, set()
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
            elif kind == http2.WINDOW_UPDATE:
                more = int.from_bytes(payload, "big")
                self.window[stream] = self.window.get(stream, 65535) + more
            elif kind == http2.RST_STREAM or kind == http2.HEADERS and flags & http2.END_STREAM:
                self.ended.add(stream)
            at += 9 + length
        self.buffer = self.buffer[at:]
        if answer:
            self.socket.sendall(answer)


def interleaved():
    """Pieces of one message that never ends, and an empty call of the smallest size behind each."""
    reader, number, piece = Reader(), 1, bytes(480)
    sent, begun, calls = 0, time.monotonic(), 0
    try:
        reader.socket.sendall(
            http2.frame(http2.HEADERS, http2.END_HEADERS, 1, head_of_a_call(PLAY)) +
            http2.frame(http2.DATA, 0, 1, http2.message(b"", length=1 << 31)) +
            http2.frame(http2.HEADERS, http2.END_HEADERS | http2.END_STREAM, 3,
                        head_of_a_call("/x", remembered=True)))
        number, calls = 5, 1
        used = {0: 5, 1: 5}
        say("ready 1")
        while True:
            out = []
            for _ in range(30):
                room = min(reader.window.get(s, 65535) - used[s] for s in used)
                if room < len(piece) or calls - len(reader.ended) >= CALLS_AT_ONCE:
                    break
                out.append(http2.frame(http2.DATA, 0, 1, piece) + http2.frame(
                    http2.HEADERS, http2.END_HEADERS | http2.END_STREAM, number, INDEXED))
                used[0] += len(piece)
                used[1] += len(piece)
                sent += len(piece)
                number += 2
                calls += 1
            reader.socket.sendall(b"".join(out))
            reader.read(0 if out else 1)
    except (OSError, http2.Ended):
        say("ended %d bytes in %.1f s" % (sent, time.monotonic() - begun))


def ask_and_never_read(calls):
    """Status calls whose answers have nowhere to go; a peer that does not agree to anything else."""
    reader = Reader(first_settings=b"\0\4\0\0\0\0", answer_settings=False)
    ask(reader.socket, 1, calls, head_of_a_call())
    return reader


def unread(connections, calls, again):
    """Calls that end, and connections that are closed, are made again, if asked for."""
    readers, closed, ended = [ask_and_never_read(calls) for _ in range(connections)], 0, 0
    numbers = [calls] * connections
    say("ready %d" % (connections * calls))
    while True:
        for i in range(connections):
            try:
                if not readers[i]:
                    if not again:
                        continue
                    readers[i], numbers[i] = ask_and_never_read(calls), calls
                before = len(readers[i].ended)
                readers[i].read()
                more = len(readers[i].ended) - before
                ended += more
                if again and more:
                    ask(readers[i].socket, 2 * numbers[i] + 1, more, head_of_a_call())
                    numbers[i] += more
            except (OSError, http2.Ended):
                readers[i] = None
                closed += 1
        if not again and (ended >= connections * calls or not any(readers)):
            say("ended %d calls, %d connections" % (ended, closed))
            return
        time.sleep(0.05)


def burst_once(calls):
    """As many calls as it likes in one write, from a peer that never agrees to a limit."""
    s = http2.connect(address, timeout=10)
    begin = http2.frame(http2.HEADERS, http2.END_HEADERS, 1, head_of_a_call(PLAY, remembered=True))
    rest = (http2.frame(http2.HEADERS, http2.END_HEADERS, 2 * i + 1, INDEXED) for i in range(1, calls))
    try:
        s.sendall(http2.PREFACE + http2.frame(http2.SETTINGS, 0, 0) + begin + b"".join(rest))
        while s.recv(65536):
            pass
    except OSError as error:
        return not isinstance(error, TimeoutError)
    return True


def burst(times, calls):
    """One after the other."""
    closed = sum(burst_once(calls) for _ in range(times))
    say("ready %d" % closed)
    say("ended %d connections" % closed)


def open_silent(reader, calls):
    """Plays that say nothing."""
    first = 2 * reader.opened + 1
    heads = [INDEXED] * calls
    if not reader.opened:
        heads[0] = head_of_a_call(PLAY, remembered=True)
    reader.opened += calls
    reader.socket.sendall(b"".join(
        http2.frame(http2.HEADERS, http2.END_HEADERS, first + 2 * i, head) for i, head in enumerate(heads)))


def silent(connections, calls):
    """There are always so many on each of the connections; one that is closed is made again."""
    readers, ready = [None] * connections, False
    while True:
        for i in range(connections):
            try:
                if not readers[i]:
                    readers[i] = Reader()
                    readers[i].opened = 0
                readers[i].read()
                missing = calls - readers[i].opened + len(readers[i].ended)
                if missing:
                    open_silent(readers[i], missing)
            except ConnectionRefusedError:
                say("ended")
                return
            except (OSError, http2.Ended):
                readers[i] = None
        if not ready:
            say("ready %d" % (connections * calls))
            ready = True
        time.sleep(0.01)


def main():
    kind, count = sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 0
    if kind == "unread":
        unread(count, int(sys.argv[4]), "again" in sys.argv)
        return
    if kind in ("burst", "silent"):
        {"burst": burst, "silent": silent}[kind](count, int(sys.argv[4]))
        return
    if kind == "interleaved":
        interleaved()
        return
    if kind == "status":
        status()
    else:
        {"connections": connections, "unfinished": unfinished, "trickle": trickle}[kind](count)


main()
