// SPDX-License-Identifier: Apache-2.0
#include "runtime_tuner/window_builder.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/clock.h"

namespace ringtune {
namespace {

constexpr size_t kMinStepsBeforeCut = 3;

double median_of(std::span<const double> values) {
  std::vector<double> sorted(values.begin(), values.end());
  std::ranges::sort(sorted);
  const size_t middle = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

}  // namespace

bool is_over_limit(std::span<const double> step_ms, double limit_ms) {
  return limit_ms > 0 && step_ms.size() >= kMinStepsBeforeCut && median_of(step_ms) > limit_ms;
}

bool is_pause(double gap_ms, std::span<const double> recent_ms) {
  return recent_ms.size() >= kMinRecentSteps && gap_ms > std::max(kPauseMedians * median_of(recent_ms), kPauseMinMs);
}

std::string_view void_reason_name(VoidReason reason) {
  constexpr std::array<std::string_view, 5> kNames{"", "pause", "tensor_set_changed", "mixed_epochs", "no_gradients"};
  return kNames[static_cast<size_t>(reason)];
}

void WindowBuilder::begin(const WindowSpec& spec) {
  spec_ = spec;
  window_ = Window();
  window_.epoch = spec.epoch;
  settled_ = 0;
  gradient_bytes_ = 0;
  is_open_ = true;
}

std::optional<Window> WindowBuilder::add(const StepFact& fact) {
  const std::optional<StepFact> previous = std::exchange(previous_, fact);
  if (!previous || previous->step + 1 != fact.step) {
    begin(spec_);
    return std::nullopt;
  }
  const double step_ms = ns_to_ms(fact.end_ns - previous->end_ns);
  const bool was_pause = is_pause(step_ms, recent_step_ms_);
  if (!was_pause) {
    remember(step_ms);
  }
  // No step counts before a whole one has passed under the epoch: the one that saw the switch belongs to neither.
  const bool is_under_epoch = is_open_ && previous->config_epoch >= spec_.epoch;
  return is_under_epoch ? measure(fact, step_ms, was_pause) : std::nullopt;
}

std::optional<Window> WindowBuilder::measure(const StepFact& fact, double step_ms, bool was_pause) {
  if (fact.config_epoch != spec_.epoch) {
    return close(VoidReason::kMixedEpochs);
  }
  if (settled_ < spec_.settle_steps) {
    ++settled_;
    return std::nullopt;
  }
  const VoidReason reason = was_pause ? VoidReason::kPause : take_step(fact, step_ms);
  if (reason != VoidReason::kNone) {
    return close(reason);
  }
  const bool is_full = window_.step_ms.size() >= spec_.steps;
  window_.was_cut = !is_full && is_over_limit(window_.step_ms, spec_.limit_ms);
  return is_full || window_.was_cut ? close(VoidReason::kNone) : std::nullopt;
}

VoidReason WindowBuilder::take_step(const StepFact& fact, double step_ms) {
  if (window_.step_ms.empty()) {
    window_.tensor_set = fact.tensor_set;
  }
  window_.step_ms.push_back(step_ms);
  gradient_bytes_ += fact.gradient_bytes;
  window_.bytes_per_step = gradient_bytes_ / window_.step_ms.size();
  if (fact.tensor_set != window_.tensor_set) {
    return VoidReason::kTensorSetChanged;
  }
  return fact.gradient_bytes == 0 ? VoidReason::kNoGradients : VoidReason::kNone;
}

std::optional<Window> WindowBuilder::close(VoidReason reason) {
  is_open_ = false;
  window_.void_reason = reason;
  window_.last_step = previous_->step;
  return std::exchange(window_, Window());
}

void WindowBuilder::remember(double step_ms) {
  recent_step_ms_.push_back(step_ms);
  if (recent_step_ms_.size() > kRecentSteps) {
    recent_step_ms_.erase(recent_step_ms_.begin());
  }
}

}  // namespace ringtune
