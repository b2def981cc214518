// SPDX-License-Identifier: Apache-2.0
#include "engine/submissions/submission_queue.h"

#include <utility>

#include "base/clock.h"

namespace ringtune {

Status SubmissionQueue::push(Submission& submission, bool& is_wake_needed) {
  const std::lock_guard lock(mutex_);
  if (!closed_.ok()) {
    return closed_;
  }
  if (!names_in_flight_.insert(submission.name).second) {
    return {StatusCode::kMismatchError, "tensor '" + submission.name +
                                            "' is in flight on this rank already; synchronize its handle first, or"
                                            " give each tensor a name of its own"};
  }
  const bool is_first = batch_.empty();
  last_pushed_ns_ = now_ns();
  if (is_first) {
    first_ns_ = last_pushed_ns_;
  }
  if (pushed_in_step_ == 0) {
    step_begun_ns_ = last_pushed_ns_;
  }
  batch_bytes_ += submission.bytes();
  batch_.push_back(std::move(submission));
  ++pushed_;
  ++pushed_in_step_;
  const bool is_step_complete = last_step_.tensors > 0 && pushed_in_step_ >= last_step_.tensors;
  const bool was_pressed =
      std::exchange(is_pressed_, is_pressed_ || is_step_complete || batch_bytes_ >= limits_.fusion_bytes);
  is_wake_needed = (is_first && !is_watched_) || is_pressed_ != was_pressed;
  return Status::ok_status();
}

void SubmissionQueue::set_watched(bool is_watched) {
  const std::lock_guard lock(mutex_);
  is_watched_ = is_watched;
}

uint64_t SubmissionQueue::pushed() const {
  const std::lock_guard lock(mutex_);
  return pushed_;
}

bool SubmissionQueue::press() {
  const std::lock_guard lock(mutex_);
  is_pressed_ = !batch_.empty();
  return is_pressed_;
}

void SubmissionQueue::end_step() {
  const std::lock_guard lock(mutex_);
  last_step_ = {std::exchange(pushed_in_step_, 0), last_pushed_ns_ - step_begun_ns_};
}

SubmissionQueue::Step SubmissionQueue::last_step() const {
  const std::lock_guard lock(mutex_);
  return last_step_;
}

std::vector<Submission> SubmissionQueue::take_if_due(int64_t now_ns) {
  {
    const std::lock_guard lock(mutex_);
    if (batch_.empty() || (!is_pressed_ && now_ns < first_ns_ + limits_.cycle_ns)) {
      return {};
    }
  }
  return take_all();
}

std::vector<Submission> SubmissionQueue::take_all() {
  const std::lock_guard lock(mutex_);
  batch_bytes_ = 0;
  is_pressed_ = false;
  return std::exchange(batch_, {});
}

std::optional<int64_t> SubmissionQueue::due_ns() const {
  const std::lock_guard lock(mutex_);
  return batch_.empty() ? std::nullopt : std::optional(first_ns_ + (is_pressed_ ? 0 : limits_.cycle_ns));
}

void SubmissionQueue::set_limits(Limits limits) {
  const std::lock_guard lock(mutex_);
  limits_ = limits;
}

int64_t SubmissionQueue::cycle_ns() const {
  const std::lock_guard lock(mutex_);
  return limits_.cycle_ns;
}

void SubmissionQueue::release(std::span<const Submission> done) {
  const std::lock_guard lock(mutex_);
  for (const Submission& submission : done) {
    names_in_flight_.erase(submission.name);
  }
}

void SubmissionQueue::close(const Status& reason) {
  const std::lock_guard lock(mutex_);
  if (closed_.ok()) {
    closed_ = reason;
  }
}

}  // namespace ringtune
