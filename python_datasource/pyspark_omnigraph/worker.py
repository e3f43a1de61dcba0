"""What a Python worker that Spark reuses pays again with every call, paid once."""

from __future__ import annotations

import gc
import sys
import zipimport
from functools import cache


@cache
def tune_worker() -> None:
    """Make this process cheap to call again; to be called when everything is imported.

    After each call Spark's daemon collects garbage, which with Arrow and Lance loaded takes longer
    than most questions: what lives now is left out of that for good. Spark 4.1 also has the import
    system read the folders of pyspark's archives again, which never change.
    """
    for finder in sys.path_importer_cache.values():
        if isinstance(finder, zipimport.zipimporter) and _is_of_spark(finder.archive):
            finder.invalidate_caches = _nothing  # type: ignore[method-assign]
    gc.collect()
    gc.freeze()


def _is_of_spark(archive: str) -> bool:
    return archive.endswith(("pyspark.zip", "-src.zip", ".jar"))


def _nothing() -> None:
    """Stand in for a method that has nothing to do."""
