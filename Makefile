# Needs Python 3.11 or newer, and make. Uses uv if it is installed, else venv and pip. Everything else goes into .venv.
BIN := .venv/bin
UV := $(shell command -v uv 2>/dev/null)
FITS := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do $$p -c '$(FITS)' 2>/dev/null && echo $$p && break; done)
# `make test CONSTRAINTS=`, on a new .venv, tests with the newest versions that pyproject.toml allows
CONSTRAINTS := -c .ci/constraints.txt
# a third process on two cores used a sixth more CPU time and was no faster
WORKERS := $(shell getconf _NPROCESSORS_ONLN)
PARALLEL := $(BIN)/pytest -n $(WORKERS) --dist worksteal
# the same order and the same examples in every run for a push; the nightly runs vary them
FIXED := $(if $(CI),--randomly-seed=1 --hypothesis-profile=ci)
# twice as many examples of Hypothesis
THOROUGH := --hypothesis-profile=thorough
CONTRACT := $(addprefix tests/contract/test_,parity.py inventory.py discovery.py)
PARITY_dev := -e './mcp-parity[test]'
WITH_GOLDENS := $(CONTRACT) tests/contract/test_bad_input.py tests/contract/test_files.py tests/view/test_view.py
UPDATE := $(BIN)/pytest -q -n 0 -p no:randomly --snapshot-update -m 'not install'
GOLDEN_PARTS := $(addprefix golden-part-,$(shell seq $(WORKERS)))

# Without files of bytecode, each of the tests' processes would compile all modules again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help run install setup check test test-once coverage test-parity test-install wheels mcpb lowest soak test-clients test-view pictures contract golden mcp-list
.PHONY: docs examples mutants demo-data serve bench bench-compare bench-docs clean

help: ## Show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

run: .venv/.installed-demo ## Try it: every resource of the demo world, on both surfaces
	$(BIN)/quilt-mcp demo

serve: .venv/.installed-demo ## Serve your own Quilt login over stdio
	$(BIN)/quilt-mcp serve

install: $(addprefix .venv/.installed-,$(EXTRAS)) ## Add optional parts to .venv: EXTRAS="analysis postgres valkey"
	@test -n "$(EXTRAS)" || { echo 'Name what to add: make install EXTRAS="analysis postgres"'; exit 2; }

setup: .venv/.installed-dev ## Create .venv with everything that development needs

check: setup ## Lint, format, types and import rules
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	cd mcp-parity && ../$(BIN)/mypy
	@$(BIN)/python -m tests.project.sizes

test: setup ## All tests; what fails runs once more, alone
	.ci/test $(FIXED)

test-once: setup test-parity ## All tests, without a second try
	$(PARALLEL) $(THOROUGH) tests

coverage: setup ## All tests but those that measure, with the coverage gates and without a second try
	$(BIN)/coverage erase
	$(PARALLEL) --cov --cov-report= -m 'not install and not alone' --timeout 1200 tests
	$(BIN)/coverage report --fail-under=95
	$(BIN)/coverage report --fail-under=100 --include='*/quilt_mcp/core/*'

test-parity: setup ## Only the tests of mcp-parity
	cd mcp-parity && ../$(PARALLEL)

test-install: setup ## The tests that install packages: both wheels, the bundle, and other servers
	$(BIN)/pytest -n 0 -m install -rs --timeout 1800 tests/distribution
	cd mcp-parity && ../$(BIN)/pytest -n 0 -m install -rs --timeout 1800

wheels: setup ## Build the wheels of both distributions into dist/
ifdef UV
	$(UV) build --quiet --wheel --out-dir dist .
	$(UV) build --quiet --wheel --out-dir dist mcp-parity
else
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist . ./mcp-parity
endif

mcpb: setup ## Build the bundle for Claude Desktop: dist/quilt.mcpb
	$(BIN)/python .github/scripts/packages.py bundle dist/quilt.mcpb

lowest: setup ## The demo and the contract with the lowest versions that pyproject.toml allows, in .venv/lowest; needs uv
	uv venv --quiet --clear --python $(BIN)/python .venv/lowest
	uv pip install --quiet --python .venv/lowest --resolution lowest-direct '.[demo,postgres,valkey,analysis]'
	.venv/lowest/bin/quilt-mcp demo
	uv pip install --quiet --compile-bytecode --python .venv/lowest -e '.[dev]' $(PARITY_dev)
	.venv/lowest/bin/pytest -n $(WORKERS) --dist worksteal tests/core tests/contract tests/http tests/commands

soak: setup ## The tests that are too slow for every push; prints their figures
	cd mcp-parity && ../$(PARALLEL) -m soak --timeout 600
	$(PARALLEL) $(THOROUGH) -m 'soak and not alone' -rP --timeout 1200 tests
	$(BIN)/pytest $(THOROUGH) -n 0 -m 'soak and alone' -rP --timeout 7200 tests

test-clients: setup ## Foreign clients from npm and PyPI against the demo, all or NAMES="'Codex CLI' ai-sdk"; needs node, and 2 GB in build/
	$(BIN)/python -m tests.clients $(NAMES)

test-view: setup .venv/.installed-view ## The pages of the view and of reviews in Chromium, from the system
	$(BIN)/pytest -n 0 -m view -rs tests/view
	cd mcp-parity && ../$(BIN)/pytest -n 0 -m view -rs

pictures: setup .venv/.installed-view ## Take the pictures of docs from the demo, with Chromium
	$(BIN)/python -m tests.view.pictures

contract: setup ## Only the contract: both surfaces against the goldens
	$(PARALLEL) $(CONTRACT)

golden: setup ## Rewrite the goldens and verify them in a second run, or only those of WORLDS="a b"; read the diff before you commit
ifdef WORLDS
	GOLDEN_PART="$(WORLDS)" $(UPDATE) $(WITH_GOLDENS)
else
	GOLDEN_PART=home $(UPDATE) $(WITH_GOLDENS)
	$(MAKE) --no-print-directory -j $(WORKERS) $(GOLDEN_PARTS)
	$(PARALLEL) -q -m 'not install' $(WITH_GOLDENS)
endif

golden-part-%: # the worlds but home, in as many parts as there are workers
	GOLDEN_PART=$*/$(WORKERS) $(UPDATE) tests/contract/test_parity.py

mcp-list: setup ## Write tests/fixtures/mcp-list.csv and the generated documents from the live server
	$(BIN)/pytest -q -n 0 --snapshot-update -k inventory tests/contract/test_parity.py
	$(BIN)/python -m tests.support.docs
	$(BIN)/python .github/scripts/packages.py entry server.json

demo-data: setup ## Write the database and the binary files of the demo, after a change of what makes them
	$(BIN)/python -m tests.support.demo_data
	$(BIN)/python -m tests.support.demo_files

docs: setup .venv/.installed-docs ## Build the documentation site in build/site/; a link that leads nowhere fails
	$(BIN)/zensical build --strict --config-file "$$($(BIN)/python -m tests.support.site build)"

examples: setup ## Run the files of examples/
	$(BIN)/pytest -n 0 -m 'soak or not soak' tests/project/test_examples.py

mutants: setup .venv/.installed-mutants ## Changes of the code that tests must notice, all (hours) or NAMES="quilt_mcp.core.uris*"
	GOLDEN_PART=home $(BIN)/mutmut run $(NAMES)
	$(BIN)/mutmut results

bench: setup ## Benchmarks, all or NAMES="start"; results in bench-results/
	$(BIN)/python -m tests.bench $(NAMES)

bench-compare: setup ## Compare this tree with revision BASE; NAMES as for bench
	@test -n "$(BASE)" || { echo "Name a revision: make bench-compare BASE=main"; exit 2; }
	$(BIN)/python -m tests.bench.compare "$(BASE)" $(NAMES)

bench-docs: setup ## Measure peers and start, and write the figures into docs/performance.md; on a quiet machine
	$(BIN)/python -m tests.bench $(or $(NAMES),peers start)
	$(BIN)/python -m tests.bench.document

clean: ## Remove what the other targets made
	rm -rf .venv build dist mutants bench-results .coverage* .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

.venv/.installed-%: pyproject.toml mcp-parity/pyproject.toml .ci/constraints.txt
	@grep -q '^$* = ' pyproject.toml || { echo "pyproject.toml has no extra $*. Name extras of [project.optional-dependencies]."; exit 2; }
ifdef UV
	$(UV) venv --quiet --allow-existing --python '>=3.11' .venv
	$(UV) pip install --quiet --compile-bytecode --python $(BIN)/python $(CONSTRAINTS) -e '.[$*]' $(PARITY_$*)
else
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed, and PATH has none."; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(CONSTRAINTS) -e '.[$*]' $(PARITY_$*)
endif
	@touch $@
