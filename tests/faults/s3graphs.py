"""A small graph in a bucket, behind a network that may fail, and what must hold of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import boto3

import omnigraph_spark as og
from omnigraph_spark.formats.v4.sidecar import list_sidecars
from omnigraph_spark.recovery import observe
from omnigraph_spark.storage.datasets import DatasetAddress, probe_version
from omnigraph_spark.storage.objects import objects_at
from omnigraph_spark.storage.settings import StorageSettings
from tests.faults.s3proxy import S3Proxy
from tests.helpers.crashes import write_social

#: Rows of every type by id, without Lance's columns.
State = dict[str, dict[str, dict[str, Any]]]


class Bucket(Protocol):
    """What is needed of a server: moto, or a real one."""

    @property
    def storage_options(self) -> dict[str, str]: ...

    def make_bucket(self) -> str: ...


@dataclass(frozen=True)
class Place:
    """A graph that can be reached directly, or through the proxy."""

    root: str
    direct: Mapping[str, str]
    proxied: Mapping[str, str]

    def open(self, branch: str = "main", retries: int | None = None) -> og.Graph:
        """Open for writing over the network that may fail."""
        patience = {} if retries is None else {"client_max_retries": str(retries)}
        return og.open(self.root, branch=branch, storage={**self.proxied, **patience})

    def beside(self, branch: str = "main") -> og.Graph:
        """Open for reading, past the network."""
        return og.open(self.root, branch=branch, mode="r", storage=self.direct)

    def state(self, branch: str = "main") -> State:
        """All rows, as another process sees them."""
        return state_of(self.beside(branch))

    def recovered(self, branch: str = "main") -> og.Graph:
        """Recover as another process would, long after the writer died; return the graph."""
        lease, observe._LEASE_US = observe._LEASE_US, 0
        try:
            og.open(self.root, storage=self.direct).recover()
        finally:
            observe._LEASE_US = lease
        graph = og.open(self.root, branch=branch, mode="r", storage=self.direct)
        assert_settled(graph, self.direct)
        return graph


def place_social(server: Bucket, proxy: S3Proxy) -> Place:
    """Alice and Bob, who know each other, and where they work."""
    direct = server.storage_options
    return Place(copy_social(server), direct, {**direct, "aws_endpoint": proxy.endpoint})


def copy_social(server: Bucket) -> str:
    """The graph of `write_social` in a bucket of its own, written once per server and copied.

    Nothing in it names the bucket, and a copy takes a third of the time.
    """
    client = boto3.client("s3", **StorageSettings.resolve(server.storage_options).for_boto3())
    known = _socials.get(server)
    if known is None:
        bucket = server.make_bucket()
        write_social(f"s3://{bucket}/social", server.storage_options)
        listed = client.list_objects_v2(Bucket=bucket)["Contents"]
        known = _socials[server] = {
            found["Key"]: client.get_object(Bucket=bucket, Key=found["Key"])["Body"].read()
            for found in listed
        }
    bucket = server.make_bucket()
    for key, content in known.items():
        client.put_object(Bucket=bucket, Key=key, Body=content)
    return f"s3://{bucket}/social"


#: The objects of the graph that was written to a server.
_socials: WeakKeyDictionary[Bucket, dict[str, bytes]] = WeakKeyDictionary()


def state_of(graph: og.Graph) -> State:
    snapshot = graph.refresh().snapshot()
    found: State = {}
    for key in snapshot.entries:
        rows = snapshot.arrow(key).to_pylist()
        found[key] = {str(row["id"]): row for row in rows}
        assert len(found[key]) == len(rows) == snapshot.rows(key), f"{key} has an id twice"
    return found


def assert_settled(graph: og.Graph, storage: Mapping[str, str]) -> None:
    """Nothing is pending, no dataset is ahead of its pin, history is one line, no edge dangles."""
    settings = StorageSettings.resolve(storage)
    assert list_sidecars(graph.root, objects_at(graph.root, settings)) == []
    own = None if graph.branch == "main" else graph.branch
    for key, entry in graph.refresh().entries.items():
        if entry.dataset_branch == own:
            address = DatasetAddress(graph.root, entry.path, entry.dataset_branch)
            head = probe_version(address, settings)
            assert head is not None, key
            assert head.number == entry.dataset_version, key
    history = graph.history()
    assert [commit.parent_id for commit in history[:-1]] == [commit.id for commit in history[1:]]
    assert len({commit.id for commit in history}) == len(history)
    state = state_of(graph)
    people = set(state["node:Person"])
    for row in state["edge:Knows"].values():
        assert {row["src"], row["dst"]} <= people


def outcome(work: Callable[[], object]) -> str:
    """Do it; return ``landed``, or the code of our error. Any other error is a failure."""
    try:
        work()
    except og.OmnigraphError as error:
        return error.code
    return "landed"
