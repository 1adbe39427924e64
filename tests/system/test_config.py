"""Configurations: `weir check-config`, and a server that reads one."""

import http.client
import json
import os
import re
import signal
import subprocess
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest
from weirserver import RespError, WeirServer, reads_configurations, wait_until, weir_binary

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "weir.yaml"

pytestmark = pytest.mark.skipif(not reads_configurations(), reason="built without libyaml")


def check_config(*arguments, **environment):
    return subprocess.run(
        [weir_binary(), "check-config", *map(str, arguments)], capture_output=True, text=True,
        env={**os.environ, **environment},
    )


# ---- check-config ----


def test_a_good_configuration_is_told():
    done = check_config(EXAMPLE)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"{EXAMPLE} is good: 5 limits, 2 overrides, 1 chain, 4 routes\n")
    for line in ("  exports   20/h; shadow: refuses nothing", "            tenant:gold-*: 500/s capacity=1000",
                 "            tenant of tenant:{tenant}", "  /login POST: login, cost 1"):
        assert line in done.stdout.splitlines()


def test_what_an_override_does_not_say_is_told(tmp_path):
    path = tmp_path / "weir.yaml"
    path.write_text("limits:\n  login:\n    limit: 5/min block=1h on_full=allow on_error=allow\n    overrides:\n"
                    "      ann: 9/min\n      bob: 9/min block=1s on_full=allow on_error=allow\n")
    assert check_config(path).stdout.splitlines()[4:6] == [
        "         ann: 9/min; blocks nobody, since it says no block=; refuses when memory is full, "
        "since it says no on_full=; refuses when the store is out of reach, since it says no on_error=",
        "         bob: 9/min block=1s on_full=allow on_error=allow"]


def test_a_good_configuration_in_json():
    done = check_config(EXAMPLE, "--json")
    said = json.loads(done.stdout)
    assert done.returncode == 0
    assert said["good"] is True
    assert [limit["name"] for limit in said["limits"]] == ["login", "everyone", "tenant", "user", "exports"]
    assert said["limits"][2]["overrides"][1] == {"key": "tenant:gold-*", "limit": "500/s capacity=1000"}
    assert said["chains"][0]["limits"][0] == {"limit": "user", "key": "user:{user}"}
    assert said["routes"][0] == {"path": "/login", "methods": ["POST"], "limit": "login", "cost": "1"}
    assert said["routes"][1]["cost"] == "0"


def test_a_bad_configuration_has_a_place(tmp_path):
    path = tmp_path / "weir.yaml"
    path.write_text("limits:\n  api: 10/s\n  login: 5/fortnight\n")
    done = check_config(path)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith(f"weir check-config: {path}:3:12: the limit: unknown unit 'fortnight'")
    done = check_config(path, "--json")
    said = json.loads(done.stdout)
    assert done.returncode == 3
    assert (said["good"], said["line"], said["column"]) == (False, 3, 12)


def test_where_a_configuration_is_looked_for(tmp_path):
    home = tmp_path / "home"
    said = tmp_path / "said"
    for folder in (home / ".config", said):
        (folder / "weir").mkdir(parents=True)
        (folder / "weir" / "weir.yaml").write_text("limits: {api: 1/s}\n")
    by_home = check_config(HOME=str(home), XDG_CONFIG_HOME="")
    assert by_home.stdout.startswith(f"{home}/.config/weir/weir.yaml is good: 1 limit, 0 overrides, 0 chains, 0 routes\n")
    by_xdg = check_config(HOME=str(home), XDG_CONFIG_HOME=str(said))
    assert by_xdg.stdout.startswith(f"{said}/weir/weir.yaml is good")
    if not Path("/etc/weir/weir.yaml").exists():
        nowhere = check_config(HOME=str(tmp_path), XDG_CONFIG_HOME="")
        assert nowhere.returncode == 3
        assert "say which file" in nowhere.stderr


def test_check_config_needs_one_file(tmp_path):
    assert check_config("a", "b").returncode == 2
    assert check_config(tmp_path / "gone.yaml").returncode == 3
    assert "No such file" in check_config(tmp_path / "gone.yaml").stderr


def test_every_yaml_of_the_page_is_good(tmp_path):
    """All but the file of the page that shows each part: put together they are one configuration."""
    blocks = re.findall(r"^```yaml\n(.*?)^```", (ROOT / "docs/config.md").read_text(), re.M | re.S)
    path = tmp_path / "weir.yaml"
    path.write_text(
        blocks[0] + "  user: 10/s\n  everyone: 1000/s\n" + "".join(blocks[1:])
    )
    done = check_config(path)
    assert done.stderr == ""
    assert len(blocks) == 3


# ---- a server that reads one ----


class Configured(WeirServer):
    """A server on the test clock, with a configuration that can be written anew."""

    def __init__(self, path, text, *arguments, **options):
        self.path = path
        self.path.write_text(text)
        super().__init__("--config", path, *arguments, **options)

    def reload(self, text, expected=" reload "):
        """Writes another configuration, has it read, and returns the line of the log."""
        self.path.write_text(text)
        return self.reload_again(expected)

    def reload_again(self, expected=" reload "):
        before = len(self.lines)
        self.signal(signal.SIGHUP)
        return wait_until(
            lambda: next((line for line in self.lines[before:] if expected in line), None),
            f"{expected!r} in the log:\n{self.log}",
        )


@pytest.fixture
def path(tmp_path):
    return tmp_path / "weir.yaml"


API = """
limits:
  api:
    limit: 2/s
    overrides:
      tenant:acme: 4/s
      tenant:gold-*: 3/s
  work: queue 1/s capacity=2
"""


def test_a_name_is_a_limit_everywhere(path):
    with Configured(path, API, "--test-clock") as server:
        assert server.command("WEIR.TAKE", "ann", "api")[:3] == [0, 2, 1]
        reply = server.post("take", key="ann", limit="api")
        assert (reply.status, reply.json["remaining"]) == (200, 0)
        assert reply.headers["RateLimit-Policy"] == '"api";q=2;w=1'
        reply = server.get("/v1/check?key=ann&limit=api")
        assert (reply.status, reply.json["violated-policies"]) == (429, ["api"])
        assert reply.json["detail"] == "api is limited to 2 per 1 s"
        assert server.command("WEIR.SHOW", "ann", "api")[6] == "2"
        assert server.command("WEIR.REFUND", "ann", "api")[2] == 1
        assert server.command("WEIR.FILL", "ann", "api", "COST", "5")[6:] == ["4", 1]
        assert server.command("WEIR.RESET", "ann", "api") == 1
        assert server.command("WEIR.TAKE", "ann", "work")[5] == 1_000_000_000


def test_a_name_has_buckets_of_its_own(path):
    with Configured(path, API, "--test-clock") as server:
        server.command("WEIR.TAKE", "ann", "api")
        assert server.command("WEIR.SHOW", "ann", "2/s")[6] == "0"


def test_overrides_are_for_their_keys(path):
    with Configured(path, API, "--test-clock") as server:
        keys = ["ann", "tenant:acme", "tenant:gold-x", "tenant:acme", "ann"]
        capacities = [server.command("WEIR.TAKE", key, "api")[1] for key in keys]
        assert capacities == [2, 4, 3, 4, 2]
        in_one = server.client().pipeline([("WEIR.TAKE", key, "api") for key in keys])
        assert [reply[1] for reply in in_one] == [2, 4, 3, 4, 2]
        reply = server.post("take", key="tenant:gold-y", limit="api", cost=4)
        assert reply.status == 422
        assert reply.headers["RateLimit-Policy"] == '"api";q=3;w=1'


def test_a_name_that_nobody_has(path):
    with Configured(path, API, "--test-clock") as server:
        for text, why in (("apo", "'apo' is no kind of limit, and nothing in the configuration"),
                          ("api capacity=5", "invalid limit at byte 3: a name stands alone")):
            with pytest.raises(RespError, match=why):
                server.command("WEIR.TAKE", "ann", text)
            assert server.post("take", key="ann", limit=text).status == 400
        assert server.metric("weir_decisions_total", limit="api", verdict="allowed") == 0


def test_the_command_line_asks_for_a_name(path):
    with Configured(path, API, "--test-clock") as server:
        done = subprocess.run(
            [weir_binary(), "take", "tenant:acme", "api", "--server", f"127.0.0.1:{server.resp_port}"],
            capture_output=True, text=True,
        )
        assert (done.returncode, done.stdout) == (0, "allowed: 3 of 4 remain, empty in 250 ms\n")
    done = subprocess.run([weir_binary(), "take", "ann", "api", "--store", f"file:{path}.weir"],
                          capture_output=True, text=True)
    assert done.returncode == 2
    assert "names are a server's" in done.stderr


def test_a_name_stands_anywhere_among_the_words(path):
    with Configured(path, CHAIN, "--test-clock") as server:
        for words in ("user 5/s", "5/s user", "5/s, user", "5/s user fixed 9/h", "user everyone", "5/s block=1s user",
                      "fixed 9/h user queue 4/s"):
            said = weir(server, "take", "ann", *words.split(), "--cost", "0")
            assert (said.returncode, said.stderr) == (0, ""), words
            assert re.search("^ +user +2 of 2 remain", said.stdout, re.M), words
        ran = weir(server, "run", "ann", "5/s", "user", "--", "echo", "now")
        assert (ran.returncode, ran.stdout) == (0, "now\n")
        for words, why in (
            ("5/s usr", "ERR invalid limit at byte 5: limit 2 of 2: 'usr' is no kind of limit, and nothing in the"),
            ("windw 20/h", "'windw' is no kind of limit, and nothing in the configuration has this name"),
            ("5/s user capacity=5", "a name stands alone: what user means is said in the configuration"),
            ("5/s capcity 5", "a limit has no option 'capcity'"),
            ("5/s block = empty", "expected '=', not ' '"),
        ):
            said = weir(server, "take", "ann", *words.split())
            assert (said.returncode, why in said.stderr) == (2, True), said.stderr
    for words, complaint in (
        ("take ann 5/s usr", "'usr' is no kind of limit, nor an option of one; names are a server's"),
        ("fill ann 5/s usr", "one limit at a time, and 'usr' is another: only take"),
        ("pipe 5/s usr", "the slowest; 'usr' is another"),
        ("explain 5/s usr", "a limit has no option 'usr'"),
        ("explain windw 20/h", "unknown kind 'windw'"),
        (f"explain 5/s user --config {path}", "one limit at a time: in a list each keeps its own promise"),
    ):
        said = subprocess.run([weir_binary(), *words.split()], capture_output=True, text=True, input="",
                              env={**os.environ, "WEIR_STORE": f"file:{path}.weir"})
        assert (said.returncode, complaint in said.stderr) == (2, True), said.stderr


def test_a_fill_under_a_name_says_no_more_than_that_it_is_full(path):
    with Configured(path, "limits: {login: 1/min block=1h}", "--test-clock") as server:
        said = weir(server, "fill", "ann", "login").stdout
        assert said == "filled: 0 of 1 remain, empty in 1 min; 0 spilled, the bucket is full\n"


def test_a_shadow_refuses_nothing_and_counts(path):
    text = "limits: {api: {limit: 1/s, shadow: true}, slow: {limit: queue 1/s capacity=1, shadow: true}}"
    with Configured(path, text, "--test-clock") as server:
        assert server.command("WEIR.TAKE", "ann", "api") == [0, 1, 0, -1, 1_000_000_000, 0]
        assert server.command("WEIR.TAKE", "ann", "api") == [0, 1, 0, -1, 1_000_000_000, 0]
        assert server.command("WEIR.TAKE", "ann", "api", "COST", "5")[0] == 0
        assert server.command("WEIR.TAKE", "ann", "api", "WAIT", "5000")[0] == 0  # at once
        assert server.post("can_take", key="ann", limit="api").status == 200
        assert server.get("/v1/check?key=ann&limit=api").status == 200
        assert server.command("WEIR.TAKE", "ann", "slow")[5] == 0  # nobody is held up
        shadow = "weir_shadow_refusals_total"
        assert server.metric(shadow, limit="api", verdict="limited") == 4
        assert server.metric(shadow, limit="api", verdict="never") == 1
        assert server.metric("weir_decisions_total", limit="api", protocol="resp", verdict="allowed") == 4
        assert server.metric("weir_decisions_total", limit="api", protocol="http", verdict="allowed") == 2


SHADOWS = """
limits:
  api: {limit: 5/min, shadow: true}
  own: {limit: 5/s block=1h, shadow: true}
  user: 100/s
chains:
  both: [user, api]
"""
SHADOW_12_S = {"shadow": "limited", "shadow_retry_after_ns": 12_000_000_000}


def shadow_of(body):
    return {name: value for name, value in body.items() if name.startswith("shadow")}


def weir_take(server, *words):
    return subprocess.run([weir_binary(), *words, "--server", f"127.0.0.1:{server.resp_port}"],
                          capture_output=True, text=True)


def test_every_answer_says_what_a_shadow_would_have_refused(path):
    with Configured(path, SHADOWS, "--test-clock") as server:
        # Not a word before it would refuse.
        assert server.command("WEIR.TAKE", "ann", "api", "SHADOW") == [0, 5, 4, -1, 12_000_000_000, 0, 0, -1]
        reply = server.get("/v1/check?key=ann&limit=api")
        assert (reply.status, "Weir-Shadow" in reply.headers) == (200, False)
        assert shadow_of(server.post("take", key="ann", limit="api").json) == {}
        assert weir_take(server, "take", "ann", "api", "--json").stdout.count("shadow") == 0
        assert weir_take(server, "take", "ann", "api").stdout == "allowed: 0 of 5 remain, empty in 1 min\n"
        # Then everywhere; but an array that nobody asked for more keeps its length.
        full = [0, 5, 0, -1, 60_000_000_000, 0]
        assert server.command("WEIR.TAKE", "ann", "api") == full
        assert server.command("WEIR.TAKE", "ann", "api", "SHADOW") == [*full, 1, 12_000_000_000]
        assert server.command("WEIR.CANTAKE", "ann", "api", "SHADOW", "COST", "6") == [*full, 2, -1]
        assert server.command("WEIR.TAKE", "ann", "api", "WAIT", "9", "SHADOW") == [*full, 1, 12_000_000_000]
        with closing(server.client()) as client:
            client.command("HELLO", "3")
            told = client.command("WEIR.TAKE", "ann", "api")
            assert list(told)[6:] == ["shadow", "shadow_retry_after_ns"]
            assert (told["verdict"], told["shadow"], told["shadow_retry_after_ns"]) == (0, 1, 12_000_000_000)
        reply = server.post("take", key="ann", limit="api")
        assert (reply.status, shadow_of(reply.json)) == (200, SHADOW_12_S)
        assert reply.headers["Weir-Shadow"] == 'limited;limit="api";t=12'
        reply = server.get("/v1/check?key=ann&limit=api&cost=1")
        assert (reply.status, reply.headers["Weir-Shadow"]) == (200, 'limited;limit="api";t=12')
        done = weir_take(server, "take", "ann", "api", "--json")
        assert (done.returncode, shadow_of(json.loads(done.stdout))) == (0, SHADOW_12_S)
        done = weir_take(server, "take", "ann", "api")
        assert (done.returncode, done.stdout) == (
            0, "allowed (shadow: would be limited, retry in 12 s): 0 of 5 remain, empty in 1 min\n")
        assert "(shadow: would never let it pass)" in weir_take(server, "take", "ann", "api", "--cost", "6").stdout
        # A fill is no take, and a shadow does not refuse it.
        assert shadow_of(server.post("fill", key="ann", limit="api").json) == {}


def test_a_shadow_in_a_list_is_named(path):
    with Configured(path, SHADOWS, "--test-clock") as server:
        for _ in range(5):
            server.command("WEIR.TAKE", "ann", "both")
        assert server.command("WEIR.TAKE", "ann", "both", "SHADOW")[9:] == [1, 12_000_000_000, 1]
        assert len(server.command("WEIR.TAKE", "ann", "both")) == 9
        with closing(server.client()) as client:
            client.command("HELLO", "3")
            told = client.command("WEIR.TAKE", "ann", "both")
            assert (list(told)[8:], told["shadow_binding"]) == (
                ["shadow", "shadow_retry_after_ns", "shadow_binding"], 1)
        reply = server.post("take", key="ann", limit="both")
        assert shadow_of(reply.json) == {**SHADOW_12_S, "shadow_binding": 1}
        assert reply.headers["Weir-Shadow"] == 'limited;limit="api";t=12'
        done = weir_take(server, "take", "ann", "user,", "api")
        assert done.stdout.startswith("allowed (shadow: api would be limited, retry in 12 s): ")
        # Beside a refusal, too, it says what it would have done.
        server.command("WEIR.FILL", "ann", "user", "COST", "100")
        reply = server.post("take", key="ann", limit="both")
        assert (reply.status, shadow_of(reply.json)) == (429, {**SHADOW_12_S, "shadow_binding": 1})
        done = weir_take(server, "take", "ann", "both")
        assert done.stdout.startswith("limited (shadow: api would be limited, retry in 12 s): ")


def test_a_shadow_that_would_have_locked_the_key_out(path):
    with Configured(path, SHADOWS, "--test-clock") as server:
        for _ in range(5):
            server.command("WEIR.TAKE", "ann", "own")
        assert server.command("WEIR.TAKE", "ann", "own", "SHADOW")[6:] == [1, 3600 * 10**9]
        assert server.command("WEIR.TAKE", "ann", "own", "SHADOW")[6:] == [3, 3600 * 10**9]
        assert "(shadow: would be blocked, for 1 h more)" in weir_take(server, "take", "ann", "own").stdout


def test_decisions_are_counted_by_name(path):
    with Configured(path, API, "--test-clock") as server:
        for _ in range(3):
            server.command("WEIR.TAKE", "ann", "api")
        server.command("WEIR.TAKE", "ann", "5/s")
        total = "weir_decisions_total"
        assert server.metric(total, limit="api", protocol="resp", verdict="allowed") == 2
        assert server.metric(total, limit="api", protocol="resp", verdict="limited") == 1
        assert server.metric(total, limit="inline", protocol="resp", verdict="allowed") == 1
        assert "total_decisions:4\r\n" in server.command("INFO", "stats")
        server.reload(API.replace("2/s", "9/s"))
        assert server.metric(total, limit="api", protocol="resp", verdict="allowed") == 2
        server.reload("limits: {other: 1/s}")
        with pytest.raises(LookupError):
            server.metric(total, limit="api")
        assert server.metric(total, limit="other", protocol="resp", verdict="allowed") == 0


# ---- reloading ----


def test_kept_buckets_and_those_that_start_empty(path):
    text = "limits: {kept: 10/min, fresh: {limit: 10/min, on_change: reset}}"
    with Configured(path, text, "--test-clock") as server:
        for name in ("kept", "fresh"):
            server.command("WEIR.TAKE", "ann", name, "COST", "10")
        line = server.reload(text.replace("10/min", "20/min"))
        assert "limits=2 chains=0 routes=0 added=0 changed=2 removed=0 routes_changed=no" in line
        # What took a minute to drain still does, at the new rate: 20 units of 20.
        assert server.command("WEIR.SHOW", "ann", "kept")[1:5] == [20, 0, -1, 60_000_000_000]
        assert server.command("WEIR.SHOW", "ann", "fresh")[1:5] == [20, 20, -1, 0]
        server.reload(text)
        assert server.command("WEIR.SHOW", "ann", "kept")[6] == "10"
        assert server.command("WEIR.SHOW", "ann", "fresh")[6] == "10"  # it has not drained


@pytest.mark.parametrize("kind", ["bucket", "queue", "stepped", "fixed", "sliding", "window"])
def test_any_kind_may_change_its_numbers(path, kind):
    with Configured(path, f"limits: {{api: {kind} 10/min}}", "--test-clock") as server:
        for count in ("7/s", "1000/h", "3/7min", "10/min"):
            for _ in range(4):
                server.command("WEIR.TAKE", "ann", "api")
            server.reload(f"limits: {{api: {kind} {count}}}")
            reply = server.command("WEIR.SHOW", "ann", "api")
            assert 0 <= reply[2] <= reply[1]
            # A fraction of the old rate may count as one nanosecond of the new one.
            server.command("WEIR.CLOCK", "ADVANCE", 10_800_000_000_000)
            assert server.command("WEIR.TAKE", "ann", "api")[0] == 0


def test_a_bad_file_changes_nothing_and_says_why(path):
    with Configured(path, API, "--test-clock") as server:
        for text, where in (("limits:\n  api: 5/x\n", 'line=2 column=10 why="the limit: unknown unit'),
                            ("limit:\n", "line=1 column=1 why=\"unknown field 'limit'"),
                            ("limits: [\n", "line=2 column=1 why=\"this is no YAML"),
                            ("", "line=1 column=1 why=\"there are no limits in it")):
            line = server.reload(text, "reload_failed")
            assert f"error reload_failed file={path} {where}" in line
            assert server.command("WEIR.TAKE", "ann", "api", "COST", "0")[1] == 2
        path.unlink()
        assert f"reload_failed file={path} why=\"No such file" in server.reload_again("reload_failed")
        assert server.command("WEIR.TAKE", "ann", "api", "COST", "0")[1] == 2
        assert server.metric("weir_reload_failures_total") == 5
        assert server.metric("weir_configuration_edition") == 1
        server.reload(API)
        assert server.metric("weir_configuration_edition") == 2


def test_a_server_does_not_start_with_a_bad_file(path):
    with pytest.raises(RuntimeError, match=f"exited 3(.|\n)*{path}:1:1: unknown field 'limit'"):
        Configured(path, "limit: {}\n").start()
    path.unlink()
    with pytest.raises(RuntimeError, match="exited 3(.|\n)*No such file"):
        WeirServer("--config", path).start()


def test_a_configuration_is_found(tmp_path):
    (tmp_path / "weir").mkdir()
    path = tmp_path / "weir" / "weir.yaml"
    path.write_text("limits: {api: 2/s}\n")
    environment = {"XDG_CONFIG_HOME": str(tmp_path)}
    with WeirServer(environment=environment) as server:
        assert f"configuration file={path}" in server.log
        assert server.command("WEIR.TAKE", "ann", "api")[1] == 2
        path.unlink()
        if not Path("/etc/weir/weir.yaml").exists():
            server.signal(signal.SIGHUP)
            server.wait_for_log("reload_failed")
            assert server.command("WEIR.TAKE", "ann", "api")[1] == 2
    path.write_text("limits: {api: 2/s}\n")
    with WeirServer("--config", "off", environment=environment) as server:
        with pytest.raises(RespError, match="unknown kind 'api'"):
            server.command("WEIR.TAKE", "ann", "api")


def test_who_stands_in_line_ends_under_what_he_came_for(path):
    text = "limits: {slow: 1/min}"
    with Configured(path, text, "--test-clock") as server:
        server.command("WEIR.TAKE", "ann", "slow")
        client = server.client()
        client.send("WEIR.TAKE", "ann", "slow", "WAIT", 90_000)
        connection = http.client.HTTPConnection("127.0.0.1", server.http_port)
        wait_until(lambda: server.metric("weir_waiting") == 1)
        connection.request("GET", "/v1/check?key=ann&limit=slow&wait_ms=180000")
        wait_until(lambda: server.metric("weir_waiting") == 2)
        server.reload("limits: {other: 1/s}")
        server.command("WEIR.CLOCK", "ADVANCE", 120_000_000_000)
        assert client.read_reply()[:2] == [0, 1]
        answer = connection.getresponse()
        assert (answer.status, answer.headers["RateLimit-Policy"]) == (200, '"slow";q=1;w=60')
        with pytest.raises(RespError, match="'slow' is no kind"):
            client.command("WEIR.TAKE", "ann", "slow")


def test_a_reload_under_load(path):
    """Both names always have the numbers of one file; and whoever has seen a newer one sees no older."""

    def config(i):
        return f"limits: {{first: {1000 + i}/s, second: {1000 + i}/s}}\n"

    rounds = 20
    with Configured(path, config(0), "--threads", "3") as server:
        newest = [1000]
        stop = threading.Event()
        problems = []

        def hammer():
            client = server.client()
            while not stop.is_set() and not problems:
                known = newest[0]
                replies = client.pipeline([("WEIR.TAKE", "k", name, "COST", "0")
                                           for name in ("first", "second")] * 20)
                capacities = [reply[1] for reply in replies]
                if len(set(capacities)) != 1 or capacities[0] < known:
                    problems.append((known, capacities))
                newest[0] = max(newest[0], capacities[0])

        threads = [threading.Thread(target=hammer) for _ in range(6)]
        for thread in threads:
            thread.start()
        for i in range(1, rounds + 1):
            server.reload(config(i))
            wait_until(lambda i=i: newest[0] == 1000 + i or problems)
        stop.set()
        for thread in threads:
            thread.join()
        assert not problems
        # Nothing that was counted is lost on the way.
        asked = sum(server.metric("weir_decisions_total", limit=name, protocol="resp", verdict="allowed")
                    for name in ("first", "second"))
        assert asked == server.metric("weir_requests_total", protocol="resp")


# ---- lists and chains ----


CHAIN = """
limits:
  user: 2/s
  tenant: {limit: 3/s, overrides: {acme: 100/s, gold-*: 50/s}}
  everyone: 1000/s
  trial: {limit: 1/s, shadow: true}
chains:
  request:
    - {limit: user, key: "user:{user}"}
    - {limit: tenant, key: "{tenant}"}
    - {limit: everyone, key: everyone}
  tried: [user, trial]
  single: [user]
"""


def test_names_stand_in_lists(path):
    with Configured(path, CHAIN, "--test-clock") as server:
        reply = server.command("WEIR.TAKE", "ann", "user, 5/s, everyone")
        assert reply[:3] + reply[6:] == [0, 2, 1, -1, [2, 1, 500_000_000], [5, 4, 200_000_000],
                                         [1000, 999, 1_000_000]]
        reply = server.command("WEIR.TAKEALL", "2", "acme", "tenant", "bob", "user")
        assert [limit[0] for limit in reply[7:]] == [100, 2]
        reply = server.post("take", key="gold-x", limit=["tenant", "7/s"])
        assert [(limit["limit"], limit["capacity"]) for limit in reply.json["limits"]] == [
            ("tenant", 50), ("7/s", 7)]
        assert reply.headers["RateLimit-Policy"] == '"tenant";q=50;w=1, "7/s";q=7;w=1'
        done = subprocess.run(
            [weir_binary(), "take", "ann", "user,", "5/s", "--server", f"127.0.0.1:{server.resp_port}"],
            capture_output=True, text=True,
        )
        assert (done.returncode, done.stdout[:8]) == (0, "allowed:")
        for text, why in (("user, user", "at byte 6: limit 2 of 2 is limit 1 again"),
                          ("user, nobody", "limit 2 of 2"),
                          ("request, request", "limit 2 of 2: {user} is missing|limit 1 of 2"),
                          ("user, 5/x", "limit 2 of 2: unknown unit")):
            with pytest.raises(RespError, match=why):
                server.command("WEIR.TAKE", "ann", text)
        assert server.command("WEIR.SHOW", "ann", "user")[6] == "2"


def test_a_chain_is_all_or_nothing(path):
    with Configured(path, CHAIN, "--test-clock") as server:
        variables = ("VAR", "user", "ann", "VAR", "tenant", "acme", "VAR", "plan", "any")
        reply = server.command("WEIR.TAKE", "unused", "request", *variables)
        assert reply[:3] + reply[6:] == [0, 2, 1, -1, [2, 1, 500_000_000], [100, 99, 10_000_000],
                                         [1000, 999, 1_000_000]]
        assert server.command("WEIR.TAKE", "x", "request", "COST", "1", *variables)[:1] == [0]
        reply = server.command("WEIR.TAKE", "x", "request", *variables)
        assert (reply[0], reply[6]) == (1, 0)  # the user's limit decides
        assert server.command("WEIR.SHOW", "acme", "tenant")[6] == "2"  # and nobody is charged
        reply = server.post("take", limit="request", vars={"user": "bob", "tenant": "small"}, cost=3)
        assert (reply.status, reply.json["violated-policies"], reply.json["detail"]) == (
            422, ["user"], "a cost of 3 is more than user ever holds")
        reply = server.get("/v1/check?limit=request&var.user=ann&var.tenant=acme")
        assert (reply.status, reply.json["binding"]) == (429, 0)
        assert server.command("WEIR.CANTAKE", "x", "request", "VAR", "user", "bob", "VAR", "tenant",
                              "acme")[0] == 0
        assert server.command("WEIR.TAKE", "ann", "single")[6:] == [-1, [2, 1, 500_000_000]]


def test_a_chain_counts_with_each_of_its_limits(path):
    with Configured(path, CHAIN, "--test-clock") as server:
        for _ in range(3):
            server.command("WEIR.TAKE", "x", "request", "VAR", "user", "ann", "VAR", "tenant", "acme")
        total = "weir_decisions_total"
        assert server.metric(total, limit="user", protocol="resp", verdict="allowed") == 2
        assert server.metric(total, limit="user", protocol="resp", verdict="limited") == 1
        assert server.metric(total, limit="tenant", protocol="resp", verdict="allowed") == 3
        assert server.metric(total, limit="inline", protocol="resp", verdict="allowed") == 0


def test_a_shadow_in_a_chain(path):
    with Configured(path, CHAIN, "--test-clock") as server:
        assert server.command("WEIR.TAKE", "ann", "tried")[:3] == [0, 2, 1]
        assert server.command("WEIR.TAKE", "ann", "tried")[:3] == [0, 2, 0]
        reply = server.command("WEIR.TAKE", "ann", "tried")
        assert (reply[0], reply[6]) == (1, 0)
        assert server.post("take", key="ann", limit="tried").status == 429
        assert server.command("WEIR.SHOW", "ann", "trial")[6] == "1"
        # The third was refused by the user's limit as well; the shadow counts what it would refuse.
        assert server.metric("weir_shadow_refusals_total", limit="trial", verdict="limited") == 3


def test_who_waited_beside_a_shadow_that_refuses_was_served(path):
    with Configured(path, CHAIN, "--test-clock") as server:
        for _ in range(2):
            assert server.command("WEIR.TAKE", "ann", "tried")[0] == 0
        with closing(server.client()) as client:
            client.send("WEIR.TAKE", "ann", "tried", "WAIT", 90_000)
            wait_until(lambda: server.metric("weir_waiting") == 1, "it to stand in line")
            server.command("WEIR.CLOCK", "ADVANCE", 500_000_000)  # too early for the shadow
            assert client.read_reply()[0] == 0
        assert server.metric("weir_shadow_refusals_total", limit="trial", verdict="limited") == 2
        assert server.metric("weir_wait_duration_seconds_count") == 1


def test_chains_that_cannot_be_asked_for(path):
    with Configured(path, CHAIN, "--test-clock") as server:
        for command, why in (
            (("WEIR.TAKE", "k", "request", "VAR", "user", "ann"), "{tenant} is missing: request asks for it"),
            (("WEIR.TAKE", "k", "request", "VAR", "user", "", "VAR", "tenant", "x"), "{user} is empty"),
            (("WEIR.TAKE", "k", "user", "VAR", "user"), "VAR is followed by"),
            (("WEIR.TAKE", "k", "request", "VAR", "user", "a", "VAR", "user", "b"), "invalid VAR"),
            (("WEIR.FILL", "k", "request"), "a chain cannot be used here: only WEIR.TAKE"),
            (("WEIR.BLOCK", "k", "request", "1000"), "a chain cannot be used here"),
            (("WEIR.SHOW", "k", "single"), "a chain cannot be used here"),
            (("WEIR.RESET", "k", "user, request"), "a chain cannot be used here"),
        ):
            with pytest.raises(RespError, match=why):
                server.command(*command)
        for question, why in (
            ({"limit": "request", "vars": {"user": "ann"}}, "{tenant} is missing"),
            ({"limit": "request", "vars": {"user": "", "tenant": "x"}}, '"vars.user" has 0 bytes'),
            ({"limit": "user", "vars": {"user": "ann"}}, "this limit needs a key"),
            ({"limit": "10/s", "vars": {"user": "ann"}}, '"key" is missing'),
            ({"limit": "10/s", "vars": {}}, '"key" is missing'),
            ({"limit": "request"}, "{user} is missing: request asks for it"),
            ({"limit": "request", "vars": {}}, "{user} is missing: request asks for it"),
            ({"limit": "request", "key": "k"}, "{user} is missing: request asks for it"),
            ({"limit": "user"}, "this limit needs a key"),
            ({"limit": "request", "vars": {"user": 5}}, "must be a string"),
            ({"limit": "request", "vars": ["user"]}, "must be an object"),
        ):
            reply = server.post("take", **question)
            assert (reply.status, why in reply.json["detail"]) == (400, True), reply.body
        reply = server.get("/v1/check?limit=request")
        assert (reply.status, "{user} is missing: request asks for it" in reply.json["detail"]) == (400, True)
        reply = server.post("show", key="k", limit="request")
        assert reply.status == 400
        assert "a chain cannot be used here" in reply.json["detail"]
        assert server.command("WEIR.SHOW", "everyone", "everyone")[6] == "0"


def test_the_command_line_takes_a_chain(path):
    with Configured(path, CHAIN, "--test-clock") as server:
        done = subprocess.run(
            [weir_binary(), "take", "x", "request", "--vars", "user=ann,tenant=acme", "--server",
             f"127.0.0.1:{server.resp_port}"], capture_output=True, text=True,
        )
        assert done.returncode == 0
        assert done.stdout.splitlines() == [
            "allowed: 1 of 2 remain, empty in 500 ms",
            "    user      1 of 2 remain, empty in 500 ms",
            "    tenant    99 of 100 remain, empty in 10 ms",
            "    everyone  999 of 1000 remain, empty in 1 ms",
        ]


def weir(server, command, *words, **options):
    asked = [weir_binary(), command, *words]
    at = asked.index("--") if "--" in asked else len(asked)
    asked[at:at] = ["--server", f"127.0.0.1:{server.resp_port}"]
    return subprocess.run(asked, capture_output=True, text=True, timeout=30, **options)


def test_the_command_line_says_which_of_a_chain_decided(path):
    text = CHAIN.replace("user: 2/s", "user: 25/5s")
    with Configured(path, text, "--test-clock") as server:
        chain = ("x", "request", "--vars", "user=ann,tenant=gold-1")
        assert weir(server, "take", *chain, "--cost", "25").returncode == 0
        done = weir(server, "take", *chain)
        assert (done.returncode, done.stdout.splitlines()) == (1, [
            "limited: user is limited to 25 per 5 s; retry in 200 ms (0 of 25 remain, empty in 5 s)",
            "  > user      0 of 25 remain, empty in 5 s",
            "    tenant    25 of 50 remain, empty in 500 ms",
            "    everyone  975 of 1000 remain, empty in 25 ms",
        ])
        said = json.loads(weir(server, "take", *chain, "--json").stdout)
        assert (said["binding"], [limit["limit"] for limit in said["limits"]]) == (
            0, ["user", "tenant", "everyone"])
        done = weir(server, "can-take", *chain, "--cost", "51")
        assert (done.returncode, done.stdout.splitlines()[0]) == (
            4, "never: user: a cost of 51 exceeds the capacity of 25")
        one = weir(server, "take", "bob", "single", "--cost", "25")  # a chain of one
        assert one.stdout.splitlines()[1] == "    user  0 of 25 remain, empty in 5 s"
        assert weir(server, "block", "bob", "user", "90s").stdout == "blocked\n"
        assert weir(server, "take", "bob", "10/s,", "user").stdout.splitlines()[0].startswith(
            "blocked: user, for 1 min 30 s more (")
        # A limit that is written out needs no more words; a name alone has them, too.
        assert weir(server, "take", "cy", "user", "1/s", "--cost", "2").stdout.startswith(
            "never: a cost of 2 exceeds the capacity of 1\n")
        assert weir(server, "show", "ann", "user").stdout == "level 0 of 25: 25 of 25 remain, empty\n"
        assert weir(server, "show", "user:ann", "user").stdout.startswith("level 25 of 25: ")


def test_names_and_a_password(path, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("hush\n")
    with Configured(path, CHAIN, "--test-clock", "--password-file", secret) as server:
        chain = ("ann", "single", "--cost", "2")
        assert weir(server, "take", *chain, "--password-file", secret).returncode == 0
        done = weir(server, "take", *chain, "--password-file", secret)
        assert done.stdout.startswith("limited: user is limited to 2 per 1 s; ")
        for command in (("take", *chain), ("pipe", "user", "--key", "ann")):
            done = weir(server, *command, input="line\n")
            assert (done.returncode, done.stdout) == (3, "")
            assert "wants a password" in done.stderr


def test_variables_that_nobody_asks_for_do_no_harm(path):
    with Configured(path, CHAIN, "--test-clock") as server:
        for limit in ("single", "user", "10/s", "10/s, user"):
            assert server.command("WEIR.TAKE", limit, limit, "VAR", "other", "x")[0] == 0
            assert server.post("can_take", key="bob", limit=limit, vars={"other": "x"}).status == 200
        variables = "user=ann,tenant=acme,other=x"
        assert weir(server, "take", "k", "request", "--vars", variables).returncode == 0
        assert weir(server, "take", "cy", "10/s,", "user", "--vars", variables).returncode == 0


def test_a_mistake_exits_as_wrong_usage_though_a_server_finds_it(path):
    text = CHAIN.replace("limits:\n", "limits:\n  old: window 3/min\n")
    with Configured(path, text, "--test-clock") as server:
        for words, why in (
            (("take", "ann", "user,", "user"), "ERR invalid limit at byte 6: limit 2 of 2 is limit 1 again"),
            (("take", "ann", "request"), "ERR invalid limit at byte 0: {user} is missing"),
            (("take", "ann", "request", "--vars", "user=a,user=b"), "ERR invalid VAR: "),
            (("can-take", "ann", "nobody"), "ERR invalid limit at byte 0: 'nobody' is no kind of limit"),
            (("take", "ann", "old", "--cost", "0.5"), "ERR invalid cost: this limit counts whole units"),
            (("refund", "ann", "old"), "ERR invalid limit: a window takes no refund"),
            (("show", "ann", "request"), "ERR invalid limit: a chain cannot be used here"),
        ):
            done = weir(server, *words)
            assert (done.returncode, why in done.stderr) == (2, True), done
        reply = server.post("take", key="ann", limit="user, user")
        assert reply.json["detail"].startswith("the limit, byte 6: limit 2 of 2 is limit 1 again")


def test_run_waits_for_a_chain(path):
    with Configured(path, CHAIN, "--test-clock") as server:
        chain = ("x", "request", "--vars", "user=ann,tenant=acme")
        ran = weir(server, "run", *chain, "--cost", "2", "--", "echo", "now")
        assert (ran.returncode, ran.stdout) == (0, "now\n")
        ran = weir(server, "run", *chain, "--wait", "400ms", "--", "echo", "now")
        assert (ran.returncode, ran.stdout, ran.stderr) == (
            124, "", "weir run: x: its turn did not come in time; user is limited to 2 per 1 s; "
                     "retry in 100 ms\n")
        ran = weir(server, "run", "x", "request", "--vars", "user=ann", "--", "echo", "now")
        assert ran.returncode == 125
        assert "{tenant} is missing: request asks for it" in ran.stderr


def test_a_pipe_under_a_name(path):
    text = CHAIN + "\n  other: [trial]\n"
    with Configured(path, text) as server:  # the clock of the machine, as pipes need
        begun = time.monotonic()
        done = weir(server, "pipe", "tenant", "--key", "gold-1", input="line\n" * 11)
        assert (done.returncode, done.stdout) == (0, "line\n" * 11)
        assert time.monotonic() - begun > 0.2  # ten intervals of 20 ms: this key's numbers
        assert server.metric("weir_decisions_total", limit="tenant", protocol="resp", verdict="allowed") > 1
        for words, code, why in (
            (("nobody", "--key", "k"), 2, "'nobody' is no kind of limit, and nothing in the configuration"),
            (("single", "--key", "k"), 2, "'single' is a chain: what leaves has one rate"),
            (("request", "--key", "k"), 2, "{user} is missing"),
            (("user", "--key", "k", "--cost", "3"), 2, "a cost of 3 never fits in a line of 2"),
        ):
            done = weir(server, "pipe", *words, input="line\n")
            assert (done.returncode, done.stdout, why in done.stderr) == (code, "", True), done.stderr
    for words in (("user",), ("user", "--key", "k", "--store", f"file:{path}.weir")):
        done = subprocess.run([weir_binary(), "pipe", *words], input="line\n", capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (2, "")
        assert "names are a server's" in done.stderr


def test_what_names_mean_is_told(path):
    with Configured(path, CHAIN, "--test-clock") as server:
        assert server.command("WEIR.LIMITS", "acme", "tenant, 5/s, user") == [
            ["tenant", "100/s"], ["5/s", "5/s"], ["user", "2/s"]]
        assert server.command("WEIR.LIMITS", "k", "request", "VAR", "user", "u", "VAR", "tenant", "gold-x") == [
            ["user", "2/s"], ["tenant", "50/s"], ["everyone", "1000/s"]]
        assert server.command("WEIR.SHOW", "everyone", "everyone")[6] == "0"  # nothing was decided
        client = server.client()
        client.command("HELLO", "3")
        assert client.command("WEIR.LIMITS", "k", "single") == [{"name": "user", "limit": "2/s"}]
        for words, why in ((("k", "nobody"), "'nobody' is no kind"), (("", "user"), "invalid key: it must be 1"),
                           (("k", "user", "COST", "2", "x"), "comes nothing or VAR"),
                           (("k", "user", "VAR", "a"), "comes nothing or VAR"),
                           (("k", "user", "VAR", "a", "b", "VAR", "a", "c"), "invalid VAR"),
                           (("k", "request"), "{user} is missing")):
            with pytest.raises(RespError, match=why):
                server.command("WEIR.LIMITS", *words)
        # Between questions in one pipeline all answers stay in order.
        replies = server.client().pipeline([("WEIR.TAKE", "k", "user"), ("WEIR.LIMITS", "k", "user"),
                                            ("WEIR.TAKE", "k", "user")])
        assert [reply[:3] for reply in replies] == [[0, 2, 1], [["user", "2/s"]], [0, 2, 0]]


# ---- routes ----


ROUTES = CHAIN + """
routes:
  - {path: /login, method: POST, limit: user, cost: 2}
  - {path: /health, limit: user, cost: 0}
  - {path: /api, limit: request}
"""


def check(server, query, method="GET", **fields):
    names = {name.replace("_", "-"): value for name, value in fields.items()}
    return server.request(method, f"/v1/check?{query}", headers=names)


def test_routes_choose_limit_and_cost(path):
    with Configured(path, ROUTES, "--test-clock") as server:
        login = {"X_Forwarded_Method": "POST", "X_Forwarded_Uri": "/login?next=/"}
        reply = check(server, "key=ann&route=forwarded", **login)
        assert (reply.status, reply.headers["RateLimit"]) == (200, '"user";r=0;t=1')
        assert check(server, "key=ann&route=forwarded", **login).status == 429
        # Neither other words for the path nor the client's own idea of the cost lead elsewhere.
        dodge = {**login, "X_Forwarded_Uri": "/x/..//%6Cogin", "X_Weir_Cost": "0"}
        assert check(server, "key=ann&route=forwarded", **dodge).status == 429
        health = {"X_Original_Method": "GET", "X_Original_URI": "/health"}
        assert check(server, "key=ann&route=original", **health).status == 200
        api = "route=rest&rest=/api/things?a=b"
        assert check(server, "var.user=bob&var.tenant=acme&" + api).status == 200
        reply = check(server, api, X_Weir_Var_User="bob", X_Weir_Var_Tenant="acme")
        assert reply.status == 200
        reply = check(server, api, X_Weir_Var_User="bob", X_Weir_Var_Tenant="acme")
        assert (reply.status, reply.json["violated-policies"]) == (429, ["user"])
        # The query wins: this is still bob.
        assert check(server, "var.user=bob&" + api, X_Weir_Var_User="eve", X_Weir_Var_Tenant="acme").status == 429


def test_what_no_route_is_for(path):
    with Configured(path, ROUTES, "--test-clock") as server:
        for query, fields, why in (
            ("key=a&route=forwarded", {}, "route=forwarded needs the header fields x-forwarded-method"),
            ("key=a&route=elsewhere", {}, "route= is forwarded, original or rest"),
            ("key=a&route=rest&limit=user", {}, "route= excludes limit= and cost="),
            ("key=a&route=rest&rest=/apis", {}, "no route for GET /apis"),
            ("key=a&route=rest&rest=api", {}, "begins with no /"),
            ("route=rest&rest=/health", {}, "this limit needs a key"),
            ("route=rest&rest=/api", {}, "{user} is missing"),
        ):
            reply = check(server, query, **fields)
            assert (reply.status, why in reply.json["detail"]) == (400, True), reply.body
        server.reload("limits: {user: 2/s}")
        assert check(server, "key=a&route=rest&rest=/api").status == 400


# ---- the page ----


def test_the_page_about_names(path, tmp_path):
    """Every session of docs/name-your-limits.md, against the file that it shows."""
    page = (ROOT / "docs/name-your-limits.md").read_text()
    text = re.search(r"^```yaml\n(.*?)^```", page, re.M | re.S).group(1)
    (tmp_path / "weir").symlink_to(weir_binary())
    with Configured(path, text, "--test-clock") as server:
        environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "TERM": "dumb",
                       "WEIR_SERVER": f"127.0.0.1:{server.resp_port}"}
        sessions = [
            part.partition("\n")[::2]
            for block in re.findall(r"^```console\n(.*?)^```", page, re.M | re.S)
            for part in re.split(r"^\$ ", block, flags=re.M)[1:]
        ]
        assert len(sessions) >= 12
        for command, output in sessions:
            command = command.replace("redis-cli -p 6390", f"redis-cli --no-raw -p {server.resp_port}")
            command = command.replace("127.0.0.1:8390", f"127.0.0.1:{server.http_port}")
            ran = subprocess.run(["bash", "-c", command], env=environment, text=True, timeout=30,
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            said = ran.stdout.replace(f"127.0.0.1:{server.resp_port}", "127.0.0.1:6390")
            assert said == output, command
