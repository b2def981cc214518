// SPDX-License-Identifier: Apache-2.0
// Facts of optimizer steps, from the training thread to the tuning thread through a lock-free ring; and the steps from
// which on all ranks give the same answer to whether tuning has finished.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>

#include "base/dtype.h"

namespace ringtune {

struct StepFact {
  uint64_t step;            // number of the step since init
  int64_t end_ns;           // when the optimizer step returned, steady clock; or when the device was through with it
  uint64_t gradient_bytes;  // submitted by gradient hooks in this step
  uint64_t tensor_set;      // order-independent hash of (dtype, shape) of those tensors
  uint64_t config_epoch;    // in force at its end
};

class StepRecorder {
 public:
  // A gradient hook submits a tensor. Any thread.
  void add_gradient(uint64_t signature_hash, uint64_t bytes);

  // The training thread ends a step; returns its number. Steps whose end is not reported yet are dropped.
  uint64_t mark_step(int64_t now_ns, uint64_t config_epoch);
  // The same for a step that a device is still at: the thread reports its end later, in the order of the steps. Until
  // then neither it nor a later step is taken; a step is dropped if a later one's end is reported before its own.
  uint64_t mark_device_step(uint64_t config_epoch);
  void time_device_step(uint64_t step, int64_t end_ns);
  uint64_t steps() const { return steps_.load(std::memory_order_acquire); }

  // The tuning thread takes the oldest fact; false if there is none. When it reads too late, the newest facts are
  // dropped: their numbers then have a gap.
  bool take(StepFact& fact);

  // Steps since the last meeting. Ranks with less data than others mark fewer of them before they meet.
  uint64_t steps_since_meeting() const;
  // Announces whether tuning has finished, from the end of that step since the meeting on. The progress thread.
  void announce(bool is_tuning_finished, uint64_t from_step);
  // All ranks have joined: steps count from here, and announcements hold. The progress thread.
  void meet();
  // Any thread. False until it was announced.
  bool is_tuning_finished() const;

 private:
  uint64_t put(int64_t end_ns, uint64_t config_epoch);

  // Twice the longest window; a power of two.
  static constexpr uint64_t kCapacity = 1024;

  std::atomic<uint64_t> gradient_bytes_{0};
  std::atomic<uint64_t> tensor_set_{0};
  std::atomic<uint64_t> steps_{0};
  std::atomic<uint64_t> written_{0};
  uint64_t marked_ = 0;  // facts up to here exist, those from written_ on have no end yet; the training thread's
  std::atomic<uint64_t> read_{0};
  std::array<StepFact, kCapacity> facts_{};

  struct Announcement {
    bool is_tuning_finished;
    uint64_t from_step;
  };
  std::atomic<uint64_t> met_at_step_{0};
  mutable std::mutex mutex_;  // guards the two below
  mutable std::deque<Announcement> announced_;
  mutable bool is_tuning_finished_ = false;
};

}  // namespace ringtune
