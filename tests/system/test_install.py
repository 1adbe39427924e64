"""What `make install` leaves behind works, and `make uninstall` takes all of it away."""

import os
import re
import shutil
import subprocess
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / os.environ.get("WEIR_PRESET", "dev")
HEADERS = sorted((ROOT / "include" / "weir").glob("*.h"))

pytestmark = pytest.mark.once


def run(*command, **options):
    """Runs it, and fails with what it said."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def files_under(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}


@pytest.fixture(scope="module")
def build():
    """The build that is installed from."""
    if not (BUILD / "weir").exists():
        pytest.fail(f"{BUILD} is not built")
    return BUILD


@pytest.fixture(scope="module")
def prefix(build, tmp_path_factory):
    folder = tmp_path_factory.mktemp("prefix")
    run("cmake", "--install", build, "--prefix", folder)
    return folder


@pytest.fixture(scope="module")
def package(prefix):
    """Asks pkg-config about weir, as installed."""
    folder = next(prefix.rglob("weir.pc")).parent

    def ask(*arguments):
        environment = {**os.environ, "PKG_CONFIG_PATH": str(folder)}
        return run("pkg-config", *arguments, "weir", env=environment).split()

    return ask


def library(prefix, name):
    return next(path for path in prefix.rglob(name))


def test_the_program_runs_from_where_it_is_installed(prefix):
    assert run(prefix / "bin" / "weir", "--version").startswith("weir ")


def test_all_that_belongs_there_is_there(prefix):
    names = {Path(name).name for name in files_under(prefix)}
    assert {"weir", "libweir.a", "libweir.so", "libweir.so.0", "weir.pc"} <= names
    assert {"weir.1", "weir-serve.8", "libweir.3", "weir-protocol.7", "weir.service"} <= names
    assert {path.name for path in HEADERS} <= names
    assert (prefix / "share" / "bash-completion" / "completions" / "weir").is_file()


def test_version_of_the_package_is_that_of_the_headers(package):
    header = (ROOT / "include" / "weir" / "version.h").read_text()
    assert package("--modversion") == [re.search(r'WEIR_VERSION "(.*)"', header)[1]]


EXAMPLES = ["one_bucket", "shared_keys", "spend_limit", "gateway"]


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples_link_with_the_shared_library(prefix, package, tmp_path, example):
    program = tmp_path / example
    source = ROOT / "examples" / f"{example}.c"
    run("cc", "-std=c11", source, "-o", program, *package("--cflags", "--libs"))
    folder = library(prefix, "libweir.so").parent
    printed = run(program, env={**os.environ, "LD_LIBRARY_PATH": str(folder)})
    assert printed == source.with_suffix(".txt").read_text()


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples_link_statically(package, tmp_path, example):
    program = tmp_path / example
    source = ROOT / "examples" / f"{example}.c"
    flags = package("--cflags", "--libs", "--static")
    run("cc", "-std=c11", "-static", source, "-o", program, *flags)
    assert run(program) == source.with_suffix(".txt").read_text()


def test_what_the_page_about_the_library_says(prefix, tmp_path):
    """Its programs, built and run by its commands, print what it says."""
    text = (ROOT / "docs" / "library.md").read_text()
    for name, program in re.findall(r"`(\w+\.c)`:\n\n```c\n(.*?)^```", text, re.M | re.S):
        (tmp_path / name).write_text(program)
    shutil.copy(ROOT / "examples" / "gateway.c", tmp_path)
    session = "".join(re.findall(r"^```console\n(.*?)^```", text, re.M | re.S))
    commands = re.findall(r"^\$ (.*\n)", session, re.M)
    printed = re.sub(r"^\$ .*\n", "", session, flags=re.M)
    assert len(commands) == 16
    (tmp_path / "weir").symlink_to(prefix)
    environment = {**os.environ, "HOME": str(tmp_path)}
    script = "".join(["set -e\n", *commands])
    assert run("bash", "-c", script, cwd=tmp_path, env=environment) == printed


def test_what_the_page_shows_of_the_gateway_is_in_it():
    text = (ROOT / "docs" / "library.md").read_text()
    snippets = re.findall(r"(?<!\.c`:\n\n)^```c\n(.*?)^```", text, re.M | re.S)
    assert len(snippets) == 3
    program = (ROOT / "examples" / "gateway.c").read_text()
    for snippet in snippets:  # at its own indentation, or one further
        assert snippet in program or textwrap.indent(snippet, "    ") in program


@pytest.mark.parametrize("header", HEADERS, ids=lambda header: header.name)
@pytest.mark.parametrize("language", ["c99", "c++11"])
def test_headers_compile_alone(prefix, tmp_path, header, language):
    compiler = "cc" if language == "c99" else "c++"
    if not shutil.which(compiler):
        pytest.skip(f"{compiler} is not installed")
    source = tmp_path / ("alone.c" if language == "c99" else "alone.cc")
    # Twice: each header guards itself.
    source.write_text(f"#include <weir/{header.name}>\n" * 2 + "int main(void) { return 0; }\n")
    flags = ["-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only"]
    run(compiler, f"-std={language}", *flags, "-I", prefix / "include", source)


def exported(path, *which):
    """The names that a program sees which is linked with this library."""
    table = run("nm", *which, "--defined-only", path)
    names = {line.split()[-1].split("@")[0] for line in table.splitlines() if len(line.split()) == 3}
    return names - {"WEIR_0"}


def test_the_libraries_export_what_the_headers_declare_and_nothing_else(prefix):
    text = "\n".join(header.read_text() for header in HEADERS)
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    text = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    declared = set(re.findall(r"\b(weir_[a-z0-9_]+)\(", text))
    assert len(declared) > 20
    drivers = (ROOT / "src" / "store" / "exported.h").read_text()  # what a driver in another library calls
    declared |= set(re.findall(r"^#define \w+ +(weir_driver_\w+)$", drivers, re.M))
    assert exported(library(prefix, "libweir.so"), "-D") == declared
    assert exported(library(prefix, "libweir.a"), "-g") == declared
    assert exported(library(prefix, "libweir-postgres.a"), "-g") == {"weir_postgres_driver"}


def test_the_functions_have_the_version_of_the_library(prefix):
    assert "weir_limiter_take@@WEIR_0" in run("nm", "-D", library(prefix, "libweir.so"))


def test_the_library_needs_only_libc(prefix):
    dynamic = run("readelf", "--dynamic", library(prefix, "libweir.so"))
    needed = re.findall(r"NEEDED.*\[(.*)\]", dynamic)
    assert set(needed) <= {"libc.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
    undefined = run("nm", "-D", "--undefined-only", library(prefix, "libweir.so"))
    assert "__atomic_" not in undefined


def test_the_program_loads_nothing_but_libc_and_libm(prefix):
    dynamic = run("readelf", "--dynamic", prefix / "bin" / "weir")
    needed = set(re.findall(r"NEEDED.*\[(.*)\]", dynamic))
    assert needed <= {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}


def test_uninstall_leaves_nothing(build, tmp_path):
    stage = tmp_path / "stage"
    environment = {**os.environ, "DESTDIR": str(stage), "PREFIX": "/opt/weir test"}
    run("cmake", "--install", build, "--prefix", "/opt/weir test", env=environment)
    assert "opt/weir test/bin/weir" in files_under(stage)
    neighbour = stage / "opt" / "weir test" / "bin" / "somebody-elses"
    neighbour.touch()
    environment["WEIR_PRESET"] = build.name
    run(ROOT / "scripts" / "uninstall.sh", env=environment, cwd=ROOT)
    assert files_under(stage) == {"opt/weir test/bin/somebody-elses"}
    assert not (stage / "opt/weir test/include/weir").exists()
