// SPDX-License-Identifier: Apache-2.0
// Runs one negotiated collective on this rank's tensors.
#pragma once

#include <vector>

#include "base/status.h"
#include "engine/submission.h"
#include "telemetry/counters.h"
#include "transport/shm/stage.h"
#include "wire/messages.h"

namespace ringtune {

class Executor {
 public:
  Executor(Stage stage, Counters& counters) : stage_(std::move(stage)), counters_(counters) {}

  // The tensors of the response, in its order; their signatures' kind, dtype and operation are equal.
  Status run(const Response& response, const std::vector<Submission>& tensors);

 private:
  Status allreduce(const Response& response, const std::vector<Submission>& tensors);
  Status move(const Response& response, const Submission& tensor);

  Stage stage_;
  Counters& counters_;
};

}  // namespace ringtune
