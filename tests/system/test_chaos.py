"""Clients that mix good requests, broken ones, half ones, resets and silence, all at once.

Whatever they do, the server lives, serves others, and gives back what it held for them.
"""

import os
import random
import socket
import struct
import threading

import pytest
from weirserver import RespClient, WeirServer, wait_until

TAKE = b'{"key":"a","limit":"10/s"}'
REQUESTS = [
    RespClient.encode("CL.THROTTLE", "k", "3", "10", "60"),
    RespClient.encode("WEIR.TAKE", "k", "10/s", "COST", "1.5"),
    RespClient.encode("WEIR.FILL", "k", "10/s", "COST", "99"),
    RespClient.encode("HELLO", "3"),
    RespClient.encode("ECHO", "x" * 5000),
    RespClient.encode("INFO"),
    RespClient.encode("QUIT"),
    b"PING\r\n",
    b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /v1/check?key=a&limit=10/s HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"POST /v1/take HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s" % (len(TAKE), TAKE),
    b"POST /v1/take HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"%x\r\n%s\r\n0\r\n\r\n" % (len(TAKE), TAKE),
]


def damage(source, data):
    """Changes some bytes, and perhaps leaves the end out."""
    data = bytearray(data)
    for _ in range(source.randrange(4)):
        data[source.randrange(len(data))] = source.randrange(256)
    if source.random() < 0.3:
        del data[source.randrange(1, len(data) + 1) :]
    return bytes(data)


def misbehave(source, port):
    """One connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as client:
        if source.random() < 0.3:  # close with a reset
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        for _ in range(source.randrange(1, 6)):
            data = b"".join(source.choices(REQUESTS, k=source.choice([1, 3, 50])))
            client.sendall(damage(source, data) if source.random() < 0.6 else data)
            client.settimeout(source.choice([0.001, 0.02]))
            try:
                client.recv(source.choice([1, 1000, 100_000]))
            except TimeoutError:
                pass
            client.settimeout(5)
        if source.random() < 0.2:
            client.shutdown(socket.SHUT_WR)


def buffers_bytes(server):
    return server.metric("weir_buffers_bytes")


def wreak(seed, connections):
    print(f"seed {seed}")
    with WeirServer("--threads", 2, "--header-timeout", "500ms", "--write-timeout", "1s") as server:

        def run(number):
            source = random.Random(seed * 1000 + number)
            for _ in range(connections):
                try:
                    misbehave(source, source.choice([server.resp_port, server.http_port]))
                except OSError:
                    pass  # it was closed, as a bad client should be

        threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert server.command("PING") == "PONG"
        wait_until(lambda: buffers_bytes(server) == 0, "the buffers to be given back")
        assert server.stop() == 0


def test_chaos():
    wreak(int(os.environ.get("WEIR_SEED", "1")), 300)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(2, 12))
def test_much_chaos(seed):
    wreak(seed, 1000)
