// SPDX-License-Identifier: Apache-2.0
// Stopwatch of the engine's work, with laps that are named when they end.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/clock.h"

namespace ringtune {

enum class Lap : uint8_t {
  kElsewhere,     // between the end of an operation and the next one's arrival at the engine
  kRequest,       // submissions become requests
  kNegotiation,   // until the requests that all ranks have in common come back
  kPost,          // a small message is shown to the other ranks
  kAwaitPosts,    // until theirs are there
  kCopyIn,        // into this rank's stage
  kAwaitStaged,   // until the other ranks' contributions are there
  kReduce,        // this rank's blocks
  kAwaitReduced,  // until the other ranks' blocks are there
  kCopyOut,       // the other ranks' blocks
  kAwaitRoom,     // until a slot may be used again
  kCompletion,    // callers are notified
};
inline constexpr size_t kLapCount = 12;
inline constexpr std::array<const char*, kLapCount> kLapNames{
    "elsewhere",    "request", "negotiation",   "post",     "await_posts", "copy_in",
    "await_staged", "reduce",  "await_reduced", "copy_out", "await_room",  "completion"};

// Written by one thread at a time, read by any. Costs a look at a flag until it is started.
class LapTimes {
 public:
  void start() {
    for (auto& total : total_ns_) {
      total.store(0, std::memory_order_relaxed);
    }
    last_ns_.store(now_ns(), std::memory_order_relaxed);
    is_on_.store(true, std::memory_order_relaxed);
  }

  // Attributes the time since the last lap's end to this one.
  void end(Lap lap) {
    if (!is_on_.load(std::memory_order_relaxed)) return;
    const int64_t now = now_ns();
    total_ns_[static_cast<size_t>(lap)].fetch_add(now - last_ns_.exchange(now, std::memory_order_relaxed),
                                                  std::memory_order_relaxed);
  }

  int64_t total_ns(Lap lap) const { return total_ns_[static_cast<size_t>(lap)].load(std::memory_order_relaxed); }

 private:
  std::atomic<bool> is_on_{false};
  std::atomic<int64_t> last_ns_{0};
  std::array<std::atomic<int64_t>, kLapCount> total_ns_{};
};

}  // namespace ringtune
