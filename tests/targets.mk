# SPDX-License-Identifier: Apache-2.0
# Tests and style: included by the Makefile, whose variables it uses. CONTRIBUTING.md has the tiers in a table.

RESULTS := build/test-results

# The core tier needs what `make setup` brings and nothing else: no root, no Debian package, no second MPI.
ALONE := tests/unit tests/contract tests/house  # these start no ranks: one process for each core
# Of the tests that start ranks or a service: modules for what the README promises. All others are the wide tier.
CORE := $(addprefix tests/integration/test_,collectives.py torch_operations.py training_loops.py optimizer.py \
  optimizer_agreement.py registered_gradients.py process_sets.py join.py callbacks.py failures.py live_tuning.py \
  ddp_autotune.py fsdp_autotune.py environment.py misspelt_variables.py launch_messages.py tune_any_command.py \
  doctor.py metrics_server.py) \
  $(addprefix tests/integration/service,/test_serve.py _store/test_recommendations.py _store/test_ledger.py \
  _store/test_run_logs.py _store/test_reporters.py _store/test_archive.py _link/test_real_service.py) \
  $(addprefix tests/e2e/test_,documentation.py examples.py simulate.py demo_summary.py)
# The others start ranks, which import, compute and wait. Long ones come first, and short ones fill the end.
WITH_RANKS   := tests/e2e tests/integration
JOBS_AT_ONCE := 3
CORE_PARTS   := test-native test-alone test-ranks

.PHONY: test test-all test-fresh test-native native-tests test-alone test-ranks test-wide test-beside-wide test-mpi $(MPIS:%=test-%) \
        test-tensorflow environments test-platforms test-wheel test-long test-stress test-fuzz test-asan test-tsan test-gpu lint format

##@ Tests and style

# Sources of GoogleTest that the wheel ros-gtest-vendor brings. There is none for aarch64: an installed GoogleTest serves.
GTEST := $(VENV)/src/gtest_vendor
has_gtest = { [ -f $(GTEST)/src/gtest-all.cc ] || printf '\43include <gtest/gtest.h>\n' | $(CXX) -x c++ -E - >/dev/null 2>&1; }

define build_native # (build folder, CMake options, target): configure and build a program beside the engine
	@mkdir -p $(RESULTS)
	@flock --close build/.lock cmake -S native -B $(1) -G Ninja $(2) -DRINGTUNE_GTEST=$(CURDIR)/$(GTEST) \
	  >$(RESULTS)/configure.log 2>&1 || { cat $(RESULTS)/configure.log; exit 1; }
	@$(call step,$(3)) flock --close build/.lock cmake --build $(1) -j $(JOBS) --target $(3)
endef

define ctest # (build folder, CMake options, name): configure, build and run the C++ tests; results as JUnit XML
	$(call build_native,$(1),-DRINGTUNE_TESTS=ON $(2),ringtune_native_tests)
	@ctest --test-dir $(1) -j $(JOBS) --progress --output-on-failure --timeout 1200 --output-junit $(CURDIR)/$(RESULTS)/$(3).xml
endef

# (part, paths and options): run Python tests; results as JUnit XML.
define pytest
	@mkdir -p $(RESULTS)
	@$(BIN)/pytest --hypothesis-profile ci --junitxml=$(RESULTS)/$(1).xml $(2)
endef
BESIDE_RANKS := -n $(JOBS_AT_ONCE) --dist loadfile --no-loadscope-reorder

test: setup ## run the core tests, C++ and Python: 8 minutes on two quiet cores, 15 on busy ones
	@rm -rf $(RESULTS)
	@is_bad=0; \
	$(MAKE) --no-print-directory --keep-going --jobs 2 $(CORE_PARTS) || is_bad=1; \
	$(BIN)/python tests/summary.py $(RESULTS) --parts native alone ranks && [ $$is_bad = 0 ]

test-native: setup ## run the C++ tests alone
	@mkdir -p $(RESULTS)
	@if $(has_gtest); then $(MAKE) --no-print-directory native-tests; else \
	  echo "native: no GoogleTest for this processor (libgtest-dev or gtest-devel brings one)" >>$(RESULTS)/not-run.txt; fi

native-tests:
	$(call ctest,$(ENGINE_BUILD),,native)

test-alone: setup
	$(call pytest,alone,-m "not long" -n $(JOBS) $(ALONE))

test-ranks: setup
	$(call pytest,ranks,-m "not long" $(BESIDE_RANKS) $(CORE))

# (part, targets): one part of all tests; its seconds are noted, and its name if it fails.
part = start=$$SECONDS; $(MAKE) --no-print-directory --keep-going $(2) || failed+=($(1)); \
  echo "$(1) $$((SECONDS - start))" >>$(RESULTS)/seconds.txt

# The core tests run in the bare Debian of `test-fresh`, and not a second time; without root they run here.
test-all: ## run everything, Debian packages and platforms included, minutes by part (an hour and more; root)
	@rm -rf $(RESULTS) && mkdir -p $(RESULTS)
	@failed=(); \
	$(call part,setup,setup); \
	$(call part,lint-and-environments,--jobs 2 lint environments); \
	$(call part,core,$(if $(filter 0,$(shell id -u)),test-fresh,--jobs 2 $(CORE_PARTS))); \
	$(call part,wide,--jobs 2 test-wide test-beside-wide); \
	$(call part,platforms,test-platforms); \
	$(call part,wheel,test-wheel); \
	$(PYTHON) tests/summary.py $(RESULTS) --parts native alone ranks wide mpi-mpich mpi-openmpi tensorflow platforms wheel \
	  --failed "$${failed[@]}"

environments:
	@$(MAKE) --no-print-directory setup-mpi setup-tensorflow setup-platforms

test-wide: setup # the Python tests that `make test` leaves out
	$(call pytest,wide,-m "not long" $(BESIDE_RANKS) $(WITH_RANKS) $(CORE:%=--ignore=%))

# Tests that wait more than they compute: for MPI's launchers, compilers and time limits.
test-beside-wide:
	@$(MAKE) --no-print-directory --keep-going $(MPIS:%=test-%) test-tensorflow

# FRESH_SUITE=trixie takes Debian 13; FRESH_COMPILER= leaves out the compiler, so that the ziglang wheel's is used.
test-fresh: ## run the README's two commands and the first job's page on a bare Debian, as a newcomer (root)
	@mkdir -p $(RESULTS)
	@tests/fresh/bare_debian.sh $(RESULTS) 'make setup && make test && $(VENV)/bin/pytest -q tests/e2e/test_documentation.py -k first_job'

test-mpi: $(MPIS:%=test-%) ## run the tests under mpirun, with each MPI

$(MPIS:%=test-%): test-%: setup-%
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
test-wheel: setup ## install this machine's wheel into an empty environment; run jobs, service and plugins there
	@$(MAKE) --no-print-directory wheels ARCHITECTURES=$(shell uname -m)
	@mkdir -p $(RESULTS)
	@$(BIN)/pytest tests/package -m "not long" --junitxml=$(RESULTS)/wheel.xml

STRESS_ROUNDS ?= 1000000
DEVICE_ROUNDS ?= 100000

test-long: setup setup-mpi setup-tensorflow setup-platforms setup-petastorm setup-mxnet wheels ## run all tests with full counts, and print what they counted (two hours)
	@rm -rf $(RESULTS)
	@is_bad=0; \
	$(MAKE) --no-print-directory test-native || is_bad=1; \
	$(MAKE) --no-print-directory test-stress || is_bad=1; \
	$(BIN)/pytest -n $(JOBS) $(ALONE) --junitxml=$(RESULTS)/alone.xml || is_bad=1; \
	$(BIN)/pytest $(BESIDE_RANKS) $(WITH_RANKS) --junitxml=$(RESULTS)/ranks.xml || is_bad=1; \
	$(MAKE) --no-print-directory --keep-going test-mpi || is_bad=1; \
	$(TENSORFLOW)/bin/pytest tests/tensorflow --junitxml=$(RESULTS)/tensorflow.xml || is_bad=1; \
	$(PLATFORMS)/bin/pytest tests/platforms --junitxml=$(RESULTS)/platforms.xml || is_bad=1; \
	$(BIN)/pytest tests/package --junitxml=$(RESULTS)/wheel.xml || is_bad=1; \
	$(BIN)/python tests/summary.py $(RESULTS) --recorded && [ $$is_bad = 0 ]

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

