"""Writing and reading over a network that fails: PRE or POST, bounded patience, nothing twice."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import omnigraph_spark as og
from omnigraph_spark.errors import OutcomeUnknownError, RecoveryRequiredError, StorageError
from omnigraph_spark.recovery import observe
from omnigraph_spark.storage import leases
from tests.faults.s3graphs import Place, assert_settled, outcome, place_social, state_of
from tests.faults.s3proxy import Call, Fault, S3Proxy, always, burst, once, s3_proxy, sometimes
from tests.helpers.crashes import load
from tests.helpers.s3 import S3Server

pytestmark = pytest.mark.slow

#: The longest any operation may take on a network that never recovers, on a busy machine.
PATIENCE_SECONDS = 120.0
#: Half a minute, and what a busy machine adds to it.
SILENCE_SECONDS = 30.0 + 15.0


@pytest.fixture(scope="module")
def proxy(s3: S3Server) -> Iterator[S3Proxy]:
    with s3_proxy(s3.endpoint) as running:
        yield running


@pytest.fixture(autouse=True)
def short_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits half a minute for a writer whose last request was lost."""
    monkeypatch.setattr(leases, "LEASE_SECONDS", 1.0)


@pytest.fixture
def place(s3: S3Server, proxy: S3Proxy) -> Place:
    return place_social(s3, proxy)


def kind(*kinds: str, holds: str = "") -> Callable[[Call], bool]:
    return lambda call: call.kind in kinds and holds in call.path


def new_version_of(folder: str) -> Callable[[Call], bool]:
    """The conditional put that makes a version of a dataset below a folder."""
    return lambda call: call.conditional and f"/{folder}" in call.path and "_versions" in call.path


MANIFEST, DATASET = new_version_of("__manifest/"), new_version_of("nodes/")


def assert_pre_or_post(place: Place, before: Any, landed: bool | None) -> None:
    """The load happened whole or not at all; `landed` is what its writer was told, if anything."""
    graph = place.recovered()
    after = state_of(graph)
    happened = after != before
    if happened:
        assert after["node:Person"]["Bob"]["age"] == 42
        assert {"Alice", "Bob", "Carol"} == set(after["node:Person"])
        assert set(after["edge:Knows"]) == {"k1", "k2"}
    assert landed in (None, happened)
    work = [commit for commit in graph.history() if commit.actor == "act-crash"]
    assert len(work) <= 1
    # And the graph can be written.
    writer = og.open(place.root, storage=place.direct)
    writer.write(pa.table({"name": ["Zoe"]}), "Person")
    assert_settled(writer, place.direct)


# -- one request fails --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("struck", "fault"),
    [
        ("GET", Fault.RESET),
        ("GET", Fault.SLOW_DOWN),
        ("PUT", Fault.RESET),
        ("PUT", Fault.SLOW_DOWN),
        ("PUT", Fault.LOST_ANSWER),
        ("HEAD", Fault.LOST_ANSWER),
        ("LIST", Fault.LATE),
        ("LIST", Fault.SLOW_DOWN),
    ],
)
def test_a_request_that_fails_once_is_repeated_and_the_write_lands(
    place: Place, proxy: S3Proxy, struck: str, fault: Fault
) -> None:
    """RS-61."""
    before, graph = place.state(), place.open()
    with proxy.faults(sometimes(fault, kind(struck), range(0, 60, 7))) as faults:
        told = outcome(lambda: load(graph))
    assert faults
    assert told == "landed"
    assert_pre_or_post(place, before, True)


@pytest.mark.parametrize(
    ("part", "fault"),
    [
        ("uploads", Fault.SLOW_DOWN),
        ("partNumber", Fault.RESET),
        ("partNumber", Fault.LOST_ANSWER),
        ("uploadId", Fault.LOST_ANSWER),
    ],
)
def test_a_part_of_a_large_file_that_fails_once_is_repeated(
    place: Place, proxy: S3Proxy, part: str, fault: Fault
) -> None:
    """RS-61: multipart begin, part and end."""
    rows = 1500
    noise = np.random.default_rng(7).integers(32, 126, (rows, 8192), dtype=np.uint8)
    names = pa.array([line.tobytes().decode("latin-1") for line in noise])
    graph = place.open()

    def is_part(call: Call) -> bool:
        wanted = call.query.startswith(part)
        return wanted and (part != "uploadId" or call.kind == "POST")

    with proxy.faults(once(fault, is_part)) as faults:
        graph.write(pa.table({"name": names}), "Company")
    assert faults, "the file was written in one piece"
    found = place.beside().snapshot().arrow("Company", columns=["name"])["name"]
    assert sorted(found.to_pylist()) == sorted(["Acme", *names.to_pylist()])


# -- the answer of a decisive request is lost ----------------------------------------------------


@pytest.mark.parametrize("decisive", [MANIFEST, DATASET], ids=["manifest", "dataset"])
def test_a_version_whose_acknowledgement_is_lost_is_made_once(
    place: Place, proxy: S3Proxy, decisive: Callable[[Call], bool]
) -> None:
    """RS-62, RS-16: the outcome is read again, and not repeated blindly."""
    before, graph = place.state(), place.open()
    with proxy.faults(once(Fault.LOST_ANSWER, decisive)) as faults:
        load(graph)
    assert len(faults) == 1
    assert_pre_or_post(place, before, True)


@pytest.mark.parametrize("decisive", [MANIFEST, DATASET], ids=["manifest", "dataset"])
def test_a_version_that_is_never_acknowledged_is_there_or_reported_as_unknown(
    place: Place, proxy: S3Proxy, decisive: Callable[[Call], bool]
) -> None:
    """RS-62: every try is carried out or refused, and no answer arrives."""
    before, graph = place.state(), place.open(retries=1)
    with proxy.faults(always(Fault.LOST_ANSWER, decisive)):
        told = outcome(lambda: load(graph))
    assert told in ("landed", "OMNIGRAPH_OUTCOME_UNKNOWN", "OMNIGRAPH_RECOVERY_REQUIRED")
    assert_pre_or_post(place, before, True if told == "landed" else None)


def test_a_sidecar_whose_acknowledgement_is_lost_does_no_harm(place: Place, proxy: S3Proxy) -> None:
    """RS-10, RS-62."""
    before, graph = place.state(), place.open()
    with proxy.faults(once(Fault.LOST_ANSWER, kind("PUT", holds="/__recovery/"), times=2)):
        load(graph)
    assert_pre_or_post(place, before, True)


def test_a_sidecar_that_stays_behind_is_removed_by_the_next_write(
    place: Place, proxy: S3Proxy
) -> None:
    """RS-17: the commit is visible, so its writer succeeds, with a warning."""
    before, graph = place.state(), place.open(retries=1)
    gone = always(Fault.SLOW_DOWN, kind("DELETE", holds=".json"))
    with proxy.faults(gone), warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        load(graph)
    assert any("stayed behind" in str(warning.message) for warning in warned)
    assert_pre_or_post(place, before, True)


def test_a_commit_that_cannot_be_read_again_is_not_called_a_failure(
    place: Place, proxy: S3Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The work is done: an error would have it repeated."""
    # Its end is seen by the lease that goes, so it must not run out on a slow machine.
    monkeypatch.setattr(leases, "LEASE_SECONDS", 60.0)
    before, graph = place.state(), place.open(retries=1)
    published, ended = [False], [False]

    def then_silence(call: Call) -> Fault | None:
        published[0] = published[0] or MANIFEST(call)
        freed = published[0] and call.kind == "DELETE" and call.path.endswith(".lock")
        ended[0] = ended[0] or freed
        return Fault.SLOW_DOWN if ended[0] and call.kind == "LIST" else None

    with proxy.faults(then_silence):
        load(graph)
        # Only who reads learns of it.
        with pytest.raises(StorageError):
            graph.snapshot()
    assert graph.snapshot().commit.id == place.open().snapshot().commit.id
    assert_pre_or_post(place, before, True)


# -- many datasets -------------------------------------------------------------------------------

WIDE = "\n".join(f"node T{number} {{ name: String @key }}" for number in range(4))


def write_wide(graph: og.Graph, name: str) -> None:
    with graph.transaction() as tx:
        for number in range(4):
            tx.append(f"T{number}", pa.table({"name": [name]}))


@pytest.fixture
def wide(s3: S3Server, proxy: S3Proxy) -> og.Graph:
    """A graph of four types, over the network that may fail."""
    storage = {**s3.storage_options, "aws_endpoint": proxy.endpoint, "client_max_retries": "1"}
    graph = og.create(f"s3://{s3.make_bucket()}/wide", WIDE, storage=storage)
    write_wide(graph, "first")
    return graph


def test_datasets_after_the_first_are_committed_at_the_same_time(
    wide: og.Graph, proxy: S3Proxy
) -> None:
    met = threading.Barrier(3, timeout=60)
    seen: list[str] = []

    def meet(call: Call) -> None:
        if DATASET(call):
            seen.append(call.path)
            if len(seen) > 1:
                # Each of the other three waits until all of them are under way.
                met.wait()

    with proxy.faults(meet):
        write_wide(wide, "second")
    assert len(seen) == 4
    assert {wide.snapshot().rows(f"T{number}") for number in range(4)} == {2}


@pytest.mark.parametrize("fault", [Fault.DENIED, Fault.LOST_ANSWER], ids=str)
@pytest.mark.parametrize("which", [0, 1, 3])
def test_one_of_many_datasets_that_fails_leaves_all_or_nothing(
    wide: og.Graph, proxy: S3Proxy, which: int, fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RS-13, RS-62: whatever became of those that were under way beside it."""
    monkeypatch.setattr(observe, "_LEASE_US", 0)
    with proxy.faults(
        sometimes(fault, DATASET, range(which, 99) if fault is Fault.DENIED else [which])
    ):
        told = outcome(lambda: write_wide(wide, "second"))
    # What was refused for good cannot be undone either, as long as it is.
    refused = ("OMNIGRAPH_STORAGE", "OMNIGRAPH_RECOVERY_REQUIRED")
    assert told in (("landed",) if fault is Fault.LOST_ANSWER else refused)
    after = og.open(wide.root, storage=dict(wide._state.settings.given))
    rows = {after.snapshot().rows(f"T{number}") for number in range(4)}
    assert rows == {2 if told == "landed" else 1}
    assert after.recover() == []
    write_wide(after, "third")


# -- it never gets better ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("where", "fault"),
    [
        (kind("PUT", holds="/data/"), Fault.SLOW_DOWN),
        (kind("PUT", holds="/__recovery/"), Fault.SLOW_DOWN),
        (MANIFEST, Fault.RESET),
        (DATASET, Fault.SLOW_DOWN),
    ],
    ids=["data", "sidecar", "manifest", "dataset"],
)
def test_a_server_that_never_answers_is_given_up_in_bounded_time(
    place: Place, proxy: S3Proxy, where: Callable[[Call], bool], fault: Fault
) -> None:
    """RS-61: PRE, or what the writer was told it may be."""
    before, graph = place.state(), place.open()
    began = time.monotonic()
    with proxy.faults(always(fault, where)) as faults, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        told = outcome(lambda: load(graph))
    assert time.monotonic() - began < PATIENCE_SECONDS
    assert len(faults) < 60
    assert told.startswith("OMNIGRAPH_")
    assert_pre_or_post(place, before, False if told == "OMNIGRAPH_STORAGE" else None)


def test_a_server_that_takes_requests_and_stays_silent_is_given_up_within_half_a_minute(
    s3: S3Server, proxy: S3Proxy
) -> None:
    """Opening, whose requests are boto3's; reading and writing, which are Lance's: all at once."""
    places = [place_social(s3, proxy) for _ in range(3)]
    unheard, unread, unwritten = (place.root.split("/")[2] for place in places)
    reader, writer = places[1].open(), places[2].open()

    def of(bucket: str, *kinds: str, holds: str = "") -> Callable[[Call], bool]:
        return lambda call: call.path.startswith(f"/{bucket}") and kind(*kinds, holds=holds)(call)

    silent = (
        of(unheard, "LIST", "GET"),
        of(unread, "GET", holds="/data/"),
        of(unwritten, "PUT", holds="/data/"),
    )

    def told(action: Callable[[], object]) -> tuple[str, float]:
        began = time.monotonic()
        with pytest.raises(StorageError) as raised:
            action()
        return str(raised.value), time.monotonic() - began

    actions: list[Callable[[], object]] = [
        places[0].open,
        lambda: reader.snapshot().arrow("Person"),
        lambda: load(writer),
    ]

    def plan(call: Call) -> Fault | None:
        return Fault.SILENT if any(one(call) for one in silent) else None

    with proxy.faults(plan), ThreadPoolExecutor(3) as pool:
        results = list(pool.map(told, actions))
    for (text, seconds), bucket in zip(results, (unheard, unread, unwritten), strict=True):
        assert proxy.endpoint in text
        assert bucket in text
        assert seconds < SILENCE_SECONDS, text
    assert places[2].state() == places[0].state()


#: Requests of control files, and Lance's: rows read, rows written, a version made.
BURSTS = {
    "opening": kind("LIST"),
    "reading": kind("GET", holds="/data/"),
    "staging": kind("PUT", holds="/data/"),
    "publishing": MANIFEST,
}


@pytest.mark.parametrize("name", BURSTS)
def test_a_server_that_is_overloaded_for_some_seconds_is_outlasted(
    place: Place, proxy: S3Proxy, name: str
) -> None:
    """RS-61."""
    before = place.state()
    with proxy.faults(burst(Fault.SLOW_DOWN, BURSTS[name], 4.0)) as faults:
        graph = place.open()
        assert state_of(graph) == before
        load(graph)
    assert faults
    assert_pre_or_post(place, before, True)


# -- reading -------------------------------------------------------------------------------------


def test_an_answer_that_breaks_off_is_read_again(place: Place, proxy: S3Proxy) -> None:
    """RS-63."""
    before = place.state()
    with proxy.faults(sometimes(Fault.TRUNCATED, kind("GET"), range(0, 100, 5))) as faults:
        graph = og.open(place.root, mode="r", storage=place.proxied)
        assert state_of(graph) == before
    assert faults


@pytest.mark.parametrize("folder", ["/nodes/", "/__manifest/", "_schema"])
def test_an_answer_that_always_breaks_off_is_an_error_and_never_fewer_rows(
    s3: S3Server, proxy: S3Proxy, folder: str
) -> None:
    """RS-63."""
    place = place_social(s3, proxy)
    storage = {**place.proxied, "client_max_retries": "2"}
    with (
        proxy.faults(always(Fault.TRUNCATED, kind("GET", holds=folder))) as faults,
        pytest.raises(og.OmnigraphError),
    ):
        state_of(og.open(place.root, mode="r", storage=storage))
    assert faults


def test_an_older_page_of_a_listing_loses_no_update(place: Place, proxy: S3Proxy) -> None:
    """RS-64: what was seen may be old; what is published is conditional."""
    graph = place.open()
    with proxy.faults(sometimes(Fault.STALE_LIST, kind("LIST"), range(0, 400, 3))) as faults:
        told = [
            outcome(lambda n=n: graph.write(pa.table({"name": [f"p{n}"]}), "Person"))
            for n in range(4)
        ]
    assert faults
    landed = {f"p{n}" for n, code in enumerate(told) if code == "landed"}
    assert landed
    assert set(state_of(place.recovered())["node:Person"]) == {"Alice", "Bob"} | landed


def test_an_older_page_of_a_type_s_versions_is_not_taken_for_damage(
    place: Place, proxy: S3Proxy
) -> None:
    """RS-64: a version that is not listed yet is looked for by its name."""
    graph = place.open()
    for name in ("p0", "p1"):
        graph.write(pa.table({"name": [name]}), "Person")

    def versions(call: Call) -> bool:
        return call.kind == "LIST" and "/nodes/" in call.query and "max-keys=8" in call.query

    with proxy.faults(once(Fault.STALE_LIST, versions)) as faults:
        graph.write(pa.table({"name": ["p2"]}), "Person")
    assert len(faults) == 1
    assert set(state_of(place.recovered())["node:Person"]) == {"Alice", "Bob", "p0", "p1", "p2"}


def test_an_older_page_does_not_hide_what_is_to_be_deleted(place: Place, proxy: S3Proxy) -> None:
    """RS-64: where nothing was found the newest version is looked for by its name."""

    def versions(call: Call) -> bool:
        return call.kind == "LIST" and "__manifest/" in call.query and "_versions/" in call.query

    place.open().write(pa.table({"name": ["p0"]}), "Person")
    place.open().write(pa.table({"name": ["p1"]}), "Person")
    graph = place.open()
    with proxy.faults(once(Fault.STALE_LIST, versions)) as faults:
        commit = graph.delete("Person", ids=["p1"])
    assert len(faults) == 1
    assert commit is not None
    assert graph.delete("Person", ids=["p1"]) is None
    assert set(state_of(place.recovered())["node:Person"]) == {"Alice", "Bob", "p0"}


def test_an_older_page_does_not_begin_a_branch_on_an_older_commit(
    place: Place, proxy: S3Proxy
) -> None:
    """RS-64: nor does a merge take less than the source holds; no publish would tell."""

    def versions(call: Call) -> bool:
        return call.kind == "LIST" and "__manifest/" in call.query and "_versions/" in call.query

    place.open().write(pa.table({"name": ["p0"]}), "Person")
    graph = place.open()
    graph.write(pa.table({"name": ["p1"]}), "Person")
    with proxy.faults(once(Fault.STALE_LIST, versions)) as faults:
        graph.create_branch("dev")
    assert len(faults) == 1
    assert set(place.state("dev")["node:Person"]) == {"Alice", "Bob", "p0", "p1"}
    dev = place.open("dev")
    for name in ("p2", "p3"):
        dev.write(pa.table({"name": [name]}), "Person")
    fresh = place.open()
    with proxy.faults(
        once(Fault.STALE_LIST, lambda call: versions(call) and "/tree/dev/" in call.query)
    ) as faults:
        fresh.merge("dev", into="main")
    assert len(faults) == 1
    assert {"p2", "p3"} <= set(place.state()["node:Person"])


# -- keys that expire ----------------------------------------------------------------------------


class Rotating:
    """Fetches keys with a number, good for two seconds."""

    def __init__(self) -> None:
        self.number = 0

    def __call__(self) -> dict[str, Any]:
        self.number += 1
        until = time.time() + 2.0
        return {"AccessKeyId": f"key{self.number}", "SecretAccessKey": "s", "Expiration": until}

    def refuse_old(self, call: Call) -> Fault | None:
        """Keys outlive their renewal for as long as one operation takes on a busy machine."""
        newest = [f"key{self.number - ago}" for ago in range(3)]
        return None if call.access_key in newest else Fault.EXPIRED


def test_keys_that_expire_are_renewed_in_the_middle_of_a_job(place: Place, proxy: S3Proxy) -> None:
    """RS-65: the hook is asked again before the keys run out, and nobody notices."""
    hook = Rotating()
    endpoint = {"aws_endpoint": proxy.endpoint, "allow_http": "true"}
    style = {"aws_virtual_hosted_style_request": "false"}
    graph = og.open(place.root, storage={**endpoint, **style, "credentials": hook})
    deadline = time.monotonic() + PATIENCE_SECONDS
    with proxy.faults(hook.refuse_old) as faults:
        count = 0
        while hook.number < 5 and time.monotonic() < deadline:
            graph.write(pa.table({"name": [f"p{count}"]}), "Person")
            count += 1
    assert faults == []
    assert hook.number >= 5
    assert len(state_of(place.recovered())["node:Person"]) == 2 + count


def test_keys_that_expired_end_a_write_cleanly(place: Place, proxy: S3Proxy) -> None:
    """RS-65: without a hook the writer is told, and the graph is as it was."""
    before, graph = place.state(), place.open()
    with (
        proxy.faults(always(Fault.EXPIRED, kind("GET", "PUT", "LIST", "POST", "DELETE"))),
        pytest.raises(StorageError, match="expired"),
    ):
        load(graph)
    assert_pre_or_post(place, before, False)


def test_keys_that_expire_between_two_datasets_leave_work_for_recovery(
    place: Place, proxy: S3Proxy
) -> None:
    """RS-65, RS-13: nothing is visible, and the next writer finds the graph whole."""
    before, graph = place.state(), place.open(retries=1)
    gone = [False]

    def from_then_on(call: Call) -> Fault | None:
        if DATASET(call) and not gone[0]:
            gone[0] = True
            return None
        return Fault.EXPIRED if gone[0] else None

    with proxy.faults(from_then_on), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        told = outcome(lambda: load(graph))
    assert gone == [True]
    assert told in ("OMNIGRAPH_RECOVERY_REQUIRED", "OMNIGRAPH_STORAGE")
    assert_pre_or_post(place, before, None)


def test_an_outcome_that_cannot_be_seen_is_not_called_a_failure(
    place: Place, proxy: S3Proxy
) -> None:
    """RS-62: the manifest's version may be there, and then nothing can be asked."""
    before, graph = place.state(), place.open(retries=1)
    lost = [False]

    def then_silence(call: Call) -> Fault | None:
        if MANIFEST(call):
            lost[0] = True
            return Fault.LOST_ANSWER
        return Fault.RESET if lost[0] else None

    with proxy.faults(then_silence), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        told = outcome(lambda: load(graph))
    assert told == OutcomeUnknownError.code
    assert_pre_or_post(place, before, None)


@pytest.mark.parametrize("decisive", [MANIFEST, DATASET], ids=["manifest", "dataset"])
def test_a_version_that_was_made_is_not_denied_when_keys_run_out_right_after_it(
    place: Place, proxy: S3Proxy, decisive: Callable[[Call], bool]
) -> None:
    """RS-62, RS-65: its answer was lost, asked again it is there, and then nothing may be read."""
    before, graph = place.state(), place.open(retries=1)
    asked = [0]

    def then_refused(call: Call) -> Fault | None:
        if decisive(call):
            asked[0] += 1
            return Fault.LOST_ANSWER if asked[0] == 1 else None
        return Fault.EXPIRED if asked[0] else None

    with proxy.faults(then_refused), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        told = outcome(lambda: load(graph))
    assert told in ("landed", OutcomeUnknownError.code, RecoveryRequiredError.code)
    assert_pre_or_post(place, before, True if told == "landed" else None)
