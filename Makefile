# The project's commands. `make demo` and `make test` are the two that the README names; both set
# themselves up on a machine that has only Python 3.11+ and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
RUN_READY := $(VENV)/.ready-run
PYTEST_ARGS ?=

# Programs that tests start are compiled once, whatever the machine's own settings are.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test test-all test-long check fmt dist bench chaos conformance interop fuzz mutants pictures requirements clean

demo: $(RUN_READY)
	$(BIN)/accredit demo $(ARGS)

# Four at a time: more are no faster on two cores, and wait too long for each other. What takes long, mostly since it
# starts processes, is marked `slow`: continuous integration runs it too, and `make test-all`.
test: $(READY)
	$(BIN)/pytest -n 4 -m "not long$(if $(CI),, and not slow)" $(PYTEST_ARGS)

test-all: $(READY)
	$(BIN)/pytest -n 4 $(PYTEST_ARGS)

# What has a short form in `make test`, whole; and properties with ten times as many examples, where they say no number.
test-long: $(READY)
	$(BIN)/pytest -n 2 -m long $(PYTEST_ARGS)
	$(BIN)/pytest -n 2 --hypothesis-profile=long tests/property tests/unit/config

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/basedpyright --warnings
	$(BIN)/lint-imports --no-cache
	$(BIN)/python scripts/check_sizes.py
	$(BIN)/python scripts/house.py
	$(BIN)/python -m bench.anatomy

fmt: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/python scripts/limits.py

# The wheel and the sdist, the same bytes for the same commit wherever they are built, and their digests.
dist: $(RUN_READY)
	rm -rf dist
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct 2>/dev/null || echo 1580601600) $(BIN)/python -m hatchling build
	$(BIN)/python -c 'import hashlib, pathlib; [print(hashlib.sha256(each.read_bytes()).hexdigest(), "", each.name) \
		for each in sorted(pathlib.Path("dist").glob("accredit-*"))]' > dist/SHA256SUMS
	cat dist/SHA256SUMS

BENCHES = proofs authorization records recording tokens token_gateway servers merged telemetry startup

# All of it, or (ARGS="--only NAME") a part of the first.
bench: $(READY)
	$(BIN)/python -m bench $(ARGS)
	$(if $(findstring --only,$(ARGS)),,for name in $(BENCHES); do $(BIN)/python -m bench.$$name $(filter --quick,$(ARGS)) || exit 1; done)

# Machines that fail under gateways, for some ten minutes; as root it has network namespaces.
chaos: $(READY)
	$(BIN)/python -m tests.chaos $(ARGS)

conformance: $(READY)
	$(BIN)/python -m tests.conformance $(ARGS)

interop: $(READY)
	$(BIN)/python -m tests.interop $(ARGS)

fuzz: $(READY)
	$(BIN)/python -m tests.fuzz $(ARGS)

# Which small changes to the cores their own tests notice (ARGS="tokens/verify": of that core alone).
mutants: $(READY)
	$(BIN)/python scripts/mutants.py $(ARGS)

# The pictures of the desk's pages and of the demo in the documentation.
pictures: $(READY)
	$(BIN)/python -m tests.demo_picture
	$(BIN)/python -m tests.pictures

# Hash-pinned, and without index addresses: the machine's own settings say where packages come from.
requirements: $(READY)
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
		--no-emit-index-url --group demo pyproject.toml -o requirements/demo.txt
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
		--no-emit-index-url --group demo --group dev pyproject.toml -o requirements/dev.txt
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
		--no-emit-index-url --extra postgres --extra telemetry pyproject.toml -o requirements/gateway.txt
	for wanted in requirements/interop-*.in; do \
		$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
			--no-emit-index-url $$wanted -o $${wanted%.in}.txt || exit 1; \
	done

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit("accredit needs Python 3.11 or newer: make PYTHON=python3.12 ...") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)

$(RUN_READY): requirements/demo.txt pyproject.toml | $(BIN)/python
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements/demo.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@

$(READY): requirements/dev.txt pyproject.toml | $(BIN)/python
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements/dev.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@ $(RUN_READY)

clean:
	rm -rf $(VENV) bench/results
