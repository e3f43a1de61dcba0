#!/usr/bin/env bash
# The stranger's test: a fresh clone, an empty HOME, and nothing but what README says. Runs the demonstration, every
# code block of README and every notebook.
set -euo pipefail
repository=$(git -C "$(dirname "$0")" rev-parse --show-toplevel)
place=$(mktemp -d -t omnigraph-stranger-XXXXXX)
trap 'rm -rf "$place"' EXIT
mkdir "$place/home"
export HOME="$place/home"
unset PYTHONPATH VIRTUAL_ENV SPARK_HOME
git clone --quiet "$repository" "$place/clone"
cd "$place/clone"

echo "== installation"
make jar
echo "== make demo"
begun=$SECONDS
make demo
took=$((SECONDS - begun))
echo "== the demonstration took $took s"
if [ "$took" -gt 60 ]; then
  echo "README promises a minute" >&2
  exit 1
fi
echo "== a wheel as README builds it has the jar"
.venv/bin/python -m pip wheel --quiet --no-deps --wheel-dir "$place/wheel" .
.venv/bin/python -m zipfile --list "$place"/wheel/*.whl | grep omnigraph-catalog.jar
# Sessions with different jars do not share a process: each folder is a run of its own.
echo "== README"
.venv/bin/python -m pytest -q tests/spark/test_demonstration.py
.venv/bin/python -m pytest -q tests/lakehouse/test_readme.py
.venv/bin/python -m pytest -q tests/catalog/test_readme.py
echo "== notebooks"
.venv/bin/python -m pytest -q tests/notebooks
echo "== a stranger can use it"
