"""A server that says what a test wants it to: for what a real one does not do on demand.

    with ScriptedServer(lambda server, command: reply(0)) as server:
        run(["weir", "take", "k", "1/s", "--server", server.address])
        assert server.commands == [["WEIR.TAKE", "k", "1/s"]]

`answer(server, command)` returns the bytes to send, b"" to go on waiting, or None to close."""

import socket
import threading

from weirserver import RespClient


def reply(verdict, retry_after_ns=-1):
    """The six numbers of a decision, as they go over the wire."""
    return b"*6\r\n" + b"".join(b":%d\r\n" % n for n in (verdict, 10, 5, retry_after_ns, 0, 0))


ALLOWED, LIMITED, NEVER, FAILED = 0, 1, 2, 4


class ScriptedServer:
    def __init__(self, answer):
        self.answer = answer
        self.commands = []
        self.closed = threading.Event()  # a client has closed its connection
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        self.connections = []

    def __enter__(self):
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *exception):
        self.listener.close()
        for connection in self.connections:
            connection.close()

    def _accept(self):
        try:
            while True:
                connection, _ = self.listener.accept()
                self.connections.append(connection)
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()
        except OSError:
            pass  # closed at the end of the test

    def _serve(self, connection):
        reader = RespClient.__new__(RespClient)  # a request is an array of texts, as a reply may be
        reader.socket, reader.reader = connection, connection.makefile("rb")
        try:
            while True:
                command = reader.read_reply()
                self.commands.append(command)
                said = self.answer(self, command)
                if said is None:
                    connection.close()
                    reader.reader.close()
                    return
                connection.sendall(said)
        except OSError:
            self.closed.set()
