"""A PostgreSQL server for tests, in a temporary folder and behind a unix socket.

    def test_something(postgres):                     # tests/conftest.py: one server for a session
        database = postgres.new_database()            # empty
        with postgres.connect(database) as connection:
            connection.execute("SELECT 1")
        subprocess.run([weir, "serve", "--store", postgres.url(database)])

    with PostgresServer("shared_buffers=1GB") as server:   # one of your own, to be stopped and killed
        ...

PostgreSQL refuses to run as root: root starts it as the user postgres, or as nobody. It ends with the process that
started it, however that ends.
"""

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

from weirserver import DEADLINE_S, wait_until

SETTINGS = (
    "listen_addresses=",
    "max_connections=100",
    "shared_buffers=64MB",
    "fsync=off",  # nothing of it has to outlive the machine
    "autovacuum=off",  # figures of a test are its own
    "wal_level=minimal",  # nothing is written while nobody asks
    "max_wal_senders=0",
    "checkpoint_timeout=1d",
    "log_min_messages=fatal",
)


def programs():
    """The folder of initdb and postgres, of the newest version that is installed; None: of none."""
    folders = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/postgres")]
    if folders:
        return max(folders, key=lambda folder: int(folder.parent.name))
    found = shutil.which("postgres")
    return Path(found).resolve().parent if found else None


def other_user():
    """Whom the server runs as: None for the user of the tests."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            pass
    raise RuntimeError("neither a user postgres nor a user nobody: as whom should PostgreSQL run?")


class Connection:
    """A connection whose statements are transactions of their own, unless it says BEGIN. Single owner."""

    def __init__(self, **options):
        import psycopg2  # tests/bench starts servers, too, and has no client in Python

        self.raw = psycopg2.connect(**options)
        self.raw.autocommit = True
        self.cursor = self.raw.cursor()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def close(self):
        self.raw.close()

    @property
    def pid(self):
        """The process in the server that serves it."""
        return self.raw.info.backend_pid

    def execute(self, statement, *values):
        """The rows of the answer; [] of what has none."""
        self.cursor.execute(statement, values or None)
        return self.cursor.fetchall() if self.cursor.description else []

    def value(self, statement, *values):
        """The only column of the only row."""
        [[value]] = self.execute(statement, *values)
        return value


class PostgresServer:
    """A server, from start() or the beginning of a with block to its end. `settings` are "name=value"."""

    def __init__(self, *settings):
        self.settings = SETTINGS + settings
        self.programs = programs()
        self.user = other_user()
        self.folder = None
        self.process = None
        self.databases = 0

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *exception):
        self.close()

    def _command(self, program, *arguments):
        """setpriv changes the user, and has the kernel end the server behind its parent."""
        line = ["setpriv", "--pdeathsig", "INT"]
        if self.user is not None:
            line += [f"--reuid={self.user.pw_uid}", f"--regid={self.user.pw_gid}", "--clear-groups"]
        return [*line, str(self.programs / program), *arguments]

    def start(self):
        """Starts it, or starts it again where it was. Returns when it answers."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
        if self.folder is None:
            self.folder = Path(tempfile.mkdtemp(prefix="weir-pg-", dir="/tmp"))  # a socket's path is short
            if self.user is not None:
                os.chown(self.folder, self.user.pw_uid, self.user.pw_gid)
            made = subprocess.run(
                self._command("initdb", "-D", str(self.folder / "data"), "-U", "weir", "--auth=trust",
                              "--encoding=UTF8", "--locale=C", "--no-sync"),
                capture_output=True, text=True, env=environment, cwd=self.folder,
            )
            if made.returncode != 0:
                raise RuntimeError(f"initdb: {made.stderr}")
        return self._run(environment)

    def standby(self, *settings):
        """A copy that follows this server, which has wal_level=replica and max_wal_senders. Not started."""
        copy = PostgresServer(*settings)
        copy.folder = Path(tempfile.mkdtemp(prefix="weir-pg-", dir="/tmp"))
        if copy.user is not None:
            os.chown(copy.folder, copy.user.pw_uid, copy.user.pw_gid)
        subprocess.run(
            self._command("pg_basebackup", "-D", str(copy.folder / "data"), "-h", str(self.folder), "-U", "weir", "-R",
                          "--checkpoint=fast", "--no-sync"),
            check=True, capture_output=True, cwd=copy.folder,
        )
        return copy

    def _run(self, environment):
        options = [word for setting in (*self.settings, f"unix_socket_directories={self.folder}")
                   for word in ("-c", setting)]
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(
                self._command("postgres", "-D", str(self.folder / "data"), *options),
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, cwd=self.folder,
            )
        wait_until(lambda: self._answers() or self.process.poll() is not None, "PostgreSQL")
        if self.process.poll() is not None:
            raise RuntimeError(f"postgres exited {self.process.returncode}:\n{self.log}")
        return self

    def _answers(self):
        ready = subprocess.run([str(self.programs / "pg_isready"), "-q", "-h", str(self.folder), "-d", "postgres"])
        return ready.returncode == 0

    @property
    def log(self):
        return (self.folder / "log").read_text(errors="replace")

    def url(self, database):
        """For weir, and for psql."""
        return f"postgres://weir@/{database}?host={self.folder}"

    def connect(self, database, **options):
        """A new connection; the options are those of libpq."""
        return Connection(host=str(self.folder), user="weir", dbname=database, **options)

    def new_database(self):
        """Makes an empty database, and returns its name."""
        self.databases += 1
        name = f"test_{self.databases}"
        with self.connect("postgres") as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return name

    def stop(self, number=signal.SIGINT):
        """Ends it, as a fast shutdown; SIGKILL: as a crash of all its processes. start() starts it again."""
        if self.process.poll() is None:
            children = self._signal_all(number) if number == signal.SIGKILL else []
            self.process.send_signal(number)
            wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in children), "its processes to end")
        try:
            self.process.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise

    def _signal_all(self, number):
        """Returns the children."""
        parent = self.process.pid
        os.kill(parent, signal.SIGSTOP)  # first: while it is stopped it makes no more
        children = [int(pid) for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]
        for pid in [*children, parent]:
            with contextlib.suppress(ProcessLookupError):  # one that has just ended
                os.kill(pid, number)
        return children

    @contextlib.contextmanager
    def stands_still(self):
        """As a machine that is stopped: no process of it runs."""
        self._signal_all(signal.SIGSTOP)
        try:
            yield
        finally:
            self._signal_all(signal.SIGCONT)

    def close(self):
        """Ends it for good: its folder goes."""
        if self.process is not None:
            self.stop()
        if self.folder is not None:
            shutil.rmtree(self.folder)
            self.folder = None
