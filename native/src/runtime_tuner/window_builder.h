// SPDX-License-Identifier: Apache-2.0
// Turns step facts into windows. Knows neither threads nor time sources.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime_tuner/window.h"
#include "telemetry/step_recorder.h"

namespace ringtune {

// The rule by which a window of a bad config is cut: of at least three steps, the median is over the limit. One slow
// step is never enough, and the shortest windows can be cut as well. `ringtune.tuner.cutting` has the same rule.
bool is_over_limit(std::span<const double> step_ms, double limit_ms);

// A gap between steps above both is a pause: evaluation, checkpoint. `ringtune.tuner.pauses` has the same rule.
constexpr double kPauseMedians = 5;  // in medians of recent steps
constexpr double kPauseMinMs = 1000;
constexpr size_t kRecentSteps = 64;
constexpr size_t kMinRecentSteps = 5;  // fewer do not tell the usual step
bool is_pause(double gap_ms, std::span<const double> recent_ms);

class WindowBuilder {
 public:
  void begin(const WindowSpec& spec);

  // The finished window, valid or void, when this step closed it. Facts come in order; gaps in their numbers are
  // allowed (facts that were not read in time) and start the window again.
  std::optional<Window> add(const StepFact& fact);

 private:
  void remember(double step_ms);
  std::optional<Window> close(VoidReason reason);
  // A step that ended and began under the epoch or a later one.
  std::optional<Window> measure(const StepFact& fact, double step_ms, bool was_pause);
  VoidReason take_step(const StepFact& fact, double step_ms);

  WindowSpec spec_;
  Window window_;
  bool is_open_ = false;
  uint64_t settled_ = 0;
  uint64_t gradient_bytes_ = 0;  // sum over the steps in the window
  std::optional<StepFact> previous_;
  std::vector<double> recent_step_ms_;  // without pauses, across windows
};

}  // namespace ringtune
