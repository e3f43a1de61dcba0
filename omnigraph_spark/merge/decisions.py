"""Who wins a conflict about a row: nobody yet, one side for all, or one side row by row.

`ours` is the branch that is merged into, `theirs` the one that is merged. Decisions come as rows of
`type_key`, `id` and `decision`. Each has to name a conflict that there is: one that names none was
made for another state of the branches.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_spark.errors import InvalidOptionError
from omnigraph_spark.names import TypeKey
from omnigraph_spark.writing.workspace import Workspace

#: The columns of a table of decisions.
COLUMNS = ("type_key", "id", "decision")
_SHOWN = 5


class Side(StrEnum):
    """Whose row stays."""

    OURS = "ours"
    THEIRS = "theirs"


@dataclass(frozen=True)
class Decided:
    """Conditions on a conflict `c`: the source wins, nobody decided."""

    theirs: str
    nobodys: str


@dataclass(frozen=True)
class Decisions:
    """What was decided before a merge."""

    for_all: Side | None = None
    table: pa.Table | None = None

    @classmethod
    def parse(cls, given: str | pa.Table | None) -> Decisions:
        """Read the argument `resolve`: nothing, a side, or a table."""
        if given is None:
            return cls()
        if isinstance(given, str):
            if given not in tuple(Side):
                expected = "'ours', 'theirs' or rows of type_key, id and decision"
                raise InvalidOptionError("resolve", given, expected)
            return cls(for_all=Side(given))
        missing = [name for name in COLUMNS if name not in given.column_names]
        if missing:
            names = ", ".join(given.column_names)
            raise InvalidOptionError("resolve", names, f"the columns {', '.join(COLUMNS)}")
        table = given.select(list(COLUMNS)).cast(
            pa.schema([(name, pa.string()) for name in COLUMNS])
        )
        _check_words(table)
        return cls(table=table)

    def of_type(self, key: str) -> pa.Table | None:
        """Return the decisions about rows of one type, None when there are none."""
        if self.table is None:
            return None
        own = self.table.filter(pc.field("type_key") == pc.scalar(key))
        return own if own.num_rows else None

    def check_types(self, known: set[str]) -> None:
        """Refuse decisions about types in which there can be no conflict."""
        if self.table is None:
            return
        named = set(map(str, self.table.column("type_key").to_pylist()))
        if foreign := sorted(named - known):
            expected = f"types that both branches changed: {', '.join(sorted(known)) or 'none'}"
            raise InvalidOptionError("resolve", ", ".join(foreign), expected)

    def apply(self, space: Workspace, key: str, clashes: str, number: int) -> Decided:
        """Bring the decisions about one type in, and say what they mean for its conflicts."""
        if self.for_all is not None:
            return Decided("TRUE" if self.for_all is Side.THEIRS else "FALSE", "FALSE")
        own = self.of_type(key)
        if own is None:
            return Decided("FALSE", "TRUE")
        decided = f"decided_{number}"
        rows = own.select(["id", "decision"])
        space.add_rows(decided, rows.to_batches(), rows.schema)
        _refuse_strangers(space, key, decided, clashes)
        exists = f"EXISTS (SELECT 1 FROM {decided} d WHERE d.id = c.id"
        return Decided(f"{exists} AND d.decision = '{Side.THEIRS}')", f"NOT {exists})")


def _check_words(table: pa.Table) -> None:
    for text in pc.unique(table.column("decision")).to_pylist():
        if text not in tuple(Side):
            raise InvalidOptionError("resolve", str(text), "decisions 'ours' or 'theirs'")
    for text in pc.unique(table.column("type_key")).to_pylist():
        TypeKey.parse(str(text))
    if table.column("id").null_count:
        raise InvalidOptionError("resolve", "null", "an id in every row")
    twice = table.group_by(["type_key", "id"]).aggregate([([], "count_all")])
    twice = twice.filter(pc.field("count_all") > pc.scalar(1))
    if twice.num_rows:
        ids = ", ".join(map(str, twice.column("id").slice(0, _SHOWN).to_pylist()))
        raise InvalidOptionError("resolve", ids, "one decision for each row")


def _refuse_strangers(space: Workspace, key: str, decided: str, clashes: str) -> None:
    strangers = space.rows(
        f"SELECT d.id FROM {decided} d WHERE NOT EXISTS "
        f"(SELECT 1 FROM {clashes} c WHERE c.id = d.id) ORDER BY d.id LIMIT {_SHOWN}"
    )
    if strangers:
        ids = ", ".join(id_ for (id_,) in strangers)
        expected = "rows that are in conflict now; look at the conflicts again"
        raise InvalidOptionError("resolve", f"{key} {ids}", expected)
