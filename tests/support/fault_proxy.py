"""A proxy between a client and a server, whose network is bad on command.

    with FaultProxy("/tmp/folder/.s.PGSQL.5432") as proxy:     # or ("127.0.0.1", 5432): where it connects to
        url = f"postgres://weir@127.0.0.1:{proxy.port}/limits"
        proxy.reset()                                          # when it returns, that is what the network does
        proxy.heal()

It is a process of its own, because a test has threads that would keep it from its work. Faults hold for connections
that are there and for new ones, until heal():

    delay(seconds)  each piece arrives so much later, in both directions
    drip()          byte by byte, a millisecond each
    hold()          takes connections and bytes, and forwards none. What it holds arrives when it heals: as if TCP had
                    sent it again
    forget(way)     loses all bytes of one direction: "there" (to the server), "back", or "both". A connection that has
                    lost some forwards nothing in that direction ever again, not even its end
    lose_end()      forwards the next bytes that go there but for the last five, a Sync, and then loses everything: a connection
                    whose host is gone. Not even its end arrives
    lose_after(n)   forwards n pieces of a connection in each direction, and then loses everything: so a host can be lost
                    in the middle of a handshake
    lose_one()      loses everything of the oldest connection that is there, and of no other
    cut()           ends all connections that are there (FIN), and new ones at once
    reset()         resets them (RST), and new ones at once
    heal()          forwards as it should. `forgotten` says what becomes of connections that lost something: nothing, or
                    with end=True they are reset
"""

import collections
import contextlib
import os
import selectors
import socket
import struct
import subprocess
import sys
import time

PIECE_BYTES = 65536
DRIP_S = 0.001


class Pipe:
    """One direction of a connection.

    pieces       (when it is due, bytes) that are still to be sent
    piece_count  how many there were, since the connection was made
    is_lost      bytes of it were forgotten
    has_ended    its source has sent its end
    """

    def __init__(self, way, source, sink):
        self.way, self.source, self.sink = way, source, sink
        self.pieces = collections.deque()
        self.due_s = 0
        self.piece_count = 0
        self.is_lost = self.has_ended = self.is_through = False


class Connection:
    def __init__(self, client, server):
        self.client, self.server = client, server
        self.pipes = [Pipe("there", client, server), Pipe("back", server, client)]

    def close(self, resets=False):
        for end in (self.client, self.server):
            if resets:
                with contextlib.suppress(OSError):  # a unix socket has no RST
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            end.close()


class Loop:
    """What the process does. `fault` is a word of the list above and what goes with it."""

    def __init__(self, target):
        self.target = target
        self.fault = ["heal"]
        self.connections = []
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=1000)
        self.listener.setblocking(False)
        self.commands = b""

    @property
    def ends_connections(self):
        return self.fault[0] in ("cut", "reset")

    def accept(self):
        client = self.listener.accept()[0]
        is_path = isinstance(self.target, str)
        server = socket.socket(socket.AF_UNIX if is_path else socket.AF_INET)
        connection = Connection(client, server)
        try:
            if self.ends_connections:
                raise OSError("as it was told")
            server.connect(self.target)
        except OSError:
            connection.close(resets=self.fault[0] != "cut")
            return
        for end in (client, server):
            end.setblocking(False)
            if end.family == socket.AF_INET:
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.connections.append(connection)

    def loses(self, pipe, data):
        """What is left of these bytes."""
        word, *more = self.fault
        if word == "lose_end" and pipe.way == "there" and not pipe.is_lost and data:
            pipe.is_lost = True
            return data[:-5]
        pipe.piece_count += 1
        if word == "lose_end" or (word == "lose_after" and pipe.piece_count > int(more[0])) or (word == "forget" and more[0] in (pipe.way, "both")):
            pipe.is_lost = True
        return b"" if pipe.is_lost else data

    def put(self, pipe, data, now_s):
        word, *more = self.fault
        later_s = float(more[0]) if word == "delay" else 0
        step = 1 if word == "drip" else max(len(data), 1)
        for at in range(0, len(data), step):
            pipe.due_s = max(pipe.due_s + (DRIP_S if word == "drip" else 0), now_s + later_s)
            pipe.pieces.append((pipe.due_s, data[at : at + step]))

    def read(self, pipe, now_s):
        data = pipe.source.recv(PIECE_BYTES)
        pipe.has_ended = not data
        self.put(pipe, self.loses(pipe, data), now_s)

    def write(self, pipe, now_s):
        while pipe.pieces and pipe.pieces[0][0] <= now_s and self.fault[0] != "hold":
            due_s, data = pipe.pieces[0]
            sent = pipe.sink.send(data)
            if sent < len(data):
                pipe.pieces[0] = (due_s, data[sent:])
                return
            pipe.pieces.popleft()
        if pipe.has_ended and not pipe.pieces and not pipe.is_lost and not pipe.is_through and self.fault[0] != "hold":
            pipe.is_through = True
            pipe.sink.shutdown(socket.SHUT_WR)

    def obey(self, line):
        """A command, and its answer."""
        word, *more = line.split()
        if word == "lose_one":
            for pipe in self.connections[0].pipes:
                pipe.is_lost = True
            return "done"
        self.fault = [word, *more]
        for connection in list(self.connections):
            is_lost = any(pipe.is_lost for pipe in connection.pipes)
            if word in ("cut", "reset") or (word == "heal" and more == ["end"] and is_lost):
                connection.close(resets=word != "cut")
                self.connections.remove(connection)
            for pipe in connection.pipes if word == "heal" else ():
                pipe.due_s = 0
                pipe.pieces = collections.deque((0, data) for _, data in pipe.pieces)
        return "done"

    def hear(self):
        data = os.read(0, 4096)
        if not data:
            return False
        *lines, self.commands = (self.commands + data).split(b"\n")
        for line in lines:
            print(self.obey(line.decode()), flush=True)
        return True

    def turn(self):
        """False: nobody commands any longer."""
        now_s = time.monotonic()
        dues = [pipe.pieces[0][0] for c in self.connections for pipe in c.pipes if pipe.pieces]
        with selectors.DefaultSelector() as selector:
            selector.register(0, selectors.EVENT_READ)
            selector.register(self.listener, selectors.EVENT_READ)
            for connection in self.connections:
                for pipe in connection.pipes:
                    if not pipe.has_ended:
                        selector.register(pipe.source, selectors.EVENT_READ)
            is_held = self.fault[0] == "hold" or not dues
            ready = selector.select(None if is_held else min(max(min(dues) - now_s, 0.0005), 1))
        ready = {key.fileobj for key, _ in ready}
        if 0 in ready and not self.hear():
            return False
        if self.listener in ready:
            self.accept()
        now_s = time.monotonic()
        for connection in list(self.connections):
            try:
                for pipe in connection.pipes:
                    if pipe.source in ready and pipe.source.fileno() >= 0:
                        self.read(pipe, now_s)
                    self.write(pipe, now_s)
            except BlockingIOError:
                pass
            except OSError:
                connection.close(resets=True)
            are_over = all(pipe.is_through or (pipe.has_ended and pipe.is_lost) for pipe in connection.pipes)
            if are_over:
                connection.close()
            if connection.client.fileno() < 0 and connection in self.connections:
                self.connections.remove(connection)
        return True


class FaultProxy:
    """From the beginning of a with block to its end. `target`: the path of a unix socket, or (host, port)."""

    def __init__(self, target):
        self.target = target
        self.process = None
        self.port = None

    def __enter__(self):
        words = [self.target] if isinstance(self.target, str) else [self.target[0], str(self.target[1])]
        self.process = subprocess.Popen([sys.executable, "-I", __file__, *words], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.port = int(self.process.stdout.readline())
        return self

    def __exit__(self, *exception):
        self.process.stdin.close()
        self.process.wait(20)
        self.process.stdout.close()

    def say(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def delay(self, seconds):
        self.say("delay", seconds)

    def drip(self):
        self.say("drip")

    def hold(self):
        self.say("hold")

    def forget(self, way="both"):
        self.say("forget", way)

    def lose_end(self):
        self.say("lose_end")

    def lose_after(self, pieces):
        self.say("lose_after", pieces)

    def lose_one(self):
        self.say("lose_one")

    def cut(self):
        self.say("cut")

    def reset(self):
        self.say("reset")

    def heal(self, end=False):
        self.say("heal", *(["end"] if end else []))


def main():
    words = sys.argv[1:]
    loop = Loop(words[0] if len(words) == 1 else (words[0], int(words[1])))
    print(loop.listener.getsockname()[1], flush=True)
    while loop.turn():
        pass


if __name__ == "__main__":
    main()
