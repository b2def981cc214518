// SPDX-License-Identifier: Apache-2.0
#include "engine/handle_table.h"

#include <chrono>
#include <string>
#include <utility>

namespace ringtune {

Handle HandleTable::open() {
  const std::lock_guard lock(mutex_);
  outcomes_.emplace(next_, std::nullopt);
  return next_++;
}

void HandleTable::complete(std::span<const Submission> done, const Status& status) {
  {
    const std::lock_guard lock(mutex_);
    for (const Submission& submission : done) {
      outcomes_[submission.handle] = Outcome{status, submission.result};
    }
  }
  has_completed_.notify_all();
}

void HandleTable::forget(Handle handle) {
  const std::lock_guard lock(mutex_);
  outcomes_.erase(handle);
}

bool HandleTable::is_done(Handle handle) const {
  const std::lock_guard lock(mutex_);
  const auto found = outcomes_.find(handle);
  return found == outcomes_.end() || found->second.has_value();
}

std::optional<Outcome> HandleTable::take(Handle handle, int64_t timeout_ns) {
  std::unique_lock lock(mutex_);
  const auto found = outcomes_.find(handle);
  if (found == outcomes_.end()) {
    return Outcome{{StatusCode::kConfigError,
                    "handle " + std::to_string(handle) + " is unknown: it was synchronized before, or never given out"},
                   nullptr};
  }
  // Elements of an unordered_map stay where they are; only this caller may erase this one.
  std::optional<Outcome>& outcome = found->second;
  if (!has_completed_.wait_for(lock, std::chrono::nanoseconds(timeout_ns), [&] { return outcome.has_value(); })) {
    return std::nullopt;
  }
  Outcome taken = std::move(*outcome);
  outcomes_.erase(handle);
  return taken;
}

}  // namespace ringtune
