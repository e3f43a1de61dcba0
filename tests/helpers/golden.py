"""The golden graphs of `tests/data`: where they are, how to unpack one, what the engine said of it.

A case is named by its folder. A graph with branches embeds its absolute root in binary files, so
there are two ways to unpack one: anywhere (`unpack`, a *moved* graph, which our reader must bear)
and in place (`unpack_in_place`, for the released engine, which does not).
"""

from __future__ import annotations

import json
import os
import shutil
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import uuid4

GOLDEN = Path(__file__).parent.parent / "data" / "engine-0.8.0"

#: Where every case was written. A copy for the engine must have a root of the same number of bytes.
_HOME = Path("/tmp/og-fixtures")
_WRITTEN_IN = "00000000"

#: The engine cannot read branch `keep` of this case any more; `expected/before` is from before.
RECLAIMED = "cleaned-branch"


def cases() -> list[str]:
    """Every case, in name order."""
    return sorted(folder.name for folder in GOLDEN.iterdir() if folder.is_dir())


def crashed_cases() -> list[str]:
    """The cases left by a crash, with what was pending still pending."""
    return [case for case in cases() if case.startswith("crashed-")]


def intact_cases() -> list[str]:
    """The cases no writer died in; these have the full set of expectations."""
    return [case for case in cases() if not case.startswith("crashed-")]


def unpack(case: str, into: Path) -> Path:
    """Unpack a case below a folder and return its root, not the root it was written at."""
    root = into / case
    unpacking = into / f"{case}.unpacking"
    for member in _members(case):
        path = unpacking / member.name
        if member.content is None:
            path.mkdir(parents=True, exist_ok=True)
        else:
            path.write_bytes(member.content)
            os.utime(path, (member.written_at, member.written_at))
    (unpacking / "graph").rename(root)
    unpacking.rmdir()
    return root


@dataclass(frozen=True)
class _Member:
    """A folder of an archive, or a file with what it holds."""

    name: str
    content: bytes | None
    written_at: float


@cache
def _members(case: str) -> tuple[_Member, ...]:
    """What an archive of ours holds, folders before what is in them; it is read once."""
    members = []
    with tarfile.open(GOLDEN / case / "graph.tar.gz") as archive:
        for member in archive:
            content = archive.extractfile(member)
            assert content is not None or member.isdir(), f"{case}: {member.name}"
            held = None if content is None else content.read()
            members.append(_Member(member.name, held, member.mtime))
    return tuple(members)


def unpack_in_place(case: str, slot: str) -> Path:
    """Unpack a case where the engine can use it: a root as long as the one it was written at.

    The old root is replaced by the new one, byte for byte, in the files that embed it; lengths stay
    and nothing there is checksummed.
    """
    if len(slot.encode()) != len(_WRITTEN_IN):
        raise ValueError(f"a slot has {len(_WRITTEN_IN)} bytes, not {slot!r}")
    (_HOME / slot).mkdir(parents=True, exist_ok=True)
    root = unpack(case, _HOME / slot)
    old, new = str(written_at(case)).encode(), str(root).encode()
    for path in root.rglob("*"):
        if path.suffix in {".manifest", ".txn"} or path.parent.name == "__recovery":
            content = path.read_bytes()
            if old in content:
                path.write_bytes(content.replace(old, new))
    return root


@contextmanager
def in_place(case: str) -> Iterator[Path]:
    """Unpack a case for the engine in a slot of its own, and remove it at the end."""
    slot = uuid4().hex[: len(_WRITTEN_IN)]
    try:
        yield unpack_in_place(case, slot)
    finally:
        shutil.rmtree(_HOME / slot)


def written_at(case: str) -> Path:
    """The root at which the engine wrote a case; branches of a moved copy still name it."""
    return _HOME / _WRITTEN_IN / case


@dataclass(frozen=True)
class Expected:
    """What the engine said about one case.

    For a crashed case it was asked after its recovery, so most answers are in `after`.
    """

    case: str
    stage: str = ""

    @property
    def folder(self) -> Path:
        return GOLDEN / self.case / "expected" / self.stage

    @property
    def before(self) -> Expected:
        """`cleaned-branch` only: the same answers before the cleanup."""
        return Expected(self.case, "before")

    @property
    def after(self) -> Expected:
        """Crashed cases only: the answers after the engine's recovery."""
        return Expected(self.case, "after")

    def branches(self) -> list[str]:
        """`branch list`: in byte order, `main` among the others."""
        names: list[str] = self._json("branches.json")["branches"]
        return names

    def snapshot(self, branch: str = "main") -> dict[str, Any]:
        """`snapshot`: branch, manifest_version, internal_schema_version, tables."""
        snapshot: dict[str, Any] = self._json(f"snapshot-{_in_file_name(branch)}.json")
        return snapshot

    def commits(self, branch: str = "main") -> list[dict[str, Any]]:
        """`commit list`: oldest first."""
        commits: list[dict[str, Any]] = self._json(f"commits-{_in_file_name(branch)}.json")[
            "commits"
        ]
        return commits

    def export(self, branch: str = "main") -> list[dict[str, Any]]:
        """`export`: one object per row, by type key and then id."""
        text = self._path(f"export-{_in_file_name(branch)}.jsonl").read_text(encoding="utf-8")
        return [json.loads(line) for line in text.splitlines()]

    def manifest(self, branch: str = "main") -> dict[str, Any]:
        """The raw `__manifest` of a branch: version, schema_metadata, rows."""
        manifest: dict[str, Any] = self._json(f"manifest-{_in_file_name(branch)}.json")
        return manifest

    def tables(self) -> dict[str, dict[str, dict[str, Any]]]:
        """Per branch and type: pin, HEAD, rows, Arrow schema, indexes, fragments."""
        tables: dict[str, dict[str, dict[str, Any]]] = self._json("tables.json")
        return tables

    def outcome(self) -> dict[str, Any]:
        """Crashed cases only: what the engine's recovery did."""
        outcome: dict[str, Any] = self._json("outcome.json")
        return outcome

    def persons_at(self) -> dict[str, list[dict[str, Any]]]:
        """`history` only: name, age and city of every Person, by commit, sorted by name."""
        by_commit = {}
        for path in sorted((self.folder / "persons-at").iterdir()):
            rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
            by_commit[path.stem] = [
                {column.removeprefix("p."): value for column, value in row.items()} for row in rows
            ]
        return by_commit

    def _path(self, name: str) -> Path:
        return self.folder / name

    def _json(self, name: str) -> Any:
        return json.loads(self._path(name).read_text(encoding="utf-8"))


def pins_before(case: str) -> dict[str, dict[str, dict[str, Any]]]:
    """Crashed cases only: per branch and type the last published pin, branch, HEAD and rows."""
    pins: dict[str, dict[str, dict[str, Any]]] = json.loads(
        (GOLDEN / case / "before.json").read_text(encoding="utf-8")
    )
    return pins


def by_type(export: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Split an export into rows per type key."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for row in export:
        key = f"node:{row['type']}" if "type" in row else f"edge:{row['edge']}"
        rows.setdefault(key, []).append(row)
    return rows


def _in_file_name(branch: str) -> str:
    return quote(branch, safe="")
