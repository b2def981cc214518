// SPDX-License-Identifier: Apache-2.0
// Ranks with tensors on a GPU of the stand-in driver.
#pragma once

#include <cstring>
#include <future>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "device/standin_cuda.h"
#include "local_world.h"

namespace ringtune::testing {

// Results of the driver, as CUDA numbers them.
inline constexpr int kInvalidValue = 1;
inline constexpr int kIllegalAddress = 700;

// No object of the stand-in may be alive before and after.
class StandinTest : public ::testing::Test {
 protected:
  void SetUp() override { reset({}); }
  void TearDown() override { expect_nothing_alive(); }

  static void expect_nothing_alive() {
    const StandinCounts counts = standin_counts();
    EXPECT_EQ(0, counts.contexts);
    EXPECT_EQ(0, counts.streams);
    EXPECT_EQ(0, counts.events);
    EXPECT_EQ(0, counts.pinned_allocations);
    EXPECT_EQ(0, counts.registrations);
    EXPECT_EQ(0, counts.pools);
    EXPECT_EQ(0, counts.pool_allocations);
    EXPECT_EQ(0, counts.modules);
    EXPECT_EQ(0, counts.pushed_contexts);
    EXPECT_EQ(0, counts.violations);
  }

  static void reset(StandinSettings changes) {
    StandinSettings settings{1, 1, 200, 1, 1, 1};
    if (changes.devices > 0) {
      settings = changes;
    }
    standin_reset(&settings);
  }
};

// Every tensor is staged when it is submitted.
inline void use_standin(EngineOptions& options) {
  options.gpu.cuda_library = RINGTUNE_STANDIN_CUDA;
  options.gpu.operations = GpuOperations::kHost;
}

// A rank's stream, as a framework has it.
class UserStream {
 public:
  explicit UserStream(int device = 0) : device_(device), stream_(standin_make_stream(device)) {}
  ~UserStream() { standin_destroy_stream(stream_); }
  UserStream(const UserStream&) = delete;
  UserStream& operator=(const UserStream&) = delete;

  DeviceStream named() const { return {device_, reinterpret_cast<uint64_t>(stream_)}; }
  void* raw() const { return stream_; }
  void synchronize() const { standin_synchronize(stream_); }

 private:
  const int device_;
  void* const stream_;
};

// Memory of the GPU, written and read in the order of a stream.
template <typename T>
class DeviceVector {
 public:
  explicit DeviceVector(size_t elements) : staging_(elements), memory_(standin_allocate(0, elements * sizeof(T))) {
    poison();
  }
  ~DeviceVector() { standin_free(memory_); }
  DeviceVector(const DeviceVector&) = delete;
  DeviceVector& operator=(const DeviceVector&) = delete;

  uint64_t address() const { return memory_; }
  size_t size() const { return staging_.size(); }
  void poison() { std::memset(reinterpret_cast<void*>(memory_), 0x5a, bytes()); }

  // A kernel that writes the values after a while; `values` must stay until the stream is through.
  void write_on(const UserStream& stream, const std::vector<T>& values, uint32_t delay_us) {
    standin_copy(stream.raw(), memory_, reinterpret_cast<uint64_t>(values.data()), bytes(), delay_us);
  }
  // A kernel that reads them, and the end of the stream.
  std::vector<T> read_on(const UserStream& stream) {
    standin_copy(stream.raw(), reinterpret_cast<uint64_t>(staging_.data()), memory_, bytes(), 0);
    stream.synchronize();
    return staging_;
  }

  TensorArguments arguments(const std::string& name, const UserStream& stream) const {
    TensorArguments tensor{name,
                           reinterpret_cast<const void*>(memory_),
                           reinterpret_cast<void*>(memory_),
                           {static_cast<int64_t>(size())},
                           dtype_of<T>()};
    tensor.stream = stream.named();
    return tensor;
  }

 private:
  size_t bytes() const { return staging_.size() * sizeof(T); }

  std::vector<T> staging_;
  const uint64_t memory_;
};

// The end of an operation whose caller gets a callback and does not wait.
class Told {
 public:
  OnEnd on_end() {
    return [this](const Outcome& outcome) { ended_.set_value(outcome); };
  }
  Outcome outcome() { return ended_.get_future().get(); }

 private:
  std::promise<Outcome> ended_;
};

inline Status finish_on(Engine& engine, Handle handle, const UserStream& stream) {
  const std::optional<Outcome> outcome = engine.wait(handle, kDeadlineNs, {}, stream.named());
  return outcome ? outcome->status : Status(StatusCode::kCollectiveTimeout, "the test's own deadline passed");
}

}  // namespace ringtune::testing
