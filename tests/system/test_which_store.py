"""What each store decides, and what it refuses by name: docs/which-store.md has the tables, and they are true.

    WEIR_RENEW_DOCS=1 ... pytest tests/system/test_which_store.py     # writes them
"""

import os
import re
import subprocess
from pathlib import Path

import pytest

from weirserver import RespError, WeirServer, weir_binary

PAGE = Path(__file__).resolve().parents[2] / "docs/which-store.md"
KINDS = {"bucket": "2/h", "queue": "queue 2/h", "stepped": "stepped 2/h", "fixed": "fixed 2/h",
         "sliding": "sliding 2/h", "window": "window 2/h"}
SHADOWS = "limits:\n" + "".join(f"  trial-{kind}: {{limit: {limit}, shadow: true}}\n" for kind, limit in KINDS.items())

pytestmark = pytest.mark.once


def take(client, key, limit):
    return client.command("WEIR.TAKE", key, limit)


def wait(client, key, limit):
    """For a turn that comes within the hour, but not in a millisecond: refused, because that is known."""
    client.command("WEIR.FILL", key, limit, "COST", 2)
    return client.command("WEIR.TAKE", key, limit, "WAIT", 1)


FEATURES = {
    "take": take,
    "can_take": lambda client, key, limit: client.command("WEIR.CANTAKE", key, limit),
    "fill": lambda client, key, limit: client.command("WEIR.FILL", key, limit),
    "refund": lambda client, key, limit: client.command("WEIR.REFUND", key, limit),
    "show": lambda client, key, limit: client.command("WEIR.SHOW", key, limit),
    "reset": lambda client, key, limit: client.command("WEIR.RESET", key, limit),
    "block, unblock": lambda client, key, limit: [client.command("WEIR.BLOCK", key, limit, 1000),
                                                  client.command("WEIR.UNBLOCK", key, limit)],
    "`block=`": lambda client, key, limit: take(client, key, f"{limit} block=1s"),
    "several in one take": lambda client, key, limit: client.command("WEIR.TAKEALL", 2, key, limit, f"{key}2", "9/h"),
    "in shadow among others": lambda client, key, limit: client.command(
        "WEIR.TAKEALL", 2, key, f"trial-{limit.split()[0] if ' ' in limit else 'bucket'}", f"{key}2", "9/h"),
    "waiting": wait,
}


def is_decided(client, feature, kind):
    try:
        reply = FEATURES[feature](client, f"{kind} {feature}", KINDS[kind])
    except RespError:
        return False
    return not isinstance(reply, list) or reply[0] != 4  # an error


def table(url, tmp_path):
    (tmp_path / "shadows.yaml").write_text(SHADOWS)
    lines = [f"| | {' | '.join(f'`{kind}`' for kind in KINDS)} |", "|---" * (len(KINDS) + 1) + "|"]
    with WeirServer("--store", url, "--config", tmp_path / "shadows.yaml") as server, server.client() as client:
        for feature in FEATURES:
            cells = ["yes" if is_decided(client, feature, kind) else "no" for kind in KINDS]
            lines.append(f"| {feature} | {' | '.join(cells)} |")
    return "\n".join(lines)


def compare(name, text):
    """With what stands in the page between its markers."""
    page = PAGE.read_text()
    pattern = re.compile(rf"(<!-- {name} -->\n).*?(\n<!-- /{name} -->)", re.DOTALL)
    renewed = pattern.sub(lambda found: found[1] + text + found[2], page)
    if os.environ.get("WEIR_RENEW_DOCS"):
        PAGE.write_text(renewed)
    assert renewed == page


@pytest.mark.parametrize("store", ["memory:", "file:"])
def test_what_a_table_decides_is_what_the_page_says(store, tmp_path):
    compare("table", table("memory:" if store == "memory:" else f"file:{tmp_path}/buckets", tmp_path))


@pytest.mark.database
def test_what_postgres_decides_is_what_the_page_says(tmp_path, postgres):
    if "not in PostgreSQL" in subprocess.run([weir_binary(), "--version"], capture_output=True, text=True).stdout:
        pytest.skip("built without libpq")
    url = postgres.url(postgres.new_database())
    subprocess.run([weir_binary(), "store", "init", url], check=True, capture_output=True)
    compare("postgres", table(f"{url}&deadline=1000ms", tmp_path))
