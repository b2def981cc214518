// SPDX-License-Identifier: Apache-2.0
// Rounds of a program that marks no steps, such as one that generates text: the shortest sequence of calls that comes
// again and again. The tuner takes a round for a step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "base/dtype.h"

namespace ringtune {

struct Call {
  DataType dtype;
  std::vector<int64_t> shape;
  uint64_t bytes;
};

class CallRounds {
 public:
  // Takes the next call, whose kind is a hash of its operation, dtype and shape; returns whether it ends a round.
  bool take(uint64_t kind, const Call& call);

  // A round, once there is one: its calls, the sum of their kinds, and their bytes.
  std::vector<Call> calls() const;
  uint64_t kinds() const { return kinds_; }
  uint64_t bytes() const { return bytes_; }
  // True after so many calls without a round that there is none.
  bool has_given_up() const { return taken_ >= kMostCalls && period_ == 0; }

 private:
  // Calls before the first look, which a step of training may have.
  static constexpr uint64_t kFirstCalls = 1000;
  static constexpr uint64_t kMostCalls = 100000;
  static constexpr size_t kLongestPeriod = 1024;
  // Calls in a row that are those of a period before: twice the period, and at least so many.
  static constexpr uint64_t kProof = 512;
  // Short sequences are taken together, so that the tuner can follow the steps.
  static constexpr uint64_t kLeastCalls = 32;

  uint64_t before(size_t distance) const { return kinds_taken_[(taken_ - distance) % kLongestPeriod]; }
  void look(uint64_t kind);
  void begin_rounds(size_t period);
  void forget();

  uint64_t taken_ = 0;
  std::vector<uint64_t> kinds_taken_ = std::vector<uint64_t>(kLongestPeriod);   // the newest, as a ring
  std::vector<uint64_t> repeated_ = std::vector<uint64_t>(kLongestPeriod + 1);  // calls in a row, by period
  std::unordered_map<uint64_t, Call> known_;
  size_t period_ = 0;  // 0: not found
  uint64_t round_calls_ = 0;
  uint64_t position_ = 0;  // in the round
  uint64_t kinds_ = 0;
  uint64_t bytes_ = 0;
};

}  // namespace ringtune
