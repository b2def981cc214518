// SPDX-License-Identifier: Apache-2.0
// The end of an operation: its status and its result.
#pragma once

#include <functional>
#include <memory>

#include "base/status.h"
#include "engine/submissions/submission.h"

namespace ringtune {

// Status of an operation that has ended, and its result where the caller gave no output buffer.
struct Outcome {
  Status status;
  std::shared_ptr<Gathered> result;
  // Event after which the result is in the GPU's memory; null where none is copied there.
  std::shared_ptr<DeviceEvent> done;
};

// Takes an operation's outcome in place of a waiting caller. Runs on the communication thread: it returns at once and
// calls no engine.
using OnEnd = std::function<void(const Outcome&)>;

}  // namespace ringtune
