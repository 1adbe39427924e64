"""Behind pgbouncer, which gives each transaction of a session another one of the server's (support/pgbouncer.py)."""

import json
import subprocess

import pytest

from weirserver import DEADLINE_S, WeirServer, clean_environment, wait_until, weir_binary

if "not in PostgreSQL" in subprocess.run([weir_binary(), "--version"], capture_output=True, text=True).stdout:
    pytest.skip("built without libpq", allow_module_level=True)

import pgbouncer  # noqa: E402
from postgres import programs  # noqa: E402
from test_postgres import in_threads, undecided  # noqa: E402

if programs() is None:
    pytest.skip("postgresql is not installed", allow_module_level=True)
if pgbouncer.program() is None:
    pytest.skip("pgbouncer is not installed", allow_module_level=True)

pytestmark = [pytest.mark.database, pytest.mark.once]


def weir(*arguments):
    return subprocess.run([weir_binary(), *arguments], capture_output=True, text=True, timeout=DEADLINE_S,
                          env=clean_environment())


class Pooled:
    """A database with a role of its own, which pgbouncer lets in."""

    def __init__(self, server):
        self.server = server
        self.name = server.new_database()
        self.role = f"pooled_{self.name}"
        with self.connect() as connection:
            connection.execute(f"CREATE ROLE {self.role} LOGIN")
        done = weir("store", "init", server.url(self.name), "--role", self.role)
        assert done.returncode == 0, done
        self.pooler = pgbouncer.Pgbouncer(server, roles=(self.role,))

    def connect(self):
        return self.server.connect(self.name)

    @property
    def url(self):
        return self.pooler.url(self.name, self.role)

    def serve(self, more="&prepare=off&deadline=1000ms"):
        return WeirServer("--store", self.url + more, "--threads", "2")


@pytest.fixture
def pooled(postgres):
    pooled = Pooled(postgres)
    with pooled.pooler:
        yield pooled


def test_takes_are_exact(pooled):
    """Of many connections, in pipelines: one hot key, other keys between, and runs of two."""
    with pooled.serve() as one, pooled.serve() as other:
        allowed = []

        def ask(i):
            with (one if i % 2 == 0 else other).client() as client:
                commands = [("WEIR.TAKE", "hot", "50/h") if j % 2 else ("WEIR.TAKE", f"{i} {j}", "1/h") for j in range(60)]
                allowed.append([reply[0] for reply in client.pipeline(commands)])

        in_threads(4, ask)
        assert sum(replies[1::2].count(0) for replies in allowed) == 50
        assert all(set(replies[::2]) == {0} for replies in allowed)
        runs = [("WEIR.TAKEALL", 2, "x", "7/h", "y", "9/h")] * 12
        with one.client() as client:
            assert [reply[0] for reply in client.pipeline(runs)].count(0) == 7
        assert other.command("WEIR.CANTAKE", "y", "9/h")[:3] == [0, 9, 1]  # with one more
        assert undecided(one) == undecided(other) == 0


def test_kinds_that_are_swapped_are_exact(pooled):
    with pooled.serve() as one, pooled.serve() as other:
        allowed = []

        def ask(i):
            with (one if i % 2 == 0 else other).client() as client:
                allowed.extend(client.command("WEIR.TAKE", "a", "fixed 20/30d")[0] for _ in range(8))

        in_threads(4, ask)
        assert allowed.count(0) == 20


def test_a_server_prunes_through_it(pooled):
    with pooled.connect() as connection, pooled.serve():
        connection.execute("INSERT INTO weir.bucket SELECT md5(i::text)::uuid, 0, 0, 0 FROM generate_series(1, 3000) AS i")
        wait_until(lambda: connection.value("SELECT count(*) FROM weir.bucket") == 0, "it to prune")


def test_a_row_that_somebody_else_holds_keeps_no_session_waiting(pooled):
    """By the settings of the role."""
    with pooled.connect() as connection, pooled.serve() as server:
        wait_until(lambda: server.command("WEIR.TAKE", "a", "5/h")[0] == 0, "a take")
        connection.execute("BEGIN; UPDATE weir.bucket SET note = note")
        before = undecided(server)
        assert server.command("WEIR.TAKE", "a", "5/h")[0] == 4
        assert undecided(server) == before + 1
        wait_until(lambda: server.command("WEIR.TAKE", "b", "5/s")[0] == 0, "a take of another key")
        connection.execute("ROLLBACK")


def test_without_prepare_off_it_says_what_helps(pooled):
    """At the start, or when the first statements are not where they were prepared."""
    try:
        with pooled.serve(more="&deadline=1000ms") as server:
            wait_until(lambda: (server.command("WEIR.TAKE", "a", "5/h"), "prepare=off" in server.log)[1], "store_down")
            said = server.wait_for_log("store_down")
    except RuntimeError as refused:
        said = str(refused)
    assert "a pooler gives each transaction another session, and then the URL needs prepare=off" in said


def test_status_says_which_settings_a_role_lacks(pooled):
    def unset():
        done = weir("store", "status", pooled.url + "&prepare=off", "--json")
        return json.loads(done.stdout)["unset"] if done.returncode == 0 else None

    assert unset() == ""
    with pooled.connect() as connection:
        connection.execute(f"ALTER ROLE {pooled.role} RESET lock_timeout")
        connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = %s", pooled.role)
    wait_until(lambda: unset() == "lock_timeout=5ms", "new sessions")
