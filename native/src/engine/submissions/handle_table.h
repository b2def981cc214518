// SPDX-License-Identifier: Apache-2.0
// Handles of asynchronous operations: pending, done, or failed.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>

#include "base/status.h"
#include "engine/submissions/outcome.h"
#include "engine/submissions/submission.h"

namespace ringtune {

class HandleTable {
 public:
  // A handle with `on_end` has no outcome to take: it is forgotten at the end.
  Handle open(OnEnd on_end = {});
  // All at once: a waiting caller is woken once per fusion, not once per tensor.
  void complete(std::span<const Submission> done, const Status& status);

  // An operation that was never submitted.
  void forget(Handle handle);

  // True for handles that are done, failed or unknown: `take` would not wait.
  bool is_done(Handle handle) const;
  // Waits up to `timeout_ns`; the outcome of a finished handle, which is forgotten then, or no value.
  std::optional<Outcome> take(Handle handle, int64_t timeout_ns);

 private:
  struct Operation {
    std::optional<Outcome> outcome;  // no value: pending
    OnEnd on_end;
  };

  // Guards operations_. Held for look-ups only; never while another lock is taken or a callback runs.
  mutable std::mutex mutex_;
  std::condition_variable has_completed_;
  std::unordered_map<Handle, Operation> operations_;
  Handle next_ = 1;
};

}  // namespace ringtune
