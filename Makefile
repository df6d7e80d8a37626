# make demo   grades a submission whose mask is off by one
# make test   everything that is checked before a change goes in
# make browser  the reports in a browser (Debian: chromium), with axe
# make bench    speed and throughput, as ratios

PYTHON ?= python3.11
TORCH ?= torch==2.13.0
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test browser bench steady setup clean

demo: setup
	@echo
	@$(BIN)/grade ex04 examples --report html:grade-reports/ex04.html || [ $$? -eq 1 ]

test: setup
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -m "not promises" -n auto --dist worksteal
	$(BIN)/python -m pytest -m promises -n auto --dist worksteal

browser: setup
	$(BIN)/python -m pip install --quiet playwright axe-playwright-python
	$(BIN)/python -m pytest tests/browser

steady: setup
	GRADE_STEADY_RUNS=200 $(BIN)/python -m pytest tests/test_steadiness.py

bench: setup
	$(BIN)/python bench/speed.py
	$(BIN)/python bench/isolation.py
	$(BIN)/python bench/batch.py pairs

setup: $(VENV)/ready

# torch comes first and by its number: asked for by a range, a newer build of several GB may be taken instead.
# Where that number is not to be had, the project's own range decides.
$(VENV)/ready: pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) is missing. Try: make $(MAKECMDGOALS) PYTHON=python3" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet "$(TORCH)" || echo "$(TORCH) is not to be had here; any torch that fits will do"
	$(BIN)/python -m pip install --quiet -e ".[dev,watch]"
	@touch $@

clean:
	rm -rf $(VENV) grade-reports
