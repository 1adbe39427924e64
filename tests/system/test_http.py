"""HTTP from outside: curl, http.client and raw sockets against a real server."""

import http.client
import json
import re
import shutil
import socket
import subprocess

import pytest
from weirserver import DEADLINE_S, ROOT, WeirServer

NS_PER_MS = 1_000_000


@pytest.fixture
def server():
    with WeirServer("--test-clock") as running:
        yield running


def advance(server, ms):
    server.command("WEIR.CLOCK", "ADVANCE", ms * NS_PER_MS)


def curl(*arguments):
    if not shutil.which("curl"):
        pytest.skip("curl is not installed")
    done = subprocess.run(
        ["curl", "-s", "--max-time", str(DEADLINE_S), *arguments], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def raw(server, data, half_close=True):
    """Sends bytes, and returns everything until the server closes."""
    received = b""
    with socket.create_connection(("127.0.0.1", server.http_port), DEADLINE_S) as connection:
        connection.sendall(data)
        if half_close:
            connection.shutdown(socket.SHUT_WR)
        while part := connection.recv(65536):
            received += part
    return received


def remaining(server, key, limit):
    return server.post("show", key=key, limit=limit).json["remaining"]


# ---- Decisions ----


def test_take_until_refused_and_again_after_the_drip(server):
    for left in range(9, -1, -1):
        reply = server.post("take", key="alice", limit="10/10s")
        assert (reply.status, reply.json["remaining"]) == (200, left)
    assert reply.headers["content-type"] == "application/json"
    assert reply.json == {
        "verdict": "allowed", "capacity": 10, "remaining": 0, "retry_after_ns": -1,
        "retry_after_ms": -1, "reset_after_ns": 10_000_000_000, "delay_ns": 0,
    }  # fmt: skip
    advance(server, 220)
    reply = server.post("take", key="alice", limit="10/10s")
    assert reply.status == 429
    assert reply.headers["content-type"] == "application/problem+json"
    assert reply.headers["retry-after"] == "1"
    assert reply.headers["cache-control"] == "no-store"
    assert reply.headers["ratelimit-policy"] == '"10/10s";q=10;w=10'
    assert reply.headers["ratelimit"] == '"10/10s";r=0;t=1'
    assert reply.json == {
        "type": "https://iana.org/assignments/http-problem-types#quota-exceeded",
        "title": "Quota exceeded", "status": 429, "detail": "10/10s is limited to 10 per 10 s",
        "violated-policies": ["10/10s"], "verdict": "limited", "capacity": 10, "remaining": 0,
        "retry_after_ns": 780_000_000, "retry_after_ms": 780, "reset_after_ns": 9_780_000_000,
        "delay_ns": 0,
    }  # fmt: skip
    advance(server, 780)
    assert server.post("take", key="alice", limit="10/10s").status == 200
    assert server.post("take", key="alice", limit="10/10s").status == 429


def test_operations_agree_with_one_another(server):
    question = {"key": "k", "limit": "100/s capacity=20"}
    assert server.post("can_take", **question, cost=20).status == 200
    assert server.post("can_take", **question, cost=21).status == 422
    assert server.post("fill", **question, cost="15.5").json["remaining"] == 4
    reply = server.post("fill", **question, cost=5).json
    assert (reply["spill"], reply["full"], reply["remaining"]) == ("0.5", True, 0)
    assert server.post("refund", **question, cost=0.25).json["remaining"] == 0
    assert server.post("show", **question).json["level"] == "19.75"
    assert server.post("reset", **question).json == {"existed": True}
    assert server.post("reset", **question).json == {"existed": False}
    assert server.post("show", **question).json["level"] == "0"


def test_http_and_resp_share_buckets(server):
    assert server.command("WEIR.TAKE", "shared", "600/min capacity=10")[2] == 9
    assert server.post("take", key="shared", limit="10/s").json["remaining"] == 8


def test_curl_gets_exact_decisions(server):
    url = f"{server.http_url}/v1/check"
    arguments = ["-o", "/dev/null", "-w", "%{http_code} ", "-G", url]
    query = ["--data-urlencode", "key=a b/ü", "--data-urlencode", "limit=2/s capacity=2"]
    statuses = curl(*arguments, *query, "--next", "-s", *arguments, *query, "--next", "-s",
                    *arguments, *query).split()  # fmt: skip
    assert statuses == ["200", "200", "429"]
    assert remaining(server, "a b/ü", "2/s") == 0
    body = '{"key": "a b/ü", "limit": "2/s"}'
    assert json.loads(curl("-d", body, f"{server.http_url}/v1/take"))["verdict"] == "limited"


def test_keys_of_any_bytes(server):
    assert server.get("/v1/check?key=%00%ff%0a&limit=5/s").status == 200
    assert server.get("/v1/check?key=%00%ff%0a&limit=5/s").headers["ratelimit"] == '"5/s";r=3;t=1'
    key = "k" * 65_000
    assert server.post("take", key=key, limit="5/s").status == 200
    assert remaining(server, key, "5/s") == 4
    assert server.post("take", key="\0ü\U0001f600", limit="5/s").status == 200


# ---- Connections ----


def test_a_pipeline_of_100_is_answered_in_order(server):
    one = b"GET /v1/check?key=p&limit=60/s HTTP/1.1\r\nHost: localhost\r\n\r\n"
    received = raw(server, one * 100)
    statuses = re.findall(rb"HTTP/1\.1 (\d{3}) ", received)
    assert statuses == [b"200"] * 60 + [b"429"] * 40
    left = re.findall(rb'RateLimit: "60/s";r=(\d+)', received)
    assert left[:60] == [b"%d" % n for n in range(59, -1, -1)]


def test_a_connection_is_kept_alive(server):
    connection = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=DEADLINE_S)
    for left in (4, 3, 2):
        connection.request("GET", "/v1/check?key=k&limit=5/s")
        response = connection.getresponse()
        assert response.read() == b""
        assert response.getheader("RateLimit").split(";")[1] == f"r={left}"
        kept = connection.sock
        assert kept is not None
    connection.close()


def test_a_request_may_come_byte_by_byte(server):
    data = (
        b"POST /v1/take HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        b'1a\r\n{"key":"b","limit":"10/s"}\r\n0\r\n\r\n'
    )
    with socket.create_connection(("127.0.0.1", server.http_port), DEADLINE_S) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for i in range(len(data)):
            connection.sendall(data[i : i + 1])
        assert connection.recv(12) == b"HTTP/1.1 200"


def test_curl_is_told_to_continue(server, tmp_path):
    question = tmp_path / "question"
    question.write_text(json.dumps({"limit": "10/s", "key": "c" * 60_000}))
    spoken = curl("-v", "-H", "Expect: 100-continue", "--expect100-timeout", str(DEADLINE_S),
                  "--data-binary", f"@{question}", "--stderr", "-",
                  f"{server.http_url}/v1/take")  # fmt: skip
    assert "< HTTP/1.1 100 Continue" in spoken
    assert '"verdict":"allowed"' in spoken


def test_a_unix_socket(tmp_path):
    path = tmp_path / "weir.sock"
    with WeirServer("--test-clock", "--http", f"unix:{path}"):
        target = "http://localhost/v1/check?limit=1/s&by=address"
        status = ["-o", "/dev/null", "-w", "%{http_code}", "--unix-socket", str(path), target]
        assert curl(*status) == "400"
        assert curl(*status, "-H", "X-Forwarded-For: 9.9.9.9, 192.0.2.1") == "200"
        assert curl(*status, "-H", "X-Forwarded-For: 8.8.8.8, 192.0.2.1") == "429"


# ---- What others must not be able to do ----


@pytest.mark.parametrize(
    "head",
    [
        b"Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\nContent-Length: 6\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n",
        b"X: y\r\n Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"X: y\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"Content-Length: 5\r\nContent-Length: 0\r\n\r\n",
        b"Content-Length: +0\r\n\r\n",
        b"Content-Length: 0,0\r\n\r\n",
    ],
)
def test_nothing_is_smuggled(server, head):
    hidden = b"GET /v1/check?key=smuggled&limit=10/s HTTP/1.1\r\nHost: localhost\r\n\r\n"
    data = b"POST /v1/take HTTP/1.1\r\nHost: localhost\r\n" + head + hidden
    received = raw(server, data, half_close=False)
    assert received.count(b"HTTP/1.1 ") == 1
    assert received[9:12] in (b"400", b"501")
    assert b"\r\nConnection: close\r\n" in received
    assert remaining(server, "smuggled", "10/s") == 10


def test_bad_input_is_an_answer_and_others_are_served(server):
    other = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=DEADLINE_S)
    other.request("GET", "/healthz")
    assert other.getresponse().read().startswith(b"ok\n")
    raw(server, bytes(range(256)) * 4096)
    raw(server, b"GET /" + b"a" * 300_000)
    head = b"POST /v1/take HTTP/1.1\r\nHost: localhost\r\nContent-Length: 65536\r\n\r\n"
    raw(server, head + b"[" * 65536)
    raw(server, b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 100_000)
    other.request("GET", "/healthz")
    assert other.getresponse().read().startswith(b"ok\n")
    other.close()
    reply = server.post("take", key="a", limit="10/s", ttl=1)
    assert reply.status == 400
    assert reply.json["detail"] == 'unknown field "ttl": there are key, limit, cost, wait_ms and vars'
    reply = server.post("take", key="a", limit="10/fortnight")
    assert (reply.status, reply.json["detail"][:18]) == (400, "the limit, byte 3:")


def test_password(tmp_path):
    secret = tmp_path / "password"
    secret.write_text("open sesame\n")
    with WeirServer("--test-clock", "--password-file", secret) as server:
        target = "/v1/check?key=a&limit=10/s"
        for wrong in ({}, {"Authorization": "Bearer open"}, {"Authorization": "Basic open sesame"}):
            reply = server.get(target, **wrong)
            assert reply.status == 401
            assert reply.headers["www-authenticate"] == 'Bearer realm="weir"'
        assert server.get(target, Authorization="Bearer open sesame").status == 200
        assert server.get("/metrics").status == 401
        assert server.get("/healthz").status == 200


def test_by_address_believes_only_trusted_proxies(server):
    target = "/v1/check?by=address&limit=2/s"
    for forged in ("1.1.1.1", "2.2.2.2"):
        assert server.get(target, X_Forwarded_For=forged).status == 200
    assert server.get(target, X_Forwarded_For="3.3.3.3").status == 429
    assert remaining(server, "127.0.0.1", "2/s") == 0


def test_by_address_behind_trusted_proxies():
    with WeirServer(
        "--test-clock", "--trusted-proxy", "127.0.0.0/8", "--trusted-proxy", "10.0.0.0/8"
    ) as server:
        target = "/v1/check?by=address&limit=2/s"
        for forged in ("1.1.1.1", "unknown", "10.0.0.1"):
            reply = server.get(target, X_Forwarded_For=f"{forged}, 192.0.2.7, 10.1.2.3")
        assert reply.status == 429
        assert remaining(server, "192.0.2.7", "2/s") == 0
        server.get(target, X_Forwarded_For="2001:db8:1:2::1")
        server.get(target, X_Forwarded_For="2001:db8:1:2:ffff::9")
        assert remaining(server, "2001:db8:1:2::/64", "2/s") == 0
        assert server.get(target, X_Forwarded_For="192.0.2.7, nobody").status == 400


# ---- Headers ----


def fields(reply, but):
    """Its header fields by name in lower case, without some."""
    named = {name.lower(): value for name, value in reply.headers.items()}
    return {name: value for name, value in named.items() if name not in but}


@pytest.mark.parametrize(
    "preset, allowed, refused",
    [
        (
            "draft",
            {"ratelimit-policy": '"10/10s";q=10;w=10', "ratelimit": '"10/10s";r=9;t=1'},
            {"ratelimit-policy": '"10/10s";q=10;w=10', "ratelimit": '"10/10s";r=0;t=1'},
        ),
        (
            "x-ratelimit",
            {"x-ratelimit-limit": "10", "x-ratelimit-remaining": "9", "x-ratelimit-reset": "1"},
            {"x-ratelimit-limit": "10", "x-ratelimit-remaining": "0", "x-ratelimit-reset": "10"},
        ),
        (
            "used",
            {"x-shopify-shop-api-call-limit": "1/10"},
            {"x-shopify-shop-api-call-limit": "10/10"},
        ),
        ("rate-limited", {}, {"x-rate-limited-for": "0.75"}),
        ("none", {}, {}),
    ],
)
def test_header_presets(preset, allowed, refused):
    with WeirServer("--test-clock", "--headers", preset) as server:
        target = "/v1/check?key=a&limit=10/10s"
        first = server.get(target)
        server.get(target + "&cost=9")
        advance(server, 250)
        last = server.get(target)
    common = {"date", "cache-control", "content-length", "x-content-type-options"}
    assert (first.status, last.status) == (200, 429)
    assert fields(first, common) == allowed
    common |= {"retry-after", "content-type"}
    assert fields(last, common) == refused
    assert last.headers["retry-after"] == "1"
    if preset == "rate-limited":
        assert last.headers["content-type"].startswith("text/plain")
        assert last.body == b"Rate limited"
    else:
        assert last.json["detail"] == "10/10s is limited to 10 per 10 s"


def test_options_of_refusals():
    with WeirServer(
        "--test-clock", "--refused-status", "403", "--retry-after-date", "--disclose-keys"
    ) as server:
        server.get("/v1/check?key=alice&limit=1/min")
        reply = server.get("/v1/check?key=alice&limit=1/min")
    assert reply.status == reply.json["status"] == 403
    assert reply.headers["retry-after"].endswith(" GMT")
    assert reply.json["detail"] == "1/min is limited to 1 per 1 min for alice"
    assert reply.json["key"] == "alice"


# ---- Pages ----


def test_metrics_pass_promtool(server):
    if not shutil.which("promtool"):
        pytest.skip("promtool is not installed")
    server.post("take", key="a", limit="1/s")
    server.post("take", key="a", limit="1/s")
    reply = server.get("/metrics")
    assert reply.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    checked = subprocess.run(
        ["promtool", "check", "metrics"], input=reply.body, capture_output=True
    )
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, b"", b"")
    line = b'weir_decisions_total{limit="inline",protocol="http",verdict="limited"} 1\n'
    assert line in reply.body


def test_pages(server):
    assert server.get("/healthz").body == b"ok\nlines: of this server; another one has its own\n"
    index = server.get("/")
    assert index.status == 200
    for said in ("/v1/take", "/v1/check", "/metrics", '"vars"', "var.user=", "route="):
        assert said.encode() in index.body
    assert server.get("/favicon.ico").status == 404
    assert server.get("/v1/take").headers["allow"] == "POST, OPTIONS"
    assert server.request("HEAD", "/metrics").body == b""


def test_the_index_is_in_the_documentation(server):
    """Every path that the server lists is described in docs/http.md."""
    documentation = (ROOT / "docs" / "http.md").read_text()
    for line in server.get("/").body.decode().splitlines():
        if line.startswith(("GET ", "POST ")):
            assert line.split()[1].split("?")[0] in documentation
