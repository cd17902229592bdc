# All set-up happens here, in .venv, on a machine with nothing but Python >= 3.11.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed

.PHONY: install test test-all lint demo bench clean

install: $(STAMP)

$(STAMP): pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -e ".[dev]"
	touch $@

test: install  ## fast tiers: units, golden vectors, contracts, command line
	$(BIN)/python -m pytest -q -n auto -m "not learn"

test-all: install  ## what `test` leaves out: agents that must learn and remember
	$(BIN)/python -m pytest -q -n auto -m learn

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

bench: install  ## speed of this machine, side by side
	$(BIN)/lcpo bench

clean:
	rm -rf .venv build dist *.egg-info
