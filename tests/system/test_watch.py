"""What the server tells its operator without being asked: in the log, by metrics, by /healthz."""

import json
import re
import signal
import socket
import subprocess
import time

import pytest
from weirserver import RespError, WeirServer, wait_until, weir_binary


def log_lines(server, event):
    return [line for line in list(server.lines) if f" {event} " in line]


def fields(line):
    return dict(re.findall(r'(\w+)=("[^"]*"|\S+)', line))


def fill(client, first, count, limit="1/d"):
    """Takes under as many keys; returns the verdicts."""
    answers = client.pipeline([("WEIR.TAKE", f"key{first + i}", limit) for i in range(count)])
    return [answer[0] for answer in answers]


# ---- the table fills up ----


def test_a_table_that_fills_up_is_logged_before_it_is_full():
    with WeirServer("--memory", "64K") as server, server.client() as client:
        slots = server.metric("weir_table_slots")
        assert server.metric("weir_table_free_slots") == slots
        assert fill(client, 0, int(slots * 0.7)) == [0] * int(slots * 0.7)
        wait_until(
            lambda: server.metric("weir_table_live_buckets") == int(slots * 0.7), "the census"
        )
        assert log_lines(server, "table_filling") == []
        fill(client, int(slots * 0.7), int(slots * 0.12))
        line = server.wait_for_log(" table_filling ")
        assert " warn " in line and 80 <= int(fields(line)["percent"]) <= 82
        assert server.metric("weir_table_free_slots") < slots / 5
        assert log_lines(server, "table_full") == []


def test_a_full_table_is_logged_at_a_bounded_rate():
    with WeirServer("--memory", "64K") as server, server.client() as client:
        began = time.monotonic()
        slots = int(server.metric("weir_table_slots"))
        verdicts = fill(client, 0, 2 * slots)
        assert verdicts.count(4) >= slots
        server.wait_for_log(" table_full ")
        fill(client, 2 * slots, 100)
        full = server.metric("weir_table_full_total")
        wait_until(
            lambda: sum(1 + int(fields(one)["skipped"]) for one in log_lines(server, "table_full"))
            == full,
            "each of them in the log",
        )
        lines = log_lines(server, "table_full")
        assert len(lines) <= time.monotonic() - began + 1
        assert " error " in lines[0] and int(fields(lines[0])["slots"]) == slots
        assert int(fields(lines[-1])["free"]) <= slots / 20
        assert "table_free_slots" in client.command("INFO", "memory")
        assert len(log_lines(server, "table_filling")) <= 1


def test_events_without_room_are_logged():
    with WeirServer("--store", "memory:?size=64K&events=4K") as server, server.client() as client:
        assert 4 in fill(client, 0, 100, "window 5/d")
        line = server.wait_for_log(" events_full ")
        assert " error " in line and int(fields(line)["bytes"]) == 4096


@pytest.mark.parametrize("where", ["memory", "file"])
def test_on_full_evict_lets_new_keys_in_and_is_logged(where, tmp_path):
    store = ["--memory", "64K"] if where == "memory" else ["--store", f"file:{tmp_path}/b?size=64K"]
    with WeirServer(*store) as server, server.client() as client:
        slots = int(server.metric("weir_table_slots"))
        assert 4 in fill(client, 0, 2 * slots)
        assert fill(client, 10**6, 1000, "100/s on_full=evict") == [0] * 1000
        wait_until(
            lambda: any(int(fields(one)["evicted"]) > 0 for one in log_lines(server, "table_full")),
            "dropped buckets in the log",
        )
        assert 0 < server.metric("weir_table_evicted_total") <= 1000


def test_named_limits_evict_too(tmp_path):
    config = tmp_path / "weir.yaml"
    config.write_text("limits:\n  api: 100/s on_full=evict\n")
    with WeirServer("--memory", "64K", "--config", config) as server, server.client() as client:
        fill(client, 0, 3000)
        assert fill(client, 10**6, 500, "api") == [0] * 500
        assert server.metric("weir_table_evicted_total") > 0


def test_explain_says_what_evict_can_forgive():
    said = subprocess.run(
        [weir_binary(), "explain", "5/min on_full=evict"], capture_output=True, text=True
    ).stdout
    assert "up to 5 more, each time" in said
    run = [weir_binary(), "explain", "5/min on_full=evict", "--json"]
    said = json.loads(subprocess.run(run, capture_output=True, text=True).stdout)
    assert said["on_full"] == "evict" and said["evict_forgives_max"] == "5"


# ---- the file of the store ----


def test_a_deleted_file_is_noticed_and_so_is_its_return(tmp_path):
    path = tmp_path / "buckets"
    with WeirServer("--store", f"file:{path}?size=64K") as server:
        assert server.metric("weir_store_gone") == 0
        path.rename(tmp_path / "elsewhere")
        line = server.wait_for_log(" store_gone ")
        assert " error " in line and "deleted" in line and "SIGHUP" in line
        assert server.metric("weir_store_gone") == 1
        sick = server.get("/healthz")
        assert (sick.status, sick.body.split(b":")[0]) == (503, b"store gone")
        (tmp_path / "elsewhere").rename(path)
        server.wait_for_log(" store_back ")
        assert server.get("/healthz").status == 200
        assert server.metric("weir_store_gone") == 0
        assert len(log_lines(server, "store_gone")) == 1


def test_a_file_that_another_one_has_replaced_is_noticed(tmp_path):
    path = tmp_path / "buckets"
    with WeirServer("--log", "json", "--store", f"file:{path}?size=64K") as server:
        (tmp_path / "copy").write_bytes(path.read_bytes())
        (tmp_path / "copy").rename(path)
        line = json.loads(server.wait_for_log('"store_gone"'))
        assert line["level"] == "error" and "another file" in line["why"]


def test_a_file_of_another_size_is_not_gone(tmp_path):
    store = f"file:{tmp_path}/buckets"
    with WeirServer("--store", store + "?size=64K") as server, server.client() as client:
        client.command("WEIR.TAKE", "alice", "1/h")
        resized = subprocess.run(
            [weir_binary(), "store", "resize", "128K", "--store", store], capture_output=True
        )
        assert resized.returncode == 0
        # Then the watch has looked at the new file: it counts its slots.
        wait_until(
            lambda: client.command("WEIR.TAKE", "alice", "1/h")[0] == 1
            and server.metric("weir_table_free_slots") > 1600,
            "the new file",
        )
        assert server.get("/healthz").status == 200
        (tmp_path / "buckets").unlink()
        server.wait_for_log(" store_gone ")
        assert len(log_lines(server, "store_gone")) == 1


def test_a_folder_that_cannot_be_entered_is_no_deletion(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    with WeirServer("--store", f"file:{folder}/buckets?size=64K") as server:
        folder.rename(tmp_path / "elsewhere")
        folder.symlink_to(folder)  # a ring, which stops root as well
        line = server.wait_for_log(" store_gone ")
        assert "does not know" in line and "deleted" not in line
        server.process.send_signal(signal.SIGHUP)
        assert "cannot be looked at" in server.wait_for_log(" store_not_followed ")
        folder.unlink()
        (tmp_path / "elsewhere").rename(folder)
        server.wait_for_log(" store_back ")


def test_another_store_that_was_copied_into_the_file_is_noticed(tmp_path):
    paths = [tmp_path / name for name in ("buckets", "other")]
    take = [weir_binary(), "take", "alice", "10/d", "--store"]
    for path in paths:
        subprocess.run([*take, f"file:{path}?size=64K"], check=True, capture_output=True)
    with WeirServer("--store", f"file:{paths[0]}") as server:
        with open(paths[0], "r+b") as file:  # not cut short first, as cp would
            file.write(paths[1].read_bytes())
        line = server.wait_for_log(" store_gone ")
        assert "another store was copied" in line and "restart" in line
        server.process.send_signal(signal.SIGHUP)
        assert "only a restart" in server.wait_for_log(" store_not_followed ")


def test_a_file_that_went_right_after_its_resize_is_gone(tmp_path):
    path = tmp_path / "buckets"
    with WeirServer("--store", f"file:{path}?size=64K") as server, server.client() as client:
        client.command("WEIR.TAKE", "alice", "1/h")
        server.process.send_signal(signal.SIGSTOP)  # so that it does not go along in time
        resize = [weir_binary(), "store", "resize", "128K", "--store", f"file:{path}"]
        subprocess.run(resize, check=True, capture_output=True)
        path.unlink()
        server.process.send_signal(signal.SIGCONT)
        line = server.wait_for_log(" store_gone ")
        assert "answered with an error" in line and "restart" in line
        assert client.command("WEIR.TAKE", "alice", "1/h")[0] == 4
        assert server.get("/healthz").status == 503


def test_the_end_by_a_file_that_is_cut_short_is_a_line_of_the_log(tmp_path):
    path = tmp_path / "buckets"
    with WeirServer("--log", "json", "--store", f"file:{path}?size=64K") as server:
        with open(path, "r+b") as file:
            file.truncate(4096)
        server.wait()
        line = json.loads(server.lines[-1])
        assert (line["event"], line["level"]) == ("store_cut", "error")
        assert server.process.returncode == 3


def test_a_store_that_cannot_be_opened_is_a_line_of_a_log_in_json(tmp_path):
    (tmp_path / "buckets").write_bytes(b"no store at all" * 1000)
    run = [weir_binary(), "serve", "--log", "json", "--resp", "off", "--http", "127.0.0.1:0",
           "--store", f"file:{tmp_path}/buckets"]
    done = subprocess.run(run, capture_output=True, text=True)
    line = json.loads(done.stderr.splitlines()[-1])
    assert done.returncode == 3
    assert (line["event"], line["url"]) == ("store_failed", f"file:{tmp_path}/buckets")


# ---- requests that are wrong ----


def test_bad_requests_are_logged_with_a_reason_and_no_key(tmp_path):
    config = tmp_path / "weir.yaml"
    config.write_text("limits:\n  api: 10/s\nroutes:\n  - {path: /api/*, limit: api}\n")
    with WeirServer("--config", config) as server, server.client() as client:
        asked = server.get("/v1/check?key=alice&route=forwarded", X_Forwarded_Method="GET",
                           X_Forwarded_Uri="/login?token=geheim")
        assert asked.status == 400
        line = server.wait_for_log(" reason=no_route ")
        assert re.search(r" warn bad_request protocol=http client=127\.0\.0\.1:\d+ ", line)
        assert "has no route for GET /login" in line and "skipped=0" in line
        with pytest.raises(RespError):
            client.command("FROBNICATE", "secret-key")
        line = server.wait_for_log(" reason=unknown_command ")
        port = client.socket.getsockname()[1]
        assert f" bad_request protocol=resp client=127.0.0.1:{port} " in line
        assert " why=\"unknown command '..' \" " in line
        with pytest.raises(RespError):
            client.command("WEIR.TAKE", "secret-key", "10/parsec")
        assert "at byte 3: unknown unit '..'; one of ns us" in server.wait_for_log(" reason=invalid ")
        with pytest.raises(RespError):
            client.command("WEIR.TAKE", "secret-key")
        assert "wrong number of arguments for 'weir.take' command" in server.wait_for_log("wrong number")
        assert "secret-key" not in server.log and "geheim" not in server.log


def test_foreign_hosts_and_pages_are_logged_with_the_remedy():
    with WeirServer() as server:
        assert server.get("/metrics", Host="evil.example").status == 421
        line = server.wait_for_log(" reason=foreign_host ")
        assert "start the server with --http-host NAME" in line and "client=127.0.0.1:" in line
        page = {"Origin": "https://evil.example"}
        assert server.request("POST", "/v1/take", '{"key": "a", "limit": "1/h"}', page).status == 403
        line = server.wait_for_log(" reason=foreign_page ")
        assert "only this server's own may, under its Host or a name of --http-host NAME" in line
        assert server.get("/v1/check?key=a&limit=1/h", **page).status == 403
        assert server.wait_for_log("set X-Forwarded-For").count(" reason=foreign_page ") == 1
        assert "evil.example" not in server.log


def test_a_client_of_a_unix_socket_is_logged_as_such(tmp_path):
    path = tmp_path / "socket"
    with WeirServer("--resp", f"unix:{path}") as server, socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
        client.sendall(b"FROBNICATE\r\n")
        assert "protocol=resp client=unix " in server.wait_for_log(" reason=unknown_command ")


def test_bad_requests_are_logged_at_a_bounded_rate():
    with WeirServer() as server, server.client() as client:
        began = time.monotonic()
        client.pipeline([("WEIR.TAKE", "k", "nonsense")] * 5000)
        took = time.monotonic() - began
        assert server.metric("weir_bad_requests_total", protocol="resp") == 5000
        server.wait_for_log(" bad_request ")
        assert len(log_lines(server, "bad_request")) <= 5 * took + 6


# ---- a configuration, before it is used ----


def check_config(path, *words):
    return subprocess.run(
        [weir_binary(), "check-config", path, *words], capture_output=True, text=True
    )


def test_check_config_shows_many_errors_at_once_in_their_order(tmp_path):
    path = tmp_path / "weir.yaml"
    path.write_text(
        "chains:\n  c: [api, nobody]\nlimits:\n  api: 10/q\n  Bad: 3/s\n  ok:\n    limit: 5/s\n"
        "    overrides:\n      a: 3/\n      b: x\nroutes:\n  - {path: /a, limit: api}\n"
        "  - {path: /b, limit: c}\n  - {path: /c, limit: ok, cost: z}\n"
    )
    done = check_config(path)
    places = re.findall(r"weir.yaml:(\d+):(\d+): ", done.stderr)
    # Nothing is said of 'api' in the chain and in the route: it has had its error.
    assert [int(line) for line, _ in places] == [2, 4, 5, 9, 10, 14]
    assert done.returncode == 3
    said = json.loads(check_config(path, "--json").stdout)
    assert [error["line"] for error in said["errors"]] == [2, 4, 5, 9, 10, 14]
    assert said["line"] == 2 and said["error_count"] == 6 and said["good"] is False


def test_check_config_goes_on_behind_a_field_that_it_does_not_know(tmp_path):
    path = tmp_path / "weir.yaml"
    path.write_text("limits:\n  a: 1/q\n  b: {limit: 1/s, burst: 5, shadows: true}\nchains:\n  c: [nobody]\n"
                    "limits: {}\nroute: []\nroutes:\n  - {path: /, limit: who}\nother: 1\n")
    said = json.loads(check_config(path, "--json").stdout)
    assert [error["line"] for error in said["errors"]] == [2, 3, 3, 5, 6, 7, 9, 10]
    path.write_text("limit:\n  a: 1/s\nroutes:\n  - {path: /, limit: a}\n")
    errors = json.loads(check_config(path, "--json").stdout)["errors"]
    assert len(errors) == 1 and "unknown field 'limit'" in errors[0]["why"]  # not that there are no limits


def test_check_config_shows_twenty_errors_and_counts_the_others(tmp_path):
    path = tmp_path / "weir.yaml"
    path.write_text("limits:\n" + "".join(f"  a{i}: 1/q\n" for i in range(30)))
    lines = check_config(path).stderr.splitlines()
    assert len(lines) == 21 and "weir.yaml:21:" in lines[19]
    assert lines[20].endswith("and 10 more errors")


@pytest.mark.parametrize(
    "routes, warns",
    [
        ("  - {path: /api, limit: api}\n", True),
        ("  - {path: /api, limit: api}\n  - {path: /, method: GET, limit: api}\n", True),
        ("  - {path: /api, limit: api}\n  - {path: /, limit: api}\n", False),
        ("", False),
    ],
)
def test_check_config_warns_where_the_root_has_no_route(tmp_path, routes, warns):
    path = tmp_path / "weir.yaml"
    path.write_text("limits:\n  api: 10/s\nroutes:\n" + routes)
    done = check_config(path)
    assert done.returncode == 0
    assert ("warning: no route for /" in done.stdout) is warns
    assert bool(json.loads(check_config(path, "--json").stdout)["warnings"]) is warns
