# Everything starts from a clean clone: each target brings what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
ONLY ?=

.DEFAULT_GOAL := help
.PHONY: help setup demo test check bench migration

help: ## Show the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 12

setup: $(STAMP) ## Make .venv with the pinned packages and the command .venv/bin/tensorant

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Tensorant needs Python 3.11 or newer; name one with: make PYTHON=/path/to/python3 …"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); apt-get install -y python3-venv && $(PYTHON) -m venv $(VENV); }
	@echo "Installing the pinned packages (about 2 GB on disk, once) …"
	@$(BIN)/python -m pip install --quiet --no-deps --disable-pip-version-check -r requirements.lock 2>&1 | grep -v "is ignored: it is neither" || true
	@$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --disable-pip-version-check --editable . 2>&1 | grep -v "is ignored: it is neither" || true
	@$(BIN)/python -c "import torch, transformers, peft, dramatiq, sqlmodel, tensorant_app, trainer" && touch $(STAMP)

demo: $(STAMP) ## Fine-tune a real model on this computer, from import to gate (HEADLESS=1 until the console exists)
	@$(BIN)/tensorant demo

test: check ## Everything that must hold: checks, fast tests in parallel, then whole paths with real processes
	@$(BIN)/python -m pytest -q -n 2 -m "not slow"
	@$(BIN)/python -m pytest -q -m slow

check: $(STAMP) ## Format, lint, types, import contracts, migrations
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache
	@$(BIN)/python -m tensorant_app.db.migrate check

bench: $(STAMP) ## Measure; ONLY=demo for one file of benchmarks/
	@$(BIN)/python -c "import trl" 2>/dev/null || $(BIN)/python -m pip install --quiet --no-deps --disable-pip-version-check -r requirements-bench.lock
	@$(BIN)/python -m benchmarks.table $(ONLY)

migration: $(STAMP) ## Write a migration from the tables: make migration NAME="what it does"
	@$(BIN)/python -m tensorant_app.db.migrate revision -m "$(NAME)"
