"""The address at which a branch of a dataset says its parent lies, when that is not where it is."""

from __future__ import annotations

from omnigraph_spark.storage.datasets import DatasetAddress
from omnigraph_spark.storage.rebase import resolve_base
from omnigraph_spark.storage.settings import StorageSettings
from omnigraph_spark.storage.translate import lance_errors


def moved_from(address: DatasetAddress, version: int, settings: StorageSettings) -> str | None:
    """Return the address that a version of a branch names, None when the dataset lies there.

    This package reads on regardless; the engine looks there and nowhere else.
    """
    import lance

    with lance_errors(address.uri):
        # As stored: the handles that readers share are told the new place.
        handle = lance.dataset(
            address.uri, version=version, storage_options=settings.for_lance(address.uri)
        )
        bases = [base.path for base in handle.base_paths().values()]
    moved = (base for base in bases if resolve_base(base, address.base, address.path) != base)
    return next(moved, None)
