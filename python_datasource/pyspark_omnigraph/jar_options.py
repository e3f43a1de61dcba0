"""Options that only the jar gives, and how they are told from a user's."""

from __future__ import annotations

from collections.abc import Mapping

#: A question and its arguments; what the planner pushed into a scan; and whether options are those
#: of a catalog, which hold for reading and for writing; the transaction that statements wait in.
CALL, ARGUMENTS, PUSHED, CATALOG = "__call", "__args", "__scan", "__catalog"
TRANSACTION = "__transaction"
_OWN = (CALL, ARGUMENTS, PUSHED, CATALOG, TRANSACTION)


def reading_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a read: without the jar's, and without those of a catalog's writes."""
    given = {key: text for key, text in options.items() if key not in _OWN}
    if CATALOG not in options:
        return given
    from omnigraph_spark.options import ReadOptions
    from omnigraph_spark.writing.write_options import WriteOptions

    writing = WriteOptions.keys() - ReadOptions.keys()
    return {key: text for key, text in given.items() if key.lower() not in writing}
