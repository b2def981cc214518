// SPDX-License-Identifier: Apache-2.0
// The one clock of the engine: steady, in nanoseconds. Wall time is read once per trace, to anchor it, nowhere else.
#pragma once

#include <chrono>
#include <cstdint>

namespace ringtune {

inline int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

inline constexpr int64_t kNsPerMs = 1'000'000;
inline constexpr int64_t kNsPerS = 1'000'000'000;

inline int64_t seconds_to_ns(double seconds) { return static_cast<int64_t>(seconds * static_cast<double>(kNsPerS)); }
inline double ns_to_seconds(int64_t ns) { return static_cast<double>(ns) / static_cast<double>(kNsPerS); }
inline double ns_to_ms(int64_t ns) { return static_cast<double>(ns) / static_cast<double>(kNsPerMs); }

}  // namespace ringtune
