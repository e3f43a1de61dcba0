"""What lies on disk below a graph, to see that a refused write left nothing."""

from __future__ import annotations

from pathlib import Path

import omnigraph_spark as og


def listing(root: Path) -> dict[str, int]:
    """Every file below a root with its size; locks of writers are no part of a graph."""
    return {
        str(path.relative_to(root)): path.stat().st_size
        for path in sorted(root.rglob("*"))
        if path.is_file() and not path.name.endswith(".lock")
    }


def data_files(graph: og.Graph, type_key: str) -> set[str]:
    """The data files of one type, those of versions and any others."""
    folder = Path(graph.root) / graph.entries[type_key].path / "data"
    return {path.name for path in folder.glob("*.lance")}


def named_files(graph: og.Graph, type_key: str) -> set[str]:
    """The data files that the newest version of a type names."""
    from omnigraph_spark.scan_source import ScanSource

    return ScanSource.of(graph.refresh()._state, type_key).open().data_files()


def published(root: Path) -> dict[str, int]:
    """Everything but data files: those of a task that Spark gives up last may stay, unnamed."""
    return {
        path: size
        for path, size in listing(root).items()
        if "/data/" not in path and "/_staging-" not in path
    }
