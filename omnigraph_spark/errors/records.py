"""Records of an input that the schema has no place for."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph_spark.errors.base import OmnigraphError


@dataclass(eq=False)
class InvalidRecordsError(OmnigraphError, ValueError):
    """Records of a JSONL input are malformed or do not fit the schema."""

    code = "OMNIGRAPH_RECORD_INVALID"
    remedy = "Correct the records at the lines the message names."
    #: One sentence per problem, each with its line, what was found and what would have worked.
    problems: tuple[str, ...]
    more: int = 0

    def describe(self) -> str:
        rest = f"; and {self.more} more" if self.more > 0 else ""
        return f"the records cannot be loaded: {'; '.join(self.problems)}{rest}"
