"""The examples in `conf/` fit the package: settings it knows, scripts that run, no keys in them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from omnigraph_spark.options import STORAGE_PREFIX, ReadOptions
from omnigraph_spark.session.configure import CATALOG_CLASS

CONF = Path(__file__).parent.parent.parent / "conf"
SCRIPTS = sorted(path.relative_to(CONF) for path in CONF.rglob("*.sh"))
_CATALOG = "spark.sql.catalog.og"


def properties(path: Path, separator: str) -> dict[str, str]:
    """The settings of a file of lines, without comments."""
    lines = (line.strip() for line in path.read_text(encoding="utf-8").splitlines())
    pairs = (re.split(separator, line, maxsplit=1) for line in lines if line and line[0] != "#")
    return dict(pairs)  # type: ignore[arg-type]  # of two parts each, or this fails


def settings() -> Iterator[tuple[str, dict[str, str]]]:
    """What each example sets in Spark."""
    yield "spark-defaults.conf", properties(CONF / "spark-defaults.conf", r"\s+")
    emr = json.loads((CONF / "emr" / "cluster.json").read_text(encoding="utf-8"))
    yield "emr", emr["Configurations"][0]["Properties"]
    databricks = json.loads((CONF / "databricks" / "cluster.json").read_text(encoding="utf-8"))
    yield "databricks", databricks["spark_conf"]


@pytest.mark.parametrize(("name", "conf"), list(settings()), ids=lambda value: str(value)[:10])
def test_examples_make_a_catalog_with_options_that_exist(name: str, conf: dict[str, str]) -> None:
    assert conf[_CATALOG] == CATALOG_CLASS
    given = {
        key.removeprefix(f"{_CATALOG}."): value
        for key, value in conf.items()
        if key.startswith(f"{_CATALOG}.")
    }
    assert ReadOptions.parse({**given, "type": "Person"}).path == "s3://bucket/graph", name
    if "spark.jars" in conf:
        assert conf["spark.jars"].endswith("/omnigraph-catalog.jar")


@pytest.mark.parametrize(("name", "conf"), list(settings()), ids=lambda value: str(value)[:10])
def test_examples_hide_keys_and_hold_none(name: str, conf: dict[str, str]) -> None:
    hidden = re.compile(conf["spark.redaction.regex"])
    for setting in ("aws_secret_access_key", "aws_session_token", "access_key_id", "credentials"):
        assert hidden.search(f"{_CATALOG}.{STORAGE_PREFIX}{setting}"), (name, setting)
    assert not [key for key in conf if re.search("secret|token|access_key", key)]


def test_the_logging_example_names_what_it_defines() -> None:
    conf = properties(CONF / "log4j2.properties", r"\s*=\s*")
    appenders = {value for key, value in conf.items() if re.fullmatch(r"appender\.\w+\.name", key)}
    used = {value for key, value in conf.items() if key.endswith(".ref")}
    assert used == appenders
    levels = {value for key, value in conf.items() if key.endswith(".level")}
    assert levels <= {"trace", "debug", "info", "warn", "error"}
    assert conf["logger.omnigraph.name"] == CATALOG_CLASS.rpartition(".")[0]


def test_the_emr_example_runs_the_scripts_that_are_here() -> None:
    cluster = json.loads((CONF / "emr" / "cluster.json").read_text(encoding="utf-8"))
    [action] = cluster["BootstrapActions"]
    named = [
        action["ScriptBootstrapAction"]["Path"],
        action["ScriptBootstrapAction"]["Args"][0],
    ]
    for address in named:
        assert (CONF / address.partition("/conf/")[2]).exists()
    assert re.fullmatch(r"emr-spark-\d+\.\d+\.\d+", cluster["ReleaseLabel"])
    # The driver, the executors and the bootstrap action mean one Python.
    defaults, exported = cluster["Configurations"]
    python = action["ScriptBootstrapAction"]["Args"][2]
    assert exported["Configurations"][0]["Properties"] == {"PYSPARK_PYTHON": python}
    for setting in ("spark.yarn.appMasterEnv", "spark.executorEnv"):
        assert defaults["Properties"][f"{setting}.PYSPARK_PYTHON"] == python
    [step] = cluster["Steps"]
    assert step["HadoopJarStep"]["Args"][0] == "spark-submit"


# -- scripts -------------------------------------------------------------------------------------


@pytest.mark.parametrize("script", SCRIPTS, ids=str)
def test_scripts_are_programs_that_parse_and_stop_at_the_first_error(script: Path) -> None:
    path = CONF / script
    assert os.access(path, os.X_OK)
    assert "set -euo pipefail" in path.read_text(encoding="utf-8")
    subprocess.run(["bash", "-n", str(path)], check=True)


def run(script: str, *args: str, folder: Path, **variables: str) -> list[str]:
    """Run a script with stand-ins for programs outside; return what they were called with."""
    calls = folder / "calls"
    programs = folder / "bin"
    programs.mkdir()
    for name in ("aws", "sudo", "spark-submit", "python3", "python3.11", "dnf"):
        program = programs / name
        # An answer to `python -c`: where the package that carries the jar lies.
        program.write_text(
            f'#!/usr/bin/env bash\necho "{name} $*" >> "{calls}"\n'
            f'if [ "${{1:-}}" = -c ]; then echo "{folder}"; fi\n'
            f'if [ "{name}" = sudo ]; then shift; "$@"; fi\n'
            f'if [ "{name}" = aws ]; then cp "{CONF}/install.sh" "${{@: -1}}"; fi\n'
        )
        program.chmod(0o755)
    (folder / "jars").mkdir()
    (folder / "jars" / "omnigraph-catalog.jar").write_text("jar")
    environment: dict[str, Any] = {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "HOME": str(folder),
        "OMNIGRAPH_HOME": str(folder / "installed"),
        **variables,
    }
    subprocess.run([str(CONF / script), *args], env=environment, check=True)
    return calls.read_text(encoding="utf-8").splitlines()


def test_installing_puts_the_wheel_into_python_and_the_jar_in_its_place(tmp_path: Path) -> None:
    calls = run("install.sh", "/wheels/omnigraph.whl", folder=tmp_path)
    assert calls[0] == "python3 -m pip install --quiet /wheels/omnigraph.whl"
    assert (tmp_path / "installed" / "omnigraph-catalog.jar").read_text() == "jar"


def test_the_bootstrap_action_installs_what_it_fetched(tmp_path: Path) -> None:
    script = "s3://bucket/conf/install.sh"
    calls = run("emr/bootstrap.sh", script, "s3://bucket/omnigraph.whl", folder=tmp_path)
    assert calls[0].startswith(f"aws s3 cp {script} ")
    assert any(call.startswith("python3.11 -m pip install ") for call in calls)
    assert any(call.startswith("aws s3 cp s3://bucket/omnigraph.whl ") for call in calls)
    assert (tmp_path / "installed" / "omnigraph-catalog.jar").exists()


def test_the_init_script_installs_the_wheel_of_the_volume(tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    volume.mkdir()
    (volume / "install.sh").write_text((CONF / "install.sh").read_text(encoding="utf-8"))
    wheel = str(volume / "omnigraph.whl")
    calls = run(
        "databricks/init.sh", folder=tmp_path, OMNIGRAPH_WHEEL=wheel, PYSPARK_PYTHON="python3"
    )
    assert calls[0] == f"python3 -m pip install --quiet {wheel}"
    assert (tmp_path / "installed" / "omnigraph-catalog.jar").exists()


def test_the_connect_server_gets_the_jar_and_the_catalog(tmp_path: Path) -> None:
    home = tmp_path / "spark"
    home.mkdir()
    (home / "bin").symlink_to(tmp_path / "bin")
    calls = run(
        "connect-server.sh", "s3://bucket/graph", folder=tmp_path, SPARK_HOME=str(home), PORT="7"
    )
    [started] = [call for call in calls if call.startswith("spark-submit")]
    assert f"--jars {tmp_path}/jars/omnigraph-catalog.jar" in started
    assert f"--conf {_CATALOG}={CATALOG_CLASS}" in started
    assert f"--conf {_CATALOG}.path=s3://bucket/graph" in started
    assert "spark.connect.grpc.binding.port=7" in started


def test_this_interpreter_knows_the_class_that_the_connect_script_starts() -> None:
    pyspark = pytest.importorskip("pyspark", reason="whoever runs the tests installs pyspark")
    jars = Path(pyspark.__path__[0]) / "jars"
    assert list(jars.glob("spark-connect_*.jar")), sys.executable
