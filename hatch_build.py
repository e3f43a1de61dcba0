"""Puts the jar of the SQL catalog into the wheel: made before, built here, or OMNIGRAPH_SPARK_JAR.

A wheel can be built without a JDK or pyspark. It then has no jar: the data source works, SQL
through a catalog does not, and the build says so.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class JarHook(BuildHookInterface):  # type: ignore[type-arg]  # hatchling's configuration is its own
    """Adds the jar to standard wheels; an editable install finds the one of the checkout."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the jar before the files of the wheel are collected."""
        if version == "editable":
            return
        sys.path.insert(0, str(Path(self.root, "catalog")))
        import build_jar

        try:
            # pip builds without pyspark, to whose jars it is compiled: `make jar` did it before.
            made = build_jar.is_fresh() and build_jar.JAR_VARIABLE not in os.environ
            jar = build_jar.JAR if made else build_jar.build()
        except build_jar.CannotBuildError as error:
            self.app.display_warning(f"This wheel has no jar for the SQL catalog: {error}")
            return
        build_data["force_include"][str(jar)] = f"omnigraph_catalog/jars/{jar.name}"
