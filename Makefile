# Everything runs in a virtual environment that the targets make themselves: nothing to prepare.
PYTHON ?= python3
SPARK  ?= 4.2
# Which pyspark stands behind a line of Spark; 4.2.0 is the newest that delta-spark 4.4.0 takes.
PYSPARK_4.1 := pyspark==4.1.*
PYSPARK_4.2 := pyspark==4.2.0
VENV := $(if $(filter 4.2,$(SPARK)),.venv,.venv-$(SPARK))
BIN  := $(VENV)/bin
READY := $(VENV)/.ready
PYTEST ?= $(BIN)/python -m pytest
NO_JVM := tests --ignore=tests/spark --ignore=tests/catalog --ignore=tests/lakehouse --ignore=tests/notebooks --dist worksteal
# Two sessions side by side: one alone waits more than it works. The tests of a file share its graphs.
JVMS := -n 2 --dist loadfile
# Many of the slow tests wait: for servers that stay silent, for leases, for processes.
WAITING := -n 4
# JVMs of tests live for seconds or minutes: they spare themselves the second compiler, and map the classes of Spark
# from an archive where they would load and verify each. A JVM that another class path has goes without it.
CLASSES := $(VENV)/spark-classes.jsa
SHORT_LIVED := -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xlog:disable
FOR_TESTS := SPARK_SUBMIT_OPTS="$(SHORT_LIVED) -XX:SharedArchiveFile=$(CURDIR)/$(CLASSES)"
# lance-spark is made for Spark 3.5: only its benchmark uses this environment. That Spark asks setuptools for `distutils`.
LANCE_SPARK := .venv-lance-spark
ARGS ?=
ROUNDS ?= 200
RACES := tests/engine/test_concurrent_writers.py tests/spark/test_write_faults.py::test_two_drivers_publish_to_one_branch
# Compiled tests are kept for the next run, also where Python is told to keep nothing.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test check stranger smoke faults s3-faults races format jar bench bench-quick bench-lance-spark s3-server clean needs-python needs-java

help:  ## Show this help
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-17s %s\n", $$1, $$2}'
	@echo "  SPARK=4.1 with test, check or smoke uses that line of Spark (default 4.2)"

demo: jar  ## Install what is needed and show a graph in local Spark: write, SQL, branch, merge, recover
	@$(BIN)/omnigraph-spark demo

test: check jar $(CLASSES)  ## Install what is needed and run all tests
	$(PYTEST) $(NO_JVM) $(WAITING) -m "engine or slow" $(ARGS)
	$(FOR_TESTS) $(PYTEST) tests/spark $(JVMS) $(ARGS)
	$(FOR_TESTS) $(PYTEST) tests/catalog $(JVMS) $(ARGS)
	$(FOR_TESTS) $(PYTEST) tests/lakehouse $(JVMS) $(ARGS)
	$(FOR_TESTS) $(PYTEST) tests/notebooks -n 2 $(ARGS)

check: $(READY)  ## Format, lint, types, import contracts, and the fast tests that need no JVM
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(PYTEST) $(NO_JVM) -n 2 -m "not engine and not slow" $(ARGS)

stranger:  ## In a fresh clone with an empty HOME: the demonstration, every block of README, every notebook
	tests/stranger.sh

smoke: jar $(CLASSES)  ## The short set of Spark tests, for another line of Spark
	$(FOR_TESTS) $(PYTEST) tests --ignore=tests/catalog -m smoke $(ARGS)
	$(FOR_TESTS) $(PYTEST) tests/catalog -m smoke $(ARGS)

faults: $(READY)  ## The long proof: processes killed after every change to a file, random histories, a ledger
	$(BIN)/python -W ignore -m tests.faults $(ARGS)

races: $(READY) needs-java  ## Sixteen processes, then two Spark drivers, write to one graph at once, 200 rounds (ROUNDS=…)
	OMNIGRAPH_ROUNDS=$(ROUNDS) $(PYTEST) $(RACES) -s -m "not engine" $(ARGS)
	OMNIGRAPH_ROUNDS=$(ROUNDS) $(PYTEST) tests/interop/test_beside_a_live_engine.py -s

format: $(READY)  ## Format the code and fix what the linter can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

jar: $(READY) needs-java  ## Build the jar of the SQL catalog, when its sources changed
	@$(BIN)/python catalog/build_jar.py

s3-faults: $(READY)  ## The long proof on S3: 200 histories over a network that fails (ARGS="200 0 versitygw")
	$(BIN)/python -W ignore -m tests.faults.s3histories $(ARGS)

s3-server: .tools/versitygw  ## Install a production S3 gateway for the tests, inside this folder (needs Go)

.tools/versitygw:
	@command -v go >/dev/null 2>&1 || { echo "versitygw is built with Go, and none was found; without it its tests are skipped"; exit 1; }
	GOBIN=$(CURDIR)/.tools go install github.com/versity/versitygw/cmd/versitygw@v1.8.0

bench: jar  ## Ratios to Parquet, Delta and the engine; ARGS="--rows 10M --only scans"
	$(BIN)/python -m benchmarks $(ARGS)

bench-quick: jar  ## A few works on few rows; fails when one is twice as slow as recorded
	$(BIN)/python -m benchmarks.quick $(ARGS)

bench-lance-spark: $(LANCE_SPARK)/.ready needs-java  ## lance-spark beside Parquet, on Spark 3.5; ARGS as for bench
	$(LANCE_SPARK)/bin/python -m benchmarks.lance_spark $(ARGS)

clean:  ## Remove the environments and caches
	rm -rf .venv .venv-4.1 $(LANCE_SPARK) .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(READY): pyproject.toml omnigraph_spark/version.py | needs-python
	@echo "Installing omnigraph-spark and Spark $(SPARK) into $(VENV) …"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]' '$(PYSPARK_$(SPARK))'
	@touch $@

$(LANCE_SPARK)/.ready: | needs-python
	@echo "Installing Spark 3.5 into $(LANCE_SPARK) …"
	@test -x $(LANCE_SPARK)/bin/python || $(PYTHON) -m venv $(LANCE_SPARK)
	@$(LANCE_SPARK)/bin/python -m pip install --quiet --disable-pip-version-check 'pyspark==3.5.*' 'pandas>=2.2,<3' 'pyarrow>=18' setuptools
	@touch $@

$(CLASSES): $(READY) | needs-java
	@SPARK_SUBMIT_OPTS="$(SHORT_LIVED) -XX:ArchiveClassesAtExit=$(CURDIR)/$@" \
	  $(BIN)/python -W ignore -m tests.helpers.class_archive 2>/dev/null

needs-python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "omnigraph-spark needs Python 3.11 or newer; '$(PYTHON)' is not. Install one, or name it: make $(MAKECMDGOALS) PYTHON=python3.11"; exit 1; }

needs-java:
	@{ test -x "$$JAVA_HOME/bin/java" || command -v java >/dev/null 2>&1; } || { \
	  echo "Spark needs a Java runtime (JDK 17), and none was found: neither JAVA_HOME nor java on PATH."; \
	  echo "  Debian, Ubuntu: apt-get install openjdk-17-jdk-headless"; \
	  echo "  Fedora:         dnf install java-17-openjdk-headless"; \
	  echo "  macOS:          brew install openjdk@17"; exit 1; }
