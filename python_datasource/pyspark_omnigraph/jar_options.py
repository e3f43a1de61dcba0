"""Options that only the jar gives, and how they are told from a user's."""

from __future__ import annotations

from collections.abc import Mapping

#: A question and its arguments; what the planner pushed into a scan; and whether options are those
#: of a catalog, which hold for reading and for writing; the transaction that statements wait in.
CALL, ARGUMENTS, PUSHED, CATALOG = "__call", "__args", "__scan", "__catalog"
TRANSACTION = "__transaction"
_OWN = (CALL, ARGUMENTS, PUSHED, CATALOG, TRANSACTION)
#: What stands before settings that the session has for Hadoop's own S3 client.
HADOOP = "__hadoop."


def reading_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a read: without the jar's, and without those of a catalog's writes."""
    given = {key: text for key, text in with_session(options).items() if key not in _OWN}
    if CATALOG not in options:
        return given
    from omnigraph_spark.options import ReadOptions
    from omnigraph_spark.writing.write_options import WriteOptions

    writing = WriteOptions.keys() - ReadOptions.keys()
    return {key: text for key, text in given.items() if key.lower() not in writing}


def with_session(options: Mapping[str, str]) -> dict[str, str]:
    """Have settings of the session for Hadoop's S3 client be options below those that were given.

    >>> with_session({"path": "s3://b/g", "__hadoop.fs.s3a.endpoint": "http://minio:9000"})
    {'path': 's3://b/g', 'storage.allow_http': 'true', 'storage.aws_endpoint': 'http://minio:9000'}
    """
    given = {key: text for key, text in options.items() if not key.startswith(HADOOP)}
    if len(given) == len(options):
        return given
    from omnigraph_spark.options import STORAGE_PREFIX
    from omnigraph_spark.session.hadoop import translated
    from omnigraph_spark.storage.settings import StorageSettings
    from omnigraph_spark.storage.uri import canonical_root, split_s3

    [root] = (text for key, text in given.items() if key.lower() == "path")
    bucket, _ = split_s3(canonical_root(root))
    hadoop = {key.removeprefix(HADOOP): text for key, text in options.items() if key not in given}
    storage = {
        key[len(STORAGE_PREFIX) :]: text
        for key, text in given.items()
        if key.lower().startswith(STORAGE_PREFIX)
    }
    # An empty environment: that of whoever resolves these options comes below them.
    both = StorageSettings.resolve(storage, environ={}, session=translated(hadoop, bucket))
    others = {k: text for k, text in given.items() if not k.lower().startswith(STORAGE_PREFIX)}
    return others | {STORAGE_PREFIX + name: text for name, text in both.given}
