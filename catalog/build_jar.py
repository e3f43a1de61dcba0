"""Builds the jar of the SQL catalog with `javac`, against the jars that pyspark brings: no Maven.

Run by `make jar`, by `make test` and `make demo` when the sources are newer, and by the wheel's
build hook. One jar serves every supported Spark, so it is compiled against the newest.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

_HERE = Path(__file__).resolve().parent
#: Where the resource package `omnigraph_catalog` carries it.
JAR = _HERE / "omnigraph_catalog" / "jars" / "omnigraph-catalog.jar"
#: A jar built elsewhere, to take instead of compiling one.
JAR_VARIABLE = "OMNIGRAPH_SPARK_JAR"
#: What Spark 4.2 added and the jar names, to compile it against 4.1 as well.
_NEWER = _HERE / "newer"
# Same sources, same bytes: the jar holds no time of its own.
_DATE = "2020-01-01T00:00:00Z"


class CannotBuildError(Exception):
    """The jar cannot be built here; the text says what is missing."""


def sources() -> list[Path]:
    """Return everything the jar is made of."""
    java = sorted((_HERE / "java").rglob("*.java"))
    return [*java, *sorted(p for p in (_HERE / "resources").rglob("*") if p.is_file())]


def is_fresh(jar: Path = JAR) -> bool:
    """Tell whether a jar is there that is newer than its sources."""
    newest = max(path.stat().st_mtime for path in (*sources(), Path(__file__)))
    return jar.exists() and jar.stat().st_mtime >= newest


def build(jar: Path = JAR, spark_jars: Path | None = None) -> Path:
    """Build the jar, or take the one that was built elsewhere."""
    jar.parent.mkdir(parents=True, exist_ok=True)
    if built := os.environ.get(JAR_VARIABLE):
        shutil.copyfile(built, jar)
        return jar
    javac, archiver = _tool("javac"), _tool("jar")
    with tempfile.TemporaryDirectory() as folder:
        classes = Path(folder) / "classes"
        compile_sources(javac, classes, spark_jars or _pyspark_jars())
        made = Path(folder) / jar.name
        content = ["-C", str(classes), ".", "-C", str(_HERE / "resources"), "."]
        _run([archiver, "--create", "--file", str(made), f"--date={_DATE}", *content])
        # In place at once: a session that starts meanwhile finds the old jar or the new one.
        shutil.copyfile(made, jar.with_suffix(".new"))
        jar.with_suffix(".new").replace(jar)
    return jar


def compile_sources(javac: str, classes: Path, spark_jars: Path) -> None:
    """Compile all classes against the jars of one Spark; a warning is an error.

    What newer releases of Spark added is compiled first where these jars lack it. It does not
    become part of the jar, and older releases never load the classes that name it.
    """
    path = f"{spark_jars}{os.sep}*"
    java = [path for path in sources() if path.suffix == ".java"]
    newer = _lacking(spark_jars)
    if not newer:
        _compile(javac, java, classes, path)
        return
    with tempfile.TemporaryDirectory() as added:
        _compile(javac, newer, Path(added), path)
        _compile(javac, java, classes, f"{path}{os.pathsep}{added}")


def _compile(javac: str, java: list[Path], classes: Path, class_path: str) -> None:
    # Warnings about other people's jars are left out, and of resources named only to be closed.
    lint = "-Xlint:all,-path,-classfile,-processing,-serial,-deprecation,-try"
    flags = ["--release", "17", "-proc:none", "-Werror", lint, "-encoding", "UTF-8"]
    _run([javac, *flags, "-cp", class_path, "-d", str(classes), *map(str, java)])


def _lacking(spark_jars: Path) -> list[Path]:
    """Return the sources in `newer` that these jars have no class for."""
    [catalyst] = spark_jars.glob("spark-catalyst_*.jar")
    with zipfile.ZipFile(catalyst) as archive:
        known = set(archive.namelist())
    newer = sorted(_NEWER.rglob("*.java"))
    return [
        each
        for each in newer
        if each.relative_to(_NEWER).with_suffix(".class").as_posix() not in known
    ]


def _tool(name: str) -> str:
    home = os.environ.get("JAVA_HOME")
    at_home = Path(home, "bin", name) if home else None
    found = str(at_home) if at_home and at_home.exists() else shutil.which(name)
    if found is None:
        raise CannotBuildError(f"no {name} on PATH or in JAVA_HOME: a JDK 17 has it")
    return found


def _pyspark_jars() -> Path:
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise CannotBuildError("pyspark is not installed, whose jars it is compiled against")
    return Path(spec.origin).parent / "jars"


def _run(command: list[str]) -> None:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise CannotBuildError(f"{Path(command[0]).name} failed:\n{done.stdout}{done.stderr}")


def main() -> int:
    """Build the jar unless it is fresh."""
    try:
        if not is_fresh():
            print(f"Building {build().name} …")
    except CannotBuildError as error:
        print(f"The jar of the SQL catalog was not built: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
