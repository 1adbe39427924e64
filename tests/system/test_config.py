"""Configurations: `weir check-config`, and a server that reads one."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from weirserver import weir_binary

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "weir.yaml"

pytestmark = pytest.mark.skipif(
    "libyaml 0" not in subprocess.run([weir_binary(), "--version"], capture_output=True, text=True).stdout,
    reason="built without libyaml",
)


def check_config(*arguments, **environment):
    return subprocess.run(
        [weir_binary(), "check-config", *map(str, arguments)], capture_output=True, text=True,
        env={**os.environ, **environment},
    )


# ---- check-config ----


def test_a_good_configuration_is_told():
    done = check_config(EXAMPLE)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"{EXAMPLE} is good: 5 limits, 2 overrides, 1 chains, 4 routes\n")
    for line in ("  exports   20/h; shadow: refuses nothing", "            tenant:gold-*: 500/s capacity=1000",
                 "            tenant of tenant:{tenant}", "  /login POST: login, cost 1"):
        assert line in done.stdout.splitlines()


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
    assert by_home.stdout.startswith(f"{home}/.config/weir/weir.yaml is good: 1 limits")
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
