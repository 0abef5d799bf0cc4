# make demo: the main job on the sample.  make test: style, types and the quick tests.
# make docs: the documentation as a site, in build/site.
# All build .venv first if it is not there, or if pyproject.toml or constraints.txt changed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO := build/demo
SAMPLE := data/sample

.PHONY: demo test test-slow coverage docs kills fuzz lint clean

$(VENV)/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	# torch first and by its exact version, so that a CPU build at hand is taken and pip never
	# resolves to a second one.
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt torch==2.13.0
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $@

demo: $(VENV)/ready
	$(BIN)/albert-rc doctor $(SAMPLE)/cloze --model albert-rc-small
	$(BIN)/albert-rc predict --data $(SAMPLE)/cloze/dev --model albert-rc-small --out predictions/small.json
	$(BIN)/albert-rc evaluate predictions/small.json $(SAMPLE)/cloze/dev
	$(BIN)/albert-rc preprocess $(SAMPLE)/cloze --model albert-rc-small --out $(DEMO)
	$(BIN)/albert-rc train --data $(DEMO) --model albert-rc-small --out models/demo \
	  --epochs 2 --batch-size 4 --learning-rate 1e-5
	$(BIN)/albert-rc predict --data $(DEMO)/dev.pt --model models/demo --out predictions/dev.json
	$(BIN)/albert-rc evaluate predictions/dev.json $(SAMPLE)/cloze/dev
	$(BIN)/albert-rc predict --data $(DEMO)/test.pt --model models/demo --out predictions/answer.json \
	  --scores predictions/scores.jsonl

lint: $(VENV)/ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

test: lint
	# A file's tests in one process, which makes what they share once.
	$(BIN)/pytest -n 2 --dist loadfile

# The share of the package's lines that the quick tests run through.
coverage: $(VENV)/ready
	$(BIN)/pytest -n 2 --cov --cov-report term

test-slow: $(VENV)/ready
	$(BIN)/pytest -m slow

$(VENV)/docs: $(VENV)/ready
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[docs]"
	touch $@

# Needs no network once its packages are there.
docs: $(VENV)/docs
	$(BIN)/zensical build --clean --strict

# Long trials; docs/guarantees.md says what came out.
kills: $(VENV)/ready
	$(BIN)/python tests/faults/kills.py --kills 210 --out build/kills.json

fuzz: $(VENV)/ready
	$(BIN)/python tests/hostile/fuzz.py --minutes 60 --out benchmarks/results/fuzz.json

clean:
	rm -rf $(VENV) build models/demo predictions
