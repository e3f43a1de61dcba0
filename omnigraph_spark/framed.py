"""Answers that are DataFrames where Spark is, and work without it as well."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Frame:
    """Something that is a DataFrame where Spark is, and more: unknown attributes are the frame's.

    So ``graph.diff("main", "dev").filter("change = 'added'").show()`` needs no detour.
    """

    _frame: DataFrame | None = None

    def frame(self) -> DataFrame:
        """Return the DataFrame; nothing is read before it is used."""
        if self._frame is None:
            self._frame = self._make_frame()
        return self._frame

    #: The name that notebooks know.
    to_df = frame

    def _make_frame(self) -> DataFrame:
        raise NotImplementedError

    def __getattr__(self, name: str) -> Any:
        # Python and notebooks probe for names with underscores; no session is started for them.
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.frame(), name)

    def __getitem__(self, name: Any) -> Any:
        return self.frame()[name]
