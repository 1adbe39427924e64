"""A web page of another site, beside a server without a password; and the proxies that ask, real ones,
which hand on what such a page made the browser of their own client send."""

import json
from pathlib import Path

import pytest
from proxies import Caddy, HAProxy, Nginx, read_answer, run_curl
from weirserver import WeirServer

ROOT = Path(__file__).resolve().parents[2]
LIMIT = "5/min"
# What browsers send for a page of https://evil.example: an <img>, and a fetch() without a preflight.
IMAGE = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image",
         "Referer": "https://evil.example/"}
FETCH = {"Origin": "https://evil.example", "Content-Type": "text/plain", **IMAGE,
         "Sec-Fetch-Dest": "empty"}


def options_of(fields):
    """The same for curl."""
    return [word for name, value in fields.items() for word in ("-H", f"{name}: {value}")]


BROWSER = options_of(FETCH)


@pytest.fixture
def server():
    with WeirServer("--test-clock") as started:
        yield started


@pytest.fixture
def start(tmp_path):
    """Starts a proxy, in a folder of its own, and ends it with the test."""
    started = []

    def start_proxy(kind, *words, **options):
        started.append(kind(tmp_path / f"proxy{len(started)}", *words, **options))
        return started[-1]

    yield start_proxy
    for proxy in started:
        proxy.stop()


# ---- The page ----


def test_a_page_neither_blocks_nor_resets_nor_charges(server):
    for _ in range(4):
        assert server.command("WEIR.TAKE", "alice", LIMIT)[0] == 0
    question = json.dumps({"key": "alice", "limit": LIMIT})
    for path in ("take", "fill", "refund", "reset", "unblock"):
        refused = server.request("POST", f"/v1/{path}", question, FETCH)
        assert refused.status == 403
        assert refused.headers["content-type"] == "application/problem+json"
    block = json.dumps({"key": "alice", "limit": LIMIT, "block_ms": 86_400_000})
    assert server.request("POST", "/v1/block", block, FETCH).status == 403
    check = f"/v1/check?key=alice&limit={LIMIT}"
    for method in ("GET", "HEAD", "POST", "OPTIONS"):
        assert server.request(method, check, headers=IMAGE).status == 403
    assert server.metric("weir_bad_requests_total", protocol="http") == 10
    assert server.command("WEIR.SHOW", "alice", LIMIT)[2] == 1


def test_a_rebound_name_reads_nothing(server):
    for path in ("/", "/healthz", "/metrics"):
        answer = server.get(path, Host=f"rebind.evil.example:{server.http_port}")
        assert answer.status == 421
        assert "--http-host rebind.evil.example" in answer.json["detail"]


def test_every_answer_says_nosniff(server):
    asked = [server.get(path) for path in ("/", "/healthz", "/metrics", "/<script>", "/v1/check?key=a&limit=1/h")]
    asked += [server.post("take", key="a", limit="1/h"), server.post("show", key="b", limit="1/h")]
    asked += [server.request("OPTIONS", "/v1/take"), server.get("/v1/check?key=a&limit=1/h")]
    assert [answer.status for answer in asked] == [200, 200, 200, 404, 200, 429, 200, 204, 429]
    for answer in asked:
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in answer.headers


def test_names_are_chosen_on_the_command_line():
    with WeirServer("--http-host", "weir.example", "--http-host", "Other.example") as server:
        statuses = [server.get("/metrics", Host=name).status
                    for name in ("weir.example", "other.example:1", "localhost", "third.example")]
        assert statuses == [200, 200, 200, 421]


def test_a_password_or_a_unix_socket_is_enough(tmp_path):
    password = tmp_path / "password"
    password.write_text("secret\n")
    password.chmod(0o600)
    question = json.dumps({"key": "alice", "limit": LIMIT})
    strange = {"Host": "rebind.evil.example", **FETCH}
    with WeirServer("--password-file", str(password)) as server:
        asked = server.request("POST", "/v1/take", question, {**strange, "Authorization": "Bearer secret"})
        assert asked.status == 200
    path = tmp_path / "http.sock"
    with WeirServer("--http", f"unix:{path}"):
        answer = run_curl("-i", "--unix-socket", str(path), *options_of(strange), "-d", question,
                          "http://app/v1/take")
        assert read_answer(answer)[0] == 200


# ---- nginx ----

ASK = """
        location / {
            auth_request /weir;
            proxy_pass http://app;
        }
        location = /weir {
            internal;
            proxy_pass_request_body off;
            proxy_set_header Content-Length "";
"""
OVER_HTTP11 = 'proxy_http_version 1.1; proxy_set_header Connection "";'
NGINX = {
    "as nginx does by itself": ("127.0.0.1:{port}", "", 200),
    "over HTTP/1.1, with the address": (
        "127.0.0.1:{port}", OVER_HTTP11 + "proxy_set_header X-Real-IP $remote_addr;", 200),
    "over HTTP/1.1, and no field of its own": ("127.0.0.1:{port}", OVER_HTTP11, 403),
    "under the upstream's name": ("weir", "", 500),
    "under the upstream's name, mended": ("weir", "proxy_set_header Host localhost;", 200),
    "with the client's Host": ("127.0.0.1:{port}", "proxy_set_header Host $host;", 500),
}


@pytest.mark.parametrize("place, more, status", NGINX.values(), ids=NGINX)
def test_nginx_hands_on_what_the_browser_said(server, start, place, more, status):
    place = place.format(port=server.http_port)
    ask = f"            {more} proxy_pass http://{place}/v1/check?key=site&limit=3/h&cost=1;\n        }}\n"
    nginx = start(Nginx, server.http_port, ASK + ask)
    assert nginx.get(*BROWSER)[0] == status
    if status == 200:
        assert [nginx.get(*BROWSER)[0] for _ in range(3)] == [200, 200, 500]  # 429 is no answer for nginx


def test_nginx_hands_the_host_of_a_chosen_name_on(start):
    with WeirServer("--http-host", "front") as server:
        place = f"http://127.0.0.1:{server.http_port}/v1/check?key=site&limit=3/h&cost=1"
        ask = f"            proxy_set_header Host $host; proxy_pass {place};\n        }}\n"
        assert start(Nginx, server.http_port, ASK + ask).get(*BROWSER)[0] == 200


# ---- HAProxy ----


def read_blocks(heading, language):
    """The blocks of code in this language, below this heading of docs/http.md."""
    section = (ROOT / "docs/http.md").read_text().split(f"\n### {heading}\n")[1].split("\n### ")[0]
    return [part.split("```")[0] for part in section.split(f"```{language}\n")[1:]]


def test_haproxy_asks_as_the_page_says(start, tmp_path):
    with WeirServer("--test-clock", "--trusted-proxy", "127.0.0.1") as server:
        script = tmp_path / "weir.lua"
        lua = read_blocks("HAProxy", "lua")[0]
        script.write_text(lua.replace("127.0.0.1:8390", f"127.0.0.1:{server.http_port}"))
        page = read_blocks("HAProxy", "haproxy")[0]
        haproxy = start(HAProxy, server.http_port, page.replace("/etc/haproxy/weir.lua", str(script)))
        assert [haproxy.get(*BROWSER)[0] for _ in range(11)] == [200] * 10 + [429]
        assert haproxy.get(*BROWSER)[1]["retry-after"] == "1"


def through_haproxy(start, server, rule=""):
    return start(HAProxy, server.http_port, f"frontend web\n    {rule}", backend="weir")


TAKE = "-d", json.dumps({"key": "alice", "limit": LIMIT})


def test_haproxy_before_weir_needs_the_name(start):
    with WeirServer("--test-clock") as server:
        haproxy = through_haproxy(start, server)
        assert haproxy.get(*TAKE, path="/v1/take")[0] == 421
        mended = through_haproxy(start, server, "http-request set-header Host localhost")
        assert mended.get(*TAKE, path="/v1/take")[0] == 200


def test_haproxy_before_weir_lets_own_pages_post_and_no_other(start):
    with WeirServer("--test-clock", "--http-host", "front") as server:
        haproxy = through_haproxy(start, server, "option forwardfor")
        assert haproxy.get(*TAKE, path="/v1/take")[0] == 200
        assert haproxy.get(*TAKE, "-H", "Origin: http://front", path="/v1/take")[0] == 200
        assert haproxy.get(*TAKE, *BROWSER, path="/v1/take")[0] == 403
        rewriting = through_haproxy(start, server, "http-request set-header Host 127.0.0.1")
        assert rewriting.get(*TAKE, "-H", "Origin: http://front", path="/v1/take")[0] == 200
        assert rewriting.get(*TAKE, *BROWSER, path="/v1/take")[0] == 403


# ---- Caddy ----


def caddy_of_the_page(server, without=""):
    page = read_blocks("Caddy", "caddyfile")[0]
    assert without in page
    for old, new in {"example.org {": ":{port} {", "127.0.0.1:8390": f"127.0.0.1:{server.http_port}",
                     "reverse_proxy app:8080": 'respond "hello"', without: ""}.items():
        page = page.replace(old, new) if old else page
    return page


def test_caddy_asks_as_the_page_says(start):
    with WeirServer("--test-clock", "--trusted-proxy", "127.0.0.1") as server:
        caddy = start(Caddy, caddy_of_the_page(server))
        answers = [caddy.get(*BROWSER) for _ in range(11)]
        assert [answer[0] for answer in answers] == [200] * 10 + [429]
        assert answers[-1][1]["retry-after"] == "1"


def test_caddy_with_the_host_of_its_client_needs_the_name(start):
    with WeirServer("--test-clock", "--trusted-proxy", "127.0.0.1") as server:
        unmended = caddy_of_the_page(server, without="        header_up Host {upstream_hostport}\n")
        status, _, body = start(Caddy, unmended).get(*BROWSER)
        assert (status, json.loads(body)["status"]) == (421, 421)
    with WeirServer("--test-clock", "--trusted-proxy", "127.0.0.1", "--http-host", "front") as server:
        unmended = caddy_of_the_page(server, without="        header_up Host {upstream_hostport}\n")
        assert start(Caddy, unmended).get(*BROWSER)[0] == 200


# ---- Traefik, which Debian does not have ----


def test_what_traefik_says_it_sends(server):
    """forwardAuth: the header fields of its client, and the five of its own that its documentation lists."""
    fields = {**FETCH, "X-Forwarded-Method": "GET", "X-Forwarded-Proto": "https",
              "X-Forwarded-Host": "example.org", "X-Forwarded-Uri": "/", "X-Forwarded-For": "10.0.0.1"}
    target = "/v1/check?key=site&limit=3/h&cost=1"
    asked = [server.request("GET", target, headers=fields).status for _ in range(4)]
    assert asked == [200] * 3 + [429]
