# Everything a newcomer, a developer and CI run. `make` alone lists the targets.
#
# The environment is .venv, made with PYTHON (3.11 or newer) and the versions of constraints.txt. A stamp file in it
# remembers what is installed, so that a second run starts at once.
#
# torch: constraints.txt asks for one version of any build. Where a CPU wheel of it is at hand (pip's find-links),
# pip takes that. From PyPI, Linux gets the CUDA build: it works as well, but is several gigabytes. To have the CPU
# build from PyTorch's own index instead, set PIP_EXTRA_INDEX_URL to it (the address is on pytorch.org, "Get Started").

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/pip --disable-pip-version-check install -qq -c constraints.txt
INPUTS := pyproject.toml constraints.txt

# The one made for the torch of constraints.txt, without its dependencies: PyPI's is built for CUDA, and its networks
# (all that the tests ask for) work beside a CPU build once an operator is declared, which the tests do.
TORCHVISION := 0.28.0

# Libraries that the tests compare us with, without their dependencies too: torchattacks asks for a requests of 2021,
# adv-lib for visdom, which it needs for plots only (tests/peers.py stands in for it).
PEERS := adv-lib==0.2.8 torchattacks==3.5.1 adversarial-robustness-toolbox==1.20.1 six setuptools tqdm ppi-python==0.2.3

# The benchmark's own environment: the core, and the peers as they are released.
BENCH_VENV := .venv-bench
BENCH_BIN  := $(BENCH_VENV)/bin
BENCH      := $(BENCH_VENV)/.installed
BENCH_ARGS ?=

CORE := $(VENV)/.installed-core
DEV  := $(VENV)/.installed-dev
DOCS := $(VENV)/.installed-docs

# Further arguments for pytest: make test PYTEST_ARGS="-k store"
PYTEST_ARGS ?=

.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: help demo test test-slow check bench bench-resampling bench-distances bench-audits bench-training bench-tuning docs constraints clean chromium

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

demo: $(CORE) ## Audit a small model and write a report to fairmargin-demo/
	@$(BIN)/fairmargin demo --out fairmargin-demo
	@echo "The reports are $(CURDIR)/fairmargin-demo/report.html (a linear model) and"
	@echo "$(CURDIR)/fairmargin-demo/cnn/report.html (a neural network): open them in a browser."

test: $(DEV) chromium ## Run the tests, and say which were skipped and why
	@$(BIN)/pytest -n auto -ra $(PYTEST_ARGS)

test-slow: $(DEV) ## Run the simulations that take minutes
	@$(BIN)/pytest -n auto -ra -m slow $(PYTEST_ARGS)

check: $(DEV) ## Lint, format, types, and the direction of imports
	@failed=; for tool in "ruff check ." "ruff format --check ." mypy "lint-imports --no-logo"; do \
	  echo "-- $$tool"; $(BIN)/$$tool || failed="$$failed, $$tool"; \
	done; [ -z "$$failed" ] || { echo "make check failed: $${failed#, }"; exit 1; }

bench: bench-resampling bench-distances bench-audits bench-training ## Measure against peers and write docs/benchmarks*.md (hours the first time)

bench-resampling: $(BENCH)
	@$(BENCH_BIN)/python benchmarks/resampling.py

# Arguments: make bench-distances BENCH_ARGS="resnet20 --only ours". What was measured lies in benchmarks/measured.json.
bench-distances: $(BENCH)
	@cd benchmarks && OMP_NUM_THREADS=1 ../$(BENCH_BIN)/python -m distances.run $(BENCH_ARGS)

# Prints the tables of docs/benchmarks-audits.md.
bench-audits: $(BENCH)
	@OMP_NUM_THREADS=1 $(BENCH_BIN)/python -m benchmarks.smoothing
	@OMP_NUM_THREADS=1 $(BENCH_BIN)/python -m benchmarks.verified --samples 64
	@OMP_NUM_THREADS=1 $(BENCH_BIN)/python benchmarks/precision.py

# Prints the table of docs/benchmarks-training.md.
bench-training: $(BENCH)
	@OMP_NUM_THREADS=1 $(BENCH_BIN)/python -m benchmarks.training

bench-tuning: $(BENCH)
	@cd benchmarks && OMP_NUM_THREADS=1 ../$(BENCH_BIN)/python -m distances.tuning $(BENCH_ARGS)

# Names of lazy modules are looked up first: pdoc reads a module's dictionary, where they appear only after that.
docs: $(DOCS) ## Write the API pages to site/
	@$(BIN)/python -c 'import fairmargin; from pdoc.__main__ import cli; \
	[setattr(fairmargin, name, getattr(fairmargin, name)) for name in fairmargin.__all__]; \
	cli(["--docformat", "numpy", "--math", "--output-directory", "site", "fairmargin"])'
	@echo "The pages start at $(CURDIR)/site/index.html."

# torch is named first: the newest one would bring its CUDA packages along. Change TORCH here to move to another.
TORCH := 2.13.0
constraints: ## Write constraints.txt anew, with the newest versions that fit
	@$(call python-is-fit)
	@echo "resolving in a fresh environment (minutes)…"
	@scratch=$$(mktemp -d) && trap 'rm -rf "$$scratch"' EXIT \
	  && $(PYTHON) -m venv "$$scratch/venv" \
	  && "$$scratch/venv/bin/pip" --disable-pip-version-check install -qq torch==$(TORCH) \
	  && "$$scratch/venv/bin/pip" --disable-pip-version-check install -qq -e ".[dev,docs]" \
	  && { sed '/^[^#]/,$$d' constraints.txt \
	    && "$$scratch/venv/bin/pip" freeze --exclude-editable | sed 's/^\(torch==[^+]*\)+.*/\1/' \
	    | grep -vE '^(nvidia-|cuda-|triton==)'; } > "$$scratch/constraints.txt" \
	  && cp "$$scratch/constraints.txt" constraints.txt
	@git --no-pager diff --stat -- constraints.txt

clean: ## Remove everything that these targets made, .venv too
	rm -rf $(VENV) $(BENCH_VENV) site fairmargin-demo benchmarks/out build dist .pytest_cache .mypy_cache .ruff_cache \
	  .import_linter_cache .hypothesis
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

# ---- the environment -------------------------------------------------------------------------------------------------

$(CORE): $(INPUTS) | $(BIN)/python
	@echo "installing (about a minute, once)…"
	@$(PIP) -e .
	@touch $@

# The tools come on top of the core, so this serves `make demo` too.
$(DEV): $(INPUTS) | $(BIN)/python
	@echo "installing with the tools for development (about two minutes, once)…"
	@$(PIP) -e ".[dev]"
	@$(PIP) --no-deps torchvision==$(TORCHVISION) || echo "No torchvision $(TORCHVISION) here: tests of its networks will be skipped."
	@$(PIP) --no-deps $(PEERS) || echo "Not all of $(PEERS) are here: tests against them will be skipped."
	@touch $(CORE) $@

$(DOCS): $(INPUTS) | $(BIN)/python
	@echo "installing with pdoc (about a minute, once)…"
	@$(PIP) -e ".[docs]"
	@touch $(CORE) $@

# foolbox brings eagerpy and GitPython along, torchvision needs pillow; the others come without what they ask for (see PEERS).
$(BENCH): $(INPUTS) | $(BENCH_BIN)/python
	@echo "installing the benchmark's environment (about two minutes, once)…"
	@$(BENCH_BIN)/pip --disable-pip-version-check install -qq -c constraints.txt -e ".[bench,image]" foolbox
	@$(BENCH_BIN)/pip --disable-pip-version-check install -qq --no-deps torchvision==$(TORCHVISION) $(PEERS)
	@touch $@

$(BENCH_BIN)/python:
	@$(call python-is-fit)
	@$(PYTHON) -m venv $(BENCH_VENV)

$(BIN)/python:
	@$(call python-is-fit)
	@$(PYTHON) -m venv $(VENV)

define python-is-fit
	command -v $(PYTHON) >/dev/null || { \
	  echo "There is no '$(PYTHON)' here. Install Python 3.11 or newer, or name it: make PYTHON=/path/to/python3"; exit 1; }; \
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Fairmargin needs Python 3.11 or newer, but '$(PYTHON)' is $$($(PYTHON) --version 2>&1)." \
	       "Name another one: make PYTHON=python3.12"; exit 1; }; \
	$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { \
	  echo "'$(PYTHON)' lacks the modules venv and ensurepip. On Debian and Ubuntu: apt-get install python3-venv"; exit 1; }
endef

# The browser tests look for the same names (tests/stories/conftest.py); without a browser they skip and say why.
chromium:
	@for name in chromium chromium-browser google-chrome; do command -v $$name >/dev/null && exit 0; done; \
	if [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then \
	  echo "No Chromium here, so the browser tests will be skipped. Install one to run them."; exit 0; \
	fi; \
	echo "installing Debian's chromium for the browser tests (about a minute, once)…"; \
	export DEBIAN_FRONTEND=noninteractive; \
	{ timeout 120 apt-get update && timeout 600 apt-get install --yes --no-install-recommends chromium fonts-liberation; } \
	  </dev/null >/dev/null 2>&1 || echo "Chromium could not be installed, so the browser tests will be skipped."
