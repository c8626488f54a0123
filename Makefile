# `make test` and `make reproduce` need Python 3.11+ and nothing else: they create .venv and
# install the pinned versions of requirements/ in it.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: test test-slow test-slurm test-gpu fuzz reproduce lint types docs unit examples benchmark format clean
.DEFAULT_GOAL := test

test: lint types docs unit examples

reproduce: .venv/runtime
	$(BIN)/emphatic reproduce all --out results

lint: .venv/development
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/development
	$(BIN)/pyright

docs: .venv/development
	$(BIN)/sphinx-build -q -W --keep-going -E docs build/docs

unit: .venv/development
	$(BIN)/python -m pytest -n auto --dist loadfile

test-slow: .venv/development
	$(BIN)/python -m pytest -m slow

test-slurm: .venv/development
	$(BIN)/python -m pytest -n 0 -m slurm -rs tests/experiments/test_slurm.py

FUZZ ?= 100000
fuzz: .venv/development
	$(BIN)/python -m tests.fuzz --inputs $(FUZZ)

test-gpu: .venv/development
	$(BIN)/python -m pip install --quiet 'cuda-bindings>=12.8'
	$(BIN)/python -m pytest -m gpu

examples: .venv/development
	@for file in examples/*.py; do echo "$(BIN)/python $$file"; $(BIN)/python $$file || exit 1; done

benchmark: .venv/benchmark
	$(BIN)/python benchmarks/oracle.py
	$(BIN)/python benchmarks/engine.py
	$(BIN)/python benchmarks/agents.py
	$(BIN)/python benchmarks/deep.py
	$(BIN)/python benchmarks/faults.py

format: .venv/development
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv build docs/reference

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or newer is required; set PYTHON=/path/to/python3.11" >&2; exit 1; }
	$(PYTHON) -m venv .venv

.venv/runtime: .venv/bin/python pyproject.toml requirements/runtime.txt requirements/build.txt
	$(BIN)/python -m pip install --quiet -r requirements/build.txt -r requirements/runtime.txt
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

.venv/development: .venv/runtime requirements/development.txt
	$(BIN)/python -m pip install --quiet -r requirements/development.txt
	@touch $@

.venv/benchmark: .venv/development requirements/benchmark.txt
	$(BIN)/python -m pip install --quiet -r requirements/benchmark.txt
	@touch $@
