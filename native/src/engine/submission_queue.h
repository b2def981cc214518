// SPDX-License-Identifier: Apache-2.0
// From the callers' threads to the communication thread.
#pragma once

#include <mutex>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/status.h"
#include "engine/submission.h"

namespace ringtune {

class SubmissionQueue {
 public:
  // Refuses a name that is in flight on this rank, and everything once the queue is closed.
  Status push(Submission submission);
  // A caller waits for this tensor: its round shall not wait for others.
  void push_urgent(const std::string& name);

  // The communication thread takes all there is.
  struct Batch {
    std::vector<Submission> submissions;
    std::vector<std::string> urgent_names;
  };
  Batch take();

  // The tensor is through; its name may be submitted again.
  void release(const std::string& name);

  // From now on `push` returns `reason`.
  void close(const Status& reason);

 private:
  // Guards all below. Never held while another lock is taken.
  std::mutex mutex_;
  Batch batch_;
  std::unordered_set<std::string> names_in_flight_;
  Status closed_;
};

}  // namespace ringtune
