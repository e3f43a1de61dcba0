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

echo "== make demo"
make demo
# Sessions with different jars do not share a process: each folder is a run of its own.
echo "== README"
.venv/bin/python -m pytest -q tests/spark/test_readme.py
.venv/bin/python -m pytest -q tests/lakehouse/test_readme.py
.venv/bin/python -m pytest -q tests/catalog -k "readme or README"
echo "== notebooks"
.venv/bin/python -m pytest -q tests/notebooks
echo "== a stranger can use it"
