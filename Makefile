# Every target sets itself up in .venv. Needed beforehand: Python 3.11 or newer with pip and venv, nothing else.
#
#   make demo        the whole circle: chat, log, retrain, gate, swap in (some minutes; exit code 3: the gate refused)
#   make tour        a memory at work without a trainer, in seconds
#   make test        lint, types and the fast tests
#   make test-slow   the long tests
#   make test-memkit the fast tests of the runtime: no torch, no plugs, sets up quickly
#   make faults      power cuts, kills, failing calls, damage, hostile input: some of each, in minutes
#   make faults-nightly   a tenth of what docs/promises.md promises; make faults-release: all of it, for hours
#   make docs        the documentation as a site in .site/, built strictly and without a network
#   make release-check   versions and changelog in order; wheel and sdist on every Python at hand
#   make lint        lint and types only
#   make clean       remove .venv and what builds left behind
#
# PYTHON=python3.12 chooses the interpreter. TORCH=... chooses the torch requirement, which is installed first so that
# no other package picks a build of its own.

PYTHON ?= python3
TORCH ?= torch==2.13.0
EXTRAS := dev,local,minilm,small,fastembed,multilingual,train,plugs

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

# A file's tests share what it makes, so a file stays with one worker; two, as many as the cores that the times are
# promised for. `make test WORKERS=8` where there are more, WORKERS=0 for all in one process.
WORKERS ?= 2
PYTEST := $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadfile

# The tests of memkit's rooms, of their composition, of faults, and of the house.
RUNTIME_TESTS = $(filter-out tests/__%,$(wildcard $(patsubst memkit/%,tests/%,$(wildcard memkit/*)) \
  tests/memory tests/faults tests/test_house.py))

# tests never wait for a model hub; what they need is made or shipped
export HF_HUB_OFFLINE := 1
export TOKENIZERS_PARALLELISM := false
test test-slow test-memkit faults faults-nightly faults-release: export OMP_NUM_THREADS := 1

.DEFAULT_GOAL := help
.PHONY: help demo tour test test-slow test-memkit faults faults-nightly faults-release docs release-check lint clean

help:
	@sed -n 's/^#   //p' Makefile

demo: $(VENV)/.trains
	rm -rf .demo
	$(BIN)/memkit demo --keep .demo

tour: $(VENV)/.core
	$(BIN)/memkit demo --tour

lint: $(VENV)/.full
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/pyright -p tests/pyright.json --pythonpath $(BIN)/python

test: lint
	$(PYTEST) -m "not slow and not live"

test-memkit: $(VENV)/.dev
	$(PYTEST) -m "not slow and not live" $(RUNTIME_TESTS)

# pytest's exit code 5 means that nothing is marked slow, which is no failure
test-slow: $(VENV)/.full
	$(PYTEST) -m "slow and not live" || [ $$? -eq 5 ]

faults: $(VENV)/.full
	$(PYTEST) -m "not slow and not live" tests/faults tests/memory/test_backup.py tests/memory/test_erase.py

faults-nightly: $(VENV)/.full
	$(BIN)/python -m tests.bench trust-findings
	$(BIN)/python -m tests.bench trust-input
	$(BIN)/python -m tests.bench trust

faults-release: $(VENV)/.full
	$(BIN)/python -m tests.bench trust-release

release-check: $(VENV)/.dev
	$(BIN)/python -m tests.release_check

docs: $(VENV)/.dev
	$(BIN)/mkdocs build --strict -f .ci/mkdocs.yml

$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "memkit needs Python 3.11 or newer: make $(MAKECMDGOALS) PYTHON=python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.core: $(VENV)/.made pyproject.toml
	@echo "Installing memkit into $(VENV)"
	$(PIP) install -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.made pyproject.toml
	@echo "Installing memkit with its test tools into $(VENV)"
	$(PIP) install -e '.[dev]'
	@touch $@ $(VENV)/.core

$(VENV)/.trains: $(VENV)/.made pyproject.toml
	@echo "Installing memkit with its trainer into $(VENV): some minutes the first time"
	$(PIP) install '$(TORCH)'
	$(PIP) install -e '.[train]'
	@touch $@ $(VENV)/.core

$(VENV)/.full: $(VENV)/.made pyproject.toml
	@echo "Installing memkit with its extras into $(VENV): a few minutes the first time"
	$(PIP) install '$(TORCH)'
	$(PIP) install -e '.[$(EXTRAS)]'
	@touch $@ $(VENV)/.trains $(VENV)/.dev $(VENV)/.core

clean:
	rm -rf $(VENV) build dist .demo .site .pytest_cache .ruff_cache .hypothesis
