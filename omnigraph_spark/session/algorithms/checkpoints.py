"""Where the rounds of an algorithm are kept, so that plans stay short and nothing is done twice."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING
from uuid import uuid4

from omnigraph_spark.storage.uri import join

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LOCAL = "local"
RELIABLE = "reliable"


class Checkpoints:
    """Keeps frames by name; what was kept under a name the time before last may be gone.

    ``local``: on the executors, in memory and then on disk; fastest, and lost with an executor.
    ``reliable``: in Spark's checkpoint folder. Anything else is a folder for Parquet files, for
    places that have neither, such as serverless Spark; it is the caller's to delete.
    """

    def __init__(self, how: str) -> None:
        self._how = how
        self._folder = "" if how in (LOCAL, RELIABLE) else join(how, uuid4().hex)
        self._kept: Counter[str] = Counter()

    def keep(self, frame: DataFrame, name: str) -> DataFrame:
        """Compute a frame now and return it without what it was made of."""
        if self._how == LOCAL:
            return frame.localCheckpoint(eager=True)
        if self._how == RELIABLE:
            return frame.checkpoint(eager=True)
        # A round reads the one before it and never an older one: two folders in turns are enough.
        self._kept[name] += 1
        place = join(self._folder, f"{name}-{self._kept[name] % 2}")
        frame.write.mode("overwrite").parquet(place)
        return frame.sparkSession.read.schema(frame.schema).parquet(place)
