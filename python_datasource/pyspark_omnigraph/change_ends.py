"""The ends of ``CHANGES FROM … TO …`` as options of a change feed, which has both ends in it."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph_spark.errors import TimestampNotFoundError
from omnigraph_spark.names import AnyRef, TimestampRef
from omnigraph_spark.snapshot import GraphReader
from pyspark_omnigraph.identifiers import ref_of_version


@dataclass(frozen=True)
class ChangeEnds:
    """How the ends of a range of a branch are given: as versions and commits, or as times."""

    reader: GraphReader
    branch: str
    are_times: bool

    def first(self, end: str | int, left_out: bool) -> str | None:
        """Return the first version of the range; None is the first there is."""
        if not self.are_times:
            return str(self._version(ref_of_version(str(end), self.branch)) + left_out)
        try:
            # The last commit before it is the last one that is not asked for.
            before = TimestampRef(int(end) if left_out else int(end) - 1, self.branch)
            return str(self._version(before) + 1)
        except TimestampNotFoundError:
            return None

    def last(self, end: str | int, left_out: bool) -> str:
        """Return the last version of the range."""
        if self.are_times:
            return str(self._version(TimestampRef(int(end) - left_out, self.branch)))
        return str(self._version(ref_of_version(str(end), self.branch)) - left_out)

    def _version(self, ref: AnyRef) -> int:
        return self.reader.resolve(ref).manifest_version
