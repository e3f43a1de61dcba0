#!/usr/bin/env bash
# Installs the wheel into the Python that Spark uses, and puts the jar of the SQL catalog where
# spark-defaults.conf expects it. Run on every node: `install.sh s3://bucket/omnigraph_spark-….whl`.
set -euo pipefail
wheel=${1:?the address of the wheel is missing}
python=${PYSPARK_PYTHON:-python3}
target=${OMNIGRAPH_HOME:-/opt/omnigraph}
case $wheel in
  s3://*)
    folder=$(mktemp -d)
    aws s3 cp "$wheel" "$folder/"
    wheel=$folder/$(basename "$wheel") ;;
esac
"$python" -m pip install --quiet "$wheel"
jar=$("$python" -c 'import omnigraph_catalog; print(omnigraph_catalog.__path__[0])')/jars/omnigraph-catalog.jar
mkdir -p "$target"
cp "$jar" "$target/omnigraph-catalog.jar"
