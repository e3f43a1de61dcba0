"""Turning the SQL catalog on: the jar of this installation, and the settings of a session."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from omnigraph_spark.errors import (
    ConflictingOptionsError,
    InvalidOptionError,
    MissingOptionError,
    UnsupportedError,
)
from omnigraph_spark.options import STORAGE_PREFIX
from omnigraph_spark.storage.credentials import importable_name
from omnigraph_spark.storage.settings import is_secret

CATALOG_CLASS = "io.omnigraph.spark.OmnigraphCatalog"
#: What stands before the name of a setting of the object store; Spark takes it in any case.
_STORAGE = f".{STORAGE_PREFIX}"
_LOG = logging.getLogger("omnigraph_spark")
_NO_JAR = (
    "this installation of omnigraph-spark has no jar, so there is no SQL catalog; "
    'spark.read.format("omnigraph") works without it. In a checkout, `make jar` builds it.'
)


def jar_path() -> Path | None:
    """Return the jar that came with this installation, if there is one."""
    if find_spec("omnigraph_catalog") is None:
        return None
    jar = Path(str(files("omnigraph_catalog"))) / "jars" / "omnigraph-catalog.jar"
    return jar if jar.exists() else None


def catalog_settings(roots: Mapping[str, str], options: Mapping[str, Any]) -> dict[str, str]:
    """Return the settings of one catalog for each root, all with the same options.

    >>> catalog_settings({"og": "/data/social"}, {"branch": "dev"})["spark.sql.catalog.og.path"]
    '/data/social'
    """
    if not roots:
        raise MissingOptionError("og", 'name a catalog and its graph, such as og="/data/social"')
    settings: dict[str, str] = {}
    for name, root in roots.items():
        prefix = f"spark.sql.catalog.{name}"
        settings |= {prefix: CATALOG_CLASS, f"{prefix}.path": str(root)}
        settings |= {f"{prefix}.{key}": _text(key, value) for key, value in options.items()}
    return settings


def _text(key: str, value: Any) -> str:
    """Return an option as a setting; a function that fetches keys goes by its name."""
    if not callable(value):
        return str(value)
    name = importable_name(value)
    if name is None:
        accepted = "a function that other processes can import, or its name as module:function"
        raise InvalidOptionError(key, "a function of this process alone", accepted)
    return name


def use_this_python(given: Mapping[str, Any]) -> None:
    """Have the workers of a local session be this interpreter, unless something names another.

    Workers are started by the JVM. Left alone it takes the first `python3` on PATH, which in a
    virtual environment that is not activated has no data source of ours. What it goes by is the
    environment: measured, `spark.pyspark.python` of a builder has no effect in this mode.
    """
    master = str(given.get("spark.master") or "")
    # Nothing says where: alone with PySpark's own package that is this machine.
    alone = not master and not {"MASTER", "SPARK_HOME", "SPARK_CONF_DIR"} & os.environ.keys()
    named = "spark.pyspark.python" in given or "PYSPARK_PYTHON" in os.environ
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    if (alone or master.startswith("local")) and not named and not submitted:
        os.environ["PYSPARK_PYTHON"] = sys.executable


def configure(
    builder: SparkSession.Builder, *, options: Mapping[str, Any] | None = None, **roots: str
) -> SparkSession.Builder:
    """Have a session that is about to start know graphs as SQL catalogs.

    Args:
        builder: What the session is built with; it is returned.
        options: Options of the catalogs, such as ``branch`` or ``storage.aws_region``;
            ``storage.credentials`` may be a function that other processes can import.
        **roots: A catalog's name and the root of its graph, as many as wanted.

    Without a jar in the installation, and on Connect, whose server brings its own, only the log
    says so. Workers of a local session will be this interpreter, unless `PYSPARK_PYTHON` or the
    builder names another.
    """
    settings = catalog_settings(roots, options or {})
    given: dict[str, Any] = builder._options
    if "spark.remote" in given:
        raise ConflictingOptionsError(
            ("spark.remote", "configure"), "start the session, then call og.attach(spark, …)"
        )
    use_this_python(given)
    jar = jar_path()
    if jar is None:
        _LOG.warning(_NO_JAR)
        return builder
    jars = [text for text in str(given.get("spark.jars") or "").split(",") if text]
    builder = builder.config("spark.jars", ",".join(dict.fromkeys([*jars, str(jar)])))
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder


def attach(
    spark: SparkSession, *, options: Mapping[str, Any] | None = None, **roots: str
) -> SparkSession:
    """Have a running session know graphs as SQL catalogs; arguments as for `configure`.

    A classic session adds the jar to itself, a Connect session sends it to its server. Keys of an
    object store are hidden in the event log like those a session was started with. A Connect server
    would write them there as they are, so they are refused: it fetches keys itself.
    """
    settings = catalog_settings(roots, options or {})
    remote = _is_remote(spark)
    secret = [key for key in settings if is_secret(key.lower().rpartition(_STORAGE)[2])]
    if secret and remote:
        raise UnsupportedError(
            "a key among the settings of a Connect session, which its server writes to its event "
            "log",
            "give the server keys when it starts, in its environment, or by the option "
            "storage.credentials=module:function of a function that it can import",
        )
    jar = jar_path()
    if jar is None:
        _LOG.warning(_NO_JAR)
        return spark
    if remote:
        spark.addArtifacts(str(jar))
    else:
        quoted = str(jar).replace("\\", "\\\\").replace("'", "\\'")
        spark.sql(f"ADD JAR '{quoted}'")
    if secret:
        _hide(spark, {key: settings[key] for key in secret})
    for key, value in settings.items():
        spark.conf.set(key, value)
    return spark


def _hide(spark: SparkSession, settings: Mapping[str, str]) -> None:
    """Have secrets count among what the session was started with.

    Of the settings that a job runs with, the event log hides those whose names say that they are
    secret, and looks only at those the application knows; later ones of a session it writes as they
    are.
    """
    known = spark.sparkContext._jsc.sc().conf()
    for key, value in settings.items():
        known.set(key, value)


def _is_remote(spark: SparkSession) -> bool:
    return type(spark).__module__.startswith("pyspark.sql.connect")
