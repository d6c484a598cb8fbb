# Every target sets up what it needs. A fresh machine needs Python 3.11 or newer, make and git.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

CONFIG ?= config/config.yaml
CORES ?= all
ARGS ?=

VENV := .venv
BENCH_VENV := .venv-bench
READY := $(VENV)/ready
BENCH_READY := $(BENCH_VENV)/ready
PIP := -m pip --disable-pip-version-check
# The environment's programs first: the workflow's jobs call them by name.
ACTIVATE := export PATH="$(CURDIR)/$(VENV)/bin:$$PATH" VIRTUAL_ENV="$(CURDIR)/$(VENV)";

define MAKE_VENV
if [ ! -x $(1)/bin/python ]; then \
  for python in $${PYTHON:-python3.11 python3 python3.12 python3.13 python3.14}; do \
    "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && found="$$python" && break; \
  done; \
  [ -n "$${found:-}" ] || { echo "No Python 3.11 or newer found on PATH. Install one, or name it: make env PYTHON=/path/to/python3.11" >&2; exit 1; }; \
  echo "Creating $(1) with $$($$found --version)"; \
  "$$found" -m venv $(1); \
fi
endef

.PHONY: help env run report claims docs calibration models test test-faults test-cluster test-gpu slurm lint bench lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo "  variables: CONFIG=config/config.yaml  CORES=all  ARGS='extra arguments'  PYTHON=python3.11"

env: $(READY) ## the environment in .venv, from requirements.lock

$(READY): requirements.lock pyproject.toml
	@$(call MAKE_VENV,$(VENV))
	@echo "Installing the locked packages into $(VENV)"
	@$(VENV)/bin/python $(PIP) install -qq --compile -r requirements.lock
	@$(VENV)/bin/python $(PIP) install -qq --no-deps --editable .
	@$(VENV)/bin/python -m compileall -q nqf_pipeline
	@touch $@

run: env ## train, predict, analyse and report a study (CONFIG=...)
	@$(ACTIVATE) nqf plan $(CONFIG) && snakemake --cores $(CORES) --configfile $(CONFIG) $(ARGS)
	@echo "The report: results/$$(sed -n 's/^name:[[:space:]]*//p' $(CONFIG))/report.html"

report: env ## rebuild tables, figures and report without training
	@$(ACTIVATE) snakemake --cores $(CORES) --configfile $(CONFIG) --forcerun analyse $(ARGS)
	@echo "The report: results/$$(sed -n 's/^name:[[:space:]]*//p' $(CONFIG))/report.html"

claims: env ## docs/claims.md from the studies in results/ (claims measured anew, nothing trained)
	@$(ACTIVATE) python -m nqf_pipeline.report.ledger --measure $(ARGS)

docs: env ## regenerate the generated files (schema, config/README.md, data dictionary, performance and scaling pages)
	@$(ACTIVATE) python -m nqf_pipeline.study.generate
	@$(ACTIVATE) python -m nqf_pipeline.store.schema > docs/data_dictionary.md
	@$(ACTIVATE) python -m nqf_pipeline.store.tables > docs/tables.md
	@$(ACTIVATE) python -m benchmarks.page
	@$(ACTIVATE) python -m benchmarks.growth.page

calibration: env ## fits and plateaus on fresh curves of known truth: docs/calibration.md
	@$(ACTIVATE) python -m nqf_pipeline.analysis.calibration $(ARGS)

models: env ## docs/models.md: every model and violator checked, compression, orders beyond the second
	@$(ACTIVATE) python -m benchmarks.models

test: env ## all tests but fault injection and the cluster
	@$(ACTIVATE) pytest -m "not cluster and not faults" $(ARGS)

test-faults: env ## faults injected into whole runs and into every part: docs/faults.md
	@rm -f .faults.jsonl; $(ACTIVATE) failed=0; \
	NQF_FAULTS=.faults.jsonl pytest -m faults $(ARGS) || failed=$$?; \
	python -m tests.faults.page .faults.jsonl; exit $$failed

test-cluster: env ## trials on a real two-node SLURM cluster on loopback (make slurm installs it)
	@$(ACTIVATE) pytest tests/cluster $(ARGS)

test-gpu: env ## tests of training on an accelerator (skipped, with the reason, where there is none)
	@$(ACTIVATE) pytest -m gpu -rs $(ARGS)

slurm: env ## SLURM from the system's packages, and its executor (Debian or Ubuntu, as root)
	@command -v apt-get > /dev/null || { echo "make slurm knows Debian and Ubuntu only; elsewhere install slurmctld, slurmd, the client commands and munge" >&2; exit 1; }
	@[ "$$(id -u)" = 0 ] || { echo "make slurm installs system packages: run it as root (sudo make slurm)" >&2; exit 1; }
	@apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends slurm-wlm slurm-wlm-basic-plugins munge
	@$(VENV)/bin/python $(PIP) install -qq --constraint requirements.lock --editable '.[cluster]'

lint: env ## formatting, lint, types and the workflow's lint
	@$(ACTIVATE) ruff check .
	@$(ACTIVATE) ruff format --check .
	@$(ACTIVATE) snakefmt --check workflow
	@$(ACTIVATE) mypy
	@$(ACTIVATE) snakemake --lint

bench: env $(BENCH_READY) ## speed beside its peers and how cost grows: docs/performance.md, docs/scaling.md
	@$(ACTIVATE) python -m benchmarks.run --torch-python $(BENCH_VENV)/bin/python $(ARGS)

# PyTorch, the peer, lives apart so that the environment stays free of it.
$(BENCH_READY): requirements-bench.lock
	@$(call MAKE_VENV,$(BENCH_VENV))
	@echo "Installing the peers into $(BENCH_VENV)"
	@$(BENCH_VENV)/bin/python $(PIP) install -qq --compile -r requirements-bench.lock
	@touch $@

# Versions already in a lock are kept where they still fit; ARGS=--upgrade moves to the newest.
# PyTorch's CUDA runtime is left out: the benchmarks run on the CPU, and pip adds it where a wheel asks for it.
LOCK := uv pip compile --quiet --universal --python-version 3.11 --fork-strategy fewest \
	--no-emit-index-url --no-emit-find-links --no-annotate --custom-compile-command "make lock"
BENCH_EXTRA := 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["bench"], sep="\n")'

lock: env ## resolve the exact versions in the two lock files anew
	@$(VENV)/bin/python $(PIP) install -qq "uv>=0.9"
	@$(ACTIVATE) $(LOCK) pyproject.toml --extra dev --output-file requirements.lock $(ARGS)
	@$(ACTIVATE) python -c $(BENCH_EXTRA) | $(LOCK) - --output-file requirements-bench.lock $(ARGS)
	@sed -i.old -E '/^(nvidia|cuda|triton)/d' requirements-bench.lock && rm requirements-bench.lock.old

clean: ## remove environments and caches (results stay)
	rm -rf $(VENV) $(BENCH_VENV) build dist *.egg-info .snakemake .pytest_cache .ruff_cache .mypy_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
