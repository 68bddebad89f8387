# demo: train a small GPT on the standard library's source     test: the default tests and the sampled process matrix
# check: format, lint, types, layers                            fix: format and mend what can be mended
# test-all: every test, full matrices for the sampled one         bench: the benchmarks (quiet machine, minutes)
PYTHON ?= python3
BIN := .venv/bin
# two workers that take file after file: processes that start or wait leave one of two cores idle (decision 0028)
PYTEST := $(BIN)/python -m pytest -q --numprocesses 2 --dist loadscope --no-loadscope-reorder

.PHONY: demo test test-all check fix bench

demo: .venv/installed
	$(BIN)/headway train examples/stdlib.yaml

test: .venv/installed
	$(PYTEST) -m "not full"

test-all: .venv/installed
	$(PYTEST) -k "not sampled"

check: .venv/installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

fix: .venv/installed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: .venv/installed
	$(BIN)/python bench/trainer.py
	$(BIN)/python bench/placement.py
	$(BIN)/python bench/saving.py

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[train,dev]'
	touch $@
