"""The indexes that a schema declares: which are missing or behind, and building them.

An index that covers no longer every fragment still answers right, and the rest is read; building
covers the rest. Where Lance can carry an index on without keeping outdated entries it is carried
on, otherwise it is built anew (see `storage.stored_indexes`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from omnigraph_spark.formats.profile import Commit
from omnigraph_spark.formats.v4.sidecar import WriterKind
from omnigraph_spark.maintenance.running import Runner
from omnigraph_spark.maintenance.settling import OVERTAKEN, Held, Rework, heal_first, owned, settle
from omnigraph_spark.manifest import Manifest
from omnigraph_spark.schema.indexes import DeclaredIndex, IndexKind, declared_indexes
from omnigraph_spark.schema.model import EntityType, GraphSchema
from omnigraph_spark.storage.changes import IndexChange
from omnigraph_spark.storage.datasets import open_dataset
from omnigraph_spark.storage.indexing import (
    BuildSegment,
    FindValue,
    IndexTarget,
    JoinSegments,
    crowded_indexes,
)
from omnigraph_spark.storage.parts import Fragment, Index

#: Rows that one task indexes: a few seconds of work, in the memory of any worker.
SEGMENT_ROWS = 2_000_000


class IndexAction(StrEnum):
    """What was done about an index."""

    BUILT = "built"
    #: The old one, and the fragments it did not cover.
    EXTENDED = "extended"
    #: In the place of one that could not be carried on.
    REBUILT = "rebuilt"


@dataclass(frozen=True)
class IndexBuild:
    """One index that was missing or behind, and what was done about it."""

    type_key: str
    column: str
    kind: IndexKind
    action: IndexAction
    #: How many fragments were indexed.
    fragments: int
    #: The commit it became visible with; None when it did not.
    commit: Commit | None = None
    #: Why it was given up.
    skipped: str | None = None


@dataclass(frozen=True)
class IndexPlan:
    """What is to be done about one index of one dataset version."""

    wanted: DeclaredIndex
    action: IndexAction
    name: str
    fragment_ids: tuple[int, ...]
    #: The segments that go.
    replaced: tuple[str, ...] = ()
    #: The one among them that is carried on.
    carried_on: str | None = None


@dataclass(frozen=True)
class IndexFacts:
    """What a dataset version says of its fragments and indexes."""

    fragments: tuple[Fragment, ...]
    segments: tuple[Index, ...]
    #: The ids of segments that may hold outdated entries.
    doubtful: frozenset[str]
    #: Whether there are rows that were rewritten since they came.
    any_rewritten: bool
    #: The folder of the dataset: a branch also reads segments of its parents.
    folder: str
    #: The ids of segments that this package built; asked for where there are texts.
    own: frozenset[str] = frozenset()
    #: The names of indexes with too many pages to be carried on.
    crowded: frozenset[str] = frozenset()


def plan_indexes(declared: Sequence[DeclaredIndex], facts: IndexFacts) -> Iterator[IndexPlan]:
    """Yield what is to be done about the declared indexes; nothing where all is well."""
    for wanted in declared:
        plan = _plan(wanted, facts)
        if plan is not None:
            yield plan


def _plan(wanted: DeclaredIndex, facts: IndexFacts) -> IndexPlan | None:
    kind, everything = str(wanted.kind), tuple(fragment.id for fragment in facts.fragments)
    known = [s for s in facts.segments if s.columns == (wanted.column,) and s.kind == kind]
    if not everything:
        return None
    name = _name(wanted, known, facts)
    if not known:
        return IndexPlan(wanted, IndexAction.BUILT, name, everything)
    covered = frozenset[int]().union(*(segment.fragment_ids for segment in known))
    missing = tuple(id_ for id_ in everything if id_ not in covered)
    exact = len(known) == 1 and known[0].uuid not in facts.doubtful
    if exact and not missing:
        return None
    replaced = tuple(segment.uuid for segment in known)
    if exact and _can_be_carried_on(wanted.kind, known[0], facts):
        return IndexPlan(wanted, IndexAction.EXTENDED, name, missing, replaced, known[0].uuid)
    return IndexPlan(wanted, IndexAction.REBUILT, name, everything, replaced)


def _name(wanted: DeclaredIndex, known: Sequence[Index], facts: IndexFacts) -> str:
    """Return Lance's own name for it, unless an index of another kind took that."""
    usual = f"{wanted.column}_idx"
    taken = {segment.name for segment in facts.segments if segment not in known}
    return f"{wanted.column}_{wanted.kind}_idx".lower() if usual in taken else usual


def _can_be_carried_on(kind: IndexKind, segment: Index, facts: IndexFacts) -> bool:
    if not segment.folder.startswith(f"{facts.folder}/_indices/"):
        # A parent's: Lance looks for it among this branch's own.
        return False
    # Lance takes outdated entries out of a sorted index, and leaves them in one of texts, which it
    # joins only with those of its own format: the engine's Lance writes an older one. Vectors are
    # only joined with those of the same centre, which the engine chooses by the rows.
    if kind is IndexKind.TEXT:
        return segment.uuid in facts.own and not facts.any_rewritten
    return kind is IndexKind.BTREE and segment.name not in facts.crowded


def build_indexes(
    manifest: Manifest, branch: str, schema: GraphSchema, run: Runner
) -> list[IndexBuild]:
    """Build every declared index that is missing or behind on a branch, with one publish.

    Types whose dataset another branch owns are left to that branch.
    """
    state = heal_first(manifest, branch, "building indexes")
    works = [(held, schema.get(held.entry.type_key)) for held in owned(state)]
    chosen = [(held, declared) for held, declared in works if declared is not None]
    reworks, builds = prepare_indexes(manifest, chosen, run)
    commit, landed = settle(manifest, branch, WriterKind.ENSURE_INDICES, reworks)
    return [settled(build, commit, landed) for build in builds]


def settled(build: IndexBuild, commit: Commit | None, landed: frozenset[str]) -> IndexBuild:
    """Say what became of an index."""
    if build.type_key in landed:
        return replace(build, commit=commit)
    return replace(build, skipped=OVERTAKEN)


def prepare_indexes(
    manifest: Manifest, chosen: Iterable[tuple[Held, EntityType]], run: Runner
) -> tuple[list[Rework], list[IndexBuild]]:
    """Build what is missing or behind, in three rounds of tasks over all types together."""
    planned = [
        (held, plan, _target(manifest, held, declared, plan))
        for held, declared in chosen
        for plan in _plans(manifest, held, declared)
    ]
    planned = _with_values(planned, run)
    rows = sum(held.entry.rows for held, _, _ in planned)
    tasks = [
        (number, BuildSegment(target, portion))
        for number, (held, plan, target) in enumerate(planned)
        for portion in _portions(manifest, held, plan)
    ]
    built: dict[int, list[str]] = {}
    for (number, _), text in zip(tasks, run([task for _, task in tasks], rows), strict=True):
        built.setdefault(number, []).append(text)
    joins = [
        JoinSegments(target, tuple(built[number]), plan.carried_on)
        for number, (_, plan, target) in enumerate(planned)
    ]
    changes: dict[str, tuple[Held, IndexChange]] = {}
    builds = []
    for (held, plan, _), text in zip(planned, run(joins, rows), strict=True):
        _, change = changes.get(held.key, (held, IndexChange(())))
        segments, replaced = (*change.segments, text), (*change.replaced, *plan.replaced)
        changes[held.key] = held, IndexChange(segments, replaced)
        wanted, count = plan.wanted, len(plan.fragment_ids)
        builds.append(IndexBuild(held.key, wanted.column, wanted.kind, plan.action, count))
    return [Rework(held, change) for held, change in changes.values()], builds


_Planned = tuple[Held, IndexPlan, IndexTarget]


def _with_values(planned: list[_Planned], run: Runner) -> list[_Planned]:
    """Leave out indexes of vectors where there is none yet."""
    asked = [each for each in planned if each[1].wanted.kind is IndexKind.VECTOR]
    rows = sum(held.entry.rows for held, _, _ in asked)
    answers = run([FindValue(target) for _, _, target in asked], rows)
    empty = [each for each, answer in zip(asked, answers, strict=True) if not answer]
    return [each for each in planned if each not in empty]


def _plans(manifest: Manifest, held: Held, declared: EntityType) -> list[IndexPlan]:
    address = held.address(manifest.root)
    dataset = open_dataset(address, held.entry.dataset_version, manifest.settings, held.entry.tag)
    segments = tuple(dataset.indexes())
    any_text = any(segment.kind == str(IndexKind.TEXT) for segment in segments)
    facts = IndexFacts(
        fragments=tuple(dataset.fragments()),
        segments=segments,
        doubtful=dataset.doubtful_segments(manifest.settings),
        any_rewritten=bool(dataset.rewritten_fragments()),
        folder=address.uri,
        own=dataset.own_segments(manifest.settings) if any_text else frozenset(),
        crowded=crowded_indexes(dataset),
    )
    stored = set(dataset.schema.names)
    # A schema may be newer than the version: a property that was added later has no column yet.
    wanted = [index for index in declared_indexes(declared) if index.column in stored]
    return list(plan_indexes(wanted, facts))


def _target(manifest: Manifest, held: Held, declared: EntityType, plan: IndexPlan) -> IndexTarget:
    column = plan.wanted.column
    types = {each.name: each.type for each in declared.properties}
    return IndexTarget(
        address=held.address(manifest.root),
        version=held.entry.dataset_version,
        settings=manifest.settings,
        column=column,
        name=plan.name,
        method=plan.wanted.kind.upper(),
        dimension=types[column].dimension if plan.wanted.kind is IndexKind.VECTOR else None,
    )


def _portions(manifest: Manifest, held: Held, plan: IndexPlan) -> Iterator[tuple[int, ...]]:
    dataset = open_dataset(
        held.address(manifest.root),
        held.entry.dataset_version,
        manifest.settings,
        held.entry.tag,
    )
    chosen, rows, portion = set(plan.fragment_ids), 0, list[int]()
    for fragment in dataset.fragments():
        if fragment.id not in chosen:
            continue
        if portion and rows + fragment.rows > SEGMENT_ROWS:
            yield tuple(portion)
            rows, portion = 0, []
        portion.append(fragment.id)
        rows += fragment.rows
    yield tuple(portion)
