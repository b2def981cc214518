// SPDX-License-Identifier: Apache-2.0
// Whether tensors that are ready should wait for the rest of their training step.
//
// Between distant hosts, each round costs a round trip beside its bytes: the answer's way to the ranks, and their
// data's way back. A round that starts less than a round trip before the step's last tensor is ready delays that one
// for longer than it gains. One that starts earlier is over by then, and costs nothing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/clock.h"
#include "engine/submissions/submission_queue.h"

namespace ringtune {

// Part of a round trip by which the last tensor may be later than in most steps. A round that starts that much before
// the moment from which on it should not costs little, and widens TCP's windows for the next one.
inline constexpr int64_t kHoldMarginDivisor = 8;

class StepRhythm {
 public:
  // The tensors seen from here on are of another step, which should be like `last`. The time between a rank's
  // submissions is that of its computing: rounds do not delay them. `round_trip_ns`: between the most distant hosts; 0:
  // not known, or none.
  void begin_step(uint64_t step, const SubmissionQueue::Step& last, int64_t round_trip_ns);
  uint64_t step() const { return step_; }
  // Number of the step's tensors that are ready and have not gone.
  void see(size_t ready, int64_t now_ns);
  // Those that were ready have gone.
  void let_go() { gone_ = seen_; }

  // Time until which ready tensors should wait for the rest of their step; no value where they should go.
  std::optional<int64_t> hold_until_ns(int64_t now_ns) const;

 private:
  // The newest steps. The next one should have at least the fewest of their tensors: where two optimizers step in turn,
  // the one that has fewer does not wait for the other's, and further allreduces now and then change nothing. Its span
  // should be the median.
  static constexpr size_t kNewest = 5;

  uint64_t step_ = 0;
  uint64_t begun_ = 0;
  int64_t round_trip_ns_ = 0;
  size_t expected_ = 0;  // tensors
  int64_t span_ns_ = 0;  // expected from the first ready tensor to the last one
  std::array<SubmissionQueue::Step, kNewest> newest_{};
  size_t gone_ = 0;
  size_t seen_ = 0;  // those that have gone included
  int64_t first_ns_ = 0;
};

}  // namespace ringtune
