"""Graph algorithms give what networkx gives, on graphs shaped like real ones."""

from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession

import omnigraph_spark as og
from omnigraph_spark import algorithms
from omnigraph_spark.errors import ColumnNotFoundError, InvalidOptionError, UnsupportedError
from omnigraph_spark.session.graphframes import Chosen, vertices_and_edges

Frames = tuple[DataFrame, DataFrame]


def skewed(power: int, edges: int, seed: int) -> nx.MultiDiGraph:
    """An R-MAT graph: hubs, parallel edges, self loops, nodes without edges or without exits."""
    draw = random.Random(seed)
    graph = nx.MultiDiGraph()
    graph.add_nodes_from(f"n{number:04}" for number in range(1 << power))
    for _ in range(edges):
        src = dst = 0
        for _ in range(power):
            quarter = draw.choices(range(4), (0.57, 0.19, 0.19, 0.05))[0]
            src, dst = src * 2 + quarter // 2, dst * 2 + quarter % 2
        graph.add_edge(f"n{src:04}", f"n{dst:04}", weight=draw.choice((0.5, 1.0, 2.5)))
    return graph


def islands() -> nx.MultiDiGraph:
    """Small graphs of all shapes side by side: a long path, stars that grew, a ring, loners."""
    graph = nx.MultiDiGraph(nx.path_graph(40))
    for made in (nx.barabasi_albert_graph(60, 2, seed=7), nx.cycle_graph(5), nx.empty_graph(3)):
        graph = nx.disjoint_union(graph, nx.MultiDiGraph(made))
    graph.add_edge(3, 3)
    names = list(range(len(graph)))
    random.Random(5).shuffle(names)
    nx.set_edge_attributes(graph, 1.0, "weight")
    return nx.relabel_nodes(graph, {number: f"n{name:04}" for number, name in enumerate(names)})


GRAPHS = {"skewed": skewed(8, 700, 11), "islands": islands()}


@pytest.fixture(scope="module", params=GRAPHS)
def given(request: pytest.FixtureRequest) -> nx.MultiDiGraph:
    return GRAPHS[request.param]


@pytest.fixture(scope="module")
def frames(given: nx.MultiDiGraph, spark: SparkSession) -> Frames:
    nodes = spark.createDataFrame([(node,) for node in given], "id string")
    edges = [(src, dst, weight) for src, dst, weight in given.edges(data="weight")]
    # An edge to nowhere, which must not count.
    edges.append(("n0000", "nowhere", 1.0))
    return nodes, spark.createDataFrame(edges, "src string, dst string, weight double")


def as_dict(frame: DataFrame) -> dict[Any, Any]:
    rows = frame.collect()
    found = {row[0]: row[1] for row in rows}
    assert len(found) == len(rows)
    return found


def test_the_graphs_have_what_is_hard() -> None:
    graph = GRAPHS["skewed"]
    assert nx.number_of_selfloops(graph)
    assert any(graph.number_of_edges(*edge) > 2 for edge in graph.edges())
    assert any(not graph.out_degree(node) and graph.in_degree(node) for node in graph)
    assert any(not graph.degree(node) for node in graph)


def test_degrees_count_every_edge_and_nodes_without_any(
    given: nx.MultiDiGraph, frames: Frames
) -> None:
    found = {row.id: tuple(row)[1:] for row in algorithms.degrees(*frames).collect()}
    assert found == {n: (given.in_degree(n), given.out_degree(n), given.degree(n)) for n in given}


def test_components_are_those_of_networkx_named_by_their_smallest_id(
    given: nx.MultiDiGraph, frames: Frames
) -> None:
    expected = {n: min(c) for c in nx.weakly_connected_components(given) for n in c}
    assert as_dict(algorithms.connected_components(*frames)) == expected


def reference_ranks(
    given: nx.MultiDiGraph, weight: str | None, tolerance: float
) -> dict[str, float]:
    """Networkx's matrix, multiplied as often as its own function does, which wants scipy."""
    counted = nx.MultiDiGraph()
    counted.add_nodes_from(given)
    counted.add_weighted_edges_from(
        (src, dst, data[weight] if weight else 1.0) for src, dst, data in given.edges(data=True)
    )
    matrix = nx.google_matrix(counted, alpha=0.85)
    ranks = np.full(len(given), 1 / len(given))
    for _ in range(100):
        before, ranks = ranks, ranks @ matrix
        if np.abs(ranks - before).sum() < len(given) * tolerance:
            break
    return dict(zip(given, map(float, ranks), strict=True))


def test_ranks_are_those_of_networkx_and_add_up_to_one(
    given: nx.MultiDiGraph, frames: Frames
) -> None:
    weight = "weight" if given is GRAPHS["skewed"] else None
    found = as_dict(algorithms.pagerank(*frames, weight=weight, tolerance=1e-5))
    assert found == pytest.approx(reference_ranks(given, weight, 1e-5), rel=1e-9)
    assert sum(found.values()) == pytest.approx(1)


def test_distances_are_those_of_networkx(given: nx.MultiDiGraph, frames: Frames) -> None:
    seeds = ["n0000", "n0001", "n0017"]
    found = algorithms.shortest_paths(*frames, seeds, max_hops=6).collect()
    expected = {
        (seed, node, distance)
        for seed in seeds
        for node, distance in nx.single_source_shortest_path_length(given, seed, 6).items()
    }
    assert {tuple(row) for row in found} == expected
    assert len(found) == len(expected)


def test_weighted_distances_without_direction_are_those_of_networkx(spark: SparkSession) -> None:
    given = skewed(6, 150, 3)
    edges = spark.createDataFrame(
        list(given.edges(data="weight")), "src string, dst string, w double"
    )
    nodes = spark.createDataFrame([(node,) for node in given], "id string")
    seeds = nodes.where("id in ('n0000', 'n0007')")
    found = algorithms.shortest_paths(nodes, edges, seeds, weight="w", directed=False).collect()
    undirected = nx.MultiGraph()
    undirected.add_edges_from(given.edges(data=True))
    expected = {
        (seed, node): distance
        for seed in ("n0000", "n0007")
        for node, distance in nx.single_source_dijkstra_path_length(undirected, seed).items()
    }
    assert {(row.seed, row.id): row.distance for row in found} == pytest.approx(expected)


def test_labels_are_the_commonest_around_a_node(given: nx.MultiDiGraph, frames: Frames) -> None:
    expected = {node: node for node in given}
    for _ in range(2):
        votes = {node: Counter[str]() for node in given}
        for src, dst in given.edges():
            votes[src][expected[dst]] += 1
            votes[dst][expected[src]] += 1
        expected = {
            node: min(votes[node], key=lambda label: (-votes[node][label], label), default=own)
            for node, own in expected.items()
        }
    assert as_dict(algorithms.label_propagation(*frames, rounds=2)) == expected


def test_rounds_may_be_kept_as_parquet_files_in_two_folders_each(
    spark: SparkSession, tmp_path: Path
) -> None:
    given = nx.path_graph([f"n{number:02}" for number in range(4)], nx.MultiDiGraph)
    nodes = spark.createDataFrame([(node,) for node in given], "id string")
    edges = spark.createDataFrame(list(given.edges()), "src string, dst string")
    found = algorithms.shortest_paths(nodes, edges, ["n00"], checkpoint=str(tmp_path))
    assert {row.id: row.distance for row in found.collect()} == {n: int(n[1:]) for n in given}
    (run,) = tmp_path.iterdir()
    assert {place.name for place in run.iterdir()} == {"edges-1", "found-0", "found-1"}


def test_a_graph_without_nodes_has_empty_answers(spark: SparkSession) -> None:
    nodes = spark.createDataFrame([], "id string")
    edges = spark.createDataFrame([], "src string, dst string")
    assert algorithms.pagerank(nodes, edges).isEmpty()
    assert algorithms.connected_components(nodes, edges).isEmpty()


def test_what_cannot_be_computed_is_refused_by_name(frames: Frames) -> None:
    nodes, edges = frames
    with pytest.raises(ColumnNotFoundError, match="edges has no column 'src'"):
        algorithms.degrees(nodes, edges.withColumnRenamed("src", "from"))
    with pytest.raises(InvalidOptionError, match="'seeds' is 'nobody'"):
        algorithms.shortest_paths(nodes, edges, ["n0001", "nobody"])
    with pytest.raises(InvalidOptionError, match="without negatives"):
        algorithms.pagerank(nodes, edges.selectExpr("src", "dst", "-weight AS w"), weight="w")
    with pytest.raises(InvalidOptionError, match="damping"):
        algorithms.pagerank(nodes, edges, damping=1.5)


def test_the_module_is_there_without_spark_and_knows_its_names() -> None:
    code = (
        "import sys; sys.modules['pyspark'] = None\n"
        "from omnigraph_spark import algorithms\nprint(algorithms.__all__)\n"
        "try: algorithms.nothing\nexcept AttributeError: print('no such name')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pagerank" in done.stdout
    assert "no such name" in done.stdout


# -- GraphFrames -----------------------------------------------------------------------------------

TYPES = """
node Person { name: String @key }
node Company { name: String @key }
edge Knows: Person -> Person { since: I32? }
edge WorksAt: Person -> Company
"""


@pytest.fixture(scope="module")
def firm(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    """A person and a company of the same id."""
    graph = og.create(tmp_path_factory.mktemp("firm") / "graph", TYPES, spark=spark)
    with graph.transaction() as tx:
        tx.append("Person", spark.createDataFrame([("ada",), ("bob",)], "name string"))
        tx.append("Company", spark.createDataFrame([("ada",)], "name string"))
        tx.append(
            "Knows", spark.createDataFrame([("ada", "bob", 7)], "src string, dst string, since int")
        )
        tx.append("WorksAt", spark.createDataFrame([("bob", "ada")], "src string, dst string"))
    return graph


def test_types_become_one_graph_whose_ids_do_not_collide(
    spark: SparkSession, firm: og.Graph
) -> None:
    vertices, edges = vertices_and_edges(spark, firm._state, Chosen(firm._state, None, None))
    assert {row.id for row in vertices.collect()} == {"Person:ada", "Person:bob", "Company:ada"}
    assert {(row.src, row.dst, row.type) for row in edges.collect()} == {
        ("Person:ada", "Person:bob", "Knows"),
        ("Person:bob", "Company:ada", "WorksAt"),
    }


def test_one_type_of_each_kind_keeps_its_ids_and_columns(
    spark: SparkSession, firm: og.Graph
) -> None:
    chosen = Chosen(firm._state, ["Person"], None)
    vertices, edges = vertices_and_edges(spark, firm._state, chosen)
    assert [str(key) for key in chosen.edges] == ["edge:Knows"]
    assert {row.id for row in vertices.collect()} == {"ada", "bob"}
    assert edges.first()["since"] == 7


def test_edges_to_types_that_were_left_out_are_refused(firm: og.Graph) -> None:
    with pytest.raises(InvalidOptionError, match="Company as well"):
        firm.to_property_graphframe(["Person"], ["WorksAt"])


def test_every_type_is_a_property_group(firm: og.Graph) -> None:
    made = firm.to_property_graphframe()
    assert {group.name for group in made.vertex_property_groups} == {"Person", "Company"}
    (knows,) = [group for group in made.edges_property_groups if group.name == "Knows"]
    assert knows.data.first()["since"] == 7
    assert (knows.src_property_group.name, knows.is_directed) == ("Person", True)


def test_a_session_without_the_jar_is_told_which_one(firm: og.Graph) -> None:
    with pytest.raises(UnsupportedError, match=r"io\.graphframes:graphframes-spark4"):
        firm.to_graphframe()


def test_a_missing_package_is_named_with_its_extra(
    firm: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "graphframes", None)
    with pytest.raises(UnsupportedError, match=r"omnigraph-spark\[graphframes\]"):
        firm.to_graphframe()


def test_ranks_go_back_on_a_branch_are_reviewed_and_merged(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The classic use: PageRank on a branch, a look at what it changed, then one merge."""
    known = GRAPHS["islands"]
    graph = og.create(
        tmp_path / "graph",
        "node Page { name: String @key  title: String?  rank: F64? }\nedge Links: Page -> Page",
        spark=spark,
    )
    titles = [(name, f"title of {name}") for name in known.nodes]
    with graph.transaction() as tx:
        tx.append("Page", spark.createDataFrame(titles, "name string, title string"))
        tx.append("Links", spark.createDataFrame(list(known.edges()), "src string, dst string"))

    ranks = algorithms.pagerank(graph.nodes("Page"), graph.edges("Links"))
    found = ranks.selectExpr("id", "pagerank AS rank")
    written = graph.write_back(found, "Page", ["rank"], branch="analytics", create_from="main")

    assert written is not None
    changed = graph.diff("main", "analytics", type="Page").collect()
    assert len(changed) == len(known)
    assert {(row.change, *row.columns) for row in changed} == {("changed", "rank")}
    assert all(row.before.title == row.after.title for row in changed)
    assert graph.preview_merge("analytics").conflicts == ()
    graph.merge("analytics", into="main")
    merged = graph.refresh().nodes("Page")
    assert merged.where("rank IS NULL OR title <> concat('title of ', id)").count() == 0
    assert sum(row["rank"] for row in merged.collect()) == pytest.approx(1.0, abs=1e-6)
