"""What weir takes for an HTTP request, beside node's http server and nginx.

weir is stricter than both on purpose: what two servers in a row read differently is how requests
are smuggled. Every difference is stated here, with its reason; another one is a failure.
"""

import re
import shutil
import socket
import subprocess

import pytest
from http_cases import CASES
from ports import is_listening
from weirserver import DEADLINE_S, WeirServer, wait_until

# Refused by weir, taken by node or nginx.
STRICTER = {
    "lf-only": "RFC 9112, 2.2: a lone LF may be taken for a line's end; smuggling begins there",
    "lf-after-request-line": "the same",
    "lf-ends-field": "the same",
    "lf-ends-head": "the same",
    "chunk-lf": "the same",
    "chunk-data-ends-with-lf": "the same",
    "two-spaces": "RFC 9112, 3: the request line has two single spaces",
    "two-spaces-before-version": "the same",
    "space-after-version": "the same",
    "no-version": "HTTP/0.9 has no place behind a proxy",
    "version-1.10": "RFC 9112, 2.3: a version has one digit each side",
    "version-2.0": "RFC 9110, 15.6.6: another major version",
    "method-unknown": "RFC 9110, 9.1: 501; nginx hands methods on",
    "target-8-bit": "RFC 3986: a URL is ASCII",
    "target-10-kib": "a request line has at most 8 KiB here",
    "body-of-65-kib": "a body has at most 64 KiB here",
    "two-hosts": "RFC 9112, 3.2: 400",
    "host-with-slash": "RFC 9112, 3.2: 400 for an invalid value",
    "host-with-space": "the same",
    "no-colon": "RFC 9112, 5: a field line has a colon; nginx drops the line",
    "8-bit-in-name": "RFC 9110, 5.1: a name is a token; nginx drops the line",
    "bell-in-value": "RFC 9110, 5.5: no control characters in a value",
    "del-in-value": "the same",
    "gzip-chunked": "RFC 9112, 6.1: 501 for a coding that is not understood",
    "chunked-in-1.0": "RFC 9112, 6.1: faulty framing",
    "expect-unknown": "RFC 9110, 10.1.1: 417",
    "chunk-space-after": "RFC 9112, 7.1: no space behind the size",
    "chunk-space-before-extension": "only BAD whitespace: RFC 9112, 7.1.1",
    "chunk-9-digits": "a size has at most 8 digits here",
    "chunk-bad-trailer": "trailers are read as strictly as fields",
    "body-cut-short": "weir waits for the rest; nginx's `return` does not look at bodies",
}
# Taken by weir, refused by node or nginx.
MORE_LENIENT = {
    "length-twice-the-same": "RFC 9110, 8.6: may be taken where both are the same",
    "host-empty": "RFC 9112, 3.2: empty where the target has no authority; nginx wants one",
    "version-1.2": "RFC 9110, 2.5: a higher minor version is read as the highest one known",
}

NODE = """
const server = require("http").createServer((request, response) => {
  request.on("error", () => {});
  request.on("end", () => response.end("ok\\n"));
  request.resume();
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
"""

NGINX = """
daemon off; master_process off; pid {folder}/pid; error_log {folder}/error.log;
events {{ }}
http {{
    access_log off; client_max_body_size 64k;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{ listen unix:{folder}/socket; location / {{ return 200 ok; }} }}
}}
"""


def ask(address, data):
    """The statuses of all final answers to these bytes and the end of the stream."""
    family = socket.AF_INET if isinstance(address, tuple) else socket.AF_UNIX
    received = b""
    with socket.socket(family) as connection:
        connection.settimeout(DEADLINE_S)
        connection.connect(address)
        try:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            while part := connection.recv(65536):
                received += part
        except (BrokenPipeError, ConnectionResetError):
            pass  # a server may refuse before it has read everything
    return [int(status) for status in re.findall(rb"HTTP/1\.[01] (\d{3})", received)]


def verdict(statuses):
    if not statuses:
        return "nothing"
    return "taken" if statuses[0] < 300 else "refused"


@pytest.fixture(scope="module")
def weir():
    with WeirServer("--test-clock") as server:
        yield "127.0.0.1", server.http_port


@pytest.fixture(scope="module")
def node():
    if not shutil.which("node"):
        pytest.skip("node is not installed")
    process = subprocess.Popen(["node", "-e", NODE], stdout=subprocess.PIPE, text=True)
    yield "127.0.0.1", int(process.stdout.readline())
    process.kill()
    process.wait()
    process.stdout.close()


@pytest.fixture(scope="module")
def nginx(tmp_path_factory):
    binary = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if not binary:
        pytest.skip("nginx is not installed")
    folder = tmp_path_factory.mktemp("n")
    (folder / "conf").write_text(NGINX.format(folder=folder))
    process = subprocess.Popen(
        [binary, "-p", folder, "-c", folder / "conf"], stderr=subprocess.DEVNULL
    )
    path = str(folder / "socket")

    wait_until(lambda: is_listening(path), "nginx")
    yield path
    process.kill()
    process.wait()


@pytest.mark.parametrize("name, data, status", CASES, ids=[case[0] for case in CASES])
def test_weir_answers_each_case(weir, name, data, status):
    assert ask(weir, data) == ([] if status is None else [status])


def differences(weir, peer):
    """(name, what weir did, what the peer did) where they differ."""
    for name, data, _ in CASES:
        ours, theirs = verdict(ask(weir, data)), verdict(ask(peer, data))
        if ours != theirs:
            yield name, ours, theirs


@pytest.mark.once
@pytest.mark.parametrize("peer_name", ["node", "nginx"])
def test_every_difference_is_stated(weir, peer_name, request):
    peer = request.getfixturevalue(peer_name)
    unstated = [
        f"{name}: weir {ours}, {peer_name} {theirs}"
        for name, ours, theirs in differences(weir, peer)
        if name not in (MORE_LENIENT if ours == "taken" else STRICTER)
    ]
    assert not unstated, "\n".join(unstated)


def test_every_stated_difference_is_a_case():
    names = {case[0] for case in CASES}
    assert STRICTER.keys() | MORE_LENIENT.keys() <= names
    statuses = {name: status for name, _, status in CASES}
    assert all(statuses[name] in (200, 204) for name in MORE_LENIENT)
    assert all(statuses[name] not in (200, 204) for name in STRICTER)
