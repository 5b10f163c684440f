# Commands for users, developers and CI. `make` without arguments lists the targets.
#
# The targets create the virtual environment .venv with PYTHON (3.11 or newer) and the versions of constraints.txt. Stamp
# files in .venv record what is installed, so that it is installed only once.
#
# constraints.txt pins the version of torch, but not the build. On Linux, PyPI provides the CUDA build, which works but
# takes several gigabytes. To install the CPU build, set PIP_EXTRA_INDEX_URL to the index of PyTorch (see "Get Started"
# on pytorch.org), or provide a CPU wheel with pip's find-links.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/pip --disable-pip-version-check install -qq -c constraints.txt
INPUTS := pyproject.toml papers/pyproject.toml constraints.txt

# The version that matches torch in constraints.txt, installed without dependencies. The build on PyPI is for CUDA. The
# tests use only its networks, which work with a CPU build of torch after the tests have declared an operator.
TORCHVISION := 0.28.0

# Libraries with which the tests compare results, installed without dependencies: torchattacks requires an old version of
# requests, and adv-lib requires visdom, which it uses for plots only (tests/peers.py replaces it).
PEERS := adv-lib==0.2.8 torchattacks==3.5.1 adversarial-robustness-toolbox==1.20.1 six setuptools tqdm ppi-python==0.2.3 dtai-veritas==0.3.1
# Libraries whose models are read. They are installed without dependencies, which include libraries for GPUs.
BOOSTED := xgboost-cpu==3.2.0 lightgbm==4.7.0

# Separate environment of the benchmarks, with this package and the released versions of other libraries.
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
.PHONY: help demo test test-slow check bench bench-resampling bench-distances bench-audits bench-training bench-engines bench-trees bench-tables bench-tuning docs constraints clean chromium

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

demo: $(CORE) ## Audit three small models and write reports to fairmargin-demo/
	@$(BIN)/fairmargin demo --out fairmargin-demo
	@echo "The reports are $(CURDIR)/fairmargin-demo/report.html (a linear model),"
	@echo "$(CURDIR)/fairmargin-demo/cnn/report.html (a neural network) and"
	@echo "$(CURDIR)/fairmargin-demo/table/report.html (boosted trees on raw rows): open them in a browser."

test: $(DEV) chromium ## Run the tests, and say which were skipped and why
	@$(BIN)/pytest -n auto -ra $(PYTEST_ARGS)

# The simulations of the tests are those of the table, and are not repeated.
test-slow: $(DEV) ## Run the simulations that take hours, and write the table of docs/inference.md
	@$(BIN)/pytest -n auto -ra -m slow $(PYTEST_ARGS)
	@OMP_NUM_THREADS=1 $(BIN)/python -m tests.inference.coverage_table

check: $(DEV) ## Lint, format, types, and the direction of imports
	@failed=; for tool in "ruff check ." "ruff format --check ." mypy "lint-imports --no-logo"; do \
	  echo "-- $$tool"; $(BIN)/$$tool || failed="$$failed, $$tool"; \
	done; [ -z "$$failed" ] || { echo "make check failed: $${failed#, }"; exit 1; }

bench: bench-resampling bench-distances bench-audits bench-training bench-engines bench-trees bench-tables ## Measure against peers and write docs/benchmarks*.md (hours the first time)

# Writes docs/benchmarks-resampling.md, and fails if an audit is slower or larger than promised.
bench-resampling: $(BENCH)
	@$(BENCH_BIN)/python benchmarks/resampling.py

# Arguments: make bench-distances BENCH_ARGS="resnet20 --only ours". Measurements are stored in benchmarks/measured.json.
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

# Prints the tables of docs/scale.md.
bench-engines: $(BENCH)
	@OMP_NUM_THREADS=1 $(BENCH_BIN)/python benchmarks/engines.py

# Writes docs/benchmarks-tables.md. Needs Adult in ../shared.
bench-trees: $(DEV)
	@cd benchmarks && OMP_NUM_THREADS=1 ../$(BIN)/python -W ignore trees.py --data ../../shared/data/adult > trees.out \
	  && mv trees.out ../docs/benchmarks-tables.md

# Prints seconds and memory for 2,000,000 rows. Arguments: make bench-tables BENCH_ARGS="--rows 200000 --only memory".
bench-tables: $(DEV)
	@OMP_NUM_THREADS=1 $(BIN)/python benchmarks/tables.py $(BENCH_ARGS)

bench-tuning: $(BENCH)
	@cd benchmarks && OMP_NUM_THREADS=1 ../$(BENCH_BIN)/python -m distances.tuning $(BENCH_ARGS)

# Lazily imported names are accessed first, because pdoc reads the dictionary of the module, which lacks them until then.
docs: $(DOCS) ## Write the API pages to site/
	@$(BIN)/python -c 'import fairmargin, fairmargin_papers.theory; from pdoc.__main__ import cli; \
	[setattr(module, name, getattr(module, name)) for module in (fairmargin, fairmargin_papers.theory) for name in module.__all__]; \
	cli(["--docformat", "numpy", "--math", "--output-directory", "site", "fairmargin", "fairmargin_papers"])'
	@echo "The pages start at $(CURDIR)/site/index.html."

# torch is installed first, because the newest version would install CUDA packages. Change TORCH to use another version.
TORCH := 2.13.0
constraints: ## Update constraints.txt to the newest compatible versions
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

clean: ## Remove all files that these targets created, including .venv
	rm -rf $(VENV) $(BENCH_VENV) site fairmargin-demo benchmarks/out build dist .pytest_cache .mypy_cache .ruff_cache \
	  .import_linter_cache .hypothesis
	find src tests papers -name __pycache__ -type d -prune -exec rm -rf {} +

# ---- Environment -------------------------------------------------------------------------------------------------

$(CORE): $(INPUTS) | $(BIN)/python
	@echo "installing (about a minute, once)…"
	@$(PIP) -e .
	@touch $@

# Includes everything that `make demo` needs.
$(DEV): $(INPUTS) | $(BIN)/python
	@echo "installing with the tools for development (about two minutes, once)…"
	@$(PIP) -e ".[dev]" -e papers
	@$(PIP) --no-deps torchvision==$(TORCHVISION) || echo "torchvision $(TORCHVISION) could not be installed: tests of its networks will be skipped."
	@$(PIP) --no-deps $(PEERS) || echo "Some of $(PEERS) could not be installed: tests that compare with them will be skipped."
	@$(PIP) --no-deps $(BOOSTED) || echo "Some of $(BOOSTED) could not be installed: tests of their models will be skipped."
	@touch $(CORE) $@

$(DOCS): $(INPUTS) | $(BIN)/python
	@echo "installing with pdoc (about a minute, once)…"
	@$(PIP) -e ".[docs]" -e papers
	@touch $(CORE) $@

# foolbox and lifelines are installed with their dependencies; the other libraries without them (see PEERS). torchvision needs pillow.
$(BENCH): $(INPUTS) | $(BENCH_BIN)/python
	@echo "installing the benchmark's environment (about two minutes, once)…"
	@$(BENCH_BIN)/pip --disable-pip-version-check install -qq -c constraints.txt -e ".[bench,image,ray]" foolbox lifelines
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
	  echo "'$(PYTHON)' was not found. Install Python 3.11 or newer, or give its path: make PYTHON=/path/to/python3"; exit 1; }; \
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Fairmargin needs Python 3.11 or newer, but '$(PYTHON)' is $$($(PYTHON) --version 2>&1)." \
	       "Choose another version: make PYTHON=python3.12"; exit 1; }; \
	$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { \
	  echo "'$(PYTHON)' lacks the modules venv and ensurepip. On Debian and Ubuntu: apt-get install python3-venv"; exit 1; }
endef

# The browser tests search for the same names (tests/stories/conftest.py), and are skipped if there is no browser.
chromium:
	@for name in chromium chromium-browser google-chrome; do command -v $$name >/dev/null && exit 0; done; \
	if [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then \
	  echo "Chromium was not found, so the browser tests will be skipped. Install one to run them."; exit 0; \
	fi; \
	echo "installing Debian's chromium for the browser tests (about a minute, once)…"; \
	export DEBIAN_FRONTEND=noninteractive; \
	{ timeout 120 apt-get update && timeout 600 apt-get install --yes --no-install-recommends chromium fonts-liberation; } \
	  </dev/null >/dev/null 2>&1 || echo "Chromium could not be installed, so the browser tests will be skipped."
