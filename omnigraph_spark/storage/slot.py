"""The one version a strict commit may take, in the shape Lance asks for it.

Lance lets a namespace decide who gets a version: it writes the new manifest under a name of its own
and asks for it to be put in place. This namespace holds one dataset, and gives away one version.
Lance asks by name and looks at answers by name, so this is no subclass of its namespaces: their
package takes a second to load, which every process that commits would pay.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from omnigraph_spark.errors import StorageError
from omnigraph_spark.storage.datasets import DatasetAddress, version_file
from omnigraph_spark.storage.objects import IN_DOUBT, Stat, objects_at
from omnigraph_spark.storage.settings import StorageSettings
from omnigraph_spark.storage.uri import join
from omnigraph_spark.storage.versions import describe_version
from omnigraph_spark.storage.whole import check_whole


class _ConcurrentModificationError(Exception):
    """The version is somebody else's; Lance goes by the code."""

    code = 14


class _VersionNotFoundError(Exception):
    """There is no such version; Lance goes by the code."""

    code = 11


class _Answer:
    """What Lance reads an answer from."""

    def __init__(self, version: int, manifest_path: str) -> None:
        self._version = {"version": version, "manifest_path": manifest_path}

    def model_dump(self, **_: Any) -> dict[str, Any]:
        """Return the answer as plain values."""
        return {"version": self._version}


class Slot:
    """The version after `base`, for one commit; afterwards its fields say what happened.

    Lance calls from threads of its own, one call at a time.
    """

    def __init__(
        self, address: DatasetAddress, base: int, uuid: str, settings: StorageSettings
    ) -> None:
        self._address = address
        self._base = base
        self._uuid = uuid
        self._store = objects_at(address.root, settings)
        self._folder = ""
        #: The version's file, once it is ours.
        self.taken: Stat | None = None
        #: Why the version could not be taken, or not be known to be.
        self.failure: StorageError | None = None
        #: The versions Lance wanted to make of the commit.
        self.tried: list[int] = []

    @property
    def was_refused(self) -> bool:
        """Whether Lance asked for a version that another commit had or would have got."""
        return bool(self.tried) and self.taken is None and self.failure is None

    def as_options(self) -> dict[str, Any]:
        """Return how Lance is told to ask here for versions."""
        return {
            "namespace_client": self,
            "table_id": ["dataset"],
            "namespace_client_managed_versioning": True,
        }

    def namespace_id(self) -> str:
        """Name this commit: Lance shares resources among namespaces of one name."""
        return f"omnigraph-slot {self._address.uri}@{self._base + 1} {self._uuid}"

    def create_table_version(self, request: Any) -> _Answer:
        """Put the manifest Lance wrote in place, if it is for the one version and that is free."""
        wanted = _fields(request)
        # Lance spells the folder in its own way, with escapes; the names in it are plain.
        self._folder, _, name = wanted["manifest_path"].rpartition("/")
        staged = join(self._address.uri, "_versions", name)
        self.tried.append(wanted["version"])
        try:
            if wanted["version"] != self._base + 1:
                # Lance saw newer versions and rebased the commit over them.
                raise _ConcurrentModificationError(f"it would become version {wanted['version']}")
            self._take(staged)
        finally:
            # Whether the version is taken is decided; a staged manifest that stays is never read.
            # Lance would take the failure for one of the commit and ask again for a minute.
            with suppress(StorageError):
                self._store.delete(staged)
        return self._answer(self._base + 1)

    def describe_table_version(self, request: Any) -> _Answer:
        """Tell Lance what stands where it wanted to be; it asks after a refusal, to be sure.

        That is the version after the base, whichever later one it tried: then it sees at once that
        another commit was first. Without an answer it would ask again and again, and warn. A
        restore asks first, for the older version it brings back.
        """
        asked = int(_fields(request)["version"])
        if asked <= self._base:
            older = describe_version(self._address, asked, Stat(0, "")).manifest_path
            return _Answer(asked, older)
        if self._store.stat(version_file(self._address, self._base + 1)) is None:
            raise _VersionNotFoundError(str(self._base + 1))
        return self._answer(asked)

    def _take(self, staged: str) -> None:
        try:
            check_whole(self._address, self._base, staged, self._store)
            self.taken = self._store.place(staged, version_file(self._address, self._base + 1))
        except StorageError as error:
            # Lance may ask again: what an earlier try left in doubt no later refusal settles.
            if self.failure is None or self.failure.kind != IN_DOUBT:
                self.failure = error
            raise
        if self.taken is None:
            raise _ConcurrentModificationError(f"version {self._base + 1} exists")

    def _answer(self, number: int) -> _Answer:
        name = version_file(self._address, self._base + 1).rpartition("/")[2]
        return _Answer(number, f"{self._folder}/{name}")


def _fields(request: Any) -> Mapping[str, Any]:
    # Lance hands over something like a dict, whose absent keys are missing.
    return dict(request) if isinstance(request, Mapping) else request.model_dump()
