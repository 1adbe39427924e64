"""Reads the tables of mutants, finds each mutant's place in the source, and applies it.

README.md beside this file explains the fields.
"""

import tomllib
from dataclasses import dataclass
from pathlib import Path

import c_source

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parents[1]

MUTANT_FIELDS = {"breaks", "caught_by", "edits"}
EDIT_FIELDS = {"file", "in", "old", "new", "nth"}
EDIT_MUST = {"in", "old", "new"}


class Stale(Exception):
    """An entry that is wrong, or no longer finds its place. The text says which, and what to do."""


@dataclass(frozen=True)
class Edit:
    """One change: in the definition `name`, below `folder`, the tokens of `old` become `new`."""

    folder: str
    file: str | None  # the file's name, where several files define that name
    name: str
    old: str
    new: str
    nth: int | None  # which occurrence, from 1, where there are several


@dataclass(frozen=True)
class Mutant:
    name: str  # table.entry
    breaks: str
    edits: tuple[Edit, ...]
    caught_by: tuple[str, ...]

    @property
    def table(self):
        return self.name.partition(".")[0]


class Sources:
    """The C files of a tree, each read and searched for definitions once."""

    def __init__(self, root):
        self.root = Path(root)
        self.known = {}

    def read(self, path):
        """The text of this file, and its definitions by name."""
        if path not in self.known:
            text = (self.root / path).read_text()
            by_name = {}
            for definition in c_source.definitions(text):
                by_name.setdefault(definition.name, []).append(definition)
            self.known[path] = text, by_name
        return self.known[path]

    def defining(self, name, folder, file=None):
        """The files below this folder that define the name."""
        below = sorted((self.root / folder).rglob(file or "*.[ch]"))
        paths = [path.relative_to(self.root).as_posix() for path in below]
        return [path for path in paths if name in self.read(path)[1]]


def read_table(path):
    """The mutants of one table, in its order."""
    try:
        table = tomllib.loads(path.read_text())
    except tomllib.TOMLDecodeError as error:
        raise Stale(f"{path.name}: {error}") from error
    return mutants_of(path.stem, table)


def mutants_of(name, table):
    folder = table.pop("folder", None)
    if not isinstance(folder, str):
        raise Stale(f"{name}: begin it with folder = \"src/...\"")
    return [read_mutant(f"{name}.{entry}", folder, fields) for entry, fields in table.items()]


def read_mutant(name, folder, fields):
    if not isinstance(fields, dict):
        raise Stale(f"{name}: no table of fields")
    edits = fields.get("edits")
    if edits is None:  # the fields of a single edit stand with the others
        edits = [{key: value for key, value in fields.items() if key not in MUTANT_FIELDS}]
        fields = {key: value for key, value in fields.items() if key in MUTANT_FIELDS}
    if unknown := fields.keys() - MUTANT_FIELDS:
        raise Stale(f"{name}: unknown field '{sorted(unknown)[0]}'")
    breaks, caught_by = fields.get("breaks", ""), fields.get("caught_by", [])
    if not isinstance(breaks, str) or not breaks.endswith("."):
        raise Stale(f"{name}: breaks is not a sentence")
    if not isinstance(caught_by, list) or not caught_by:
        raise Stale(f"{name}: caught_by names no test")
    return Mutant(name, breaks, tuple(read_edit(name, folder, edit) for edit in edits), tuple(caught_by))


def read_edit(name, folder, fields):
    if unknown := fields.keys() - EDIT_FIELDS:
        raise Stale(f"{name}: unknown field '{sorted(unknown)[0]}'")
    if missing := EDIT_MUST - fields.keys():
        raise Stale(f"{name}: field '{sorted(missing)[0]}' is missing")
    edit = Edit(folder, fields.get("file"), fields["in"], fields["old"], fields["new"], fields.get("nth"))
    if not c_source.tokens(edit.old):
        raise Stale(f"{name}: old is empty")
    if c_source.tokens(edit.old) == c_source.tokens(edit.new):
        raise Stale(f"{name}: old and new are the same")
    return edit


def table_paths():
    return sorted(FOLDER.glob("*.toml"))


def read_all():
    return [mutant for path in table_paths() for mutant in read_table(path)]


def find(name, edit, sources):
    """Where an edit of mutant `name` belongs: (file, begin, end)."""
    path = file_of(name, edit, sources)
    text, by_name = sources.read(path)
    if len(by_name[edit.name]) > 1:
        raise Stale(f"{name}: {path} defines {edit.name} {len(by_name[edit.name])} times")
    found = c_source.places(text, by_name[edit.name][0], edit.old)
    where = f"{name}: {edit.name} in {path}"
    if not found:
        raise Stale(f"{where} has no `{edit.old}`: renew old and new")
    if edit.nth is None and len(found) > 1:
        raise Stale(f"{where} has `{edit.old}` {len(found)} times: make old longer, or set nth")
    if edit.nth is not None and not (1 <= edit.nth <= len(found) and len(found) > 1):
        raise Stale(f"{where} has `{edit.old}` {len(found)} times: nth = {edit.nth} is wrong")
    return path, *found[(edit.nth or 1) - 1]


def file_of(name, edit, sources):
    paths = sources.defining(edit.name, edit.folder, edit.file)
    if len(paths) == 1:
        return paths[0]
    if paths:
        raise Stale(f"{name}: {edit.name} is defined in {', '.join(paths)}: set file")
    elsewhere = sources.defining(edit.name, "src")
    hint = f", but in {', '.join(elsewhere)}: move the entry" if elsewhere else ": renew the entry"
    raise Stale(f"{name}: {edit.name} is not defined in {edit.folder}/{edit.file or ''}{hint}")


def applied(mutant, sources):
    """The files that the mutant changes, with their new text: {path: text}."""
    places = {}
    for edit in mutant.edits:
        path, begin, end = find(mutant.name, edit, sources)
        places.setdefault(path, []).append((begin, end, edit.new.strip("\n")))
    changed = {}
    for path, changes in places.items():
        text = sources.read(path)[0]
        for begin, end, new in sorted(changes, reverse=True):
            text = text[:begin] + new + text[end:]
        changed[path] = text
    return changed


def faults(mutant, sources):
    """What is wrong with a mutant, a sentence each."""
    try:
        applied(mutant, sources)
    except Stale as stale:
        return [str(stale)]
    return [
        f"{mutant.name}: there is no test {test}" for test in mutant.caught_by if is_missing_in_python(test)
    ]


def is_missing_in_python(test):
    """True if a test of the system is not there. Those of ctest are known after a build: `run` looks."""
    if not test.startswith("system."):
        return False
    module, _, case = test.removeprefix("system.").partition("::")
    path = ROOT / "tests/system" / f"test_{module}.py"
    return not path.exists() or f"def {case}" not in path.read_text()
