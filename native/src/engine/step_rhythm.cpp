// SPDX-License-Identifier: Apache-2.0
#include "engine/step_rhythm.h"

#include <algorithm>

#include "collectives/message_sizes.h"

namespace ringtune {

void StepRhythm::begin_step(uint64_t step, const SubmissionQueue::Step& last, int64_t round_trip_ns) {
  step_ = step;
  round_trip_ns_ = round_trip_ns;
  newest_[begun_++ % kNewest] = last;
  expected_ = std::ranges::min(newest_, {}, &SubmissionQueue::Step::tensors).tensors;
  std::array<SubmissionQueue::Step, kNewest> sorted = newest_;
  std::ranges::nth_element(sorted, sorted.begin() + kNewest / 2, {}, &SubmissionQueue::Step::span_ns);
  span_ns_ = sorted[kNewest / 2].span_ns;
  gone_ = seen_ = 0;
}

void StepRhythm::see(size_t ready, int64_t now_ns) {
  if (seen_ == 0 && ready > 0) {
    first_ns_ = now_ns;
  }
  seen_ = gone_ + ready;
}

std::optional<int64_t> StepRhythm::hold_until_ns(int64_t now_ns) const {
  const int64_t end_ns = first_ns_ + span_ns_;
  const int64_t margin_ns = round_trip_ns_ / kHoldMarginDivisor;
  const int64_t limit_ns = end_ns + margin_ns;
  const bool is_near = end_ns - now_ns < round_trip_ns_ - margin_ns;
  const bool is_worth_it = is_near && round_trip_ns_ >= kDistantRoundTripNs && begun_ >= kNewest;
  const bool is_waited_for = seen_ > gone_ && seen_ < expected_ && now_ns < limit_ns;
  return is_worth_it && is_waited_for ? std::optional(limit_ns) : std::nullopt;
}

}  // namespace ringtune
