#!/usr/bin/env bash
# An init script of a Databricks cluster: installs the wheel of a volume on every node, and puts the
# jar of the SQL catalog among the cluster's own. Only dedicated clusters need it: standard and
# serverless ones take no jar, and install the wheel as a library.
set -euo pipefail
wheel=${OMNIGRAPH_WHEEL:?set it in the cluster: the path of the wheel in a volume}
export PYSPARK_PYTHON=${PYSPARK_PYTHON:-/databricks/python/bin/python}
export OMNIGRAPH_HOME=${OMNIGRAPH_HOME:-/databricks/jars}
bash "$(dirname "$wheel")/install.sh" "$wheel"
