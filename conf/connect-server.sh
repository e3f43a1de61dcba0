#!/usr/bin/env bash
# A Spark Connect server that knows one graph as the catalog `og`, in the foreground:
# `connect-server.sh s3://bucket/graph`. Clients need neither the jar nor this package. What follows the root goes to
# spark-submit, such as `--conf spark.executor.memory=8g`.
set -euo pipefail
root=${1:?the root of the graph is missing}
shift
python=${PYSPARK_PYTHON:-python3}
port=${PORT:-15002}
home=${SPARK_HOME:-$("$python" -c 'import pyspark; print(pyspark.__path__[0])')}
jar=$("$python" -c 'import omnigraph_catalog; print(omnigraph_catalog.__path__[0])')/jars/omnigraph-catalog.jar
export PYSPARK_PYTHON=$python
exec "$home/bin/spark-submit" \
  --class org.apache.spark.sql.connect.service.SparkConnectServer \
  --name omnigraph-connect \
  --jars "$jar" \
  --conf spark.connect.grpc.binding.port="$port" \
  --conf spark.sql.catalog.og=io.omnigraph.spark.OmnigraphCatalog \
  --conf spark.sql.catalog.og.path="$root" \
  --conf "spark.redaction.regex=(?i)secret|password|token|access[._]?key|storage[.]" \
  "$@" spark-internal
