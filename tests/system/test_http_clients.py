"""curl, and nginx with auth_request: as people use them, with exact answers on the test clock."""

import json
import socket
from pathlib import Path

import pytest
import redis
from proxies import Nginx, read_answer, run_curl
from weirserver import WeirServer, reads_configurations

DEADLINE_S = 20
NS_PER_S = 1_000_000_000


def set_clock(server, ns):
    with redis.Redis(port=server.resp_port) as connection:
        connection.execute_command("WEIR.CLOCK", "SET", ns)


@pytest.fixture
def server():
    with WeirServer("--test-clock") as started:
        yield started


@pytest.fixture
def password_file(tmp_path):
    path = tmp_path / "password"
    path.write_text("secret\n")
    path.chmod(0o600)
    return path


# ---- curl ----

TAKE = "-i", "--data", '{"key": "alice", "limit": "1/10s"}'


def take_url(server):
    return f"http://127.0.0.1:{server.http_port}/v1/take"


def test_curl_gets_exact_decisions(server):
    status, _, body = read_answer(run_curl(*TAKE, take_url(server)))
    assert status == 200
    assert json.loads(body) == {
        "verdict": "allowed", "capacity": 1, "remaining": 0, "retry_after_ns": -1,
        "retry_after_ms": -1, "reset_after_ns": 10 * NS_PER_S, "delay_ns": 0,
    }
    set_clock(server, 3_700_000_000)
    status, headers, body = read_answer(run_curl(*TAKE, take_url(server)))
    assert status == 429
    assert headers["retry-after"] == "7"
    assert headers["content-type"] == "application/problem+json"
    refusal = json.loads(body)
    assert refusal["verdict"] == "limited"
    assert refusal["retry_after_ns"] == 6_300_000_000
    assert refusal["retry_after_ms"] == 6300
    assert "alice" not in body


def test_curl_sends_a_hundred_over_one_connection(server):
    url = f"http://127.0.0.1:{server.http_port}/v1/check?key=alice&limit=60/min"
    one = f'url = "{url}"\noutput = /dev/null\nwrite-out = "%{{http_code}} %{{num_connects}}\\n"\n'
    answers = run_curl("-K", "-", input="next\n".join([one] * 100))
    codes, connects = zip(*(line.split() for line in answers.splitlines()))
    assert codes == ("200",) * 60 + ("429",) * 40
    assert connects == ("1",) + ("0",) * 99


def test_pipelined_requests_are_answered_in_order(server):
    """curl no longer pipelines: a hundred requests in one write, as `nc` would send them."""
    request = b"GET /v1/check?key=alice&limit=60/min HTTP/1.1\r\nHost: localhost\r\n\r\n"
    last = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    with socket.create_connection(("127.0.0.1", server.http_port), DEADLINE_S) as connection:
        connection.sendall(request * 100 + last)
        answers = connection.makefile("rb").read().decode()
    codes = [line.split()[1] for line in answers.splitlines() if line.startswith("HTTP/1.1 ")]
    assert codes == ["200"] * 60 + ["429"] * 40 + ["200"]


def test_curl_comes_back_after_a_restart(server):
    assert read_answer(run_curl(*TAKE, take_url(server)))[0] == 200
    assert read_answer(run_curl(*TAKE, take_url(server)))[0] == 429
    server.restart()
    retried = run_curl("--retry", "5", "--retry-connrefused", *TAKE, take_url(server))
    assert read_answer(retried)[0] == 200


def test_curl_fails_auth(password_file):
    with WeirServer("--test-clock", "--password-file", str(password_file)) as server:
        for words in [], ["-H", "Authorization: Bearer wrong"], ["-u", "default:secret"]:
            status, headers, _ = read_answer(run_curl(*words, *TAKE, take_url(server)))
            assert status == 401
            assert headers["www-authenticate"].startswith("Bearer")
        bearer = "-H", "Authorization: Bearer secret"
        assert read_answer(run_curl(*bearer, *TAKE, take_url(server)))[0] == 200
        health = f"http://127.0.0.1:{server.http_port}/healthz"
        assert read_answer(run_curl("-i", health))[0] == 200


# ---- nginx ----

GUIDE = Path(__file__).resolve().parents[2] / "docs/nginx.md"


def read_snippet():
    """The configuration that docs/nginx.md teaches is the one that is tested."""
    return GUIDE.read_text().split("```nginx\n")[2].split("```")[0]


@pytest.fixture
def start_nginx(tmp_path):
    started = []

    def start(server, snippet=None):
        nginx = Nginx(tmp_path / "nginx", server.http_port, snippet or read_snippet())
        started.append(nginx)
        return nginx

    yield start
    for nginx in started:
        nginx.stop()


@pytest.fixture
def guarding_server():
    with WeirServer("--test-clock", "--refused-status", "403") as started:
        yield started


def test_nginx_lets_pass_and_refuses_with_429(guarding_server, start_nginx):
    nginx = start_nginx(guarding_server)
    for left in range(9, -1, -1):
        status, headers, body = nginx.get("-H", "X-Api-Key: alice")
        assert (status, body) == (200, "hello\n")
        assert headers["ratelimit"] == f'"10/10s";r={left};t={10 - left}'
        assert headers["ratelimit-policy"] == '"10/10s";q=10;w=10'
    set_clock(guarding_server, 100_000_000)
    status, headers, _ = nginx.get("-H", "X-Api-Key: alice")
    assert status == 429
    assert headers["retry-after"] == "1"
    assert headers["ratelimit"] == '"10/10s";r=0;t=1'
    assert headers["ratelimit-policy"] == '"10/10s";q=10;w=10'
    assert nginx.get("-H", "X-Api-Key: bob")[0] == 200
    set_clock(guarding_server, NS_PER_S)
    assert nginx.get("-H", "X-Api-Key: alice")[0] == 200


def test_nginx_does_not_let_a_client_choose_its_cost(guarding_server, start_nginx):
    nginx = start_nginx(guarding_server)
    cheat = "-H", "X-Api-Key: alice", "-H", "X-Weir-Cost: 0", "-H", "X-Weir-Key: someone"
    assert [nginx.get(*cheat)[0] for _ in range(11)] == [200] * 10 + [429]


def test_nginx_lets_a_hundred_in_a_row_through_one_connection(guarding_server, start_nginx):
    nginx = start_nginx(guarding_server)
    request = b"GET / HTTP/1.1\r\nHost: front\r\nX-Api-Key: alice\r\n\r\n"
    last = request.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(DEADLINE_S)
        connection.connect(str(nginx.folder / "front.sock"))
        connection.sendall(request * 99 + last)
        answers = connection.makefile("rb").read().decode()
    codes = [line.split()[1] for line in answers.splitlines() if line.startswith("HTTP/1.1 ")]
    assert codes == ["200"] * 10 + ["429"] * 90


def test_nginx_comes_back_after_a_restart_of_weir(guarding_server, start_nginx):
    nginx = start_nginx(guarding_server)
    assert nginx.get("-H", "X-Api-Key: alice")[0] == 200
    guarding_server.stop()
    assert nginx.get("-H", "X-Api-Key: alice")[0] == 200  # open where weir is not there
    guarding_server.restart()
    codes = [nginx.get("-H", "X-Api-Key: alice")[0] for _ in range(12)]
    assert codes == [200] * 10 + [429] * 2


LARGE_FIELDS = [["-H", f"X-B{i}: {'b' * 7000}"] for i in range(3)]
BYPASSES = {
    "a control character": ["-H", "X-B: \x01"],
    "fields of 21 kB": sum(LARGE_FIELDS, []),
    "105 fields": sum((["-H", f"X-B{i}: b"] for i in range(105)), []),
}
BY_ADDRESS = {
    "check?limit": "check?by=address&limit",
    'X-Weir-Key "api:$http_x_api_key"': "X-Forwarded-For 203.0.113.7",
}


@pytest.mark.parametrize("bypass", BYPASSES.values(), ids=BYPASSES)
@pytest.mark.parametrize("changes", [{}, BY_ADDRESS], ids=["by key", "by address"])
def test_nginx_limits_whoever_sends_what_weir_would_not_read(start_nginx, bypass, changes):
    snippet = read_snippet()
    for old, new in changes.items():
        assert old in snippet
        snippet = snippet.replace(old, new)
    options = "--refused-status", "403", "--trusted-proxy", "127.0.0.1/32"
    with WeirServer("--test-clock", *options) as server:
        nginx = start_nginx(server, snippet)
        codes = [nginx.get("-H", "X-Api-Key: a", *bypass)[0] for _ in range(11)]
        assert codes == [200] * 10 + [429]


def test_nginx_refuses_where_its_host_is_not_weirs(guarding_server, start_nginx):
    """Without the line, nginx sends the name of the upstream. It must not take the 421 for an outage."""
    host = "            proxy_set_header Host localhost;\n"
    assert host in read_snippet()
    nginx = start_nginx(guarding_server, read_snippet().replace(host, ""))
    assert nginx.get("-H", "X-Api-Key: alice")[0] == 403


def test_nginx_sends_no_ratelimit_where_weir_is_not_there(guarding_server, start_nginx):
    nginx = start_nginx(guarding_server)
    guarding_server.stop()
    status, headers, _ = nginx.get("-H", "X-Api-Key: alice")
    assert status == 200
    assert "ratelimit" not in headers


def test_nginx_refuses_a_key_that_weir_does_not_read(guarding_server, start_nginx):
    nginx = start_nginx(guarding_server)
    assert nginx.get("-H", "X-Api-Key: \x01a")[0] == 403


def test_nginx_does_not_let_a_wrong_password_unguard(password_file, start_nginx):
    options = "--test-clock", "--refused-status", "403", "--password-file", str(password_file)
    with WeirServer(*options) as server:
        assert start_nginx(server).get("-H", "X-Api-Key: alice")[0] == 401


def test_nginx_with_the_password_gets_decisions(password_file, start_nginx):
    options = "--test-clock", "--refused-status", "403", "--password-file", str(password_file)
    bearer = 'proxy_set_header Authorization "Bearer secret";\n            internal;'
    with WeirServer(*options) as server:
        nginx = start_nginx(server, read_snippet().replace("internal;", bearer))
        assert [nginx.get("-H", "X-Api-Key: alice")[0] for _ in range(11)] == [200] * 10 + [429]


@pytest.mark.skipif(not reads_configurations(), reason="built without libyaml")
def test_nginx_asks_by_route(start_nginx, tmp_path):
    """The location of docs/name-your-limits.md, with the configuration that the page begins with."""
    page = (GUIDE.parent / "name-your-limits.md").read_text()
    location = page.split("```nginx\n")[1].split("```")[0]
    config = tmp_path / "weir.yaml"
    config.write_text(page.split("```yaml\n")[1].split("```")[0].replace("login: 5/min", "login: 1/min"))
    before, _, rest = read_snippet().partition("        location = /weir {")
    snippet = before + location + rest.partition("        }\n")[2]
    with WeirServer("--test-clock", "--refused-status", "403", "--config", config) as server:
        nginx = start_nginx(server, snippet)
        user = ["-H", "X-User: ann", "-H", "X-Tenant: acme"]
        assert nginx.get("-X", "POST", path="/login")[0] == 200
        for dodge in ("/login?a", "/x/..//login", "/%6Cogin"):
            cheat = ["-H", "X-Weir-Cost: 0", "-H", "X-Original-URI: /", "-H", "X-Weir-Key: other"]
            assert nginx.get("-X", "POST", *cheat, path=dodge)[0] == 429
        assert [nginx.get(*user, path="/api/search")[0] for _ in range(5)] == [200] * 4 + [429]
        assert nginx.get("-H", "X-User: bob", "-H", "X-Tenant: acme", path="/api/search")[0] == 200
        assert nginx.get("-H", "X-Weir-Var-User: eve", *user, path="/api/search")[0] == 429
        assert nginx.get(path="/api/search")[0] == 403  # nobody to charge: not let pass
        server.stop()
        assert nginx.get(path="/api/search")[0] == 200  # open where weir is not there, as that page says
