"""What the compiler and the linker put between a mistake in memory and somebody else's code, read from what they
made: the program, the library, and the objects in it."""

import os
import re
import subprocess
from pathlib import Path

import pytest
from weirserver import weir_binary

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / os.environ.get("WEIR_PRESET", "dev")
ARCHIVE = BUILD / "src" / "libweir.a"
MADE = (Path(weir_binary()), BUILD / "src" / "libweir.so")
LANDS = r"(?:x86 feature: IBT, SHSTK|AArch64 feature: BTI, PAC)"

pytestmark = pytest.mark.once


def said(*command):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=True).stdout


@pytest.fixture(params=MADE, ids=lambda path: path.name)
def made(request):
    return request.param


def test_code_goes_anywhere_and_the_stack_is_no_code(made):
    assert re.search(r"Type:\s+DYN", said("readelf", "-hW", made))
    assert re.search(r"GNU_STACK .* RW +0x", said("readelf", "-lW", made))


def test_what_the_loader_writes_is_read_only_afterwards(made):
    assert "GNU_RELRO" in said("readelf", "-lW", made)
    assert "BIND_NOW" in said("readelf", "-dW", made)


def test_the_librarys_own_code_checks_its_stack_and_its_copies():
    imported = said("nm", "-D", "--undefined-only", BUILD / "src" / "libweir.so")
    assert "__stack_chk_fail" in imported
    assert re.search(r"__\w+_chk\b", imported)


@pytest.mark.parametrize("part", ["protocol", "server", "cli", "config"])
def test_the_programs_own_code_checks_its_stack(part):
    objects = list((BUILD / "src" / part).rglob("*.o"))
    assert objects, f"nothing was built of {part}"
    assert "__stack_chk_fail" in said("nm", "--undefined-only", *objects)


def members_that_land(path):
    return len(re.findall(LANDS, said("readelf", "-nW", path)))


def test_every_object_of_the_library_says_where_jumps_may_land():
    assert members_that_land(ARCHIVE) == len(said("ar", "t", ARCHIVE).split())


def test_the_library_says_so_where_the_systems_own_objects_do(made):
    """The linker takes the mark away if one part lacks it. On Debian 12 the C library's start files do, and so do
    libjansson.a and libyaml.a."""
    start = [said("cc", f"-print-file-name={name}").strip() for name in ("Scrt1.o", "crti.o", "crtn.o")]
    if not all(members_that_land(path) for path in start):
        assert members_that_land(made) == 0
    elif made.suffix == ".so":
        assert members_that_land(made)
