// SPDX-License-Identifier: Apache-2.0
// Submissions of GPUs' tensors that are not in the host's memory yet: the other ranks hear of them once they are.
#pragma once

#include <list>
#include <vector>

#include "base/status.h"
#include "engine/submissions/submission.h"

namespace ringtune {

class ParkedSubmissions {
 public:
  // Adds the batch, and takes out the submissions that can go now, in their order. Sees to it that the engine is
  // notified when the next one can. After an error of the GPU none is taken out.
  Status exchange(std::vector<Submission> batch, std::vector<Submission>& ready);
  std::vector<Submission> take_all();
  bool empty() const { return parked_.empty(); }

 private:
  std::list<Submission> parked_;
};

}  // namespace ringtune
