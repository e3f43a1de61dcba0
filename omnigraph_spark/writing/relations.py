"""Staged and committed rows of the types a transaction is about, as relations to query.

Owns which columns and which committed rows are brought into a workspace: the checks say what they
are interested in first, then everything is filled once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from omnigraph_spark.names import TypeKey, TypeKind
from omnigraph_spark.scan_source import ScanSource
from omnigraph_spark.snapshot import SnapshotState
from omnigraph_spark.writing.pending import Pending, WriteMode
from omnigraph_spark.writing.workspace import Interest, Workspace

OwnRows = Callable[[str, str, Mapping[str, str]], None]
"""Adds, under a name, columns of the rows of a type that a branch changed since another one."""


@dataclass
class Side:
    """One type: its staged rows, if any, and the committed rows that matter."""

    number: int
    pending: Pending | None
    #: Names in queries -> stored columns.
    columns: dict[str, str]
    interests: list[Interest] = field(default_factory=list)
    base_needed: bool = False
    sources_needed: bool = False
    #: Whether all committed rows of interest are needed, also where only some can break a rule.
    whole: bool = False
    fresh_needed: bool = False

    @property
    def staged(self) -> str:
        """The relation of staged rows."""
        return f"staged_{self.number}"

    @property
    def fresh(self) -> str:
        """The relation of staged ids that must be new."""
        return f"fresh_{self.number}" if self.fresh_needed else self.staged

    @property
    def base(self) -> str:
        """The relation of committed rows of interest."""
        return f"base_{self.number}"

    @property
    def touched(self) -> str:
        """The relation of edge sources that gain or lose an edge."""
        return f"touched_{self.number}"

    @property
    def adds(self) -> bool:
        """Whether there are staged rows."""
        return self.pending is not None and self.pending.mode is not WriteMode.DELETE

    @property
    def gone(self) -> str | None:
        """The relation of committed rows that go and do not come again."""
        return None if self.pending is None else self.pending.doomed

    @property
    def replaced(self) -> bool:
        """Whether no committed row remains."""
        return self.pending is not None and self.pending.mode is WriteMode.OVERWRITE

    def want(self, interest: Interest) -> None:
        """Bring in committed rows that are of this interest."""
        self.base_needed = True
        if interest not in self.interests:
            self.interests.append(interest)

    def want_sources(self) -> None:
        """Bring in all committed edges of the sources that are touched."""
        self.sources_needed = self.whole = True
        self.want(Interest(("src",), self.touched, ("src",)))

    def aliases(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the names in queries of stored columns, adding those that are new."""
        by_stored = {stored: alias for alias, stored in self.columns.items()}
        for name in names:
            if name not in by_stored:
                by_stored[name] = f"c{len(self.columns)}"
                self.columns[by_stored[name]] = name
        return tuple(by_stored[name] for name in names)

    def kept(self, columns: Sequence[str]) -> str:
        """Write the query of committed rows of interest that remain."""
        names = ", ".join(f"b.{column}" for column in columns)
        query = f"SELECT {names} FROM {self.base} b"
        others = [self.staged] if self.adds else []
        others += [self.gone] if self.gone else []
        absent = [f"NOT EXISTS (SELECT 1 FROM {other} s WHERE s.id = b.id)" for other in others]
        return f"{query} WHERE {' AND '.join(absent)}" if absent else query

    def after(self, columns: Sequence[str]) -> str:
        """Write the query of the rows of interest that this type will have."""
        staged = f"SELECT {', '.join(columns)} FROM {self.staged}"
        if self.replaced:
            return staged
        if not self.adds:
            return self.kept(columns)
        return f"{staged} UNION ALL {self.kept(columns)}" if self.base_needed else staged


class Relations:
    """The sides of a transaction in one workspace."""

    def __init__(
        self,
        space: Workspace,
        pending: Sequence[Pending],
        state: SnapshotState,
        own_rows: OwnRows | None = None,
    ) -> None:
        self.state = state
        self._own_rows = own_rows
        self._space = space
        self._pending = {change.key: change for change in pending}
        self._sides: dict[str, Side] = {}

    def side(self, key: str) -> Side:
        """Return the relations of a type."""
        if key not in self._sides:
            columns = {"id": "id"}
            if TypeKey.parse(key).kind is TypeKind.EDGE:
                columns |= {"src": "src", "dst": "dst"}
            self._sides[key] = Side(len(self._sides), self._pending.get(key), columns)
        return self._sides[key]

    def fill(self) -> None:
        """Bring all rows in: staged ones, touched sources, then committed ones of interest."""
        for side in self._sides.values():
            if side.pending is None or not side.adds:
                continue
            if side.pending.merge_columns is not None:
                self._fill_partial(side, side.pending)
            else:
                self._fill_staged(side.staged, side.columns, side.pending)
            if side.fresh_needed:
                ids = replace(side.pending, files=())
                self._fill_staged(side.fresh, {"id": "id"}, ids)
        for key, side in self._sides.items():
            if side.sources_needed:
                self._fill_touched(key, side)
        for key, side in self._sides.items():
            if side.base_needed and self._own_rows is not None and not side.whole:
                self._own_rows(side.base, key, side.columns)
            elif side.base_needed:
                # After an overwrite the committed rows only say which sources lose edges.
                interests = [] if side.replaced else side.interests
                source = ScanSource.of(self.state, key)
                self._space.add_committed(side.base, source, side.columns, interests)

    def _fill_partial(self, side: Side, change: Pending) -> None:
        """Complete rows of which only some columns are staged with those they already have."""
        new, old = f"new_{side.number}", f"old_{side.number}"
        given = {"id", *(change.merge_columns or ())}
        staged = {alias: name for alias, name in side.columns.items() if name in given}
        self._fill_staged(new, staged, change)
        interest = Interest(("id",), new, ("id",))
        source = ScanSource.of(self.state, change.key)
        self._space.add_committed(old, source, side.columns, [interest])
        chosen = ", ".join(
            f"{'n' if alias in staged else 'o'}.{alias} AS {alias}" for alias in side.columns
        )
        self._space.define(
            side.staged, f"SELECT {chosen} FROM {new} n LEFT JOIN {old} o ON o.id = n.id"
        )

    def _fill_staged(self, name: str, aliases: Mapping[str, str], change: Pending) -> None:
        source = change.source(self.state.root, self.state.settings)
        self._space.add_staged(name, source, aliases)

    def _fill_touched(self, key: str, side: Side) -> None:
        """Collect the sources of new edges and of those that are replaced or removed."""
        touching = [side.gone] if side.gone else []
        if side.adds:
            former = f"former_{side.number}"
            interests = [] if side.replaced else [Interest(("id",), side.staged, ("id",))]
            source = ScanSource.of(self.state, key)
            self._space.add_committed(former, source, {"id": "id", "src": "src"}, interests)
            touching += [side.staged, former]
        self._space.define(
            side.touched, " UNION ".join(f"SELECT src FROM {relation}" for relation in touching)
        )
