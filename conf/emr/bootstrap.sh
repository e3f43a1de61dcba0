#!/usr/bin/env bash
# A bootstrap action of EMR: fetches install.sh and runs it on every node, as root.
# Arguments: the addresses of install.sh and of the wheel, and the Python that Spark uses, as cluster.json names it.
set -euo pipefail
script=${1:?the address of install.sh is missing}
wheel=${2:?the address of the wheel is missing}
python=${3:-python3.11}
folder=$(mktemp -d)
# The python3 of Amazon Linux is older than this package takes.
command -v "$python" >/dev/null || sudo --non-interactive dnf install --quiet --assumeyes "$python" "$python-pip"
aws s3 cp "$script" "$folder/install.sh"
export PYSPARK_PYTHON=$python
sudo --preserve-env=PYSPARK_PYTHON,OMNIGRAPH_HOME bash "$folder/install.sh" "$wheel"
