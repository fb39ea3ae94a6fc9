# The commands of the project. CI calls `check` and `test`; a newcomer needs `run` and `test`. Each sets up what it needs.

BIN := .venv/bin
READY := .venv/.ready
WORKERS ?= 2

# The first Python of this machine that is new enough.
PYTHON ?= $(shell for python in python3.11 python3 python3.12 python3.13 python3.14 python; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)

.DEFAULT_GOAL := help
.PHONY: help setup run look check test test-long test-load test-live test-clients bench lock clean

help: ## show this list
	@sed -n 's/^\([a-z-]*\):.*## /\1	/p' $(MAKEFILE_LIST) | expand -t 12

setup: $(READY) ## make .venv with the locked versions of everything (done once)

$(READY): requirements/lock.txt pyproject.toml
	@test -n "$(PYTHON)" || { echo "Everlog needs Python 3.11 or newer on the PATH (or: make PYTHON=/path/to/python)" >&2; exit 1; }
	@echo "Setting up .venv (once, about a minute) ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv --clear .venv
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --no-input --require-hashes --no-deps --requirement requirements/lock.txt
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --no-input --no-deps --no-build-isolation --editable .
	@touch $@

run: $(READY) ## put the proxy in front of a model, and say what to paste into which tool (EVERLOG_UPSTREAM=URL names the model's server)
	@$(BIN)/python examples/run.py

look: $(READY) ## load the sample conversation, show a view of it, and zoom to one message
	@$(BIN)/python examples/first_look.py

check: $(READY) ## format, lint, types, layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy $(wildcard src tests examples benchmarks)
	$(BIN)/lint-imports

test: $(READY) ## all tests but the long ones
	$(BIN)/python -m pytest -q -m "not long and not live and not clients" -n $(WORKERS) --dist worksteal --inline-snapshot=disable

test-long: $(READY) ## all tests, in depth; EVERLOG_DATA names the folder of real conversations
	$(BIN)/python -m pytest -q -m "not live and not clients" -n $(WORKERS) --dist worksteal --inline-snapshot=disable \
		--hypothesis-profile=long --timeout=7200

test-load: $(READY) ## 50 clients for ten minutes before a proxy that is killed five times, and what the log holds afterwards
	$(BIN)/python -m tests.load

test-live: $(READY) .venv-live/.ready ## tests on a small real model, which is fetched once (about 220 MB with its engine)
	EVERLOG_LIVE=$(CURDIR)/.venv-live/bin/python $(BIN)/python -m pytest -q -m live tests/live --timeout=600

test-clients: $(READY) .venv-clients/.ready ## real agent tools and SDKs of Node through the proxy; they are fetched once (about 1 GB)
	EVERLOG_CLIENTS=$(CURDIR)/.venv-clients $(BIN)/python -m pytest -q -m clients tests/clients --timeout=900

.venv-clients/.ready: requirements/clients.txt tests/clients/package-lock.json
	@$(PYTHON) -m venv --clear .venv-clients
	@.venv-clients/bin/python -m pip install -qq --disable-pip-version-check --no-input --require-hashes --requirement $<
	@cp tests/clients/package.json tests/clients/package-lock.json tests/clients/.npmrc .venv-clients
	@cd .venv-clients && PATH="$$PWD/bin:$$PATH" bin/npm install --loglevel=error && bin/node node_modules/opencode-ai/postinstall.mjs
	@touch $@

.venv-live/.ready: requirements/live.txt
	@$(PYTHON) -m venv --clear .venv-live
	@.venv-live/bin/python -m pip install -qq --disable-pip-version-check --no-input --require-hashes --no-deps --requirement $<
	@touch $@

bench: $(READY) ## each benchmark, at full length, in one table
	@$(BIN)/python -m benchmarks

lock: $(READY) ## write requirements/lock.txt from pyproject.toml (newest versions: make lock UPGRADE=--upgrade)
	$(BIN)/uv pip compile pyproject.toml --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
		--all-extras --group build --group test --group check --group lock \
		--custom-compile-command "make lock" --output-file requirements/lock.txt $(UPGRADE)
	$(BIN)/uv pip compile requirements/live.in --quiet --no-deps --python-version 3.11 --generate-hashes --no-emit-index-url \
		--custom-compile-command "make lock" --output-file requirements/live.txt $(UPGRADE)
	$(BIN)/uv pip compile requirements/clients.in --quiet --python-version 3.11 --generate-hashes --no-emit-index-url \
		--custom-compile-command "make lock" --output-file requirements/clients.txt $(UPGRADE)
	cd tests/clients && npm install --package-lock-only

clean: ## remove .venv and everything else that was made here
	rm -rf .venv .venv-live .venv-clients dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
