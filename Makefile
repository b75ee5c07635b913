# make run: start Tributary with its demo servers. make test: what guards every change.
# make test-all: all tests. Both work on real parts: sockets, databases, processes, browsers.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PORT ?= 8000
DATA_DIR ?= $(CURDIR)/data
export PORT DATA_DIR
# For tests, half as many again as there are cores: browsers and clusters wait most of the time.
WORKERS ?= $(shell echo $$(( $$(getconf _NPROCESSORS_ONLN) * 3 / 2 )))
# The order of the tests, the same each time: whoever changes something else must not be the one who
# meets a test that another one disturbs. `make test SEED=$RANDOM` looks for such.
SEED ?= 1

# A real OpenAI-compatible server with a tiny model made here: docs/third-party-server.md.
THIRD_PARTY := .venv-third-party
THIRD_PARTY_PORT ?= 8171
THIRD_PARTY_PIP ?=

.PHONY: run test test-all screenshots bench lint format clean image-check third-party third-party-server

run: $(VENV)/.installed
	@$(BIN)/python manage.py migrate --verbosity 0
	@exec $(BIN)/python manage.py start

# Where bytecode is not kept, every worker would translate all tests.
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n $(WORKERS) --randomly-seed=$(SEED)

test: $(VENV)/.installed-dev
	$(PYTEST) $(ARGS)

# With the slow tests, and with every case of what `make test` takes a sample of.
test-all: $(VENV)/.installed-dev
	EXHAUSTIVE=1 $(PYTEST) $(ARGS)

# Pages and states at 360 and 1280 px, light and dark: OUT= is the folder, ONLY= parts of names.
screenshots: $(VENV)/.installed-dev
	$(BIN)/python -m tests.screens $(if $(OUT),--out "$(OUT)") $(if $(ONLY),--only "$(ONLY)")

# Figures, as ratios within one run; BENCH= names some of them.
bench: $(VENV)/.installed-dev
	$(BIN)/python -m tests.bench $(BENCH)

# The Dockerfile's steps, where no container engine is at hand.
image-check: $(VENV)/.installed-dev
	$(BIN)/python -m tests.deployment.image

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

third-party: third-party-server
	@echo "Serving tributary/brook. In Tributary: OpenAI chat completions, http://127.0.0.1:$(THIRD_PARTY_PORT)/v1"
	@exec tests/third_party/serve.sh $(THIRD_PARTY) $(THIRD_PARTY_PORT)

third-party-server: $(THIRD_PARTY)/.model

clean:
	rm -rf $(VENV) $(THIRD_PARTY)

# Half an environment would be taken for a whole one the next time.
$(VENV)/bin/python:
	@command -v $(PYTHON) >/dev/null || { echo "PYTHON must name a Python from 3.11 on, not $(PYTHON), which is not there." >&2; exit 2; }
	@$(PYTHON) deploy/check_python.py
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 2; }

# An environment may be older than this source.
$(VENV)/.installed: $(VENV)/bin/python requirements.txt
	@$(BIN)/python deploy/check_python.py
	@echo "Installing what Tributary needs (once, about a minute) …"
	@$(BIN)/pip install -qq --disable-pip-version-check -r requirements.txt
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed requirements-dev.txt
	@$(BIN)/pip install -qq --disable-pip-version-check -r requirements-dev.txt
	@touch $@

$(THIRD_PARTY)/.installed: tests/third_party/requirements.txt
	$(PYTHON) -m venv $(THIRD_PARTY)
	$(THIRD_PARTY)/bin/pip install -qq --disable-pip-version-check $(THIRD_PARTY_PIP) -r tests/third_party/requirements.txt
	@touch $@

$(THIRD_PARTY)/.model: $(THIRD_PARTY)/.installed tests/third_party/make_tiny_model.py
	$(THIRD_PARTY)/bin/python tests/third_party/make_tiny_model.py $(THIRD_PARTY)/model
	@touch $@
