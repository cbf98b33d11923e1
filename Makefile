# Every target installs what it lacks, once. `make help` lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
ENV ?= dev
export JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION := 1
unexport PYTHONPATH
# Compiled Python stays in .venv, also where the environment forbids to keep it: else each process compiles all it imports.
unexport PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX := $(CURDIR)/$(VENV)/pycache

.PHONY: help demo demo-llm example test coverage check fix synth local-up local-down local-install bench audit clean lock

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

$(READY): requirements-dev.txt layers/agent_memory/pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(0 if (3, 11) <= sys.version_info[:2] <= (3, 14) else f"agent-memory needs Python 3.11 to 3.14, {sys.executable} is {sys.version.split()[0]}: call make PYTHON=/path/to/python3.13")'
	@echo "installing the project's packages into $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check "uv==$$(sed -n 's/^uv==\([0-9.]*\).*/\1/p' requirements-dev.txt)"
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r requirements-dev.txt
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps -e layers/agent_memory
	@touch $@

local-install: $(READY) ## the emulator's and the AI server's own environments and the embedding model
	@$(BIN)/python -m local install

local-up: local-install ## start the laptop runtime and deploy the application to it
	@$(BIN)/python -m local up

local-down: $(READY) ## stop the laptop runtime; its state stays
	@$(BIN)/python -m local down

demo: local-up ## two runs end, the third run remembers
	@$(BIN)/agent-memory --env local demo

example: local-up ## an agent reviews two contracts, the second time with what the first taught it (MODEL=openai:NAME BASE_URL=...)
	@$(BIN)/python -m examples.contract_review --env local $(if $(MODEL),--model $(MODEL)) $(if $(BASE_URL),--base-url $(BASE_URL))

demo-llm: local-install ## the same with a real chat model on this machine (downloads about 1.2 GB once)
	@$(BIN)/python -m local llm-install
	@$(BIN)/python -m local up --with-llm
	@$(BIN)/agent-memory --env local demo

test: local-install ## every test, the end-to-end ones on the local stack
	$(BIN)/python -m pytest tests --ignore tests/e2e -n 2 --dist loadfile
	$(BIN)/python -m pytest tests/e2e -n 2 --dist loadfile -v

coverage: local-install ## the lines that no test but the end-to-end ones runs; half as long again as the tests alone
	$(BIN)/python -m pytest tests --ignore tests/e2e -n 2 --dist loadfile --cov --cov-report=term-missing:skip-covered

check: $(READY) ## style, types, import rules, templates, privileges; writes nothing. `make check test` runs no test twice
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m mypy
	PYTHONPATH=layers/agent_memory/python:. $(BIN)/lint-imports --no-cache
	$(BIN)/statelint statemachines/*.asl.json
	$(BIN)/python -m stacks.layers
ifeq ($(filter test,$(MAKECMDGOALS)),)
	$(BIN)/python -m pytest tests/stacks tests/statemachines -n 2 --dist loadfile
endif

audit: $(READY) ## known faults of the pinned packages; asks a public database, so it needs the internet
	$(BIN)/uvx --quiet --from "pip-audit==2.10.1" pip-audit --disable-pip --require-hashes --progress-spinner off -r layers/dependencies/requirements.txt -r requirements-dev.txt

fix: $(READY) ## let ruff mend what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

synth: $(READY) ## templates for ENV=dev|staging|prod|local into cdk.out/ENV (CONTEXT="key=value ..."); no account or Docker
	@CDK_OUTDIR=cdk.out/$(ENV) $(BIN)/python app.py $(if $(CONTEXT),$(foreach pair,$(CONTEXT),-c $(pair))) -c env=$(ENV)
	@echo "cdk.out/$(ENV)"

bench: local-install ## NAME=burst|faults|seen-before|pii|cold-start|confirm|crowd|ingestion|procedures|lifecycle|agentcore|agentcore-refresh|working-memory|erasure|poisoning, DATA=folder with the public data
	@test -n "$(NAME)" || { echo "say which: make bench NAME=burst DATA=folder"; exit 2; }
	@PYTHONPATH=layers/agent_memory/python:.:tests $(BIN)/python -m benchmarks.$(subst -,_,$(NAME)) $(if $(DATA),--data $(DATA))

lock: $(READY) ## resolve the .in files anew into the locked .txt files
	@for name in requirements requirements-dev requirements-emulator requirements-local requirements-llm; do \
	  $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header $$name.in -o $$name.txt; done

clean: $(READY) ## stop the local runtime and remove everything that was made; nothing outside this folder
	@$(BIN)/python -m local down --quiet || true
	@rm -rf cdk.out .local .venv .coverage .mypy_cache .ruff_cache .pytest_cache .hypothesis .bench
