// SPDX-License-Identifier: Apache-2.0
#include "engine/submission_queue.h"

#include <utility>

namespace ringtune {

Status SubmissionQueue::push(Submission submission) {
  const std::lock_guard lock(mutex_);
  if (!closed_.ok()) {
    return closed_;
  }
  if (!names_in_flight_.insert(submission.name).second) {
    return {StatusCode::kMismatchError, "tensor '" + submission.name +
                                            "' is in flight on this rank already; synchronize its handle first, or"
                                            " give each tensor a name of its own"};
  }
  batch_.submissions.push_back(std::move(submission));
  return Status::ok_status();
}

void SubmissionQueue::push_urgent(const std::string& name) {
  const std::lock_guard lock(mutex_);
  batch_.urgent_names.push_back(name);
}

SubmissionQueue::Batch SubmissionQueue::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(batch_, Batch());
}

void SubmissionQueue::release(const std::string& name) {
  const std::lock_guard lock(mutex_);
  names_in_flight_.erase(name);
}

void SubmissionQueue::close(const Status& reason) {
  const std::lock_guard lock(mutex_);
  if (closed_.ok()) {
    closed_ = reason;
  }
}

}  // namespace ringtune
