"""How an ordered index divides the values of its column, as one small file of it says."""

from __future__ import annotations

from typing import Any, TypeAlias

import pyarrow as pa

from omnigraph_spark.storage.settings import StorageSettings
from omnigraph_spark.storage.translate import lance_errors
from omnigraph_spark.storage.uri import join

#: A row for each page of some hundred or thousand entries in order: its smallest value, which is
#: null where a null is among them, and its largest. Rows deleted since still have entries.
_PAGES = "page_lookup.lance"


#: A value that few rows are below, and one that few are above; None where it is not known.
Ends: TypeAlias = "tuple[pa.Scalar[Any] | None, pa.Scalar[Any] | None]"


def page_ends(folder: str, settings: StorageSettings) -> Ends:
    """Return where the first page of an index segment ends, and where its last begins."""
    from lance.file import LanceFileReader

    path = join(folder, _PAGES)
    with lance_errors(path):
        pages = LanceFileReader(path, settings.for_lance(path)).read_all().to_table()
    highest, lowest = pages.column("max").drop_null(), pages.column("min").drop_null()
    return highest[0] if len(highest) else None, lowest[-1] if len(lowest) else None
