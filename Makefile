# The project's commands. `make demo` and `make test` are the two that the README names; both set
# themselves up on a machine that has only Python 3.11+ and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DOCS := $(VENV)/docs
READY := $(VENV)/.ready
RUN_READY := $(VENV)/.ready-run
PYTEST_ARGS ?=

# Programs that tests start are compiled once, whatever the machine's own settings are.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test test-all test-long check fmt dist bench chaos conformance interop fuzz mutants pictures docs requirements clean

demo: $(RUN_READY)
	$(BIN)/accredit demo $(ARGS)

# Four at a time: more are no faster on two cores, and wait too long for each other. What takes long, mostly since it
# starts processes, is marked `slow`: continuous integration runs it too, and `make test-all`.
test: $(READY) $(if $(CI),$(DOCS)/.ready $(VENV)/helm/.pip)
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

# The wheel, the sdist, the MCPB bundle of `connect`, what an image is built from, and their digests: the same bytes for
# the same commit wherever they are built.
dist: $(RUN_READY)
	rm -rf dist
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct 2>/dev/null || echo 1580601600) $(BIN)/python -m hatchling build
	$(BIN)/python scripts/mcpb.py dist/accredit-*.whl
	cp deploy/Containerfile requirements/gateway.txt dist
	$(BIN)/python -c 'import hashlib, pathlib; [print(hashlib.sha256(each.read_bytes()).hexdigest(), "", each.name) \
		for each in sorted(pathlib.Path("dist").glob("[!S]*"))]' > dist/SHA256SUMS
	cat dist/SHA256SUMS

BENCHES = proofs authorization front_door records recording tokens token_gateway servers merged telemetry startup

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

# The site, in site/: any link that leads nowhere stops it.
SITE := site
docs: $(DOCS)/.ready
	rm -rf $(SITE)
	$(DOCS)/bin/sphinx-build --quiet --fresh-env --fail-on-warning --jobs auto -c docs . $(SITE)
	rm -r $(SITE)/.doctrees
	echo '<meta http-equiv="refresh" content="0; url=docs/index.html">' > $(SITE)/index.html

# Hash-pinned, and without index addresses: the machine's own settings say where packages come from.
requirements: $(READY)
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
		--no-emit-index-url --group demo pyproject.toml -o requirements/demo.txt
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
		--no-emit-index-url --group demo --group dev pyproject.toml -o requirements/dev.txt
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
		--no-emit-index-url --extra postgres --extra telemetry pyproject.toml -o requirements/gateway.txt
	for wanted in requirements/*.in; do \
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

# What only some tests and `make docs` need, each in an environment of its own.
$(VENV)/%/.pip: requirements/%.txt | $(BIN)/python
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r $<
	touch $@

# Diagrams are drawn by mermaid's smallest build, from npm, which the site has beside its pages.
MERMAID := 11.17.2
$(DOCS)/.ready: $(DOCS)/.pip Makefile
	mkdir -p $(DOCS)/share/mermaid
	npm pack --silent --pack-destination $(DOCS)/share @mermaid-js/tiny@$(MERMAID)
	cd $(DOCS)/share && echo "3e616bd5ce5c49f35fe409e02cb47df03adbbd1e14e4a783ec8fa14241aa1b9c3955ebb7413e1d1b4aaef5ff7d7299ffb0a8f65f14412b4abb10bea1afd358fc  mermaid-js-tiny-$(MERMAID).tgz" | sha512sum --check --quiet
	tar -xzf $(DOCS)/share/mermaid-js-tiny-$(MERMAID).tgz -C $(DOCS)/share/mermaid --strip-components 2 package/dist
	touch $@

clean:
	rm -rf $(VENV) site bench/results
