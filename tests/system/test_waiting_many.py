"""Ten thousand who wait cost little memory, and nobody wakes for them before their turn."""

import os
import resource
import select
import signal

import pytest
from waiters import DAY_MS
from weirserver import RespClient, WeirServer, wait_until

WANTED = 10_000
SPARE_FILES = 200
BYTES_MAX = 512  # per waiter, beside its connection


@pytest.fixture
def many():
    """How many connections there are: fewer than wanted only where the system says so."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    count = min(WANTED, hard - SPARE_FILES)
    if count < WANTED:
        print(f"only {hard} files may be open here: {count} waiters instead of {WANTED}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield count
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def switches(pid):
    """How often threads of the process have gone to sleep by themselves, and so been woken."""
    count = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/status") as status:
            line = next(line for line in status if line.startswith("voluntary_ctxt_switches"))
            count += int(line.split()[1])
    return count


def busy_s(pid):
    """How much processor time it has used."""
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def crowd(server, count):
    """So many connections that are idle."""
    clients = [server.client() for _ in range(count)]
    for client in clients:
        client.socket.sendall(b"PING\r\n")
    for client in clients:
        assert client.socket.recv(100) == b"+PONG\r\n"
    return clients


def stand(server, clients, question, behind=b""):
    """All of them stand in line: question(i) is what the i-th one asks, and `behind` follows."""
    for i, client in enumerate(clients):
        wait = RespClient.encode("WEIR.TAKE", *question(i), "WAIT", DAY_MS)
        client.socket.sendall(wait + behind)
    wait_until(lambda: server.metric("weir_waiting") == len(clients), "all to stand in line")


def leave(server, clients):
    for client in clients:
        client.close()
    wait_until(lambda: server.metric("weir_waiting") == 0, "all to leave")


@pytest.mark.slow
def test_nobody_wakes_before_anybody_s_turn_comes(many):
    """The next ones are due in 20 s: of one long line, and of a thousand short ones. All of them have
    asked for more behind their wait."""

    def question(i):
        return ("long", "queue 1/20s capacity=4000") if i < 4000 else (f"{i % 1000}", "1/20s")

    with WeirServer("--threads", 2) as server:
        clients = crowd(server, many)
        for i in range(1000):
            server.command("WEIR.TAKE", f"{i}", "1/20s")
        stand(server, clients, question, b"PING\r\n")
        switches_before, busy_before_s = switches(server.pid), busy_s(server.pid)
        select.select([], [], [], 2)  # what is counted is what happens in a time
        woken, was_busy_s = switches(server.pid) - switches_before, busy_s(server.pid) - busy_before_s
        leave(server, clients)
    assert woken < 2 * 5
    assert was_busy_s < 0.1


@pytest.mark.slow
@pytest.mark.parametrize("lines", [1, 1_000_000], ids=["one-line", "a-line-each"])
def test_a_waiter_costs_few_bytes_beside_its_connection(many, lines):
    """And every one of them is answered when the server ends."""
    with WeirServer("--threads", 2, "--test-clock") as server:
        clients = crowd(server, many)
        limit = "1/s waiting=1000000"
        for i in range(min(lines, many)):
            server.command("WEIR.FILL", f"{i % lines}", limit)
        before = server.rss_bytes()
        stand(server, clients, lambda i: (f"{i % lines}", limit))
        grown = server.rss_bytes() - before
        print(f"{grown / many:.0f} bytes per waiter")
        server.assert_grown_less(before, BYTES_MAX * many)
        server.signal(signal.SIGTERM)
        for client in clients:
            assert client.socket.recv(100).startswith(b"*6\r\n:4\r\n")
            client.close()
        assert server.wait() == 0
