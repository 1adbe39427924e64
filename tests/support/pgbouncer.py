"""A pgbouncer in front of a server of tests (postgres.py), behind a unix socket in the server's folder.

    with Pgbouncer(postgres) as pooler:               # pool_mode=transaction
        subprocess.run([weir, "serve", "--store", pooler.url(database) + "&prepare=off"])

Three connections to the database for each user and database, however many clients there are: so a session of a client is
now this one, now that one.
"""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from weirserver import DEADLINE_S, wait_until

PORT = 6432  # a part of the socket's name


def program():
    """None: it is not installed."""
    return shutil.which("pgbouncer", path=os.environ.get("PATH", "") + ":/usr/sbin")


class Pgbouncer:
    """From the beginning of a with block to its end. `roles` may connect; `settings` are "name = value" of its file."""

    def __init__(self, server, *settings, roles=("weir",)):
        self.server = server
        self.roles = roles
        self.settings = settings
        self.folder = None
        self.process = None

    def __enter__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="weir-pgb-", dir="/tmp"))
        (self.folder / "users").write_text("".join(f'"{role}" ""\n' for role in self.roles))
        (self.folder / "ini").write_text("\n".join([
            "[databases]", f"* = host={self.server.folder}", "[pgbouncer]", "listen_addr =", f"listen_port = {PORT}",
            f"unix_socket_dir = {self.folder}", "auth_type = trust",
            f"auth_file = {self.folder}/users", "pool_mode = transaction", "default_pool_size = 3", "min_pool_size = 3",
            "server_round_robin = 1", *self.settings, ""]))
        line = ["setpriv", "--pdeathsig", "INT"]
        if self.server.user is not None:  # it refuses to run as root, too
            for path in (self.folder, *self.folder.iterdir()):
                os.chown(path, self.server.user.pw_uid, self.server.user.pw_gid)
            line += [f"--reuid={self.server.user.pw_uid}", f"--regid={self.server.user.pw_gid}", "--clear-groups"]
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen([*line, program(), str(self.folder / "ini")], stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log, cwd=self.folder)
        try:
            wait_until(lambda: (self.folder / f".s.PGSQL.{PORT}").exists() or self.process.poll() is not None, "pgbouncer")
            if self.process.poll() is not None:
                raise RuntimeError(f"pgbouncer exited {self.process.returncode}:\n{self.log}")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exception):
        if self.process is not None:
            self.process.terminate()
            self.process.wait(DEADLINE_S)
        shutil.rmtree(self.folder)

    @property
    def log(self):
        return (self.folder / "log").read_text(errors="replace")

    def url(self, database, role="weir"):
        return f"postgres://{role}@/{database}?host={self.folder}&port={PORT}"
