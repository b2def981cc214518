// SPDX-License-Identifier: Apache-2.0
#include "runtime_tuner/runtime_tuner.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/clock.h"

namespace ringtune {
namespace {

// Delay until a window is noticed. The training thread is not made to signal each step.
constexpr int64_t kPollNs = 5 * kNsPerMs;

}  // namespace

void RuntimeTuner::begin_window(const WindowSpec& spec) {
  StepFact fact{};
  while (engine_.steps().take(fact)) {
    [[maybe_unused]] const std::optional<Window> discarded = builder_.add(fact);
  }
  builder_.begin(spec);
}

std::optional<Window> RuntimeTuner::next_window(int64_t timeout_ns) {
  const int64_t limit_ns = now_ns() + timeout_ns;
  while (true) {
    StepFact fact{};
    while (engine_.steps().take(fact)) {
      if (std::optional<Window> window = builder_.add(fact)) {
        return window;
      }
    }
    const int64_t left_ns = limit_ns - now_ns();
    if (left_ns <= 0) {
      return std::nullopt;
    }
    std::this_thread::sleep_for(std::chrono::nanoseconds(std::min(left_ns, kPollNs)));
  }
}

}  // namespace ringtune
