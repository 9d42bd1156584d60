# demo   shows leaking engine output before and after, without an engine
# test   proves it: the whole default suite
# check  style, types and architecture
# coverage  is every module of the pure floors covered by its own test alone?
# bench  the reader's and the proxy's cost as ratios (nginx joins when it is installed)
# docs   rewrites the generated pages of docs/
# engine-test  the scenarios on a real vLLM, directly and through the gateway; builds it into $(ENGINE) first
# blackbox  the conformance cases beside the checkout, against the built command
#
# Each makes its own environment in $(VENV) when there is none, or when the pins have changed.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.stamp
ENGINE ?= .engine
BLACKBOX ?= ../shared/blackbox
CORPUS ?= ../shared/corpus
BLACKBOX_CASES ?= clean reader dedup bugs injection

.PHONY: demo test check coverage bench docs engine-test blackbox
.SILENT:

demo: $(STAMP)
	$(BIN)/integrity-gateway demo

test: $(STAMP)
	$(BIN)/python -m pytest

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/contract/test_architecture.py

coverage: $(STAMP)
	$(BIN)/python -m tests.contract.individual_coverage

bench: $(STAMP)
	$(BIN)/python -m benchmarks

docs: $(STAMP)
	$(BIN)/python -m gateway.cli.docs
	$(BIN)/python -m tests.traces.table > docs/leaks.md
	$(BIN)/python -m tests.engine.page > docs/engine-tests.md

engine-test: $(STAMP)
	PYTHON=$(PYTHON) tests/engine/lab/build.sh $(ENGINE)
	INTEGRITY_ENGINE_DIR=$(abspath $(ENGINE)) $(BIN)/python -m pytest tests/engine/test_engine.py

blackbox: $(STAMP)
	test -f $(BLACKBOX)/run.py || { echo "no $(BLACKBOX)/run.py: set BLACKBOX and CORPUS" >&2; exit 2; }
	failed=0; for name in $(BLACKBOX_CASES); do printf '%s: ' "$$name"; \
	  $(BIN)/python $(BLACKBOX)/run.py --gateway "$(abspath $(BIN))/integrity-gateway serve --config {config}" \
	    --divergences tests/corpus/divergences.yaml --show 0 $(CORPUS)/$$name.jsonl | tail -n 1; \
	  test "$${PIPESTATUS[0]}" = 0 || failed=1; done; exit $$failed

blackbox: SHELL := /bin/bash

$(STAMP): requirements.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.11")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $(STAMP)
