# rustdev's tasks; `make help` lists them. The targets that need Python make .venv and install what they need, once.
#
#   PYTHON=python3.12    the Python that .venv is made with (3.11 or newer)
#   TORCH=2.13.0         another torch, in an environment of its own: .venv-2.13.0
#   FEATURES=            kernels for every processor; without it a build has those of this processor alone
#   TORCH_INDEX=URL      where torch is taken from, for example https://download.pytorch.org/whl/cpu
#   PYTEST="-k stream"   more arguments for pytest, which then runs in one process
#   WORKERS=2            processes that test-python shares the tests of operators among
#   PORTABLE_TESTS=PATH  for test-portable: the tests of operators that it runs
#   AARCH64_ROOT=DIR     for test-aarch64: a folder with compilers and emulator, where rustup cannot download (tools/aarch64.sh)
#   AARCH64_TESTS="sort" for test-aarch64: arguments for the test program, in place of none
#   HARDWARE_TESTS=PATH  for test-hardware: the tests that it runs
#   FUZZ="--only pool"   arguments for fuzz, in place of `--seconds 600`
#   MINUTES=10 SEED=1    for soak: for how long it begins programs, and which ones (default: others each time)
#   MODES="race memory"  for soak: some of its modes (default: all)
#   BENCH_THREADS="1 4"  for bench-models, bench-real: with how many threads, one after the other (default: 1, and as many as there are cores)
#   REAL="--only GPT"    for bench-real: more arguments, such as --dtypes float32
#   LLM="--size 124m"    for bench-llm: more arguments, such as --threads 1
#   SANITIZED_TESTS=PATH for asan-python and tsan-python: what they run (default: tests of the runtime, graphs, sanitizer, debugging)
#   PROGRAMS="einops timm" for programs: those that run anew (default: those without a result)
#   MUTANTS="--only norms" for mutants: some of them by number or family
#   NIGHTLY="--only asan" for nightly: some of its targets; "--again" runs anew what failed, "--older" takes results of other commits
#   ACCURACY="--only scatter" for accuracy: its arguments, in place of `--page docs/accuracy.md`
#   TORCHES="2.14.1 2.15.0"  for release: the wheel has a shim for each of them (default: the environment's)
#   PUBLISH=--no-verify  for release: arguments for `cargo publish --dry-run`
#   DIR=PATH             for upstream: a checkout of PyTorch; FILES="test_torch.py", SHARDS=4 and JOBS=2 say what runs and how
#
# An active virtual environment (VIRTUAL_ENV) that holds a supported torch is used as it is; only tools it lacks are added.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

PYTHON ?= python3
TORCH_INDEX ?=
PYTEST ?=
SHARDS ?= 4
JOBS ?= 1
MINUTES ?= 10
SEED ?=
PROGRAMS ?=
MODES ?=
DEFAULT_TORCH := 2.15.0

# ---- the environment -----------------------------------------------------------------------------------------------------------
ifdef VIRTUAL_ENV
ACTIVE_TORCH := $(if $(wildcard $(VIRTUAL_ENV)/bin/python),$(shell '$(VIRTUAL_ENV)/bin/python' tools/environment.py torch $(TORCH)))
endif
ifneq ($(ACTIVE_TORCH),)
VENV := $(VIRTUAL_ENV)
TORCH := $(ACTIVE_TORCH)
else
TORCH ?= $(DEFAULT_TORCH)
VENV := $(CURDIR)/.venv$(if $(filter-out $(DEFAULT_TORCH),$(TORCH)),-$(TORCH))
endif
export VIRTUAL_ENV := $(VENV)
export PATH := $(VENV)/bin:$(PATH)

PY := $(VENV)/bin/python
STAMPS := $(VENV)/.rustdev
# Kernels for this processor alone; FEATURES= builds those of every processor, as a wheel has them.
FEATURES ?= native
# One per environment, but there is one module: building it for one environment removes the stamps of the others.
DEV := target/dev/$(subst /,_,$(VENV)).$(TORCH).$(FEATURES)
MODULE := $(wildcard python/rustdev/_rustdev*.so python/rustdev/_shim/*.so)
SOURCES := $(shell find src shim build.rs Cargo.toml Cargo.lock pyproject.toml python/rustdev/build_shim.py -type f)

.PHONY: help all torch dev demo test test-rust test-python test-libraries test-backend upstream conformance conformance-compile fuzz soak programs coverage loom asan tsan
.PHONY: accuracy check check-python mutants nightly heap asan-python tsan-python test-portable test-aarch64 test-hardware
.PHONY: lint lint-fast lint-fast-rust lint-fast-python lint-rust lint-python lint-cpp lint-workflows bench bench-products bench-halves bench-models bench-real bench-llm header
.PHONY: wheel release checksums docs clean

help: ## list the targets
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 21

all: lint test ## every lint and every test

$(PY):
	@'$(PYTHON)' -c 'import sys; sys.exit(sys.version_info < (3, 11) and "make: Python 3.11 or newer is needed: try make PYTHON=python3.12")'
	@'$(PYTHON)' -m venv '$(VENV)'

# uv installs in a third of pip's time. pip does it where uv cannot: it has settings of its own, such as indices.
install = { [ -x '$(VENV)/bin/uv' ] || '$(PY)' -m pip install -q $$(grep '^uv==' requirements/test.txt) || true; }; \
	'$(VENV)/bin/uv' pip install -q $(1) || '$(PY)' -m pip install -q $(1)

$(STAMPS)/torch: | $(PY)
	@if ! '$(PY)' tools/environment.py torch '$(TORCH)' | grep -q .; then \
	    $(call install,$(if $(TORCH_INDEX),--index-url '$(TORCH_INDEX)') 'torch==$(TORCH)'); fi
	@mkdir -p $(@D) && touch $@

torch: $(STAMPS)/torch ## make the environment and install torch

$(STAMPS)/%: requirements/%.txt | $(STAMPS)/torch
	@'$(PY)' tools/environment.py lacks $< || { $(call install,-r $<); }
	@touch $@

# All of them are pinned: what they ask for themselves could be another torch.
# llama.cpp is compiled for this processor.
$(STAMPS)/libraries $(STAMPS)/models $(STAMPS)/llm: $(STAMPS)/%: requirements/%.txt | $(STAMPS)/torch
	@export CMAKE_ARGS=-DGGML_NATIVE=ON; '$(PY)' tools/environment.py lacks $< || \
	    { $(call install,--no-deps $(if $(TORCH_INDEX),--extra-index-url '$(TORCH_INDEX)') -r $<); }
	@touch $@

$(DEV): $(SOURCES) $(if $(word 2,$(MODULE)),,FORCE) | $(STAMPS)/test
	@command -v cargo > /dev/null || { echo 'make: building takes Rust 1.90 or newer: https://rustup.rs'; exit 1; }
	@mkdir -p target && touch target/begun  # an edit made meanwhile is newer
	tools/build.sh maturin develop $$([ ! -x '$(VENV)/bin/uv' ] || echo --uv) --release --locked --features '$(FEATURES)'
	@rm -rf $(@D) && mkdir -p $(@D) && touch -r target/begun $@
FORCE:

dev: $(DEV) ## build the module for the environment, editable

# ---- running it ----------------------------------------------------------------------------------------------------------------
demo: dev $(STAMPS)/demo ## train the digits on the device and draw demo-output/digits.png
	@mkdir -p demo-output
	$(PY) examples/digits.py --device rustdev --plot demo-output/digits.png

# ---- the three layers of tests: check, test, nightly ------------------------------------------------------------------------------
# The rule by which Python tests are chosen is in tests/layers.py.
check: lint-fast test-rust check-python ## the fast lints, the Rust tests and a part of the Python tests: some minutes after a build

# Several processes run the tests at once, but those that measure time. A function of the arguments that both runs of pytest have.
WORKERS ?= 2
python_tests = status=0; \
	$(PY) -m pytest -n $(WORKERS) --dist worksteal -m 'not clock' $(1) || status=1; \
	$(PY) -m pytest -m clock $(1) $$(grep -rl --include='test_*.py' 'mark.clock' tests) || status=1; \
	exit $$status

check-python: dev
	$(call python_tests,--layer=check $(PYTEST))

NIGHTLY ?=
nightly: $(STAMPS)/test ## all that check and test leave out, one target after the other, into target/nightly/report.md; goes on likewise
	$(PY) tools/nightly.py $(NIGHTLY)

test: test-rust loom test-python ## the Rust tests, the loom models and the Python tests

test-rust:
	cargo test --locked -q -p rustdev -p slow_device --features '$(FEATURES:%=rustdev/%)'

test-python: dev
ifeq ($(strip $(PYTEST)),)
	$(call python_tests)
else
	$(PY) -m pytest $(PYTEST)
endif

# The instructions of every x86-64, without AVX2. Libraries that compute products choose their instructions themselves.
PORTABLE_TESTS ?= $(addprefix tests/ops/test_,opinfo.py values.py structured.py all_16bit_values.py reduce.py lines.py channel_norm.py convolution.py \
	quantized.py rnn_layers.py attention.py indexing.py sorting.py movement.py optimizers.py foreach.py)
test-portable: | $(STAMPS)/test ## the Rust tests in every instruction set; and with those of operators on the path of processors without AVX2
	@$(MAKE) dev FEATURES=
	cargo test --locked -q
	RUSTDEV_ISA=portable cargo test --locked -q
	RUSTDEV_ISA=portable $(PY) -m pytest -n $(WORKERS) --dist worksteal $(PORTABLE_TESTS) $(PYTEST)

test-aarch64: ## the Rust tests for AArch64 (NEON), cross compiled and run under qemu-user
	AARCH64_ROOT='$(AARCH64_ROOT)' tools/aarch64.sh test -- $(AARCH64_TESTS)

# Low latencies: a test of an operator waits for some launches and copies, one after the other. Devices and memory that the tests ask for.
HARDWARE_TESTS ?= tests/runtime tests/graphs tests/profiler tests/models tests/ops/test_opinfo.py tests/ops/test_copy.py
# What is not so on hardware: memory that the host cannot touch; a copy that changes the dtype on its way; fused loops; a replay that is
# one task. docs/bring-your-own-hardware.md has the reasons; a test goes from here when hardware can do what it shows.
NOT_ON_HARDWARE = runtime/test_soak.py::test_a_process_that_ends_is_a_finding[memory]
NOT_ON_HARDWARE += profiler/test_copies.py::test_a_copy_that_converts_counts_what_it_writes
NOT_ON_HARDWARE += profiler/test_names_of_rows.py::test_fused_lists_are_rows_with_shares_of_the_time
NOT_ON_HARDWARE += profiler/test_replays.py::test_arrows_lead_from_one_call_to_all_nodes
NOT_ON_HARDWARE += profiler/test_replays.py::test_fused_nodes_share_their_time
NOT_ON_HARDWARE += profiler/test_replays.py::test_nodes_that_find_no_room_are_counted
test-hardware: dev ## the Python tests on the simulated slow device of examples/hardware, as the extension module
	PYO3_PYTHON='$(PY)' cargo build --locked -q -p slow_device --release --features python --target-dir target/hardware
	SLOW_DEVICE_COUNT=4 SLOW_DEVICE_MEMORY_MB=131072 SLOW_DEVICE_LAUNCH_US=2 SLOW_DEVICE_COPY_US=2 \
	    $(PY) tools/other_module.py target/hardware/release/libslow_device.so python/rustdev/_shim $(HARDWARE_TESTS) $(PYTEST) \
	    $(NOT_ON_HARDWARE:%=--deselect 'tests/%')

# In an environment of its own: the package takes the place of rustdev's device in every program of its environment.
test-backend: dev ## a package as `python -m rustdev.new_backend` writes it: built and tested in target/mychip
	rm -rf target/mychip target/mychip-venv
	$(PY) -m rustdev.new_backend mychip --directory target/mychip --crate .
	$(PY) -m venv target/mychip-venv
	$(PY) -c "import site; print('import site; site.addsitedir(' + repr(site.getsitepackages()[0]) + ')')" \
	    > "$$(echo target/mychip-venv/lib/python*/site-packages)/rustdev-environment.pth"
	VIRTUAL_ENV='$(CURDIR)/target/mychip-venv' PATH="$(CURDIR)/target/mychip-venv/bin:$$PATH" PYO3_PYTHON= $(MAKE) -C target/mychip test conformance

test-libraries: dev $(STAMPS)/libraries ## the tests with Hugging Face's libraries, Lightning and others, which it installs
	$(PY) -m pytest tests/libraries $(PYTEST)

upstream: dev ## PyTorch's own device-generic tests: DIR=<checkout of PyTorch>
	@[ -n '$(DIR)' ] || { echo 'make: upstream takes DIR=<checkout of PyTorch>'; exit 2; }
	PYTHONPATH=tools $(PY) -m upstream '$(DIR)' $(FILES) --shards $(SHARDS) --jobs $(JOBS)

conformance: dev ## the device against the CPU over all of PyTorch's operator database; goes on where it was interrupted, until the next build
	PYTHONPATH=tools $(PY) -m upstream tests/ops --resume '$(DEV)' --shards 16 --jobs 2 --output target/conformance || true
	$(PY) tools/conformance.py target/conformance/results.json docs/conformance.md --entries

FUZZ ?= --seconds 600
fuzz: dev ## bad arguments for every operator, in child processes; FUZZ="--only pool --seed 1" chooses
	@mkdir -p target/fuzz
	$(PY) -W ignore tools/fuzz_fallback.py --output target/fuzz/report.json $(FUZZ)

soak: dev ## random programs on two devices, under every sanitizer and order of tasks, against the CPU: MINUTES=60
	PYTHONPATH=tools $(PY) -m soak --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) $(if $(MODES),--modes $(MODES))

ACCURACY ?= --page docs/accuracy.md
accuracy: dev ## sums of many terms in 16 bits against float64, into docs/accuracy.md; ACCURACY="--only scatter" chooses
	PYTHONPATH=tools $(PY) -m accuracy $(ACCURACY)

conformance-compile: dev ## operators and modules through torch.compile, into target/conformance-compile; goes on likewise
	PYTHONPATH='$(CURDIR)/tools:$(CURDIR)/tests/ops:$(CURDIR)/tests/ops/conformance' $(PY) -m upstream tests/compile \
	    --resume '$(DEV)' --shards 16 --jobs 2 --output target/conformance-compile

programs: dev ## tests of public libraries with the device; writes docs/programs.md and goes on where it was interrupted
	PYTHONPATH=tools $(PY) -m programs --page docs/programs.md $(PROGRAMS)

MUTANTS ?=
mutants: dev ## sixty programs with one fault each: which tests find it; writes docs/mutants.md and goes on where it was interrupted
	PYTHONPATH=tools $(PY) -m mutants --features '$(FEATURES)' --check 'tests' $(MUTANTS)

coverage: dev ## write docs/coverage.md and docs/features.md: what serves each operator, what of torch.cuda is here
	$(PY) tools/coverage.py docs/coverage.md
	$(PY) tools/features.py

# ---- concurrency and memory checkers; each keeps its own target directory -------------------------------------------------------
loom: ## the models of queue, window on hardware, back-pressure, events, gate, exit and free lists, over all interleavings
	LOOM_MAX_PREEMPTIONS=2 RUSTFLAGS='--cfg loom' cargo test --locked -q --release --lib --target-dir target/loom loom

HOST = $(shell rustc -vV 2>/dev/null | sed -n 's/^host: //p')
SANITIZED = RUSTC_BOOTSTRAP=1 RUSTFLAGS='-Zsanitizer=$(1) -Cunsafe-allow-abi-mismatch=sanitizer' \
	cargo test --locked -q --profile sanitize --lib --target $(HOST) --target-dir target/$(1)

asan: ## the Rust tests under the address sanitizer
	$(call SANITIZED,address)

tsan: ## the Rust tests under the thread sanitizer
	TSAN_OPTIONS='suppressions=$(CURDIR)/tests/tsan.supp' $(call SANITIZED,thread)

# The whole module, the shim too. The runtime is rustc's for both: gcc's lacks functions that rustc's instrumentation calls.
SANITIZED_MODULE = RUSTC_BOOTSTRAP=1 RUSTFLAGS='-Zsanitizer=$(1) -Cunsafe-allow-abi-mismatch=sanitizer' \
	CXXFLAGS='-fsanitize=$(1) -g1 -fno-omit-frame-pointer' PYO3_PYTHON='$(PY)' RUSTDEV_SHIM_OUTPUT='$(CURDIR)/target/$(1)-python/shim' \
	cargo build --locked -q --profile sanitize -p rustdev-module --target $(HOST) --target-dir target/$(1)-python
SANITIZED_TESTS ?= tests/runtime tests/graphs tests/sanitizer tests/debugging
SANITIZED_PYTHON = PYTHONPATH=tools $(PY) -m sanitized $(1) target/$(1)-python/$(HOST)/sanitize/lib_rustdev.so target/$(1)-python/shim $(SANITIZED_TESTS) $(PYTEST)

asan-python: | $(STAMPS)/test ## Python tests of streams, events, memory, graphs and debugging under the address sanitizer
	$(call SANITIZED_MODULE,address)
	$(call SANITIZED_PYTHON,address)

tsan-python: | $(STAMPS)/test ## the same under the thread sanitizer
	$(call SANITIZED_MODULE,thread)
	$(call SANITIZED_PYTHON,thread)

# glibc's own checks of the heap find writes beside a block in PyTorch's kernels as well, at the speed of ordinary tests.
HEAP_TESTS ?= $(addprefix tests/,processes/test_lifetimes.py ops/test_bad_arguments.py ops/test_sparse.py ops/test_table.py)
heap: dev ## Python tests of refused arguments, lifetimes and the table of operators with glibc's checks of the heap
	GLIBC_TUNABLES=glibc.malloc.check=3 LD_PRELOAD=libc_malloc_debug.so.0 $(PY) -m pytest $(HEAP_TESTS) $(PYTEST)

# ---- style -----------------------------------------------------------------------------------------------------------------------
lint: lint-rust lint-python lint-cpp lint-workflows ## formatting, lints and types of the three languages; the workflows of .github

CLIPPY = cargo clippy --locked -q -p rustdev -p slow_device --all-targets --features rustdev/python-bindings -- -D warnings
lint-rust: dev
	cargo fmt --all --check
	PYO3_PYTHON='$(PY)' $(CLIPPY)
	PYO3_PYTHON='$(PY)' cargo clippy --locked -q --release -p rustdev-module -- -D warnings

# clippy needs no torch, which is installed meanwhile.
lint-fast: ## the lints that need no built module: rustfmt, clippy, ruff, mypy, workflows
	@$(MAKE) -j 2 lint-fast-rust torch
	@$(MAKE) lint-fast-python lint-workflows

lint-fast-rust: | $(PY)
	cargo fmt --all --check
	PYO3_PYTHON='$(PY)' $(CLIPPY)

lint-fast-python: $(STAMPS)/lint $(STAMPS)/test
	ruff check .
	ruff format --check .
	mypy

lint-python: dev $(STAMPS)/lint
	ruff check .
	ruff format --check .
	mypy
	$(PY) -m mypy.stubtest rustdev._rustdev --mypy-config-file pyproject.toml

lint-workflows: $(STAMPS)/lint
	check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	check-jsonschema --builtin-schema vendor.github-actions .github/actions/*/action.yml

CPP = $(shell git ls-files -- 'shim/*.cpp' '*.h' ':!src/*.h' ':!shim/rustdev.h' ':!shim/rustdev_operators.h' ':!shim/rustdev_completion.h')
lint-cpp: $(STAMPS)/lint
	clang-format --dry-run -Werror $(CPP)
	$(PY) tools/tidy.py $(filter %.cpp,$(CPP))

# ---- the rest --------------------------------------------------------------------------------------------------------------------
bench: dev $(STAMPS)/demo ## the Rust benches, then the device beside PyTorch's CPU device; writes benches/record/ and docs/benchmarks.md
	cargo bench --locked -q
	$(PY) benches/runtime/compare.py
	$(PY) benches/operators/compare.py --output benches/record --page docs/benchmarks.md

bench-products: dev $(STAMPS)/demo ## matrix products beside PyTorch's CPU device; writes benches/record/
	$(PY) benches/operators/products.py --output benches/record

bench-halves: dev $(STAMPS)/demo ## operators in float16 and bfloat16 beside float32; writes benches/record/
	$(PY) benches/operators/halves.py --output benches/record

BENCH_THREADS ?= $(shell printf '%s\n' 1 "$$(nproc)" | sort -nu)
bench-models: dev $(STAMPS)/demo ## whole models beside PyTorch's CPU device; writes docs/models.md and benches/record/
	KINETO_LOG_LEVEL=9 $(PY) benches/models/compare_models.py --threads $(BENCH_THREADS) --output benches/record --page docs/models.md

REAL ?=
bench-real: dev $(STAMPS)/models ## known models beside the CPU device, torch.compile and OpenVINO; writes docs/real-models.md and benches/record/
	$(PY) benches/models/compare_real.py --threads $(BENCH_THREADS) --output benches/record --page docs/real-models.md $(REAL)

LLM ?=
bench-llm: dev $(STAMPS)/llm ## a language model beside the CPU device, torchao and llama.cpp; writes the end of docs/llm.md and benches/record/
	$(PY) benches/models/bench_llm.py --output benches/record --page docs/llm.md $(LLM)

header: ## write the headers of the C ABI, shim/rustdev*.h, from src/abi
	WRITE_HEADER=1 cargo test --locked -q --test abi

WHEELS ?= dist
WHEEL_FEATURES ?=
SBOM := target/sbom/rustdev.cdx.json
wheel: $(STAMPS)/test ## build a wheel into dist/, for every processor and each torch that has a shim; its tag names the oldest glibc
	@rm -rf target/wheel python/rustdev/_shim/source && mkdir -p python/rustdev/_shim/source
	@cd shim && find . -name '*.cpp' -o -name '*.h' -o -name compiled_names.txt | xargs cp --parents -t ../python/rustdev/_shim/source
	@rm -rf target/sbom && $(PY) tools/release.py sbom '$(SBOM)'
	maturin build --release --locked --strip --features '$(WHEEL_FEATURES)' --interpreter '$(PY)' --sbom-include '$(SBOM)' -o target/wheel
	$(PY) -m auditwheel repair --exclude 'libtorch*' --exclude 'libc10*' --exclude '_rustdev*' -w '$(WHEELS)' target/wheel/*.whl

# Nothing is uploaded. The crate is compiled from its package, unless PUBLISH=--no-verify.
TORCHES ?= $(TORCH)
PUBLISH ?=
release: $(STAMPS)/test $(STAMPS)/release ## what a release has, into dist/: wheel, source distribution, SBOM, checksums; a dry run of cargo publish
	$(PY) tools/release.py check
	rm -rf dist target/wheels && mkdir dist
	for torch in $(TORCHES); do $(MAKE) wheel TORCH=$$torch WHEELS=target/wheels; done
	for wheel in target/wheels/*.whl; do cp "$$wheel" dist; cp '$(SBOM)' "dist/$$(basename "$$wheel" .whl).cdx.json"; done
	$(PY) tools/release.py validate '$(SBOM)'
	maturin sdist -o dist
	cargo publish --dry-run --locked -p rustdev $(PUBLISH)
	@$(MAKE) checksums

checksums:
	rm -f dist/SHA256SUMS
	cd dist && sha256sum -- * > ../target/SHA256SUMS && mv ../target/SHA256SUMS . && cat SHA256SUMS

docs: $(STAMPS)/docs ## build the documentation site into target/site; a link that leads nowhere fails it
	NO_MKDOCS_2_WARNING=1 mkdocs build --strict

clean: ## remove what was built; the environments stay
	rm -rf target dist demo-output python/rustdev/_rustdev*.so python/rustdev/_shim
