// SPDX-License-Identifier: Apache-2.0
// Ranks with a GPU each, of the stand-in driver, and the stand-in for NCCL.
#pragma once

#include <functional>
#include <numeric>
#include <vector>

#include "device/nccl/standin_nccl.h"
#include "device/standin_world.h"

namespace ringtune::testing {

class NcclTest : public StandinTest {
 protected:
  // Every rank has a GPU of its own.
  void SetUp() override {
    reset({4, 7, 300, 1, 1, 1});
    standin_nccl_delay(300);
  }
  void TearDown() override {
    EXPECT_EQ(0, standin_nccl_communicators());
    EXPECT_EQ(0, standin_nccl_kernels());
    StandinTest::TearDown();
  }
};

inline void run_nccl_world(int world_size, const std::function<void(Engine&)>& body,
                           GpuOperations operations = GpuOperations::kAuto, double timeout_s = 60) {
  run_world(world_size, body, [operations, timeout_s](EngineOptions& options) {
    use_standin(options);
    options.gpu.operations = operations;
    options.timeout_s = timeout_s;
  });
}

// `hosts` as in Layout; every rank has a GPU.
inline void run_nccl_hosts(const std::vector<int>& hosts, const std::function<void(Engine&)>& body,
                           const EngineConfig& config) {
  run_hosts(hosts, body, [config](EngineOptions& options) {
    use_standin(options);
    options.gpu.operations = GpuOperations::kAuto;
    options.config = config;
  });
}

inline uint64_t by_nccl(const Engine& engine) { return counter(engine, "nccl_responses"); }

template <typename T>
std::vector<T> ramp(size_t size, int rank) {
  std::vector<T> values(size);
  std::iota(values.begin(), values.end(), static_cast<T>(rank));
  return values;
}

}  // namespace ringtune::testing
