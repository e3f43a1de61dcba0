"""Which Python workers run: this one, where Spark is local and nothing names another."""

from __future__ import annotations

import os
import sys

import pytest

from omnigraph_spark.session.configure import use_this_python

_ASKED = ("PYSPARK_PYTHON", "PYSPARK_GATEWAY_PORT", "MASTER", "SPARK_HOME", "SPARK_CONF_DIR")


@pytest.mark.parametrize(
    ("settings", "environment", "expected"),
    [
        ({"spark.master": "local[2]"}, {}, sys.executable),
        ({}, {}, sys.executable),
        ({"spark.master": "local"}, {"SPARK_HOME": "/opt/spark"}, sys.executable),
        ({"spark.master": "spark://host:7077"}, {}, None),
        ({"spark.master": "yarn"}, {}, None),
        # Files of that folder may name a cluster.
        ({}, {"SPARK_CONF_DIR": "/etc/spark"}, None),
        ({"spark.master": "local", "spark.pyspark.python": "/other"}, {}, None),
        ({"spark.master": "local"}, {"PYSPARK_PYTHON": "/other"}, "/other"),
        # Submitted: the JVM runs already, with an environment of its own.
        ({"spark.master": "local"}, {"PYSPARK_GATEWAY_PORT": "1234"}, None),
    ],
)
def test_workers_are_this_python_where_that_can_be_right(
    settings: dict[str, str],
    environment: dict[str, str],
    expected: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in _ASKED:
        # Set first, so that whatever is set here is taken back.
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    use_this_python(settings)
    assert os.environ.get("PYSPARK_PYTHON") == expected
