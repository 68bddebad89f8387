# demo: train a small GPT on the standard library's source     test: the default tests and the sampled process matrix
# check: format, lint, types, layers                            fix: format and mend what can be mended
# test-all: every test, full matrices for the sampled one         bench: the benchmarks (quiet machine, minutes)
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test test-all check fix bench

demo: .venv/installed
	$(BIN)/headway train examples/stdlib.yaml

test: .venv/installed
	$(BIN)/python -m pytest -q -m "not full"

test-all: .venv/installed
	$(BIN)/python -m pytest -q -k "not sampled"

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
