# Everything runs in a virtual environment that the targets make themselves: nothing to prepare.
PYTHON ?= python3
SPARK  ?= 4.2
# Which pyspark stands behind a line of Spark; 4.2.0 is the one delta-spark 4.4.0 goes with.
PYSPARK_4.1 := pyspark==4.1.*
PYSPARK_4.2 := pyspark==4.2.0
VENV := $(if $(filter 4.2,$(SPARK)),.venv,.venv-$(SPARK))
BIN  := $(VENV)/bin
READY := $(VENV)/.ready
PYTEST ?= $(BIN)/python -m pytest
NO_JVM := tests --ignore=tests/spark -n 2 --dist worksteal
ARGS ?=

.PHONY: help demo test check smoke format jar bench clean needs-python needs-java

help:  ## Show this help
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-8s %s\n", $$1, $$2}'
	@echo "  SPARK=4.1 with test, check or smoke uses that line of Spark (default 4.2)"

demo: $(READY) needs-java  ## Install what is needed and read a graph with local Spark
	@$(BIN)/omnigraph-spark demo

test: check needs-java  ## Install what is needed and run all tests
	$(PYTEST) $(NO_JVM) -m "engine or slow" $(ARGS)
	$(PYTEST) tests/spark $(ARGS)

check: $(READY)  ## Format, lint, types, import contracts, and the fast tests that need no JVM
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(PYTEST) $(NO_JVM) -m "not engine and not slow" $(ARGS)

smoke: $(READY) needs-java  ## The short set of Spark tests, for another line of Spark
	$(PYTEST) tests -m smoke $(ARGS)

format: $(READY)  ## Format the code and fix what the linter can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

jar:  ## Build the Java plugin (this version has none)
	@echo "Nothing to build: this version reads graphs through the Python data source, without a jar."

bench: $(READY) needs-java  ## Print how fast graphs are read, next to Spark's own Parquet reader
	$(BIN)/python -m benchmarks.read $(ARGS)

clean:  ## Remove the environments and caches
	rm -rf .venv .venv-4.1 .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(READY): pyproject.toml omnigraph_spark/version.py | needs-python
	@echo "Installing omnigraph-spark and Spark $(SPARK) into $(VENV) …"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]' '$(PYSPARK_$(SPARK))'
	@touch $@

needs-python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "omnigraph-spark needs Python 3.11 or newer; '$(PYTHON)' is not. Install one, or name it: make $(MAKECMDGOALS) PYTHON=python3.11"; exit 1; }

needs-java:
	@{ test -x "$$JAVA_HOME/bin/java" || command -v java >/dev/null 2>&1; } || { \
	  echo "Spark needs a Java runtime (JDK 17), and none was found: neither JAVA_HOME nor java on PATH."; \
	  echo "  Debian, Ubuntu: apt-get install openjdk-17-jdk-headless"; \
	  echo "  Fedora:         dnf install java-17-openjdk-headless"; \
	  echo "  macOS:          brew install openjdk@17"; exit 1; }
