#!/usr/bin/env bash
# A bootstrap action of EMR: fetches install.sh and runs it on every node, as root.
# Arguments: the addresses of install.sh and of the wheel.
set -euo pipefail
script=${1:?the address of install.sh is missing}
wheel=${2:?the address of the wheel is missing}
folder=$(mktemp -d)
aws s3 cp "$script" "$folder/install.sh"
sudo --preserve-env=PYSPARK_PYTHON,OMNIGRAPH_HOME bash "$folder/install.sh" "$wheel"
