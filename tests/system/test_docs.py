"""What the documents say is true: their commands run and answer as printed (on the test clock),
their links lead somewhere, and the examples in other languages work."""

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import threading
import time
import urllib.error
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from weirserver import WeirServer, weir_binary

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", "examples/**/*.md", "src/**/*.md")
    for path in ROOT.glob(pattern)
)


def read_sessions(path):
    """Yields (command, expected output) of every ```console block."""
    for block in re.findall(r"^```console\n(.*?)^```", path.read_text(), re.M | re.S):
        for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
            command, _, output = part.partition("\n")
            yield command, output


@pytest.fixture
def run():
    with WeirServer("--test-clock") as server:
        places = {
            "build/release/weir": str(server.binary),
            "127.0.0.1:6390": f"127.0.0.1:{server.resp_port}",
            "127.0.0.1:8390": f"127.0.0.1:{server.http_port}",
            "redis-cli -p 6390": f"redis-cli --no-raw -p {server.resp_port}",
        }
        environment = {**os.environ, "WEIR_SERVER": f"127.0.0.1:{server.resp_port}", "TERM": "dumb"}

        def run_command(command):
            for said, meant in places.items():
                command = command.replace(said, meant)
            ran = subprocess.run(
                ["bash", "-c", command], cwd=ROOT, env=environment, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, text=True, timeout=30, check=False,
            )
            return ran.stdout

        yield run_command


def test_five_minutes_of_the_readme(run):
    sessions = list(read_sessions(ROOT / "README.md"))
    assert len(sessions) >= 8
    said = [(command, run(command)) for command, _ in sessions]
    assert said == sessions


@pytest.mark.once
@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path):
    targets = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", path.read_text())
    gone = [
        target for target in targets
        if "://" not in target and not (path.parent / target).exists()
    ]
    assert not gone, gone


@pytest.mark.once
def test_the_vectors_that_a_page_names_exist():
    vectors = (ROOT / "tests/conformance/contradictions.vec").read_text()
    page = (ROOT / "docs/what-the-articles-get-wrong.md").read_text()
    rows = set(re.findall(r"\brow (\d+)", page))
    assert len(rows) > 12
    assert not {row for row in rows if f"case row {row}:" not in vectors}


@pytest.mark.once
def test_every_page_is_in_the_index():
    index = (ROOT / "docs/README.md").read_text()
    pages = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    assert not {page for page in pages - {"README.md"} if f"({page})" not in index}


# ---- The pages with a task ----

PAGES_WITH_A_TASK = ["somebody-elses-limit.md", "smooth-what-you-send.md", "several-limits.md", "lock-out.md"]


@pytest.mark.once
@pytest.mark.parametrize("page", PAGES_WITH_A_TASK)
def test_sessions_of_the_pages_with_a_task(page, tmp_path):
    (tmp_path / "weir").symlink_to(weir_binary())
    sessions = list(read_sessions(ROOT / "docs" / page))
    assert len(sessions) >= 3
    with WeirServer("--test-clock") as server:
        environment = {
            **os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "TERM": "dumb",
            "WEIR_SERVER": f"127.0.0.1:{server.resp_port}",
        }
        for command, output in sessions:
            ran = subprocess.run(
                ["bash", "-c", command], cwd=ROOT, env=environment, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, text=True, timeout=30, check=False,
            )
            assert ran.stdout == output, command


def python_at(page, port):
    """Runs the page's Python, and returns what it defines."""
    text = (ROOT / "docs" / page).read_text()
    scope = {}
    for code in re.findall(r"^```python\n(.*?)^```", text, re.M | re.S):
        exec(code.replace("port=6390", f"port={port}"), scope)
    return scope


def python_of(page, server):
    return python_at(page, server.resp_port)


@pytest.mark.once
@pytest.mark.parametrize("page, ask", [("getting-started.md", lambda code: code["may_log_in"]("alice")),
                                       ("resp.md", lambda code: code["may_pass"]("login:alice", "10/s"))])
def test_python_that_asks_for_a_login(page, ask):
    with WeirServer("--test-clock") as server:
        code = python_of(page, server)
        assert [ask(code) for _ in range(11)] == [True] * 10 + [False]
        if "wait_for_turn" in code:
            assert code["wait_for_turn"]("api:acme", "5/s")


def ask_worker(code):
    """True if it goes on to call, which fails here."""
    try:
        code["call"]("acme", "http://127.0.0.1:1/")
    except urllib.error.URLError:
        return True
    except code["WeirIsAway"]:
        return False


def ask_open_worker(code):
    code["FAIL_OPEN"] = True
    return ask_worker(code)


def ask_sender(code):
    sent = []
    code["send_evenly"]([1], sent.append)
    return sent == [1]


NODE_MODULES = ROOT / "build/node/node_modules"


def ask_in_node(port, count):
    """Runs the page's program for ioredis, and returns what it answers to so many questions, one after another."""
    [code] = re.findall(r"^```js\n(const Redis.*?)^```", (ROOT / "docs/resp.md").read_text(), re.M | re.S)
    program = code.replace("new Redis(6390,", f"new Redis({port},") + f"""
    (async () => {{
      const answers = [];
      for (let i = 0; i < {count}; i++) answers.push(await mayPass("login:alice", "10/s"));
      console.log(JSON.stringify(answers));
      await mayPass("login:alice", "10/q").catch((error) => console.log(error.message));
      weir.disconnect();
    }})();
    """
    ran = subprocess.run(["node", "-e", program], env={**os.environ, "NODE_PATH": str(NODE_MODULES)},
                         capture_output=True, text=True, timeout=30, check=True)
    answers, *errors = ran.stdout.splitlines()
    return json.loads(answers), errors


@pytest.mark.once
@pytest.mark.skipif(not shutil.which("node") or not (NODE_MODULES / "ioredis").is_dir(), reason="no ioredis")
def test_node_that_asks_for_a_login_with_and_without_weir():
    with WeirServer("--test-clock") as server:
        answers, [error] = ask_in_node(server.resp_port, 11)
        assert answers == [True] * 10 + [False] and "unknown unit 'q'" in error
    with socket.create_server(("127.0.0.1", 0)) as silent:  # its kernel takes connections, and nobody answers
        assert ask_in_node(silent.getsockname()[1], 2) == ([True, True], [])
        port = silent.getsockname()[1]
    assert ask_in_node(port, 2) == ([True, True], [])


ASK_WITHOUT_WEIR = [
    ("getting-started.md", lambda code: code["may_log_in"]("alice"), True),
    ("resp.md", lambda code: code["may_pass"]("login:alice", "10/s"), True),
    ("several-limits.md", lambda code: code["may_pass"]("alice", "acme")[0], True),
    ("smooth-what-you-send.md", ask_sender, True),
    ("somebody-elses-limit.md", ask_worker, False),
    ("somebody-elses-limit.md", ask_open_worker, True),
]


@pytest.mark.once
@pytest.mark.parametrize("page, ask, passes", ASK_WITHOUT_WEIR)
def test_python_of_a_page_says_what_to_do_without_weir(page, ask, passes):
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port = nobody.getsockname()[1]
    assert ask(python_at(page, port)) is passes


@pytest.mark.once
@pytest.mark.parametrize("page, ask, passes", ASK_WITHOUT_WEIR)
def test_python_of_a_page_tries_once(page, ask, passes):
    """Somebody who takes connections and hangs up: every try is another connection."""
    tries = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        def hang_up():
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                tries.append(connection)
                connection.close()

        server = threading.Thread(target=hang_up, daemon=True)
        server.start()
        assert ask(python_at(page, listener.getsockname()[1])) is passes
        assert len(tries) == 1
        listener.shutdown(socket.SHUT_RDWR)
        server.join()


@pytest.mark.once
def test_python_of_a_page_does_not_wait_for_a_weir_that_is_silent():
    """Nobody ever answers; that the calls end at all is the point."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        for page, ask, _ in ASK_WITHOUT_WEIR[:3]:
            code = python_at(page, silent.getsockname()[1])
            kwargs = code["weir"].connection_pool.connection_kwargs
            assert kwargs["socket_timeout"] == kwargs["socket_connect_timeout"] == 0.2
            assert ask(code) is True
        silent.setblocking(False)
        tries = 0
        with contextlib.suppress(BlockingIOError):
            while True:
                silent.accept()[0].close()
                tries += 1
        assert tries == 3


class TheirApi(BaseHTTPRequestHandler):
    """Allows one call, and answers 429 from then on."""

    calls = 0

    def do_GET(self):
        TheirApi.calls += 1
        self.send_response(200 if TheirApi.calls == 1 else 429)
        self.send_header("Retry-After", "7")
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *arguments):
        pass


@pytest.mark.once
def test_the_worker_tells_our_limit_from_theirs():
    TheirApi.calls = 0
    api = ThreadingHTTPServer(("127.0.0.1", 0), TheirApi)
    threading.Thread(target=api.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{api.server_port}/"
    try:
        with WeirServer("--test-clock") as server:
            worker = python_of("somebody-elses-limit.md", server)
            assert worker["call"]("acme", url) == b"ok"
            worker["WAIT_S"] = 0.2  # its turn comes after 250 ms
            with pytest.raises(worker["NotOurTurn"]) as ours:
                worker["call"]("acme", url)
            assert 0 < ours.value.seconds <= 0.25
            assert TheirApi.calls == 1  # nothing was sent
            server.command("WEIR.CLOCK", "ADVANCE", 250_000_000)
            with pytest.raises(worker["TheirLimit"]) as theirs:
                worker["call"]("acme", url)
            assert theirs.value.seconds == 7
            assert TheirApi.calls == 2
    finally:
        api.shutdown()
        api.server_close()


@pytest.mark.once
def test_the_script_tells_our_limit_from_theirs(tmp_path):
    text = (ROOT / "docs" / "somebody-elses-limit.md").read_text()
    script = re.search(r"^```sh\n(weir run .*?)^```", text, re.M | re.S).group(1)
    script = script.replace("--wait 30s", "--wait 200ms")
    (tmp_path / "weir").symlink_to(weir_binary())
    curl = tmp_path / "curl"
    curl.write_text("#!/bin/sh\necho called\nexit $CURL\n")
    curl.chmod(0o755)

    def run_script(server, curl_code):
        environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}",
                       "CURL": str(curl_code), "WEIR_SERVER": f"127.0.0.1:{server.resp_port}"}
        ran = subprocess.run(["sh", "-c", script], env=environment, stdout=subprocess.PIPE,
                             stderr=subprocess.DEVNULL, text=True, timeout=30, check=False)
        return ran.stdout.splitlines()

    with WeirServer("--test-clock") as server:
        assert run_script(server, 0) == ["called"]
        assert run_script(server, 0) == ["not our turn within 30 s; nothing was sent"]
        server.command("WEIR.CLOCK", "ADVANCE", 250_000_000)
        assert run_script(server, 22) == ["called", "their answer was an error, 429 perhaps"]
        server.stop()
        assert run_script(server, 0) == ["no answer from weir; nothing was sent"]


@pytest.mark.once
def test_messages_of_a_program_leave_evenly():
    with WeirServer() as server:
        program = python_of("smooth-what-you-send.md", server)
        sent = []
        began = time.monotonic()
        program["send_evenly"](range(6), lambda message: sent.append((message, time.monotonic())))
        assert [message for message, _ in sent] == list(range(6))
        assert all(when - began >= (i + 1) * 0.05 - 0.001 for i, (_, when) in enumerate(sent))


@pytest.mark.once
@pytest.mark.parametrize("page", ["resp.md", "http.md"])
def test_sessions_of_the_pages_about_protocols(run, page):
    sessions = list(read_sessions(ROOT / "docs" / page))
    assert len(sessions) >= 1
    for command, output in sessions:
        assert run(command) == output


@pytest.mark.once
def test_a_program_is_told_whose_limit_it_is():
    with WeirServer("--test-clock") as server:
        may_pass = python_of("several-limits.md", server)["may_pass"]
        assert may_pass("alice", "acme", 8) == (True, None)
        assert may_pass("alice", "acme", 3) == (False, "you are too fast: try again in 100 ms")
        for user in range(9):
            assert may_pass(user, "acme", 10)[0]
        assert may_pass("zoe", "acme", 3) == (
            False, "your company is too fast: try again in 10 ms")
        assert may_pass("zoe", "other", 10)[0]  # nothing of it was charged to her
