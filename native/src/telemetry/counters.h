// SPDX-License-Identifier: Apache-2.0
// Counters of the engine's work, counted where it happens; read at any time by any thread.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>

namespace ringtune {

enum class Counter : uint8_t {
  kCycles,
  kResponses,
  kTensors,
  kBytesReduced,
  kFullRequests,
  kCachedRequests,
  kChunks,
  kConfigSwitches,
  kSteps,
  kAllgathers,
  kNcclResponses,
  kNcclPackedTensors,
  kNcclLimitedResponses,
  kNcclHierarchicalResponses,
  kSkewedAllreduces,
  kRoundedAllreduces,
};

inline constexpr std::array<std::string_view, 16> kCounterNames{"cycles",
                                                                "responses",
                                                                "tensors",
                                                                "bytes_reduced",
                                                                "full_requests",
                                                                "cached_requests",
                                                                "chunks",
                                                                "config_switches",
                                                                "steps",
                                                                "allgathers",
                                                                "nccl_responses",
                                                                "nccl_packed_tensors",
                                                                "nccl_limited_responses",
                                                                "nccl_hierarchical_responses",
                                                                "skewed_allreduces",
                                                                "rounded_allreduces"};

class Counters {
 public:
  static constexpr int kMaxAlgorithms = 16;

  void add(Counter counter, uint64_t amount = 1) { increase(values_[static_cast<size_t>(counter)], amount); }
  void add_algorithm_use(int algorithm) { increase(algorithm_uses_[static_cast<size_t>(algorithm)], 1); }
  void set(Counter counter, uint64_t value) {
    values_[static_cast<size_t>(counter)].store(value, std::memory_order_relaxed);
  }

  uint64_t value(Counter counter) const {
    return values_[static_cast<size_t>(counter)].load(std::memory_order_relaxed);
  }
  uint64_t algorithm_uses(int algorithm) const {
    return algorithm_uses_[static_cast<size_t>(algorithm)].load(std::memory_order_relaxed);
  }

 private:
  static void increase(std::atomic<uint64_t>& value, uint64_t amount) {
    value.fetch_add(amount, std::memory_order_relaxed);
  }

  std::array<std::atomic<uint64_t>, kCounterNames.size()> values_{};
  std::array<std::atomic<uint64_t>, kMaxAlgorithms> algorithm_uses_{};
};

}  // namespace ringtune
