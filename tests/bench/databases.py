# SPDX-License-Identifier: MIT
"""Rows 20-23: what decisions cost a PostgreSQL, beside a bare UPDATE, SELECT 1, and the upsert of an article.

Throughput of a server of its own that shares the machine with its clients, which are one thread (postgres.c). With
commit on each statement waits for the disk; with commit off the processors are the limit."""

import contextlib
import os
import struct
import subprocess
import sys

from machine import PROGRAMS, ROOT, Missing, Program, progress

KEYS = 50000
SETTINGS = ("fsync=on", "shared_buffers=1GB", "max_wal_size=8GB", "max_connections=300", "autovacuum=on",
            "wal_level=replica")

SETUP = """
CREATE SCHEMA bench;
CREATE TABLE bench.bare (name uuid PRIMARY KEY, n bigint NOT NULL) WITH (fillfactor = 50);
CREATE TABLE bench.leaky (name uuid PRIMARY KEY, level double precision NOT NULL, touched_at timestamptz NOT NULL,
                          delete_after timestamptz NOT NULL);
CREATE INDEX ON bench.leaky (delete_after);
"""

# What the program runs, by how many connections, over how many keys.
PARTS = {"update": ("update", 8, KEYS), "take": ("take", 8, KEYS), "many": ("many", 2, KEYS),
         "select": ("select", 8, KEYS), "refused": ("refused", 8, KEYS), "many_refused": ("many_refused", 2, KEYS),
         "article": ("article", 32, 1), "fold": ("fold", 2, 1)}


def name_of(index):
    """As name_key() of postgres.c."""
    return struct.pack("<QQ", (index + 1) * 0x9E3779B97F4A7C15 % 2**64, index).hex()


def run_sql(server, text):
    done = subprocess.run([str(server.programs / "psql"), "-qAtX", "-v", "ON_ERROR_STOP=1", "-h", str(server.folder),
                           "-U", "weir", "postgres"], input=text, capture_output=True, text=True, check=False,
                          env={**os.environ, "PGOPTIONS": "-c client_min_messages=warning"})
    if done.returncode != 0:
        raise Missing(f"psql: {done.stderr.strip()}")
    return done.stdout.strip()


def fill(server):
    """Every key once, in a table that has no dead rows."""
    names = ",".join(name_of(index) for index in range(KEYS))
    for table, values in (("bench.bare", "n::uuid, 0"), ("weir.bucket", "n::uuid, 0, 0, 0")):
        run_sql(server, f"INSERT INTO {table} SELECT {values} FROM unnest('{{{names}}}'::text[]) AS n")
    run_sql(server, "VACUUM ANALYZE")


def start_server(stack):
    sys.path.insert(0, str(ROOT / "tests" / "support"))
    from postgres import PostgresServer, programs
    if programs() is None:
        raise Missing("postgresql is not installed (Debian: postgresql)")
    server = stack.enter_context(PostgresServer(*SETTINGS))
    run_sql(server, (ROOT / "src" / "store" / "postgres" / "schema.sql").read_text() + SETUP)
    fill(server)
    return server


def measure(report, server, commit):
    conninfo = f"host={server.folder} user=weir dbname=postgres options='-c synchronous_commit={commit}'"
    samples = []
    with contextlib.ExitStack() as stack:
        programs = {name: stack.enter_context(Program(PROGRAMS / "bench_postgres", conninfo, *part))
                    for name, part in PARTS.items()}
        for number in range(report.rounds + 1):
            progress(f"PostgreSQL, commit {commit}, round {number} of {report.rounds}")
            samples.append({name: program.round(str(report.seconds))["rate"] / 1000
                            for name, program in programs.items()})
    return samples[1:]  # the first one plans, and makes the rows


def add_rows(report, commit, samples):
    def pair(row, name, ours, theirs, peer, bar, aim):
        report.pair(row, f"{name}, commit {commit}", "k/s", samples, ours, theirs, peer, bar, aim, at_least=True)

    is_on = commit == "on"
    pair(20, "a take", "take", "update", "bare UPDATE", *((0.75, 0.92) if is_on else (0.6, 0.8)))
    pair(21, "takes of 64", "many", "update", "bare UPDATE", *((6, 14) if is_on else (3, 6)))
    if is_on:
        pair(23, "one hot key, folded by 64", "fold", "article", "an upsert, 32 clients", 50, 100)
    else:
        pair(22, "a refusal", "refused", "select", "SELECT 1", 0.75, 0.87)
        pair(22, "refusals of 64", "many_refused", "select", "SELECT 1", 4, 6)


def add_hot(report, server):
    updates, hot = (int(word) for word in run_sql(
        server, "SELECT pg_stat_force_next_flush(); SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables"
                " WHERE relid = 'weir.bucket'::regclass").split("\n")[-1].split("|"))
    report.add(20, "updates that touch no index", hot / updates * 100, "%", "all", 100.0, 0.99, at_least=True)


def rows(report):
    with contextlib.ExitStack() as stack:
        try:
            server = start_server(stack)
            for commit in ("off", "on"):
                add_rows(report, commit, measure(report, server, commit))
            add_hot(report, server)
        except Missing as why:
            report.missing(20, "PostgreSQL", why)
