"""Captures packets: capture.py INTERFACE SECONDS > FILE writes the bytes of all frames, one after the other. Needs root."""
import socket
import sys
import time

s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))  # ETH_P_ALL
s.bind((sys.argv[1], 0))
s.settimeout(0.1)
end = time.monotonic() + float(sys.argv[2])
while time.monotonic() < end:
    try:
        sys.stdout.buffer.write(s.recv(1 << 17))
    except TimeoutError:
        pass
