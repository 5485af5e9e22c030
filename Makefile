SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

BIN := .venv/bin
UV_PIP := $(BIN)/uv pip
# Passed explicitly, because uv prefers the active environment.
INTO_VENV := --python $(BIN)/python

# The sources of the parser tables: the build hook rebuilds the tables when one of them changes.
GRAMMARS := $(wildcard src/omnigraph/compiler/grammar/*.lark) \
            src/omnigraph/compiler/parser_tables.py src/omnigraph/compiler/parser.py

.PHONY: help
help: ## List the targets
	@sed -nE 's/^([a-z]+):.*## (.*)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 12

.PHONY: setup
setup: .venv/.ready ## Create .venv with the locked versions, ensure that Java 17+ is available
	@:

.venv/.ready: requirements.lock pyproject.toml hatch_build.py src/pyspark_omnigraph.py scripts/create-venv scripts/ensure-java $(GRAMMARS)
	@scripts/create-venv
	@scripts/ensure-java
	@$(UV_PIP) sync $(INTO_VENV) --quiet --compile-bytecode --require-hashes requirements.lock
	@$(UV_PIP) install $(INTO_VENV) --quiet --no-deps --no-build-isolation --editable .
	@touch $@

.PHONY: fmt
fmt: setup ## Format the code and apply the fixes of the linter
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

.PHONY: check
check: setup ## Format, lint, types, layers, quick tests: before every commit, under a minute
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest -n auto --dist worksteal tests/unit tests/corpus tests/architecture

.PHONY: test
test: setup ## All tests on representative cases: before every merge, about 15 minutes on two cores
	@scripts/ensure-node
	@scripts/ensure-chromium
	$(BIN)/pytest -n auto --dist worksteal -m "not exhaustive"

.PHONY: verify
verify: setup ## The exhaustive cases that `make test` leaves out, and more generated input
	$(BIN)/pytest -n auto --dist worksteal -m exhaustive
	$(BIN)/pytest -n auto --dist worksteal -m "not exhaustive" --hypothesis-profile=full \
	  tests/differential tests/fuzz tests/unit

.PHONY: demo
demo: setup ## Demonstrate the main features end to end
	@$(BIN)/python demo/run.py

.PHONY: bench
bench: setup ## Run every benchmark
	@for file in bench/*.py; do echo "== $$file"; $(BIN)/python "$$file"; done

.PHONY: bless
bless: setup ## Rewrite the expected output of the corpus, the references and the guides; review the diff
	OMNIGRAPH_BLESS=1 $(BIN)/pytest tests/corpus tests/server/test_openapi.py \
	  tests/architecture/test_references.py tests/behaviour/documentation/test_console_guides.py

.PHONY: fuzz
fuzz: setup ## Feed the compiler mutated sources for longer than `make test` does
	$(BIN)/pytest tests/fuzz --hypothesis-profile=long

# A make variable: SECONDS of the shell counts automatically.
SECONDS ?= 60

.PHONY: differential
differential: setup ## Compare the engine with the reference interpreter for SECONDS=60 and print the differences
	@$(BIN)/python -m tests.support.read_comparison $(SECONDS)

.PHONY: soak
soak: setup ## Kill writers at random for SECONDS=60 (from 120 on also bulk loads), a server with SERVER=60, or load EDGES=20000000
	@$(BIN)/python -m $(if $(EDGES),tests.support.soak_big $(EDGES),tests.support.soak $(if $(SERVER),server $(SERVER),soak $(SECONDS)))

.PHONY: mutants
mutants: setup ## Plant known bugs one by one and check that a test detects each
	@$(BIN)/python -m tests.mutants.run

.PHONY: lock
lock: ## Resolve requirements.lock again, keeping the versions that still fit
	@scripts/create-venv
	@$(UV_PIP) compile pyproject.toml --group dev --extra telemetry --extra notebook --extra langchain --universal --python-version 3.11 --quiet \
	  --generate-hashes --no-header --no-annotate --output-file requirements.lock

.PHONY: clean
clean: ## Remove .venv and everything generated
	rm -rf .venv build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -prune -exec rm -rf {} +
	rm -f src/omnigraph/compiler/grammar/*.tables
