#!/usr/bin/env python3
"""A web application that answers ten calls per ten seconds and client address.

    weir serve &
    python3 examples/web-app/app.py
    curl -i http://127.0.0.1:9292/

Nothing but Python's standard library: `Weir` is a whole client in some thirty lines, `RateLimit`
puts it before any WSGI application. Each request costs one round trip; a limit costs none, because
the limit travels with the question and a key that nobody has asked about is an empty bucket.
"""

import argparse
import socket
from wsgiref.simple_server import WSGIRequestHandler, make_server

LIMITED = 1
NS_PER_S = 1_000_000_000


class Weir:
    """One connection to `weir serve`, opened at the first question and kept open."""

    def __init__(self, host="127.0.0.1", port=6390, timeout_s=0.5):
        self.address = (host, port)
        self.timeout_s = timeout_s
        self.stream = None

    def take(self, key, limit):
        """Asks to charge one to `key` under `limit`. Returns the verdict, 0 if it may pass, and
        the nanoseconds until it may, -1 if none."""
        words = b"WEIR.TAKE", key.encode(), limit.encode()
        was_open = self.stream is not None
        try:
            try:
                self._send(words)
            except ConnectionError:
                if not was_open:
                    raise
                # weir ended since the last question, and has forgotten what it had charged. A
                # timeout is no ConnectionError: a slow weir may have charged, so nobody asks twice.
                self._close()
                self._send(words)
            reply = [self._read_integer(b":") for _ in range(self._read_integer(b"*"))]
        except OSError:
            self._close()
            raise
        verdict, _capacity, _remaining, retry_after_ns, _reset_after_ns, _delay_ns = reply
        return verdict, retry_after_ns

    def _send(self, words):
        """Sends a question, and waits for the first byte of its answer, which stays unread."""
        if self.stream is None:
            connection = socket.create_connection(self.address, self.timeout_s)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.stream = connection.makefile("rwb")
            connection.close()  # the stream keeps it open
        self.stream.write(b"*%d\r\n" % len(words))
        for word in words:
            self.stream.write(b"$%d\r\n%s\r\n" % (len(word), word))
        self.stream.flush()
        if not self.stream.peek(1):
            raise ConnectionError("weir closed the connection")

    def _read_integer(self, kind):
        line = self.stream.readline()
        if line[:1] != kind or not line.endswith(b"\r\n"):
            raise OSError(f"weir said {line!r}")
        return int(line[1:])

    def _close(self):
        stream, self.stream = self.stream, None
        if stream is not None:
            try:
                stream.close()
            except OSError:
                pass  # what was left to send nobody will read


class RateLimit:
    """Lets through what the limit allows; answers 429 to the rest, with the time of the next drip.

    Where weir cannot be asked, requests pass: this application would rather be busy than down."""

    def __init__(self, app, weir, limit="10/10s"):
        self.app, self.weir, self.limit = app, weir, limit

    def __call__(self, environ, start_response):
        try:
            verdict, retry_after_ns = self.weir.take("ip:" + environ["REMOTE_ADDR"], self.limit)
        except OSError as error:
            print(f"weir cannot be asked: {error}", file=environ["wsgi.errors"])
            return self.app(environ, start_response)
        if verdict != LIMITED:
            return self.app(environ, start_response)
        start_response("429 Too Many Requests", [
            ("Content-Type", "text/plain"),
            ("X-Rate-Limited-For", seconds(retry_after_ns)),
            ("Retry-After", str(-(-retry_after_ns // NS_PER_S))),  # whole seconds, rounded up
        ])
        return [b"Rate limited"]


def seconds(ns):
    """780000000 -> "0.78", exactly."""
    return f"{ns // NS_PER_S}.{ns % NS_PER_S:09d}".rstrip("0").rstrip(".")


def hello(_environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"Hello world"]


def main():
    parser = argparse.ArgumentParser(description="a web application behind a rate limit")
    parser.add_argument("--port", type=int, default=9292, help="0: a free one")
    parser.add_argument("--weir", default="127.0.0.1:6390", help="where `weir serve` listens")
    options = parser.parse_args()
    host, _, port = options.weir.rpartition(":")
    app = RateLimit(hello, Weir(host, int(port)))
    with make_server("127.0.0.1", options.port, app, handler_class=WSGIRequestHandler) as server:
        print(f"listening on http://127.0.0.1:{server.server_port}/", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            pass


if __name__ == "__main__":
    main()
