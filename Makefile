# Needs Python 3.11-3.13 and make; uses uv where it is installed, else venv and pip. All else goes into .venv.
BIN := .venv/bin
UV := $(shell command -v uv 2>/dev/null)
FITS := import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do $$p -c '$(FITS)' 2>/dev/null && echo $$p && break; done)
CORE := errors.py,trace.py,tracing.py,registry.py,uri_rules.py,manager.py,surfaces.py,listing.py,paged_server.py,page_cache.py,cursors.py,models/*
comma := ,
CONTRACT := $(addprefix tests/contract/test_,parity.py inventory.py discovery.py)
WITH_GOLDENS := $(CONTRACT) tests/contract/test_bad_input.py

.DEFAULT_GOAL := help
.PHONY: help run install setup check test soak contract golden mcp-list serve bench bench-compare clean

help: ## Show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

run: .venv/.installed-demo ## Try it: every resource of the demo world, on both surfaces
	$(BIN)/quilt-mcp demo

serve: .venv/.installed-demo ## Serve your own Quilt login over stdio
	$(BIN)/quilt-mcp serve

install: $(addprefix .venv/.installed-,$(EXTRAS)) ## Add optional parts to .venv: EXTRAS="analysis http postgres requirements valkey"
	@test -n "$(EXTRAS)" || { echo 'Name what to add: make install EXTRAS="analysis postgres"'; exit 2; }

setup: .venv/.installed-dev ## Make .venv with all that development needs

check: setup ## Lint, format, types, and what may import what
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

test: setup ## All tests, with the coverage gates
	$(BIN)/coverage erase
	$(BIN)/pytest -n 2 --dist loadgroup --cov --cov-report= tests
	$(BIN)/coverage report --fail-under=95
	$(BIN)/coverage report --fail-under=100 --include='$(subst $(comma),$(comma)*/quilt_mcp/,*/quilt_mcp/$(CORE))'

soak: setup ## The long runs that `make test` leaves out: minutes, and their figures
	$(BIN)/pytest -n 0 -m soak -rP tests

contract: setup ## Parity and inventory alone: the inner loop
	$(BIN)/pytest -n 2 --dist loadgroup $(CONTRACT)

golden: setup ## Write the goldens anew, then verify them in a second run; read the diff before you commit it
	rm -rf golden
	$(BIN)/pytest -q -n 0 -p no:randomly --snapshot-update $(WITH_GOLDENS)
	$(BIN)/pytest -q -n 2 --dist loadgroup $(WITH_GOLDENS)

mcp-list: setup ## Write tests/fixtures/mcp-list.csv, and the README's tables, from the live server
	$(BIN)/python -m tests.contract.mcp_list
	$(BIN)/python -m tests.unit.test_readme

bench: setup ## Benchmarks, all or NAMES="surfaces start"; results in bench-results/
	$(BIN)/python -m tests.bench $(NAMES)

bench-compare: setup ## This tree against revision BASE, measured in turn; NAMES as for bench
	@test -n "$(BASE)" || { echo "Name a revision: make bench-compare BASE=main"; exit 2; }
	$(BIN)/python -m tests.bench.compare "$(BASE)" $(NAMES)

clean: ## Remove what the other targets made
	rm -rf .venv bench-results .coverage* .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

.venv/.installed-%: pyproject.toml .ci/constraints.txt
ifdef UV
	$(UV) venv --quiet --allow-existing --python '>=3.11,<3.14' .venv
	$(UV) pip install --quiet --compile-bytecode --python $(BIN)/python -c .ci/constraints.txt -e '.[$*]'
else
	@test -n "$(PYTHON)" || { echo "Python 3.11, 3.12 or 3.13 is needed: none was found on PATH."; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c .ci/constraints.txt -e '.[$*]'
endif
	@touch $@
