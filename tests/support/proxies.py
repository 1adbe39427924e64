"""curl, and the proxies that ask weir: the real programs, on free ports or sockets of a folder.

    nginx = Nginx(tmp_path / "nginx", server.http_port, snippet_of_the_server_block)
    status, headers, body = nginx.get("-H", "X-Api-Key: alice")
    nginx.stop()
"""

import getpass
import shutil
import subprocess
import time

from ports import free_port, is_listening

DEADLINE_S = 20


def find_program(name):
    return shutil.which(name, path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin")


def run_curl(*words, **options):
    """Returns what curl printed; -i makes that the whole answer."""
    ran = subprocess.run(
        ["curl", "-sS", *words], capture_output=True, text=True, timeout=DEADLINE_S * 2,
        check=False, **options,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def read_answer(text):
    """(status, headers in lower case, body) of what curl -i printed."""
    head, _, body = text.partition("\n\n")  # text mode has made \n of \r\n
    status_line, *fields = head.splitlines()
    headers = dict(field.split(": ", 1) for field in fields)
    return int(status_line.split()[1]), {k.lower(): v for k, v in headers.items()}, body


NGINX_CONFIG = """
user {user};
worker_processes 1;
daemon off;
pid {folder}/nginx.pid;
error_log stderr;
events {{ worker_connections 64; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    upstream weir {{
        server 127.0.0.1:{weir_port};
        keepalive 16;
    }}
    upstream app {{
        server unix:{folder}/app.sock;
    }}
    server {{
        listen unix:{folder}/app.sock;
        return 200 "hello\\n";
    }}
    server {{
        listen unix:{folder}/front.sock;
{snippet}
    }}
}}
"""


class Proxy:
    """A program that listens: at a unix socket of this path, or at this port of loopback."""

    def __init__(self, folder, words, path=None, port=None, **options):
        self.folder = folder
        self.front = ["--unix-socket", str(path)] if path else ["--connect-to", f"::127.0.0.1:{port}"]
        self.log = open(folder / "program.log", "a+")
        self.program = subprocess.Popen(words, stdout=self.log, stderr=self.log, **options)
        deadline = time.monotonic() + DEADLINE_S
        while not is_listening(str(path) if path else ("127.0.0.1", port)):
            assert self.program.poll() is None, (folder / "program.log").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def get(self, *words, path="/"):
        return read_answer(
            run_curl("-i", *self.front, "--path-as-is", *words, f"http://front{path}")
        )

    def stop(self):
        self.program.terminate()
        self.program.wait(timeout=DEADLINE_S)
        self.log.close()


class Nginx(Proxy):
    """`snippet` stands in a server block that listens at `front.sock`, and `app` says hello."""

    def __init__(self, folder, weir_port, snippet):
        folder.mkdir()
        config = folder / "nginx.conf"
        config.write_text(
            NGINX_CONFIG.format(
                user=getpass.getuser(), folder=folder, weir_port=weir_port, snippet=snippet
            )
        )
        words = [find_program("nginx"), "-p", str(folder), "-e", "stderr", "-c", str(config)]
        super().__init__(folder, words, path=folder / "front.sock")


HAPROXY_CONFIG = """
defaults
    mode http
    timeout connect 5s
    timeout client 20s
    timeout server 20s
backend app
    http-request return status 200 content-type text/plain string "hello\\n"
backend weir
    server weir 127.0.0.1:{weir_port}
{snippet}
    bind 127.0.0.1:{port}
    default_backend {backend}
"""


class HAProxy(Proxy):
    """`snippet` ends with the section `frontend web`; behind it is `backend`: app, or weir itself."""

    def __init__(self, folder, weir_port, snippet, backend="app"):
        folder.mkdir()
        port = free_port()
        config = folder / "haproxy.cfg"
        config.write_text(
            HAPROXY_CONFIG.format(weir_port=weir_port, snippet=snippet, port=port, backend=backend)
        )
        words = [find_program("haproxy"), "-db", "-f", str(config)]
        super().__init__(folder, words, port=port)


class Caddy(Proxy):
    """`snippet` is all of a Caddyfile but its first line; it says `{port}` where it listens."""

    def __init__(self, folder, snippet):
        folder.mkdir()
        port = free_port()
        config = folder / "Caddyfile"
        config.write_text("{\n    admin off\n    auto_https off\n}\n" + snippet.replace("{port}", str(port)))
        words = [find_program("caddy"), "run", "--adapter", "caddyfile", "--config", str(config)]
        homes = {"HOME": str(folder), "XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
        super().__init__(folder, words, port=port, env=homes)
