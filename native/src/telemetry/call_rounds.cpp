// SPDX-License-Identifier: Apache-2.0
#include "telemetry/call_rounds.h"

#include <algorithm>

namespace ringtune {

bool CallRounds::take(uint64_t kind, const Call& call) {
  bool is_end = false;
  known_.try_emplace(kind, call);
  if (period_ == 0) {
    look(kind);
  } else if (kind != before(period_)) {
    forget();
  } else {
    position_ = (position_ + 1) % round_calls_;
    is_end = position_ == 0;
  }
  kinds_taken_[taken_ % kLongestPeriod] = kind;
  ++taken_;
  return is_end;
}

std::vector<Call> CallRounds::calls() const {
  std::vector<Call> found;
  for (size_t distance = period_; distance > 0; --distance) {
    found.push_back(known_.at(before(distance)));
  }
  return found;
}

void CallRounds::look(uint64_t kind) {
  if (taken_ < kFirstCalls) return;
  for (size_t period = 1; period <= std::min<uint64_t>(taken_, kLongestPeriod); ++period) {
    repeated_[period] = before(period) == kind ? repeated_[period] + 1 : 0;
  }
  for (size_t period = 1; period <= kLongestPeriod; ++period) {
    if (repeated_[period] >= std::max<uint64_t>(kProof, 2 * period)) {
      begin_rounds(period);
      return;
    }
  }
}

void CallRounds::begin_rounds(size_t period) {
  period_ = period;
  round_calls_ = (kLeastCalls + period - 1) / period * period;
  position_ = 0;
  kinds_ = bytes_ = 0;
  const uint64_t times = round_calls_ / period;
  for (size_t distance = 1; distance <= period; ++distance) {
    kinds_ += times * before(distance);
    bytes_ += times * known_.at(before(distance)).bytes;
  }
}

void CallRounds::forget() {
  period_ = 0;
  std::fill(repeated_.begin(), repeated_.end(), 0);
}

}  // namespace ringtune
