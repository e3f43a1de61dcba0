"""Lance branches of a dataset: the ref files that say which exist and where each began."""

from __future__ import annotations

import json
from dataclasses import dataclass
from urllib.parse import quote, unquote

from omnigraph_spark.errors import StorageError
from omnigraph_spark.storage.datasets import DatasetAddress
from omnigraph_spark.storage.objects import objects_at
from omnigraph_spark.storage.settings import StorageSettings
from omnigraph_spark.storage.uri import join

_SUFFIX = ".json"


@dataclass(frozen=True)
class BranchFile:
    """One Lance branch: its parent branch (None = main), the version it began at, and when."""

    name: str
    parent: str | None
    parent_version: int
    created_at_us: int


def list_branches(dataset: DatasetAddress, settings: StorageSettings) -> list[str]:
    """Return the names of all branches but main, in byte order."""
    listing = objects_at(dataset.root, settings).listing(_folder(dataset))
    names = (entry.name for entry in listing if entry.name.endswith(_SUFFIX))
    return sorted(unquote(name.removesuffix(_SUFFIX)) for name in names)


def read_branch(dataset: DatasetAddress, name: str, settings: StorageSettings) -> BranchFile | None:
    """Read one branch's ref file, or return None when there is no such branch."""
    address = join(_folder(dataset), quote(name, safe="") + _SUFFIX)
    content = objects_at(dataset.root, settings).read(address)
    if content is None:
        return None
    try:
        ref = json.loads(content)
        return BranchFile(
            name=name,
            parent=ref["parentBranch"],
            parent_version=int(ref["parentVersion"]),
            created_at_us=int(ref["createAt"]) * 1_000_000,
        )
    except (ValueError, KeyError, TypeError) as error:
        raise StorageError("permanent", address, "not a branch ref file") from error


def _folder(dataset: DatasetAddress) -> str:
    return join(dataset.base, "_refs", "branches")
