"""Graph algorithms on DataFrames, without a jar, on classic Spark and on Connect.

>>> from omnigraph_spark import algorithms
>>> nodes, edges = graph.nodes("Person"), graph.edges("Knows")  # doctest: +SKIP
>>> algorithms.pagerank(nodes, edges).orderBy("pagerank", ascending=False)  # doctest: +SKIP

Nodes are DataFrames with the column id, edges with src and dst. Edges whose ends are not among the
nodes are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from omnigraph_spark.session.algorithms.components import (
        connected_components,
        label_propagation,
    )
    from omnigraph_spark.session.algorithms.degrees import degrees
    from omnigraph_spark.session.algorithms.paths import shortest_paths
    from omnigraph_spark.session.algorithms.ranking import pagerank

__all__ = ["connected_components", "degrees", "label_propagation", "pagerank", "shortest_paths"]


def __getattr__(name: str) -> Any:
    """Import an algorithm, and with it pyspark, when it is first asked for."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from omnigraph_spark.session.algorithms import components, degrees, paths, ranking

    found = (getattr(module, name, None) for module in (components, degrees, paths, ranking))
    return next(function for function in found if function is not None)
