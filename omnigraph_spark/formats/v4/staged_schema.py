"""Schema files that a schema change has staged beside those in force, and putting them in force.

A change writes all three (the state last), publishes, and then moves them in the same order. So a
staged state file means that all were written, and without one nothing was published.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress

from omnigraph_spark.errors import SchemaFilesError
from omnigraph_spark.failpoints import SCHEMA_FILE_MOVED
from omnigraph_spark.formats.v4 import contract
from omnigraph_spark.formats.v4.contract import (
    IR_FILE,
    SOURCE_FILE,
    STATE_FILE,
    agreed_schema,
    parse_source,
)
from omnigraph_spark.schema.model import GraphSchema
from omnigraph_spark.storage.objects import ObjectStore
from omnigraph_spark.storage.uri import join

STAGING_SUFFIX = ".staging"
#: The order in which they are written and moved.
_FILES = (SOURCE_FILE, IR_FILE, STATE_FILE)
#: A reader may see some of the files before they are moved and the others after, which takes a
#: moment; what disagrees again and again is damaged.
_LOOKS = 2


def staged_files(root: str, store: ObjectStore) -> tuple[str, ...]:
    """Return the schema files that have a staged successor, in the order they are moved."""
    there = {found.name for found in store.listing(root)}
    return tuple(name for name in _FILES if name + STAGING_SUFFIX in there)


def is_complete(staged: Collection[str]) -> bool:
    """Tell whether a schema change had written all its files."""
    return STATE_FILE in staged


def is_being_moved(root: str, store: ObjectStore, staged: Collection[str]) -> bool:
    """Tell whether moving has begun: the source is in force already, and the state is not."""
    return is_complete(staged) and (SOURCE_FILE not in staged or _is_first_copied(root, store))


def _is_first_copied(root: str, store: ObjectStore) -> bool:
    """Tell whether the source was moved where there is no rename.

    It is copied then before the staged one is deleted; its compiled form is another one still.
    """
    source, ir = (
        store.read(join(root, name)) == store.read(join(root, name + STAGING_SUFFIX))
        for name in (SOURCE_FILE, IR_FILE)
    )
    return source and not ir


def read_staged(root: str, store: ObjectStore, staged: Collection[str]) -> GraphSchema:
    """Read the schema that will be in force once the staged files are; they must agree."""
    source, ir, state = (
        store.read(join(root, name + STAGING_SUFFIX if name in staged else name)) or b""
        for name in _FILES
    )
    return agreed_schema(root, parse_source(root, source), ir, state)


def read_schema(root: str, store: ObjectStore, only_main: Callable[[], bool]) -> GraphSchema:
    """Read the schema in force; where its files are being moved, the one that is coming into force.

    Whoever moves them may have died, and who only reads does not move them on.
    """
    for _ in range(_LOOKS):
        with suppress(SchemaFilesError):
            return contract.read_schema(root, store, only_main)
        staged = staged_files(root, store)
        if is_being_moved(root, store, staged):
            with suppress(SchemaFilesError):
                return read_staged(root, store, staged)
    return contract.read_schema(root, store, only_main)


def put_in_force(root: str, store: ObjectStore, staged: Collection[str]) -> None:
    """Give staged files their final names; repeated after a crash it goes on where it was."""
    for name in _FILES:
        content = store.read(join(root, name + STAGING_SUFFIX)) if name in staged else None
        if content is not None:
            store.write(join(root, name), content)
            store.delete(join(root, name + STAGING_SUFFIX))
            SCHEMA_FILE_MOVED.reached()


def discard_staged(root: str, store: ObjectStore, staged: Collection[str]) -> None:
    """Delete staged files, the state first: without it the others count for nothing."""
    for name in reversed(_FILES):
        if name in staged:
            store.delete(join(root, name + STAGING_SUFFIX))
