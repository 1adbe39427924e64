"""What all tests share.

Whoever starts the tests in the background (`make test &` in a script, nohup) has them ignore Ctrl-C, and so
all programs that they start: here it counts again."""

import signal

import pytest

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def postgres():
    """A PostgreSQL server that all tests of this session share, and leave running: support/postgres.py."""
    from postgres import PostgresServer, programs

    if programs() is None:
        pytest.skip("postgresql is not installed")
    with PostgresServer() as server:
        yield server
