"""How a version of a dataset came to be: Lance's own record of the operation that made it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from omnigraph_spark.errors import StorageError
from omnigraph_spark.storage.datasets import DatasetAddress
from omnigraph_spark.storage.objects import objects_at
from omnigraph_spark.storage.protobuf import fields_of
from omnigraph_spark.storage.settings import StorageSettings
from omnigraph_spark.storage.translate import NOT_FOUND, lance_errors
from omnigraph_spark.storage.uri import join

if TYPE_CHECKING:
    from lance import LanceDataset

RESTORE = "Restore"
#: A version whose record is gone, or of a kind that is not known here.
UNKNOWN = "Unknown"
#: Operations that Python's Lance does not name, by their field in the stored transaction.
_UNNAMED = {107: "ReserveFragments", 112: "UpdateMemWalState", 114: "UpdateBases"}
_ROWS_KEPT = frozenset(
    {"CreateIndex", "Rewrite", "ReserveFragments", "UpdateConfig", "UpdateBases"}
)


@dataclass(frozen=True)
class Origin:
    """What made one version."""

    version: int
    #: Lance's name of the operation, such as `Append`.
    operation: str
    #: What the writer recorded with it.
    properties: Mapping[str, str] = field(default_factory=dict)
    #: The version that a `Restore` brought back.
    restored: int | None = None

    @property
    def keeps_rows(self) -> bool:
        """Whether the rows are those of the version before: indexes, compaction, configuration."""
        return self.operation in _ROWS_KEPT


def read_origins(
    address: DatasetAddress, after: int, upto: int, settings: StorageSettings
) -> tuple[Origin, ...]:
    """Read what made each version above `after`, up to `upto`, which must exist; oldest first."""
    import lance

    if upto <= after:
        return ()
    with lance_errors(address.uri):
        # Without the shared session: what it remembers may be of a branch that was deleted.
        dataset = lance.dataset(
            address.uri, version=upto, storage_options=settings.for_lance(address.uri)
        )
    return tuple(
        _read_origin(address, dataset, version, settings) for version in range(after + 1, upto + 1)
    )


def _read_origin(
    address: DatasetAddress, dataset: LanceDataset, version: int, settings: StorageSettings
) -> Origin:
    try:
        with lance_errors(address.uri):
            made = dataset.read_transaction(version)
    except StorageError as error:
        if error.kind != NOT_FOUND:
            raise
        return Origin(version, UNKNOWN)
    if made is None:
        return Origin(version, UNKNOWN)
    name = type(made.operation).__name__
    if name == "BaseOperation":
        name = _stored_name(address, f"{made.read_version}-{made.uuid}.txn", settings)
    restored = int(made.operation.version) if name == RESTORE else None
    return Origin(version, name, dict(made.transaction_properties or {}), restored)


def _stored_name(address: DatasetAddress, file: str, settings: StorageSettings) -> str:
    content = objects_at(address.root, settings).read(join(address.uri, "_transactions", file))
    numbers = {number for number, _, _ in fields_of(content or b"")}
    return next((name for number, name in _UNNAMED.items() if number in numbers), UNKNOWN)
