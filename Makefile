# The two commands of the README are `make demo` and `make test`. Everything else serves them.
# Needs: Python 3.11 or newer, make, and (for the compiled kernels; without it the pure-Python twins run) a C compiler.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# A file of tests in one process: the suites are written for two cores. The files keep
# their order: those with daemons come first and the small ones last, so that both end together.
# Compiled files are kept in any case: without them each process compiles all tests at its start,
# and each daemon that a test starts compiles itself.
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -q -rs --dist loadfile --no-loadscope-reorder
SOURCES := broker protocol clients config pyspark_seglog pyspark_seglog_files tests benchmarks examples

.PHONY: schedules powercut faults install kernel check fix test demo bench clean spark test-spark demo-spark bench-spark

install: $(STAMP)

$(STAMP): pyproject.toml $(wildcard protocol/*.pyx protocol/*.pxi)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --group dev
	$(BIN)/python -m pip install --quiet --no-build-isolation --editable .
	# Compiled once here: where PYTHONDONTWRITEBYTECODE is set every start would do it anew.
	$(BIN)/python -m compileall -q protocol config broker clients
	touch $(STAMP)

# Compiles the kernels in place; run it after a change to protocol/*.pyx or *.pxi.
kernel: $(STAMP)
	$(BIN)/python -c "from setuptools import setup; setup()" --quiet build_ext --inplace

check: $(STAMP)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/mypy
	$(BIN)/basedpyright --warnings
	$(BIN)/lint-imports
	TEST_EXAMPLES=few $(PYTEST) -n 2 -m "not slow"

fix: $(STAMP)
	$(BIN)/ruff check --fix $(SOURCES)
	$(BIN)/ruff format $(SOURCES)

test: $(STAMP)
	# Many slow tests wait for time to pass: a third process uses it.
	$(PYTEST) -n 3 --ignore=tests/spark

# Orders of loop and workers by seed: make schedules SCHEDULES=100000 FIRST=2000; with SEED=159 one of them, and its trace.
SCHEDULES ?= 2000
FIRST ?= 0

schedules: $(STAMP)
	PYTHONPATH=tests $(BIN)/python -m support.schedules --count $(SCHEDULES) --first $(FIRST) $(if $(SEED),--seed $(SEED))

# Power cuts by seed: make powercut STATES=100000 FIRST=1000; with SEED=12 the lives of one.
STATES ?= 500

powercut: $(STAMP)
	PYTHONPATH=tests $(BIN)/python -m support.power_cut_runs --states $(STATES) --first $(FIRST) $(if $(SEED),--seed $(SEED))

# Lives in which one call on the disk fails: each of them, with each error; takes about an hour.
faults: $(STAMP)
	SEGLOG_TEST_FAULTS=all $(BIN)/python -m pytest -q tests/crash/test_failing_disks.py

demo: $(STAMP)
	$(BIN)/python -m examples.demo

# Prints figures; takes about twenty minutes. Named ones alone: make bench ONLY="broker_frames".
bench: $(STAMP)
	$(BIN)/python -m benchmarks $(ONLY)

# Spark is large and needs Java 17 or newer, so only these targets install it.
# Another version: make test-spark PYSPARK="pyspark==4.2.*". The newest: PIP_UPGRADE=1 make test-spark
PYSPARK ?= pyspark>=4.2,<5

spark: $(STAMP)
	$(BIN)/python -m pip install --quiet "$(PYSPARK)" "pyarrow>=18"

# One process: its tests share one session.
test-spark: spark
	$(BIN)/python -m pytest -q -rs tests/spark

demo-spark: spark
	$(BIN)/python -m examples.spark_demo

bench-spark: spark
	$(BIN)/python -m benchmarks.spark_read

clean:
	rm -rf $(VENV) build dist protocol/_kernel*.c protocol/_kernel*.so
