"""One transaction: changes of many types, staged unseen, checked together, landed at once.

plan (pin a snapshot) -> stage (files nobody sees) -> inspect (rules across rows) -> land (see
`landing`). When another commit landed meanwhile, additive writes look again on top of it, without
staging their rows a second time; overwrites and deletions give up instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace

from omnigraph_spark.clock import derived_ulid, new_ulid, now_us
from omnigraph_spark.errors import (
    ConflictError,
    ConstraintViolationError,
    ExpectedVersionError,
    HeadMovedError,
    KeyConflictError,
    SchemaApplyInProgressError,
)
from omnigraph_spark.formats.profile import Commit
from omnigraph_spark.manifest import ManifestState
from omnigraph_spark.names import MAIN, AnyRef
from omnigraph_spark.publish import LineageIntent, find_publisher, find_repeat
from omnigraph_spark.recovery.finished import find_finished
from omnigraph_spark.recovery.sweep import heal, undo
from omnigraph_spark.scan_source import ScanSource
from omnigraph_spark.snapshot import GraphReader, SnapshotState
from omnigraph_spark.storage.datasets import DatasetAddress
from omnigraph_spark.storage.locks import Turn, writer_lock
from omnigraph_spark.storage.staging import StagedFile, discard, leftovers_told
from omnigraph_spark.writing.collected import Collected, RowCounts
from omnigraph_spark.writing.deletions import DeleteRequest
from omnigraph_spark.writing.forks import ensure_fork
from omnigraph_spark.writing.heads import PlanAgain, check_head
from omnigraph_spark.writing.inspect import head_under_removals, inspect, types_read
from omnigraph_spark.writing.landing import NOTHING_MOVED, Landing, PartlyLanded, Prepared, land
from omnigraph_spark.writing.pending import Pending, WriteMode
from omnigraph_spark.writing.preparing import Preparation, discard_all, refuse_given_up
from omnigraph_spark.writing.repacking import repack
from omnigraph_spark.writing.stage import StageResult, StageTask, discard_unowned
from omnigraph_spark.writing.target import Target
from omnigraph_spark.writing.terms import Checks, WriteTerms
from omnigraph_spark.writing.violations import refuse
from omnigraph_spark.writing.workspace import DuckWorkspace, Workspace

# Five times on top of somebody else's commit: a sixth means sustained contention, which the caller
# ought to see.
REBASES = 5


SpaceFactory = Callable[[], AbstractContextManager[Workspace]]


class Write:
    """A transaction on one branch, from its snapshot to its commit."""

    def __init__(
        self,
        reader: GraphReader,
        branch: str,
        terms: WriteTerms,
        create_from: AnyRef | None = None,
        *,
        mixed: bool = False,
    ) -> None:
        """Begin on the newest commit of a branch.

        A `mixed` write may replace (`MERGE`), add (`APPEND`) and delete rows of one type, for
        callers who decide row by row; it fails when the branch moves, unless the terms say not to.
        """
        self._reader = reader
        self._terms = terms
        self._mixed = mixed
        self.branch = branch
        self._target = Target(reader, branch, create_from)
        self._collected = Collected(branch, mixed)
        #: Whether datasets may have moved, or did and were undone: versions name what was staged.
        self._effects = False

    @property
    def base(self) -> SnapshotState:
        """The snapshot that the write is planned on."""
        return self._target.base

    @property
    def expected(self) -> Mapping[str, int]:
        """The dataset versions that the terms expect, by type key."""
        return self._terms.expected

    # -- collecting --------------------------------------------------------------------------------

    def task(
        self,
        type_name: str,
        mode: WriteMode,
        merge_columns: Sequence[str] | None = None,
        existing_only: bool = False,
    ) -> StageTask:
        """Return what stages rows of a type, in this process or in another."""
        pending = self._collected.pending(self.base, type_name, mode, merge_columns, existing_only)
        return StageTask(
            pending.address(self.base.root),
            self.base.settings,
            pending.declared,
            mode,
            self._terms.limits,
            pending.merge_columns,
            pending.existing_only,
            self._terms.external_blobs,
            None if pending.forks else ScanSource.of(self.base, pending.key),
        )

    def add(self, type_name: str, task: StageTask, results: Iterable[StageResult]) -> None:
        """Take over what was staged; rows that break rules are refused, all violations at once."""
        pending = self._collected.pending(
            self.base, type_name, task.mode, task.merge_columns, task.existing_only
        )
        results = list(results)
        files = tuple(file for result in results for file in result.files)
        places = tuple(file for result in results for file in result.places)
        try:
            refuse(found for result in results for found in result.violations)
        except ConstraintViolationError:
            # No part of an input is kept, also when the caller goes on without it.
            self._discard(task.address, (*files, *places))
            raise
        self._collected.take(pending, task.mode, task.address, files, places)

    def delete_where(self, type_name: str, where: str) -> None:
        """Remove the rows of a type that meet a condition, and edges that end at them."""
        pending = self._collected.pending(self.base, type_name, WriteMode.DELETE)
        address = pending.address(self.base.root)
        self._collected.deletes.append(DeleteRequest(pending.key, address, where=where))

    @property
    def changes(self) -> Mapping[str, Pending]:
        """The staged changes, by type key."""
        return dict(self._collected.changes)

    @property
    def deletes(self) -> Sequence[DeleteRequest]:
        """The deletions asked for."""
        return tuple(self._collected.deletes)

    @property
    def rows(self) -> RowCounts:
        """How many rows are staged, by what is done with them."""
        return self._collected.rows

    def workspace(self) -> DuckWorkspace:
        """Return where the write is checked without Spark."""
        return DuckWorkspace(few=self.rows.are_few)

    def effective(self, space: Workspace) -> list[Pending]:
        """Return what is going to happen, type by type, cascades of deletions included."""
        return self._collected.effective(space, self.base)

    # -- ending ------------------------------------------------------------------------------------

    def abort(self) -> None:
        """Throw away what was staged, unless versions may name it; nothing was ever visible."""
        if not self._effects:
            self._discard_staged()
        self._collected.clear()

    def commit_or_abort(self, space_factory: SpaceFactory | None = None) -> Commit | None:
        """Commit; a failure before any dataset moved leaves nothing behind."""
        try:
            return self.commit(space_factory)
        except BaseException:
            # Once datasets may have moved, the staged files may belong to a version.
            if not self._effects:
                self.abort()
            raise

    def commit(self, space_factory: SpaceFactory | None = None) -> Commit | None:
        """Check everything and make it visible; None when there is nothing to do."""
        commit_id = derived_ulid(*self._terms.once) if self._terms.once else new_ulid()
        moved = PlanAgain("")
        with Turn(writer_lock(self.base.root, self.branch, self.base.settings)) as turn:
            for attempt in range(REBASES + 1):
                if attempt:
                    # Who was overtaken comes to its end.
                    turn.take()
                    self._rebase(moved)
                try:
                    return self._attempt(turn, space_factory or self.workspace, commit_id, attempt)
                except PlanAgain as reason:
                    moved = reason
        raise ConflictError(f"{REBASES + 1} attempts on branch {self.branch!r} lost: {moved}")

    def _attempt(
        self, turn: Turn, space_factory: SpaceFactory, commit_id: str, attempt: int
    ) -> Commit | None:
        """Check everything on the base and land on it; `PlanAgain` says what stood in the way."""
        if self._looks_first and (done := self._done(self._target.state(), commit_id)):
            # Before the rules are checked: rows that are there already break some.
            self.abort()
            return done
        with ExitStack() as held:
            space = held.enter_context(space_factory())
            pending = self._inspected(space)
            if not pending:
                if not attempt and self._target.is_behind():
                    raise PlanAgain("there was nothing to do before", in_vain=True)
                self.abort()
                return None
            preparation = held.enter_context(Preparation(self._reader.manifest, space))
            if not attempt:
                # The first look takes as long as there are rows, and holds nobody up.
                preparation.begin(pending)
                turn.take()
            return self._land(preparation, pending, commit_id)

    @property
    def _looks_first(self) -> bool:
        """Whether the rules may be checked in vain: the work is done, or its branch is gone.

        Work without a name is never done already, and main is never gone: that saves a request.
        """
        return bool(self._terms.once) or self.branch != MAIN

    def _done(self, state: ManifestState, commit_id: str) -> Commit | None:
        """Return the visible commit that did this work, whoever made it."""
        done = find_repeat(state, commit_id)
        if done is None and self._terms.once:
            done = find_finished(self._reader.manifest, state, commit_id)
        return done

    def _inspected(self, space: Workspace) -> list[Pending]:
        """Return the changes that have an effect, after every rule was checked."""
        pending = self.effective(space)
        violations = inspect(space, pending, self.base, self._terms.checks is Checks.ALL)
        if violations and all(found.rule == "exists" for found in violations):
            raise KeyConflictError("; ".join(map(str, violations)))
        refuse(violations)
        for number, change in enumerate(pending):
            # Only now: what is refused is not worth a copy.
            if change.staged:
                pending[number] = packed = repack(change, self.base, self._terms.limits, space)
                self._collected.repacked(packed)
        return pending

    def _land(self, preparation: Preparation, pending: Sequence[Pending], commit_id: str) -> Commit:
        manifest = self._reader.manifest
        if manifest.schema_apply_in_progress():
            raise SchemaApplyInProgressError("a schema change holds its lock, or died holding it")
        try:
            healed = heal(manifest, self.branch, held=True)
        except ConflictError as alive:
            # Where there are no locks, another writer may be in the middle of its own landing.
            raise PlanAgain(alive.detail) from alive
        if healed:
            raise PlanAgain(f"an unfinished write on branch {self.branch!r} was recovered")
        state = self._target.state()
        if (done := self._done(state, commit_id)) is not None:
            self.abort()
            return done
        expected = self._expectations(state, pending)
        if any(change.forks for change in pending):
            # Otherwise nothing is left behind before `land` looks.
            for change in pending:
                if not change.forks:
                    check_head(manifest, change)
        # Whatever can be refused was refused: from here on there are traces.
        self._target.make()
        prepared: list[Prepared] = []
        before, moved = self._effects, False
        try:
            for change in pending:
                ensure_fork(manifest, change)
                prepared.append(preparation.take(change))
            lineage = LineageIntent(commit_id, now_us(), self._terms.actor)
            seen = state if state.branch == self.branch else None
            head = self._strict_head() or head_under_removals(state, pending)
            landing = Landing(self.branch, prepared, expected, lineage, head, seen=seen)
            refuse_given_up(manifest, prepared)
            self._effects = moved = True
            try:
                commit = land(manifest, landing)
            except NOTHING_MOVED:
                # This time: an earlier attempt may have been undone, whose versions are still read.
                self._effects, moved = before, False
                raise
            except PartlyLanded as failed:
                # Commits of our own, under our own lock: nobody else has to recover them.
                visible = undo(manifest, failed.sidecar)
                if visible is None:
                    raise failed.reason from failed
                commit = visible
        except BaseException:
            if not moved:
                discard_all(manifest, prepared)
            raise
        if not before:
            self._discard_replaced(prepared)
        summaries = {item.pending.key: item.summary for item in prepared}
        return replace(commit, changes=summaries)

    # -- terms -------------------------------------------------------------------------------------

    def _expectations(self, state: ManifestState, pending: Sequence[Pending]) -> dict[str, int]:
        """Return the version of every type read or written, if the branch still has them all."""
        self._terms.check(state)
        expected = {
            key: self.base.entries[key].dataset_version for key in types_read(pending, self.base)
        }
        for key, version in expected.items():
            actual = state.visible_version(key)
            if actual != version:
                detail = f"{key} was planned on at version {version} and is at {actual}"
                raise PlanAgain(detail, key, version, actual)
        if state.entries.keys() != self.base.entries.keys():
            # Edges of a type that came meanwhile may end at nodes that go.
            raise PlanAgain(f"branch {self.branch!r} has other types than before")
        head = state.lineage.head
        if self._strict_head() not in (None, head.id if head else None):
            raise PlanAgain(f"branch {self.branch!r} is no longer at {self.base.commit.id}")
        return {**self._terms.expected, **expected}

    def _strict_head(self) -> str | None:
        """Return the commit the branch must still be at; additive writes land on any."""
        if self._terms.if_commit is not None:
            return self._terms.if_commit
        return None if self._may_rebase() else self.base.commit.id

    def _may_rebase(self) -> bool:
        mixed = {WriteMode.DELETE} if self._mixed else set()
        return self._terms.may_rebase(self._collected.modes | mixed)

    def _rebase(self, moved: PlanAgain) -> None:
        """Plan on the newest commit, or give up when the terms say so."""
        newest = self._target.newest(surely=moved.in_vain)
        if not self._may_rebase() and not moved.in_vain:
            raise self._conflict(moved, newest.commit.id)
        for key in self._collected.keys:
            type_key = newest.entry(key).type_key
            if newest.schema.get(type_key) != self.base.schema.get(type_key):
                raise ConflictError(f"the schema of {key} was changed meanwhile")
        self._target.base = newest
        self._collected.rebase(newest)

    def _conflict(self, moved: PlanAgain, head: str) -> ConflictError:
        """Say who was faster."""
        if not moved.type:
            return HeadMovedError(f"{moved}: commit {head} landed first")
        manifest = self._reader.manifest
        state = manifest.head(self.branch)
        winner = find_publisher(manifest, state, moved.type, moved.actual) or head
        detail = f"{moved} since commit {winner}"
        return ExpectedVersionError(detail, moved.type, moved.expected, moved.actual, winner)

    # -- files -------------------------------------------------------------------------------------

    def discard_unowned(self, task: StageTask, results: Iterable[StageResult]) -> None:
        """Delete staged files that nothing can own, as whoever gives the write up has to."""
        files = [file for result in results for file in result.all_files]
        planned = self.base.entry(str(task.declared.type_key)).dataset_version
        discard_unowned(task, files, self.branch, planned)

    def _discard_staged(self) -> None:
        for change in self.changes.values():
            self._discard(change.address(self.base.root), (*change.staged, *change.places))
        self._discard_requests()

    def _discard_replaced(self, prepared: Iterable[Prepared]) -> None:
        """Delete staged files that a merge wrote anew: no version names them."""
        for item in prepared:
            if item.rewritten:
                done = (*item.pending.staged, *item.pending.places)
                self._discard(item.pending.address(self.base.root), done)
        self._discard_requests()

    def _discard_requests(self) -> None:
        for request in self.deletes:
            self._discard(request.address, (*request.files, *request.places))

    def _discard(self, address: DatasetAddress, files: Iterable[StagedFile]) -> None:
        with leftovers_told():
            discard(address, files, self.base.settings)
