"""Does to a running learner what nobody should do to it, and checks what it answers.

Usage: attack.py ADDRESS [GROUP ...]. The learner trains CartPole. A line PASS or FAIL for each
attack; the exit code says whether one failed. Traffic goes to ADDRESS alone and is bounded."""
import math
import os
import socket
import ssl
import struct
import sys
import time
import traceback

import http2
import messages as m

OK, CANCELLED, INVALID, DEADLINE, EXHAUSTED, PRECONDITION, ABORTED = 0, 1, 3, 4, 8, 9, 10
UNIMPLEMENTED, INTERNAL, UNAVAILABLE = 12, 13, 14
JOIN, PLAY = "/acorn.Acorn/Join", "/acorn.Acorn/Play"
address = sys.argv[1]
failures = 0
names = iter("hostile/%d/0" % i for i in range(1 << 30))


def check(what, ok, seen=""):
    global failures
    failures += not ok
    print("%s %s%s" % ("PASS" if ok else "FAIL", what, "" if ok else ": %s" % (seen,)), flush=True)


def refused(what, end, code, words):
    """`end` is (code, sentence); `code` may be a set of codes."""
    codes = code if isinstance(code, (set, frozenset)) else {code}
    check(what, end[0] in codes and words in end[1], "%s %s" % end)


def unary_once(path, body, more=(), frame=None):
    """One call: (code, sentence, reply)."""
    c = http2.Connection(address)
    try:
        call = http2.Call(c, path, more)
        call.send(http2.message(body) if frame is None else frame, end=True)
        end = call.wait_end()
        return end + (call.take_message(),)
    finally:
        c.close()


def unary(*call, **how):
    """The same, again while the learner is full, as it may be behind a burst of calls."""
    limit = time.monotonic() + 60
    while True:
        end = unary_once(*call, **how)
        full = end[0] == UNAVAILABLE and "too many calls" in end[1]
        if not full or time.monotonic() > limit:
            return end
        time.sleep(0.1)


def join(name=None, **how):
    """A Join that must succeed: the run id."""
    code, text, reply = unary(JOIN, m.join(name or next(names), **how))
    if code != OK:
        raise RuntimeError("a good Join was refused: %d %s" % (code, text))
    return m.join_reply_run_id(reply)


class Play:
    """A stream with a lease of its own, unless `run_id` says otherwise."""

    def __init__(self, run_id=None, more=(), receive_buffer=0, name=None):
        self.run_id = join(name) if run_id is None else run_id
        self.connection = http2.Connection(address, receive_buffer=receive_buffer)
        self.call = http2.Call(self.connection, PLAY, more)

    def say(self, **fields):
        """Sends a message; the Actions that come back, or None if the stream ends instead."""
        self.call.send(http2.message(m.steps(self.run_id, **fields)))
        return self.call.wait_message()

    def end(self):
        end = self.call.wait_end()
        self.connection.close()
        return end

    def close(self):
        self.connection.close()


def serves(seconds=60, in_a_row=20):
    """Whether the learner soon answers one call after another: it may say that it is full for a
    moment, also after it has answered one."""
    limit, served = time.monotonic() + seconds, 0
    while served < in_a_row and time.monotonic() < limit:
        try:
            ok = unary_once("/grpc.health.v1.Health/Check", b"")[0] == OK
        except (OSError, http2.Ended):
            ok = False
        served = served + 1 if ok else 0
        time.sleep(0.02 if ok else 0.1)
    return served == in_a_row


# ---- what is no gRPC at all


def closed_after(what, data, seconds=12):
    s = http2.connect(address)
    try:
        s.sendall(data)
    except OSError:
        pass
    check(what, http2.closes(s, seconds))
    s.close()


def tls_hello():
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    coming, going = ssl.MemoryBIO(), ssl.MemoryBIO()
    try:
        context.wrap_bio(coming, going, server_hostname="learner").do_handshake()
    except ssl.SSLWantReadError:
        pass
    return going.read()


def no_grpc():
    for i in range(20):
        s = http2.connect(address)
        try:
            s.sendall(os.urandom(65536))
        except OSError:
            pass
        ended = http2.closes(s, 12)
        s.close()
        if not ended:
            break
    check("20 x 64 KB of random bytes: the connection is closed", ended)
    closed_after("an HTTP/1 request: closed", b"GET / HTTP/1.1\r\nHost: learner\r\n\r\n")
    closed_after("a TLS hello: closed", tls_hello())
    settings = http2.frame(http2.SETTINGS, 0, 0)
    closed_after("the HTTP/2 preface, then garbage: closed", http2.PREFACE + os.urandom(65536))
    closed_after("a frame longer than allowed: closed", http2.PREFACE + settings +
                 b"\xff\xff\xff\0\0\0\0\0\1" + bytes(65536))
    closed_after("data of a stream that was never opened, headers that are none: closed",
                 http2.PREFACE + settings + http2.frame(http2.HEADERS, 4, 1, b"\xff" * 40) +
                 http2.frame(http2.DATA, 0, 3, b"x" * 100) + http2.frame(http2.HEADERS, 4, 2, b""))
    s = http2.connect(address)
    try:
        s.sendall(http2.PREFACE + settings + http2.frame(http2.PING, 0, 0, bytes(8)) * 20000)
    except OSError:
        pass
    check("20,000 pings at once: closed", http2.closes(s, 12))
    s.close()


# ---- connections


def half_open():
    """Connections that say nothing, or only the preface; some stay while the rest goes on."""
    silent = [http2.connect(address) for _ in range(100)]
    for s in silent[50:]:
        s.sendall(http2.PREFACE)
    return silent


def flood(count=600):
    """More connections than the learner has file descriptors; then one must be served again."""
    held, turned_away = [], 0
    for _ in range(count):
        try:
            held.append(http2.connect(address, timeout=5))
            held[-1].sendall(http2.PREFACE)  # a silent one may never leave the kernel's queue
        except OSError:
            turned_away += 1
    time.sleep(0.5)
    for s in held:
        s.setblocking(False)
        try:
            turned_away += s.recv(1 << 16) == b""
        except BlockingIOError:
            pass
        except OSError:
            turned_away += 1
    check("%d connections at once: those beyond the limit are turned away" % count,
          0 < turned_away < count, turned_away)
    for s in held:
        s.close()
    check("and when they are gone, others are served", serves())
    for _ in range(1000):
        http2.connect(address).close()
    check("1,000 connections, opened and closed one by one", serves())


# ---- gRPC that is not ours


def grpc_frames():
    code, text, _ = unary("/acorn.Acorn/Steal", b"")
    refused("an unknown method", (code, text), UNIMPLEMENTED, "no such method")
    code, text, _ = unary("/", b"\0" * 100)
    refused("an empty method", (code, text), UNIMPLEMENTED, "")
    body = m.join(next(names))
    code, text, _ = unary(JOIN, b"", frame=http2.message(body, length=len(body) + 1000))
    refused("a Join shorter than its length says", (code, text), {INVALID, INTERNAL, -2}, "")
    code, text, _ = unary(JOIN, b"", frame=b"\0\0\0")
    refused("a Join cut inside its length", (code, text), {INVALID, INTERNAL, -2}, "")
    code, text, _ = unary(JOIN, b"", frame=b"")
    refused("a Join without a message", (code, text), INVALID, "without a whole message")
    code, text, _ = unary(JOIN, b"", frame=http2.message(b"x", length=1 << 30))
    refused("a Join that says it has a gigabyte", (code, text), INVALID, "without a whole message")
    body = m.join(next(names))
    code, text, _ = unary(JOIN, body + m.block(99, bytes(16 << 20)))
    refused("a Join of 16 MB", (code, text), {EXHAUSTED, -2}, "")
    code, text, _ = unary(JOIN, b"", frame=http2.message(body, compressed=1))
    check("a message marked as compressed, without a word how: taken as it is or refused",
          code in {OK, INTERNAL, UNIMPLEMENTED}, (code, text))
    import gzip
    code, text, _ = unary(JOIN, b"", more=[("grpc-encoding", "gzip")],
                          frame=http2.message(gzip.compress(body), compressed=1))
    refused("a compressed message", (code, text), UNIMPLEMENTED, "gzip")
    bomb = gzip.compress(bytes(100 << 20))
    code, text, _ = unary(JOIN, b"", more=[("grpc-encoding", "gzip")],
                          frame=http2.message(bomb, compressed=1))
    refused("a gzip bomb of 100 MB", (code, text), {UNIMPLEMENTED, EXHAUSTED}, "")
    code, text, _ = unary(JOIN, os.urandom(3000))
    refused("a Join of random bytes", (code, text), INVALID, "JoinRequest")


def deadlines():
    for value in ["1n", "1u", "1m"]:
        code, text, _ = unary(JOIN, m.join(next(names)), more=[("grpc-timeout", value)])
        check("a Join with a deadline of %s" % value, code in {OK, DEADLINE, CANCELLED, -2},
              "%s %s" % (code, text))
    for value in ["-1S", "abc", "99999999999999999999S"]:
        code, text, _ = unary(JOIN, m.join(next(names)), more=[("grpc-timeout", value)])
        check("a Join with a deadline of '%s' is answered" % value, code is not None)
    play = Play(more=[("grpc-timeout", "300m")])
    play.say()
    start = time.monotonic()
    end = play.end()
    check("a stream with a deadline ends then", end[0] in {DEADLINE, CANCELLED, -2} and
          time.monotonic() - start < 5, end)


# ---- Join


def joins():
    def bad(what, code, words, name=None, **how):
        end = unary(JOIN, m.join(name or next(names), **how))
        refused("a Join with " + what, end[:2], code, words)
    bad("0 environments", INVALID, "num_environments is 0", environments=0)
    bad("10^9 environments", INVALID, "num_environments is 1000000000", environments=10**9)
    bad("more environments than the learner holds", PRECONDITION, "at most", environments=5000)
    bad("a name of 1 MB", EXHAUSTED, "larger than max", name="x" * (1 << 20))
    bad("a name of 60,000 bytes", INVALID, "JoinRequest.name has 60000 bytes", name="x" * 60000)
    bad("no name", INVALID, "JoinRequest.name is empty", name=b"\0")
    bad("a name that is not UTF-8", INVALID, "only visible ASCII", name=b"\xff\xfe\x80")
    bad("a name with line ends", INVALID, "only visible ASCII", name=b"a\nlearner: all is well")
    bad("another protocol", PRECONDITION, "protocol 1 here, 7 there", protocol=7)
    bad("another environment", PRECONDITION, "the learner trains 'cartpole'", environment="catch")
    bad("another shape", PRECONDITION, "float32[6]", tensors=[m.tensor(shape=(6,))])
    bad("another dtype", PRECONDITION, "uint8[4]", tensors=[m.tensor(dtype=1)])
    bad("a dtype that there is not", INVALID, "dtype", tensors=[m.tensor(dtype=77)])
    bad("a dimension of 0", INVALID, "number below 1", tensors=[m.tensor(shape=(0,))])
    bad("a shape of 2^104 bytes", INVALID, "", tensors=[m.tensor(shape=(1 << 26,) * 4)])
    bad("a rank of 1,000", INVALID, "rank", tensors=[m.tensor(shape=(1,) * 1000)])
    bad("two tensors of one name", INVALID, "of an earlier one", tensors=[m.tensor(), m.tensor()])
    bad("1,000 tensors", INVALID, "tensors", tensors=[m.tensor("t%d" % i) for i in range(1000)])
    bad("no tensor", INVALID, "tensors", tensors=[])
    bad("other actions", PRECONDITION, "", action=m.number(1, 3))
    bad("no actions", INVALID, "exactly one must be above 0", action=b"")
    bad("a role that there is not", INVALID, "role", role=9)


def room():
    """Takes every environment that there is; they come back after 30 s. Only where it is named."""
    taken = [unary(JOIN, m.join(next(names), environments=4)) for _ in range(110)]
    full = [r for r in taken if r[0] != OK]
    check("Joins beyond the room are refused, with the room in numbers",
          full and all(r[0] == EXHAUSTED and "are taken" in r[1] for r in full), full[:1])


# ---- Play


def plays():
    end = unary(PLAY, m.steps(12345))
    refused("a wrong run id", end[:2], UNAVAILABLE, "no lease has the run id 3039")
    end = unary(PLAY, m.steps())
    refused("a Play without Join", end[:2], UNAVAILABLE, "Join again")
    run_id = join()
    first = Play(run_id)
    check("a Play of a Join", first.say() is not None)
    end = unary(PLAY, m.steps(run_id))
    refused("a second Play of one Join", end[:2], UNAVAILABLE, "already playing")
    check("does not disturb the first", first.say(flags=b"\0\0") is not None)
    first.run_id = run_id ^ 1
    first.say(flags=b"\0\0")
    refused("a run id that changes", first.end(), INVALID, "run id changed")
    older = Play(name="hostile/twin/0")
    older.say()
    newer = Play(name="hostile/twin/0")
    check("the same name joined twice: the newer one plays", newer.say() is not None)
    refused("and the older one is told", older.end(), ABORTED, "superseded")
    newer.close()
    play = Play()
    body = http2.message(m.steps(play.run_id)) + http2.message(m.steps(0, flags=b"\0\0"))
    play.call.send(body)
    answers = [play.call.wait_message(), play.call.wait_message()]
    check("two messages in flight are answered one after the other", all(answers), answers)
    play.close()


def one_message(what, words, code=INVALID, more=None, **fields):
    """A stream whose first message, or the one behind a good one, is refused."""
    play = Play()
    if more is None:
        play.say(**fields)
    else:
        play.say()
        play.say(**more)
    refused(what, play.end(), code, words)


def lengths():
    for n in [0, 1, 3, 1000]:
        one_message("%d rewards" % n, "Steps.reward has %d rows" % n, reward=(0.0,) * n)
    one_message("7 bytes of rewards", "7 bytes is not a number of floats", raw_reward=bytes(7))
    for n in [1, 3, 1000]:
        one_message("%d flags" % n, "Steps.flags", flags=b"\1" * n)
    for n in [0, 31, 33, 60000]:
        one_message("%d bytes of observation" % n, "Steps.observation", raw_observation=bytes(n))
    one_message("an observation above the limit", "larger than max", EXHAUSTED,
                raw_observation=bytes(800000))
    for cut in [1, 5, 20, 40]:
        play = Play()
        body = m.steps(play.run_id)[:-cut]
        play.call.send(http2.message(body))
        refused("Steps cut %d bytes before its end" % cut, play.end(), INVALID, "but only")
    play = Play()
    play.call.send(http2.message(os.urandom(2000)))
    refused("a first message of random bytes", play.end(), {INVALID, UNAVAILABLE}, "")
    over = b"\3\3"
    one_message("an episode of no environment", "environment",
                more=dict(flags=over, episodes=[m.episode(99)]))
    one_message("an episode that its row did not end", "ends none",
                more=dict(flags=b"\0\3", episodes=[m.episode(0)]))
    one_message("two episodes of one row", "two episodes",
                more=dict(flags=over, episodes=[m.episode(0)] * 2))
    one_message("1,000 episodes", "episode", more=dict(flags=over, episodes=[m.episode()] * 1000))
    number = m.block(4, m.block(1, b"x" * 500) + m.double(2, 1.0))
    one_message("a number's name of 500 bytes", "name",
                more=dict(flags=over, episodes=[m.episode(numbers=number)]))


FIRST, TERMINATED, TRUNCATED, ABSENT = 1, 2, 4, 8


def flags():
    """Every combination of the bits, after everything that can be before it; the bit in question
    stands in the second environment's row."""
    may_follow = {None: {FIRST, ABSENT},
                  FIRST: {0, FIRST | TERMINATED, TRUNCATED, 7, ABSENT},
                  TRUNCATED: {FIRST, ABSENT}}
    wrong = []
    for before, allowed in may_follow.items():
        for now in [*range(16), 16, 17, 32, 64, 128, 255]:
            play = Play()
            if before is not None:
                play.say()
            if before == TRUNCATED:
                play.say(flags=b"\0\4")
            answered = play.say(flags=bytes([FIRST if before is None else 0, now])) is not None
            if answered != (now in allowed):
                wrong.append((before, now, answered))
            if not answered:
                code, text = play.end()
                if code != INVALID or not ("flags" in text or "environment 1" in text):
                    wrong.append((before, now, code, text))
            play.close()
    check("every combination of the flag bits after every other", not wrong, wrong)
    play = Play()
    play.say()
    play.say(flags=b"\0\4")
    play.say(flags=b"\0\1", reward=(0.0, 1.0))
    refused("a reward into the row behind a truncated one", play.end(), INVALID, "may not follow")


def numbers():
    nan, inf = math.nan, math.inf
    for value, word in [(nan, "nan"), (-nan, "nan"), (inf, "inf"), (-inf, "-inf"), (3e38, "3e+38")]:
        one_message("a reward of %g" % value, "environment 1: its reward is", reward=(0.0, value))
        one_message("an observation of %g" % value,
                    "environment 1: element 2 of observation 'state' is",
                    more=dict(flags=b"\0\0", observation=(0.0,) * 6 + (value, 0.0)))
    for value in [nan, inf, 1e300]:
        one_message("an episode return of %g" % value, "the return of its episode",
                    more=dict(flags=b"\3\3", episodes=[m.episode(0, value)]))
    play = Play()
    play.say()
    ends = [play.say(flags=b"\0\0", reward=(1e9, -1e9), observation=(1e9, -1e9) * 4)
            for _ in range(100)]
    check("the largest numbers that are allowed are learned from", all(ends))
    play.close()


def never_reads():
    """Sends as long as it may and reads nothing: what it may pile up is bounded."""
    play = Play(receive_buffer=4096)
    s = play.connection.socket
    s.settimeout(0.5)
    body = http2.message(m.steps(play.run_id, flags=b"\1\1"))
    more = http2.message(m.steps(0, flags=b"\0\0"))
    sent = 0
    try:
        play.call.send_blindly(body)
        for _ in range(20000):
            play.call.send_blindly(more)
            sent += len(more)
    except OSError:
        pass
    check("a client that never reads: it could send %d KB" % (sent >> 10), True)
    return [play]


def resets():
    """Calls opened and reset at once, thousands on a connection."""
    c = http2.Connection(address, timeout=5)
    try:
        for i in range(5000):
            call = http2.Call(c, PLAY if i % 2 else JOIN)
            c.socket.sendall(http2.frame(http2.RST_STREAM, 0, call.id, struct.pack(">I", 8)))
    except OSError:
        pass
    c.close()
    check("5,000 calls, opened and reset", serves())


GROUPS = [no_grpc, grpc_frames, deadlines, joins, plays, lengths, flags, numbers, resets, flood]


def main():
    chosen = sys.argv[2:]
    held = half_open() if not chosen else []
    if not chosen:
        held += never_reads()
    for group in [room] if chosen == ["room"] else GROUPS:
        if chosen and group.__name__ not in chosen:
            continue
        try:
            group()
        except Exception:
            check(group.__name__, False, traceback.format_exc())
    check("half-open connections: the learner serves others", serves())
    sys.exit(failures > 0)


main()
