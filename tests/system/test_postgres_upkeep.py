"""Looking after a store in PostgreSQL: weir store status, init, migrate, prune, reset."""

import contextlib
import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from terminal import Terminal
from weirserver import DEADLINE_S, WeirServer, clean_environment, wait_until, weir_binary

if "not in PostgreSQL" in subprocess.run([weir_binary(), "--version"], capture_output=True, text=True).stdout:
    pytest.skip("built without libpq", allow_module_level=True)

import psycopg2  # noqa: E402
from postgres import programs  # noqa: E402

if programs() is None:
    pytest.skip("postgresql is not installed", allow_module_level=True)

pytestmark = [pytest.mark.database, pytest.mark.alone]

SETTINGS = {  # of session.sql and session.c, as a role brings them
    "default_transaction_isolation=read committed", "enable_seqscan=off", "jit=off", "lock_timeout=5ms",
    "plan_cache_mode=force_generic_plan", "statement_timeout=500ms",
}


def weir(*arguments, **options):
    """`weir store`, without the name."""
    return subprocess.run([weir_binary(), "store", *arguments], capture_output=True, text=True, timeout=DEADLINE_S,
                          env=clean_environment(), stdin=subprocess.DEVNULL, **options)


def said(*arguments):
    """What a command says that succeeds."""
    done = weir(*arguments)
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout


def refused(*arguments, code=3):
    """The sentence of a command that fails."""
    done = weir(*arguments)
    assert (done.returncode, done.stdout) == (code, ""), done
    assert done.stderr.startswith("weir store: ") and done.stderr.count("\n") == 1, done.stderr
    return done.stderr


class Database:
    """Of its own, and roles with names that no other test has."""

    def __init__(self, server):
        self.server = server
        self.name = server.new_database()
        self.url = server.url(self.name)

    def connect(self):
        return self.server.connect(self.name)

    def url_of(self, role):
        return self.url.replace("weir@", f"{role}@")

    def new_role(self, suffix):
        name = f"{suffix}_{self.name}"
        with self.connect() as connection:
            connection.execute(f"CREATE ROLE {name} LOGIN")
        return name


@pytest.fixture
def database(postgres):
    return Database(postgres)


@pytest.fixture
def ready(database):
    said("init", database.url)
    return database


# ---- status ----


def fill(connection, count, ns=0):
    connection.execute("INSERT INTO weir.bucket SELECT md5(i::text)::uuid, %s, 0, 0 FROM generate_series(1, %s) AS i",
                       ns, count)


def show_figures(connection):
    """At once, and not after some seconds: PostgreSQL 15 can."""
    with contextlib.suppress(psycopg2.errors.UndefinedFunction):
        connection.execute("SELECT pg_stat_force_next_flush()")


def test_status_says_how_the_store_is_doing(ready):
    with ready.connect() as connection:
        fill(connection, 1000)
        connection.execute("UPDATE weir.bucket SET ns = 1")
        connection.execute("UPDATE weir.upkeep SET next_page = 3")
        connection.execute("VACUUM weir.bucket")
        show_figures(connection)
        pages = connection.value("SELECT pg_relation_size('weir.bucket') / 8192")

        def status():
            return json.loads(said("status", ready.url, "--json"))

        wait_until(lambda: status()["updates"] == 1000 and status()["vacuumed"], "the figures of that session")
        found = status()
        assert found["server"].startswith("PostgreSQL 1") and found["role"] == "weir"
        assert (found["schema"], found["known_schema"], found["lacking"], found["unset"]) == (1, 1, "", "")
        assert (found["pages"], found["next_page"], found["unlogged"]) == (pages, 3, False)
        assert found["table_bytes"] >= pages * 8192 and found["index_bytes"] > 0
        assert found["buckets_about"] == 1000
        assert [(found["hot_updates"], found["dead"])] == connection.execute(
            "SELECT n_tup_hot_upd, n_dead_tup FROM pg_stat_user_tables WHERE relname = 'bucket'")
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", found["vacuumed"])
        text = said("status", "--store", ready.url)
        assert text.startswith(ready.url + "\n\n  server   PostgreSQL 1")
        for line in ("  schema   version 1, which this weir needs\n", "  role     weir: it may do all that a server does\n",
                     "  buckets  about 1000, as the database estimates\n",
                     f"  pruning  goes on at page 3 of {pages}\n",
                     "  table    logged: it outlives a crash of the database\n", "  commits  synchronous_commit=on\n",
                     "  settings none of the role or the database\n"):
            assert line in text
        assert "weir store" not in text  # nothing to be put right


def test_status_estimates_buckets_that_no_vacuum_has_counted(ready):
    with ready.connect() as connection:
        fill(connection, 500)
        show_figures(connection)
        wait_until(lambda: json.loads(said("status", ready.url, "--json"))["buckets_about"] == 500, "the estimate")


def test_status_says_what_a_role_lacks_and_what_helps(ready):
    role = ready.new_role("joe")
    text = said("status", ready.url_of(role))
    assert f"  role     {role}: it lacks rights\n" in text and "its version cannot be read" in text
    assert "USAGE on schema weir, DELETE on weir.bucket, INSERT on weir.bucket, SELECT on weir.bucket" in text
    assert f"  weir store init URL --role '{role}'\n" in text
    with ready.connect() as connection:
        connection.execute("REVOKE EXECUTE ON FUNCTION weir.fits FROM PUBLIC")
        connection.execute(f"GRANT USAGE ON SCHEMA weir TO {role}; GRANT ALL ON ALL TABLES IN SCHEMA weir TO {role}")
    found = json.loads(said("status", ready.url_of(role), "--json"))
    assert found["lacking"] == "EXECUTE on weir.fits" and found["schema"] == 1


def test_status_says_which_settings_are_missing_where_no_session_makes_them(ready):
    text = said("status", ready.url + "&prepare=off")
    assert "With prepare=off a server needs lock_timeout=5ms, statement_timeout=500ms, enable_seqscan=off; " in text
    role = ready.new_role("app")
    said("init", ready.url, "--role", role)
    found = json.loads(said("status", ready.url_of(role) + "&prepare=off", "--json"))
    assert found["unset"] == "" and set(found["settings"].split(", ")) == SETTINGS


def test_status_says_what_a_crash_costs(ready):
    said("init", ready.url, "--unlogged")
    with ready.connect() as connection:
        assert connection.value("SELECT relpersistence FROM pg_class WHERE oid = 'weir.bucket'::regclass") == "u"
        connection.execute(f"ALTER DATABASE {ready.name} SET synchronous_commit = off")
    text = said("status", ready.url)
    assert "  table    unlogged: a crash of the database empties all buckets\n" in text
    assert "  commits  synchronous_commit=off: a crash may forget the takes of the last half a second\n" in text
    assert "  settings synchronous_commit=off\n" in text


# ---- a role of its own ----


def test_a_role_gets_what_a_server_needs_and_no_more(ready):
    role = ready.new_role('app')
    url = ready.url_of(role)
    assert "weir store init URL --role NAME" in subprocess.run(
        [weir_binary(), "take", "a", "5/h", "--store", url], capture_output=True, text=True).stderr
    assert said("init", ready.url, "--role", role) == "it is ready\n"
    with WeirServer("--store", url, "--threads", "1") as server:
        wait_until(lambda: server.command("WEIR.TAKE", "a", "5/h")[0] == 0, "a take")
    with ready.server.connect(ready.name) as connection:
        connection.execute(f"SET ROLE {role}")
        for forbidden in ("TRUNCATE weir.bucket", "UPDATE weir.upkeep SET version = 2", "DELETE FROM weir.upkeep",
                          "CREATE TABLE weir.other (i int)", "DROP TABLE weir.bucket",
                          "ALTER TABLE weir.bucket ADD COLUMN i int"):
            with pytest.raises(Exception, match="permission denied|must be owner"):
                connection.execute(forbidden)
        assert connection.value("SELECT weir.prune(10)") == 0
    assert "only the owner of weir.bucket may do that" in refused("reset", url, "--yes")
    assert "that is for the owner of the database, or of the schema of weir" in refused("init", url)


def test_the_name_of_a_role_may_be_any(ready):
    with ready.connect() as connection:
        connection.execute(f'CREATE ROLE "o\'h ""{ready.name}""; DROP" LOGIN')
    said("init", ready.url, "--role", f'o\'h "{ready.name}"; DROP')
    assert "has 1 to 63 bytes" in refused("init", ready.url, "--role", "x" * 64)
    assert "has 1 to 63 bytes" in refused("init", ready.url, "--role", "")


def test_a_role_that_cannot_be_given_its_settings_is_told_what_helps(ready):
    assert 'role "nosuch" does not exist' in refused("init", ready.url, "--role", "nosuch")
    owner, role = ready.new_role("owner"), ready.new_role("app")
    with ready.connect() as connection:
        connection.execute(f"GRANT CREATE ON DATABASE {ready.name} TO {owner}; DROP SCHEMA weir CASCADE")
    sentence = refused("init", ready.url_of(owner), "--role", role)
    assert "the schema is ready, and role" in sentence and f"weir store init --role '{role}' --print" in sentence
    assert "a server lacks" in said("status", ready.url_of(role)).lower()  # all of it or nothing
    script = said("init", "--print", "--role", role)
    with ready.connect() as connection:
        connection.execute(script)
    assert json.loads(said("status", ready.url_of(role), "--json"))["lacking"] == ""


def test_the_printed_sql_is_what_init_runs(database):
    role = database.new_role("app")
    with database.connect() as connection:
        connection.execute(said("init", "--print", "--unlogged", "--role", role))
    found = json.loads(said("status", database.url_of(role), "--json"))
    assert (found["schema"], found["lacking"], found["unlogged"]) == (1, "", True)
    assert set(found["settings"].split(", ")) == SETTINGS


# ---- versions ----


def test_migrate_brings_an_older_schema_up_to_date(ready):
    with ready.connect() as connection:
        fill(connection, 3, ns=5)
        connection.execute("UPDATE weir.upkeep SET version = 0")
        connection.execute("DROP FUNCTION weir.prune")
        assert f"this brings it up to date: weir store migrate '{ready.url}'" in refused("init", ready.url)
        assert f"\n  weir store migrate '{ready.url}'\n" in said("status", ready.url)
        assert said("migrate", ready.url) == "the schema had version 0, and has version 1 now\n"
        assert connection.value("SELECT version FROM weir.upkeep") == 1
        assert connection.value("SELECT count(*) FROM weir.bucket WHERE ns = 5") == 3
        assert connection.value("SELECT to_regproc('weir.prune') IS NOT NULL")
    assert said("migrate", ready.url) == "the schema has version 1 already, which this weir needs\n"
    assert said("migrate", "--store", ready.url, "--json") == '{"from":1,"to":1}\n'


def test_migrate_is_all_or_nothing_and_one_at_a_time(ready):
    with ready.connect() as connection:
        connection.execute("UPDATE weir.upkeep SET version = 0")
        connection.execute("DROP FUNCTION weir.now_ns(bigint)")
        connection.execute("CREATE FUNCTION weir.now_ns(reading bigint) RETURNS text LANGUAGE sql AS 'SELECT 1::text'")
        assert "cannot change return type" in refused("migrate", ready.url)  # behind the last step
        assert connection.value("SELECT version FROM weir.upkeep") == 0
        connection.execute("DROP FUNCTION weir.now_ns(bigint) CASCADE")
        connection.execute("SELECT pg_advisory_lock(2003134834)")  # as another one that is at it
        running = [subprocess.Popen([weir_binary(), "store", "migrate", ready.url], stdout=subprocess.PIPE, text=True)
                   for _ in range(2)]
        wait_until(lambda: connection.value("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"
                                            " AND NOT granted") == 2, "both to wait")
        connection.execute("SELECT pg_advisory_unlock(2003134834)")
        assert sorted(process.communicate(timeout=DEADLINE_S)[0] for process in running) == [
            "the schema had version 0, and has version 1 now\n",
            "the schema has version 1 already, which this weir needs\n"]


def test_a_newer_schema_says_which_weir_it_needs(ready):
    with ready.connect() as connection:
        comment = connection.value("SELECT obj_description('weir'::regnamespace, 'pg_namespace')")
        assert re.fullmatch(r"version 1: weir \d+\.\d+\.\d+ or newer", comment)
        connection.execute("UPDATE weir.upkeep SET version = 9")
        connection.execute("COMMENT ON SCHEMA weir IS 'version 9: weir 4.5.6 or newer'")
        for command in ("init", "migrate"):
            assert "version 9, and this weir knows 1: it needs weir 4.5.6 or newer" in refused(command, ready.url)
        assert "too new for this weir" in said("status", ready.url)
        connection.execute("COMMENT ON SCHEMA weir IS 'whatever'")
        assert "it needs a newer weir" in refused("migrate", ready.url)
        connection.execute("DELETE FROM weir.upkeep")
        assert "INSERT INTO weir.upkeep (version) VALUES (1)" in refused("migrate", ready.url)


def test_what_is_not_there_is_told_with_the_command_that_makes_it(database):
    for command in (["status"], ["migrate"], ["prune"], ["reset", "--yes"]):
        assert f"this makes it: weir store init '{database.url}'" in refused(*command, database.url)
    with database.connect() as connection:
        connection.execute("CREATE SCHEMA weir; CREATE TABLE weir.upkeep (i int)")
    for command in ("init", "migrate"):
        assert "the schema named weir there is somebody else's" in refused(command, database.url)


def test_what_cannot_be_reached_is_told_with_what_helps(database):
    for command in (["status"], ["init"], ["migrate"], ["prune"], ["reset", "--yes"]):
        assert "CREATE DATABASE makes it" in refused(*command, database.server.url("nosuch"))
        assert "CREATE ROLE makes one" in refused(*command, database.url_of("nobody"))
        assert "No such file" in refused(*command, "postgres://weir@/x?host=/nowhere")
        assert "is postgres://USER@HOST:PORT" in refused(*command, "postgres://a/b@c", code=2)
        assert "invalid URI query parameter" in refused(*command, database.url + "&nosuch=1")


# ---- pruning ----


def looks(connection):
    """The session and the instant of each last statement that is pruning's."""
    return {(pid, start) for pid, start in connection.execute(
        "SELECT pid, query_start FROM pg_stat_activity WHERE datname = current_database() AND query LIKE '%prune_from(%'"
        " AND pid <> pg_backend_pid()")}


def test_a_server_prunes_by_itself(ready):
    with ready.connect() as connection:
        fill(connection, 5000)
        fill_late = "INSERT INTO weir.bucket VALUES (gen_random_uuid(), weir.now_ns(NULL) - 30000000000, 0, 0)"
        connection.execute(fill_late)
        pages = connection.value("SELECT pg_relation_size('weir.bucket') / 8192")
        assert pages > 3 * 16  # more than one statement
        with WeirServer("--store", ready.url + "&deadline=1000ms", "--threads", "2") as server:
            wait_until(lambda: connection.value("SELECT count(*) FROM weir.bucket WHERE ns = 0") == 0, "it to prune")
            wait_until(lambda: connection.value("SELECT next_page FROM weir.upkeep") == 0, "the end of the round")
            assert connection.value("SELECT count(*) FROM weir.bucket") == 1  # not for a minute yet
            assert server.command("WEIR.TAKE", "a", "5/h")[0] == 0
            sessions = connection.value("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'weir'")
            assert sessions <= 2 * 2
            assert "store_down" not in server.log


def test_a_server_prunes_over_a_connection_that_takes_do_not_need(ready):
    """A statement of pruning that hangs: takes go on over the other connection."""
    with ready.connect() as connection:
        connection.execute("CREATE OR REPLACE FUNCTION weir.prune(pages integer, reading bigint DEFAULT NULL)"
                           " RETURNS bigint LANGUAGE sql AS 'SELECT pg_sleep(10); SELECT 0::bigint'")
        hanging = ("SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%%prune_from(%%' AND state = 'active'"
                   " AND pid <> pg_backend_pid() AND datname = current_database()")
        with WeirServer("--store", ready.url + "&deadline=1000ms", "--threads", "1") as server:
            wait_until(lambda: connection.value(hanging) == 1, "pruning")
            taken = 0
            while connection.value(hanging) == 1:  # statement_timeout ends it
                taken += server.command("WEIR.TAKE", f"a{taken}", "9/s")[0] == 0
            assert taken > 0
            assert "store_down" not in server.log


def test_a_server_leaves_pruning_to_another_that_is_at_it(ready):
    with ready.connect() as connection:
        fill(connection, 100)
        seen = set()

        def has_looked_twice():
            connection.execute("UPDATE weir.upkeep SET next_page = next_page % 1000 + 1")
            seen.update(looks(connection))
            return len(seen) >= 2

        with WeirServer("--store", ready.url, "--threads", "1"):
            wait_until(has_looked_twice, "two looks")
            assert connection.value("SELECT count(*) FROM weir.bucket") == 100


def test_a_server_does_not_prune_by_a_clock_that_decides_nothing(ready):
    """The buckets of a test's clock are of another time. It would look before the other one looks twice."""
    with ready.connect() as connection, WeirServer("--store", ready.url, "--threads", "1", "--test-clock") as other:
        wait_until(lambda: other.command("WEIR.TAKE", "a", "5/h")[0] == 0, "a take")
        with WeirServer("--store", ready.url, "--threads", "1"):
            seen = set()
            wait_until(lambda: (seen.update(looks(connection)), len(seen) >= 2)[1], "two looks of the other one")
            assert len({pid for pid, _ in seen}) == 1


def test_pruning_that_fails_keeps_nobody_from_taking(ready):
    with ready.connect() as connection:
        connection.execute("CREATE OR REPLACE FUNCTION weir.prune(pages integer, reading bigint DEFAULT NULL)"
                           " RETURNS bigint LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''broken''; END'")
        with WeirServer("--store", ready.url + "&deadline=1000ms", "--threads", "1") as server:
            seen = set()
            wait_until(lambda: (seen.update(looks(connection)), len(seen) >= 2)[1], "two statements")
            pids = connection.execute("SELECT pid FROM pg_stat_activity WHERE application_name = 'weir' ORDER BY pid")
            wait_until(lambda: server.command("WEIR.TAKE", "a", "9/s")[0] == 0, "a take")
            assert connection.execute(
                "SELECT pid FROM pg_stat_activity WHERE application_name = 'weir' ORDER BY pid") == pids
            assert "store_down" not in server.log


def test_prune_looks_at_the_whole_table_once(ready):
    assert said("prune", ready.url) == "deleted 0 buckets that had been empty for a minute\n"  # no page at all
    with ready.connect() as connection:
        fill(connection, 3000)
        connection.execute("INSERT INTO weir.bucket VALUES (gen_random_uuid(), %s, 0, 0)", 2**62)
        connection.execute("UPDATE weir.upkeep SET next_page = 20")  # where servers are
        assert said("prune", ready.url) == "deleted 3000 buckets that had been empty for a minute\n"
        assert connection.value("SELECT count(*) FROM weir.bucket") == 1
        fill(connection, 10)
        assert json.loads(said("prune", "--json", "--store", ready.url)) == {"pruned": 10, "whole": True}
        connection.execute("TRUNCATE weir.bucket")
        fill(connection, 10)  # a page
        assert said("prune", ready.url) == "deleted 10 buckets that had been empty for a minute\n"


def test_prune_shows_how_far_it_is_and_ends_behind_its_pages(ready):
    with ready.connect() as connection, ready.connect() as observer:
        fill(connection, 5000)
        terminal = Terminal("store", "prune", ready.url)
        text = terminal.read_all()
        assert "pruning  " in text and "deleted 5000 buckets" in text and terminal.process.returncode == 0
        fill(connection, 5000)
        connection.execute("BEGIN; SELECT 1 FROM weir.upkeep FOR UPDATE")  # as another one that prunes
        process = subprocess.Popen([weir_binary(), "store", "prune", ready.url], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        wait_until(lambda: looks(observer), "its first statement")
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=DEADLINE_S) == (
            "stopped after 0 % of the table: deleted 0 buckets that had been empty for a minute\n", "")
        assert process.returncode == 3
        connection.execute("ROLLBACK")


# ---- reset ----


def test_reset_forgets_all_buckets(ready):
    url = ready.url + "&deadline=1000ms"  # behind a TRUNCATE all statements are planned anew
    with ready.connect() as connection, WeirServer("--store", url, "--threads", "1") as server:
        def is_full():
            return [server.command("WEIR.TAKE", "a", "1/h")[0] for _ in range(2)][1] == 1

        wait_until(is_full, "a full bucket")
        connection.execute("UPDATE weir.upkeep SET next_page = 7")
        assert "needs --yes" in refused("reset", ready.url, code=2)
        assert said("reset", ready.url, "--yes") == "all buckets are forgotten\n"
        assert connection.execute("SELECT count(*), (SELECT next_page FROM weir.upkeep) FROM weir.bucket") == [(0, 0)]
        wait_until(lambda: server.command("WEIR.TAKE", "b", "1/h")[0] == 0, "a take")
    assert json.loads(said("reset", "--yes", "--json", "--store", ready.url)) == {"forgotten": True}


@pytest.mark.parametrize("answer, code", [("y\n", 0), ("yes\n", 0), ("n\n", 3), ("\n", 3), ("yellow\n", 3)])
def test_reset_asks_at_a_terminal(ready, answer, code):
    with ready.connect() as connection:
        fill(connection, 5)
        terminal = Terminal("store", "reset", ready.url)
        terminal.read_until(b"[y/N] ")
        os.write(terminal.ours, answer.encode())
        text = terminal.read_all()
        assert terminal.process.returncode == code, text
        assert connection.value("SELECT count(*) FROM weir.bucket") == (0 if code == 0 else 5)
        assert ("all buckets are forgotten" if code == 0 else "nothing was forgotten") in text


def test_reset_waits_for_the_table_only_for_moments(ready):
    with ready.connect() as holder, ready.connect() as taker:
        fill(holder, 5)
        holder.execute("BEGIN")
        holder.execute("SET application_name = 'report'; SELECT count(*) FROM weir.bucket")
        taker.execute("SET lock_timeout = '1s'")  # far more than a moment
        process = subprocess.Popen([weir_binary(), "store", "reset", ready.url, "--yes"], stderr=subprocess.PIPE, text=True)
        wait_until(lambda: taker.value("SELECT count(*) FROM pg_locks WHERE mode = 'AccessExclusiveLock'"
                                       " AND relation IS NOT NULL") > 0, "it to ask for the lock")
        assert taker.value("SELECT count(*) FROM weir.bucket") == 5
        _, sentence = process.communicate(timeout=DEADLINE_S)
        assert process.returncode == 3
        assert f"nothing was forgotten: process {holder.pid} of weir (report), since " in sentence
        assert taker.value("SELECT count(*) FROM weir.bucket") == 5


# ---- the command line ----


def test_options_are_of_their_actions(ready, tmp_path):
    for action, option, of in (("status", "--yes", "reset"), ("status", "--unlogged", "init"),
                               ("reset", "--role=x", "init"), ("migrate", "--print", "init"),
                               ("migrate", "--force", "reset")):
        assert f"{option.split('=')[0]} is an option of {of}" in refused(action, option, ready.url, code=2)
    assert subprocess.run([weir_binary(), "take", "a", "1/h", "--store", f"file:{tmp_path}/b"]).returncode == 0
    assert "migrate is for a database" in refused("migrate", f"file:{tmp_path}/b", code=2)
    assert said("status", f"file:{tmp_path}/b").startswith(f"file:{tmp_path}/b\n")
    assert said("reset", f"file:{tmp_path}/b") == "emptied 1 buckets\n"


# ---- the page ----


@pytest.mark.once
def test_the_commands_of_the_page_work_in_their_order(postgres, database):
    """All `weir store` lines of its ```sh blocks, and the lines that status prints."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "postgres.md").read_text()
    role, commands = database.new_role("page"), []
    for block in re.findall(r"^```(?:sh|console)\n(.*?)^```", page, re.M | re.S):
        commands += re.findall(r"^(?:\$ )?(weir store .*)$", block, re.M)
    assert len(commands) >= 7
    for command in commands:
        for url in re.findall(r"postgres://\w+@db\.example/limits", command):
            own = database.url_of(role) if "weir@" in url and commands[0] != command else database.url
            command = command.replace(url + "?", own + "&").replace(f" {url}", f" '{own}'").replace(url, own)
        command = command.replace("--role weir", f"--role {role}").replace("| psql limits", "> /dev/null")
        done = subprocess.run(["bash", "-ec", re.sub("^weir", weir_binary(), command)], capture_output=True, text=True,
                              env=clean_environment())
        assert (done.returncode, done.stderr) == (0, ""), (command, done)
    shown = re.search(r"^\$ weir store status .*?\n(.*?)^```", page, re.M | re.S).group(1)
    lines = [re.findall(r"^  (\w+) ", text, re.M) for text in (shown, said("status", database.url))]
    assert lines[0] == lines[1] and len(lines[0]) == 11
