// SPDX-License-Identifier: Apache-2.0
// Queue from the callers' threads to the communication thread, in batches: waking it for every tensor would cost the
// training thread two context switches each.
//
// A batch goes when its first tensor has waited `cycle_ms`, and earlier when `fusion_bytes` are there, when every
// tensor of the step is there, or when a caller waits.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/status.h"
#include "engine/submissions/submission.h"

namespace ringtune {

class SubmissionQueue {
 public:
  struct Limits {
    uint64_t fusion_bytes;
    int64_t cycle_ns;
  };

  // Submissions of a step, and nanoseconds from the first one to the last.
  struct Step {
    uint64_t tensors = 0;
    int64_t span_ns = 0;
  };

  explicit SubmissionQueue(Limits limits) : limits_(limits) {}

  // Takes the submission. Refuses a name that is in flight on this rank, and everything once the queue is closed: the
  // submission is the caller's then. `is_wake_needed` tells whether the communication thread must look: when the batch
  // is due, and for its first tensor unless it looks anyway.
  Status push(Submission& submission, bool& is_wake_needed);
  // Sets whether the communication thread looks by itself before any batch can be due.
  void set_watched(bool is_watched);
  // Submissions so far.
  uint64_t pushed() const;
  // A caller waits: the batch goes now. Returns whether there is one.
  bool press();
  // The optimizer has stepped: so many tensors make a step.
  void end_step();
  // The newest step that has ended. Any thread.
  Step last_step() const;

  // The communication thread: the batch, if it is due.
  std::vector<Submission> take_if_due(int64_t now_ns);
  std::vector<Submission> take_all();
  // When the batch will be due at the latest; no value if there is none.
  std::optional<int64_t> due_ns() const;
  void set_limits(Limits limits);
  int64_t cycle_ns() const;

  // The tensors are through; their names may be submitted again.
  void release(std::span<const Submission> done);

  // Makes `push` return `reason` from now on.
  void close(const Status& reason);

 private:
  // Guards all below. Never held while another lock is taken.
  mutable std::mutex mutex_;
  Limits limits_;
  std::vector<Submission> batch_;
  uint64_t batch_bytes_ = 0;
  int64_t first_ns_ = 0;
  bool is_pressed_ = false;
  bool is_watched_ = false;
  uint64_t pushed_ = 0;
  uint64_t pushed_in_step_ = 0;
  int64_t step_begun_ns_ = 0;
  int64_t last_pushed_ns_ = 0;
  Step last_step_;  // no tensors: not known yet
  std::unordered_set<std::string> names_in_flight_;
  Status closed_;
};

}  // namespace ringtune
