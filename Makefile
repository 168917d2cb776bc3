# make demo     sets up .venv and runs the main job on the activations that ship with the package
# make test     sets up .venv and runs the linter, the type checker and all tests
# The rest is listed by `make help`.

PRESET ?= outlier4-16bit
OUT    ?= build/demo
# Your own activations: make demo INPUT=file.npz
INPUT  ?=
JOBS   ?= 2

VENV := .venv
BIN  := $(VENV)/bin
PIP  := $(BIN)/python -m pip --disable-pip-version-check install
# The first Python on the path that is new enough; make PYTHON=/path/to/python overrides it.
CANDIDATES := python3 python3.11 python3.12 python3.13 python3.14
NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for p in $(CANDIDATES); do \
	$$p -c '$(NEW_ENOUGH)' 2>/dev/null && { echo $$p; break; }; done)

# The one thing that pip cannot bring; only root on a Debian can.
INSTALL_CXX := { test "$$(id -u)" = 0 && command -v apt-get >/dev/null && apt-get update -qq && \
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends g++; }

# What takes minutes has its own command.
SLOW := $(addprefix benchmarks/,mutation_table.py conformance_matrix.py onnx_matrix.py onnx_zoo.py)
BENCHMARKS := $(filter-out $(SLOW),$(wildcard benchmarks/*.py))

# By itself and first, so that nothing else chooses its version.
TORCH := torch==2.13.0

# Xilinx's ap_int and ap_fixed headers come with hls4ml, hence without its dependencies.
HEADERS := --no-deps hls4ml==1.3.0

.DELETE_ON_ERROR:
.PHONY: help demo test test-slow lint types format bench conformance conformance-onnx onnx-zoo \
	mutation setup-all clean distclean

help:
	@echo 'make demo       run the main job (PRESET=$(PRESET) OUT=$(OUT) INPUT=file.npz)'
	@echo 'make test       linter, type checker, all tests but those of minutes'
	@echo 'make test-slow  the tests that take minutes'
	@echo 'make conformance  every combination of methods as C++, 10 million codes (10 minutes)'
	@echo 'make conformance-onnx  every combination as ONNX, at every level (10 minutes)'
	@echo 'make onnx-zoo   the norms of real models that torch exported (3 minutes)'
	@echo 'make mutation   the mutation table of every preset (half a minute each)'
	@echo 'make lint       linter and type checker only'
	@echo 'make format     put the source into the standard layout'
	@echo 'make bench      the benchmarks'
	@echo 'make setup-all  install every optional library into .venv (torch, ONNX, numba, ...)'
	@echo 'make clean      remove what was built; make distclean removes .venv as well'

demo: $(VENV)/.demo
	$(BIN)/approxnorm run $(PRESET) --out $(OUT) $(if $(INPUT),--input $(INPUT))
	@echo 'The report is $(OUT)/report.html'

test: lint $(VENV)/.test
	$(BIN)/python -m pytest -n $(JOBS) -m 'not slow'

test-slow: $(VENV)/.test
	$(BIN)/python -m pytest -n $(JOBS) -m slow

conformance: $(VENV)/.test
	$(BIN)/python benchmarks/conformance_matrix.py

conformance-onnx: $(VENV)/.test
	$(BIN)/python benchmarks/onnx_matrix.py --jobs $(JOBS)

onnx-zoo: $(VENV)/.test
	$(BIN)/python benchmarks/onnx_zoo.py

mutation: $(VENV)/.test
	$(BIN)/python benchmarks/mutation_table.py

lint: types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# The type checker follows folders, not package-dir: show it the package as it is installed.
TREE := build/types/approxnorm
types: $(VENV)/.test
	@rm -rf $(TREE) && mkdir -p $(TREE)
	@ln -s $(addprefix $(CURDIR)/,$(wildcard approxnorm/*) export hls_ref) $(TREE)/
	cd build/types && $(CURDIR)/$(BIN)/mypy --config-file $(CURDIR)/pyproject.toml \
		--cache-dir $(CURDIR)/.mypy_cache -p approxnorm

format: $(VENV)/.test
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.test
	@for file in $(BENCHMARKS); do echo "== $$file"; $(BIN)/python $$file || exit 1; done

# One stamp a set of libraries: a second run installs nothing, a changed pyproject.toml does.
$(VENV)/.python:
	@test -n '$(PYTHON)' || { echo 'approxnorm needs Python 3.11 or newer, and none of' \
		'$(CANDIDATES) is: install one, or say make PYTHON=/path/to/python3.11.' >&2; exit 1; }
	@$(PYTHON) -c '$(NEW_ENOUGH)' || { echo 'approxnorm needs Python 3.11 or newer, and' \
		"$(PYTHON) is $$($(PYTHON) --version 2>&1): say make PYTHON=/path/to/python3.11." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' || { echo '$(PYTHON) cannot make a virtual environment:' \
		'install its venv module (on Debian: apt-get install python3-venv).' >&2; exit 1; }
	$(PYTHON) -m venv --clear $(VENV)
	@touch $@

$(VENV)/.demo: pyproject.toml setup.py | $(VENV)/.python
	$(PIP) -e '.[onnx,report,safetensors]'
	$(PIP) $(HEADERS)
	@touch $@

$(VENV)/.test: pyproject.toml setup.py | $(VENV)/.python
	@command -v g++ >/dev/null || $(INSTALL_CXX) || { echo 'the tests compile C++ with g++, which' \
		'is missing: install it (on Debian: apt-get install g++).' >&2; exit 1; }
	$(PIP) $(TORCH)
	$(PIP) -e '.[test]'
	$(PIP) $(HEADERS)
	@touch $@

$(VENV)/.all: pyproject.toml setup.py | $(VENV)/.python
	$(PIP) $(TORCH)
	$(PIP) -e '.[all]'
	@touch $@

setup-all: $(VENV)/.all

clean:
	rm -rf build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +

distclean: clean
	rm -rf $(VENV)
