"""Settings of the object store for a graph: what a caller gave, over what a session at hand has."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from omnigraph_spark.storage.settings import StorageSettings
from omnigraph_spark.storage.uri import is_s3, split_s3

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def settings_at(
    root: str, storage: Mapping[str, Any] | None, spark: SparkSession | None = None
) -> StorageSettings:
    """Resolve the settings for a canonical root; Spark is asked only if it is loaded already."""
    return StorageSettings.resolve(storage, session=_of_session(root, spark))


def _of_session(root: str, spark: SparkSession | None) -> dict[str, str]:
    if not is_s3(root) or (spark is None and "pyspark.sql" not in sys.modules):
        return {}
    from omnigraph_spark.session.frames import active_session
    from omnigraph_spark.session.hadoop import s3a_settings

    session = spark or active_session()
    return {} if session is None else s3a_settings(session, split_s3(root)[0])
