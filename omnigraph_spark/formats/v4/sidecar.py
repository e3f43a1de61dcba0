"""Sidecars of format 4: the durable intent of an unfinished write, and where it lies.

A sidecar exists from before the first dataset moves until after the publish. Whoever opens the
graph next finishes or undoes what it names, so its bytes are the engine's own, and what cannot be
read is refused and never skipped.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar

from omnigraph_spark.errors import DamagedGraphError, UnsupportedError
from omnigraph_spark.formats.profile import graph_branch
from omnigraph_spark.names import MAIN
from omnigraph_spark.schema.rust_text import json_text
from omnigraph_spark.storage.objects import ObjectStore
from omnigraph_spark.storage.uri import join

RECOVERY_FOLDER = "__recovery"
SIDECAR_VERSION = 2
#: This package names the operation in a property of each Lance transaction that belongs to it.
OPERATION_PROPERTY = "omnigraph.operation"
_SUFFIX = ".json"
_EXPECTS = "expected_versions"
_T = TypeVar("_T")


class WriterKind(StrEnum):
    """What kind of write left a sidecar; it decides how recovery judges the datasets."""

    MUTATION = "Mutation"
    LOAD = "Load"
    SCHEMA_APPLY = "SchemaApply"
    BRANCH_MERGE = "BranchMerge"
    ENSURE_INDICES = "EnsureIndices"
    OPTIMIZE = "Optimize"


@dataclass(frozen=True)
class SidecarPin:
    """One dataset that will move: from which version to which."""

    type_key: str
    #: The full address of the dataset's main line, whatever branch of it moves.
    address: str
    expected_version: int
    next_version: int
    #: What a merge reached, written once all its datasets are committed.
    confirmed_version: int | None = None
    dataset_branch: str | None = None


@dataclass(frozen=True)
class SidecarRegistration:
    """A type that a schema change will add; `path` is below the root."""

    type_key: str
    path: str
    dataset_branch: str | None = None


@dataclass(frozen=True)
class SidecarTombstone:
    """A type that a schema change will remove."""

    type_key: str
    version: int


@dataclass(frozen=True)
class Sidecar:
    """The intent of one write; `pins` holds only datasets that really will move."""

    operation_id: str
    started_at_us: int
    writer: WriterKind
    pins: tuple[SidecarPin, ...]
    branch: str = MAIN
    actor: str | None = None
    merge_source_id: str | None = None
    registrations: tuple[SidecarRegistration, ...] = ()
    tombstones: tuple[SidecarTombstone, ...] = ()
    version: int = SIDECAR_VERSION
    #: This package only: the version of every type that the write was planned on, read or written.
    #: The engine ignores the field. It also says that the writer fences its commits and names its
    #: operation in them; None is the engine's.
    expects: Mapping[str, int] | None = None

    @property
    def fenced(self) -> bool:
        """Whether each commit of this operation says that it is."""
        return self.expects is not None

    def to_bytes(self) -> bytes:
        """Return the content of the sidecar's file."""
        return json_text(_encode(self), pretty=True).encode()

    @classmethod
    def from_bytes(cls, content: bytes) -> Sidecar:
        """Read the content of a sidecar's file; a ValueError says why it is none."""
        try:
            value = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"it is not JSON: {error}") from error
        if not isinstance(value, dict):
            raise ValueError("it is not a JSON object")
        return _decode(value)


def _encode(sidecar: Sidecar) -> dict[str, Any]:
    value: dict[str, Any] = {
        "schema_version": sidecar.version,
        "operation_id": sidecar.operation_id,
        "started_at": str(sidecar.started_at_us),
        "branch": None if sidecar.branch == MAIN else sidecar.branch,
        "actor_id": sidecar.actor,
        "writer_kind": str(sidecar.writer),
        "tables": [_encode_pin(pin) for pin in sidecar.pins],
    }
    optional: dict[str, Any] = {
        "merge_source_commit_id": sidecar.merge_source_id,
        "additional_registrations": [
            _given(table_key=new.type_key, table_path=new.path, table_branch=new.dataset_branch)
            for new in sidecar.registrations
        ],
        "tombstones": [
            _given(table_key=gone.type_key, tombstone_version=gone.version)
            for gone in sidecar.tombstones
        ],
    }
    value |= {key: part for key, part in optional.items() if part}
    return value if sidecar.expects is None else value | {_EXPECTS: dict(sidecar.expects)}


def _decode(value: Mapping[str, Any]) -> Sidecar:
    """Read the fields as the engine does: unknown ones are ignored, absent optional ones empty."""
    return Sidecar(
        version=_required(value, "schema_version", int),
        operation_id=_required(value, "operation_id", str),
        started_at_us=int(_required(value, "started_at", str)),
        branch=graph_branch(_optional(value, "branch", str)),
        actor=_optional(value, "actor_id", str),
        writer=WriterKind(_required(value, "writer_kind", str)),
        pins=tuple(map(_decode_pin, _required(value, "tables", list))),
        merge_source_id=_optional(value, "merge_source_commit_id", str),
        registrations=tuple(
            SidecarRegistration(
                type_key=_required(item, "table_key", str),
                path=_required(item, "table_path", str),
                dataset_branch=_optional(item, "table_branch", str),
            )
            for item in _optional(value, "additional_registrations", list) or ()
        ),
        tombstones=tuple(
            SidecarTombstone(
                type_key=_required(item, "table_key", str),
                version=_required(item, "tombstone_version", int),
            )
            for item in _optional(value, "tombstones", list) or ()
        ),
        expects=_decode_expects(value),
    )


def _decode_expects(value: Mapping[str, Any]) -> dict[str, int] | None:
    found = _optional(value, _EXPECTS, dict)
    return None if found is None else {key: _required(found, key, int) for key in found}


def sidecar_address(root: str, operation_id: str) -> str:
    """Return where a sidecar lies; recovery finds it again by its operation id."""
    return join(root, RECOVERY_FOLDER, operation_id + _SUFFIX)


def list_sidecars(root: str, store: ObjectStore) -> list[str]:
    """Return the operation ids of all sidecars, oldest first."""
    # ULIDs sort by time; other files in the folder are nobody's business.
    names = (found.name for found in store.listing(join(root, RECOVERY_FOLDER)))
    return [name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX)]


def read_sidecar(root: str, store: ObjectStore, operation_id: str) -> Sidecar | None:
    """Read a sidecar; None when it is gone, which means that its write was finished meanwhile."""
    content = store.read(sidecar_address(root, operation_id))
    if content is None:
        return None
    place = f"{RECOVERY_FOLDER}/{operation_id}{_SUFFIX}"
    try:
        sidecar = Sidecar.from_bytes(content)
    except ValueError as error:
        raise DamagedGraphError(root, f"{place} is not a sidecar: {error}") from error
    if sidecar.version > SIDECAR_VERSION:
        what = f"{place} of version {sidecar.version}"
        raise UnsupportedError(what, f"this package reads {SIDECAR_VERSION}: install a newer one")
    return sidecar


def write_sidecar(root: str, store: ObjectStore, sidecar: Sidecar) -> None:
    """Store a sidecar, or store it again with more in it."""
    store.write(sidecar_address(root, sidecar.operation_id), sidecar.to_bytes())


def delete_sidecar(root: str, store: ObjectStore, operation_id: str) -> None:
    """Delete a sidecar; a missing one is fine."""
    store.delete(sidecar_address(root, operation_id))


def _encode_pin(pin: SidecarPin) -> dict[str, Any]:
    return _given(
        table_key=pin.type_key,
        table_path=pin.address,
        expected_version=pin.expected_version,
        post_commit_pin=pin.next_version,
        confirmed_version=pin.confirmed_version,
        table_branch=pin.dataset_branch,
    )


def _decode_pin(value: Any) -> SidecarPin:
    return SidecarPin(
        type_key=_required(value, "table_key", str),
        address=_required(value, "table_path", str),
        expected_version=_required(value, "expected_version", int),
        next_version=_required(value, "post_commit_pin", int),
        confirmed_version=_optional(value, "confirmed_version", int),
        dataset_branch=_optional(value, "table_branch", str),
    )


def _given(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _required(value: Any, name: str, kind: type[_T]) -> _T:
    found = _optional(value, name, kind)
    if found is None:
        raise ValueError(f"it has no {name}")
    return found


def _optional(value: Any, name: str, kind: type[_T]) -> _T | None:
    found = value.get(name) if isinstance(value, Mapping) else None
    # A bool is an int to Python and not to the engine.
    if found is not None and (not isinstance(found, kind) or isinstance(found, bool)):
        raise ValueError(f"its {name} is {found!r}")
    return found
