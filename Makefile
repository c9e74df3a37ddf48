# What the README and CONTRIBUTING name: make demo, test, check, wheel-test, versions, swarm, bench.
#
# Each target sets up its own virtual environment first, once: a stamp file in it says for which
# extras that is done, and pyproject.toml being newer undoes it. `make clean` starts over.

SHELL := bash
# Tests spawn hundreds of processes, each of which would compile all of its code again.
unexport PYTHONDONTWRITEBYTECODE
VENV := .venv
PYTHON ?= $(shell for name in python3 python3.13 python3.12 python3.11 python3.14; do \
	$$name -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$name && break; done)
ARGS ?=
BUSY ?= 8
# Two more than there are cores, because tests of processes wait for most of their time.
WORKERS ?= $(shell expr $$(nproc) + 2)
AUDIT ?=
BROKER ?=

# PySpark is most of the size, so that what only runs the demo leaves the rest away.
DEMO_EXTRAS := cli,spark,http
TEST_EXTRAS := $(DEMO_EXTRAS),websocket,clients,zookeeper,test,hosts,dev,mutation
BENCH_EXTRAS := $(TEST_EXTRAS),bench

.PHONY: help demo test test-long test-busy check check-lint check-format check-types check-imports check-doors check-changes \
	check-audit lowest pythons wheel-test versions broker-tests swarm group-model jepsen spark-kills mutation \
	bench clean
.NOTPARALLEL:

help:
	@echo 'make demo       run the main job (ARGS="..." are passed on)'
	@echo 'make test       run the tests on all cores (ARGS="..." go to pytest)'
	@echo 'make test-long  run the tests that take minutes each, which make test leaves out'
	@echo 'make test-busy  run make test beside BUSY=8 loops that want a core each'
	@echo 'make check      lint, format, types, the direction of imports, doors, changes, known vulnerabilities'
	@echo 'make lowest     run the tests of the core with the lowest versions that are allowed'
	@echo 'make pythons    run the tests of all doors on Python 3.12 and 3.13, where they are installed'
	@echo 'make versions   have an older release and this one work in one mesh (ARGS="--old peermesh[cli]==1.2")'
	@echo 'make wheel-test build the wheel, and test it where it is installed (ARGS="--all")'
	@echo 'make broker-tests run the Python tests of a checkout of Broker (BROKER=...) on peermesh.compat'
	@echo 'make swarm      run simulated swarms through random faults (ARGS="--seeds 1000")'
	@echo 'make group-model run random worlds around a replica group (ARGS="--seeds 1000")'
	@echo 'make jepsen     break a replica group in real processes (ARGS="--failures 500")'
	@echo 'make spark-kills kill around a job of Spark (ARGS="--nine", ARGS="--victims log --batches 200")'
	@echo 'make mutation   change the code in small ways; tests have to notice (ARGS="--sample 20")'
	@echo 'make bench      run the benchmarks (ARGS="..." are passed on)'
	@echo 'make clean      remove the virtual environment and all caches'

demo: $(VENV)/.ready-demo
	@$(VENV)/bin/peermesh demo $(ARGS)

test: $(VENV)/.ready-test
	@$(VENV)/bin/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder \
		-m 'not long' $(ARGS)

# The last "-m" counts.
test-long:
	@$(MAKE) --no-print-directory test ARGS='-m long $(ARGS)'

# A loop ends when its shell is told to, or is gone.
test-busy: $(VENV)/.ready-test
	@loops=(); trap 'kill "$${loops[@]}"' EXIT; \
	for _ in $$(seq $(BUSY)); do while kill -0 $$$$; do :; done 2>/dev/null & loops+=($$!); done; \
	$(MAKE) --no-print-directory test ARGS='$(ARGS)'

# Seven targets, so that "make --keep-going check" shows all that is wrong at once.
check: check-lint check-format check-types check-imports check-doors check-changes check-audit

check-lint: $(VENV)/.ready-test
	$(VENV)/bin/ruff check .

check-format: $(VENV)/.ready-test
	$(VENV)/bin/ruff format --check .

check-types: $(VENV)/.ready-test
	$(VENV)/bin/mypy

check-imports: $(VENV)/.ready-test
	$(VENV)/bin/lint-imports

# What is written from the trio classes is what they say now.
check-doors: $(VENV)/.ready-test
	$(VENV)/bin/python -m tools.doors --check

# The fragments of the changelog can be read, and come out as one.
check-changes: $(VENV)/.ready-test
	@$(VENV)/bin/towncrier build --draft --version next >/dev/null

# Without a way to the advisory service it says so and passes; AUDIT=--required makes it fail then.
check-audit: $(VENV)/.ready-test
	@$(VENV)/bin/python -m tests.audit $(AUDIT)

# In an environment of its own, which is made anew each time.
lowest: $(VENV)/.ready-test
	@$(PYTHON) -m venv --clear $(VENV)-lowest
	@$(VENV)-lowest/bin/python -m pip install --quiet --disable-pip-version-check \
		--requirement <($(VENV)/bin/python -m tests.audit --lowest cli http test)
	@$(VENV)-lowest/bin/python -m pytest tests/wire tests/handshake tests/channels tests/stores \
		tests/endpoint $(ARGS)

# The CI has one Python. Each of the others has an environment of its own, and one that is missing is named.
pythons:
	@$(PYTHON) -m tools.pythons $(ARGS)

# In an environment of its own, below a temporary folder.
wheel-test: $(VENV)/.ready-test
	@$(VENV)/bin/python -m tools.wheel_test $(ARGS)

# The older release has an environment of its own, too; without one, a wheel of this checkout is it.
versions: $(VENV)/.ready-test
	@$(VENV)/bin/python -m tools.versions $(ARGS)

# The tests are Broker's own, and stay in its checkout.
broker-tests: $(VENV)/.ready-test
	@$(VENV)/bin/python -m tools.broker_tests '$(BROKER)' $(ARGS)

swarm: $(VENV)/.ready-test
	@$(VENV)/bin/python -m peermesh.testing.swarm $(ARGS)

group-model: $(VENV)/.ready-test
	@$(VENV)/bin/python -m tests.stores.group $(ARGS)

jepsen: $(VENV)/.ready-test
	@$(VENV)/bin/python -m tests.jepsen $(ARGS)

spark-kills: $(VENV)/.ready-test
	@$(VENV)/bin/python -m tests.spark_kills $(ARGS)

mutation: $(VENV)/.ready-test
	@$(VENV)/bin/python -m tests.mutation $(ARGS)

bench: $(VENV)/.ready-bench
	@$(VENV)/bin/python -m benchmarks $(ARGS)

clean:
	rm -rf $(VENV) $(VENV)-lowest $(VENV)-3.* build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The larger environment serves the smaller targets too, so it leaves their stamps as well.
$(VENV)/.ready-demo: pyproject.toml
	$(call install,$(DEMO_EXTRAS))
	@touch $@

$(VENV)/.ready-test: pyproject.toml
	$(call install,$(TEST_EXTRAS))
	@touch $@ $(VENV)/.ready-demo

$(VENV)/.ready-bench: pyproject.toml
	$(call install,$(BENCH_EXTRAS))
	@touch $@ $(VENV)/.ready-test $(VENV)/.ready-demo

# An environment whose pip does not run was interrupted, or its Python is gone: it is made anew.
# pip is quiet but for the name of each package that it fetches.
define install
	@[ -n '$(PYTHON)' ] && $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo 'peermesh needs Python 3.11 or newer: install it, or name it with "make PYTHON=/path/to/python3.11".' >&2; \
		exit 1; }
	@echo 'Setting up $(VENV) for peermesh[$(1)], which takes a minute or two, once:'
	@$(VENV)/bin/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	@set -o pipefail; PYTHONUNBUFFERED=1 PIP_DISABLE_PIP_VERSION_CHECK=1 \
		$(VENV)/bin/python -m pip install --editable '.[$(1)]' \
		| sed -n -e 's/^Collecting \([^ ]*\).*/  \1/p' -e 's/^Building wheels.*/  building/p'
endef
