"""HTTP/2 and gRPC by hand, with nothing but a socket: so that a test may also send what no library would."""
import os
import socket
import struct
import time

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END_STREAM, END_HEADERS, ACK = 1, 4, 1

# RFC 7541, appendix A: the names that a server of ours answers with; the others stand empty.
STATIC = {8: (":status", "200"), 9: (":status", "204"), 12: (":status", "400"), 13: (":status", "404"),
          14: (":status", "500"), 16: ("accept-encoding", "gzip, deflate"), 31: ("content-type", "")}


def credentials():
    """The header with the token of the file $ACORN_TEST_TOKEN_FILE; without it there is none."""
    path = os.environ.get("ACORN_TEST_TOKEN_FILE")
    if not path:
        return []
    with open(path) as file:
        return [("authorization", "Bearer " + file.readline().strip())]


CREDENTIALS = credentials()


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def message(payload, compressed=0, length=None):
    """A gRPC message; `length` to lie about it."""
    return bytes([compressed]) + struct.pack(">I", len(payload) if length is None else length) + payload


def literal(name, value):
    def string(text):
        data = text.encode()
        return integer(len(data), 7) + data
    return b"\0" + string(name) + string(value)


def integer(value, bits, first=0):
    limit = (1 << bits) - 1
    if value < limit:
        return bytes([first | value])
    out = [first | limit]
    value -= limit
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out + [value])


class Headers:
    """Decodes header blocks (RFC 7541) without Huffman codes, which the server does not use here."""

    def __init__(self):
        self.table = []

    def integer(self, block, at, bits):
        limit = (1 << bits) - 1
        value, at, shift = block[at] & limit, at + 1, 0
        if value < limit:
            return value, at
        while True:
            byte = block[at]
            value += (byte & 127) << shift
            at, shift = at + 1, shift + 7
            if byte < 128:
                return value, at

    def string(self, block, at):
        if block[at] & 128:
            raise ValueError("a Huffman code")
        length, at = self.integer(block, at, 7)
        return block[at:at + length].decode("latin-1"), at + length

    def entry(self, index):
        return STATIC.get(index, ("?", "?")) if index < 62 else self.table[index - 62]

    def decode(self, block):
        out, at = {}, 0
        while at < len(block):
            byte = block[at]
            if byte & 128:
                index, at = self.integer(block, at, 7)
                name, value = self.entry(index)
            elif byte & 0xe0 == 0x20:
                _, at = self.integer(block, at, 5)
                continue
            else:
                index, at = self.integer(block, at, 6 if byte & 64 else 4)
                if index:
                    name = self.entry(index)[0]
                else:
                    name, at = self.string(block, at)
                value, at = self.string(block, at)
                if byte & 64:
                    self.table.insert(0, (name, value))
            out[name] = value
        return out


class Ended(Exception):
    """The peer closed the connection."""


class Connection:
    """One connection, its own thread of control: it reads only while it waits for something."""

    def __init__(self, address, timeout=10, receive_buffer=0):
        self.socket = connect(address, timeout, receive_buffer)
        self.socket.sendall(PREFACE + frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 1 << 20)))
        self.headers = Headers()
        self.buffer = b""
        self.next_stream = 1
        self.calls = {}
        self.window = self.initial_window = 65535  # what we may send, in all and on a new stream

    def close(self):
        self.socket.close()

    def read_frame(self):
        while len(self.buffer) < 9 or len(self.buffer) < 9 + int.from_bytes(self.buffer[:3], "big"):
            data = self.socket.recv(65536)
            if not data:
                raise Ended
            self.buffer += data
        length = int.from_bytes(self.buffer[:3], "big")
        kind, flags = self.buffer[3], self.buffer[4]
        stream = int.from_bytes(self.buffer[5:9], "big") & 0x7fffffff
        payload, self.buffer = self.buffer[9:9 + length], self.buffer[9 + length:]
        return kind, flags, stream, payload

    def take_settings(self, payload):
        for at in range(0, len(payload), 6):
            setting, value = struct.unpack_from(">HI", payload, at)
            if setting == 4:
                for call in self.calls.values():
                    call.window += value - self.initial_window
                self.initial_window = value

    def handle(self):
        """Takes one frame and does what a peer must."""
        kind, flags, stream, payload = self.read_frame()
        call = self.calls.get(stream)
        if kind == SETTINGS and not flags & ACK:
            self.take_settings(payload)
            self.socket.sendall(frame(SETTINGS, ACK, 0))
        elif kind == WINDOW_UPDATE:
            more = int.from_bytes(payload, "big")
            if call:
                call.window += more
            elif stream == 0:
                self.window += more
        elif kind == PING and not flags & ACK:
            self.socket.sendall(frame(PING, ACK, 0, payload))
        elif kind == GOAWAY:
            raise Ended(payload[8:].decode("latin-1"))
        elif kind == HEADERS:
            headers = self.headers.decode(payload)
            if call:
                call.take_headers(headers, flags)
        elif call and kind == DATA:
            call.take_data(payload)
        elif call and kind == RST_STREAM:
            call.reset = int.from_bytes(payload, "big")


class Call:
    """One gRPC call on a connection."""

    def __init__(self, connection, path, more=()):
        self.connection = connection
        self.id = connection.next_stream
        connection.next_stream += 2
        connection.calls[self.id] = self
        self.window = connection.initial_window
        self.data, self.code, self.text, self.reset = b"", None, "", None
        block = b"".join(literal(n, v) for n, v in [
            (":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "test"),
            ("te", "trailers"), ("content-type", "application/grpc"), *CREDENTIALS, *more])
        connection.socket.sendall(frame(HEADERS, END_HEADERS, self.id, block))

    def take_headers(self, headers, flags):
        if "grpc-status" in headers:
            self.code, self.text = int(headers["grpc-status"]), headers.get("grpc-message", "")
        elif flags & END_STREAM:
            self.code, self.text = -1, "HTTP status " + headers.get(":status", "?")

    def take_data(self, payload):
        self.data += payload

    def send(self, data, end=False):
        """Raw bytes of the call's body, in frames, as fast as the peer allows; less if the call
        ends. Returns the bytes sent."""
        at = 0
        while not self.ended():
            piece = data[at:at + min(16384, self.window, self.connection.window)]
            if not piece and at < len(data):
                self.connection.handle()
                continue
            at += len(piece)
            self.window -= len(piece)
            self.connection.window -= len(piece)
            flags = END_STREAM if end and at == len(data) else 0
            self.connection.socket.sendall(frame(DATA, flags, self.id, piece))
            if at == len(data):
                break
        return at

    def send_blindly(self, data):
        """One frame, whatever the peer allows."""
        self.connection.socket.sendall(frame(DATA, 0, self.id, data))

    def ended(self):
        return self.code is not None or self.reset is not None

    def take_message(self):
        """The next whole message, or None."""
        if len(self.data) < 5 or len(self.data) < 5 + int.from_bytes(self.data[1:5], "big"):
            return None
        length = int.from_bytes(self.data[1:5], "big")
        payload, self.data = self.data[5:5 + length], self.data[5 + length:]
        return payload

    def wait_message(self):
        """Waits for a message; None if the call ends instead."""
        while True:
            payload = self.take_message()
            if payload is not None or self.ended():
                return payload
            self.connection.handle()

    def wait_end(self):
        """Waits for the end: (code, sentence). Of a reset without a status the code is -2."""
        while not self.ended():
            self.connection.handle()
        return (self.code, self.text) if self.code is not None else (-2, "reset %d" % self.reset)


def connect(address, timeout=10, receive_buffer=0):
    if address.startswith("unix:"):
        family, place = socket.AF_UNIX, address[5:]
    else:
        host, port = address.rsplit(":", 1)
        family, place = socket.AF_INET, (host, int(port))
    s = socket.socket(family)
    if receive_buffer:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    s.settimeout(timeout)
    s.connect(place)
    return s


def closes(s, seconds):
    """Whether the peer ends this connection within so long."""
    end = time.monotonic() + seconds
    try:
        while time.monotonic() < end:
            s.settimeout(max(0.01, end - time.monotonic()))
            if not s.recv(65536):
                return True
    except socket.timeout:
        return False
    except OSError:
        return True
    return False
