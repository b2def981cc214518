// SPDX-License-Identifier: Apache-2.0
#include "engine/handle_table.h"

#include <chrono>
#include <string>
#include <utility>

namespace ringtune {

Handle HandleTable::open(std::string name) {
  const std::lock_guard lock(mutex_);
  operations_[next_].name = std::move(name);
  return next_++;
}

void HandleTable::complete(Handle handle, Status status) {
  {
    const std::lock_guard lock(mutex_);
    operations_[handle].outcome = std::move(status);
  }
  has_completed_.notify_all();
}

std::optional<std::string> HandleTable::pending_name(Handle handle) const {
  const std::lock_guard lock(mutex_);
  const auto found = operations_.find(handle);
  const bool is_pending = found != operations_.end() && !found->second.outcome.has_value();
  return is_pending ? std::optional(found->second.name) : std::nullopt;
}

bool HandleTable::is_done(Handle handle) const { return !pending_name(handle).has_value(); }

std::optional<Status> HandleTable::take(Handle handle, int64_t timeout_ns) {
  std::unique_lock lock(mutex_);
  const auto found = operations_.find(handle);
  if (found == operations_.end()) {
    return Status(StatusCode::kConfigError,
                  "handle " + std::to_string(handle) + " is unknown: it was synchronized before, or never given out");
  }
  // Elements of an unordered_map stay where they are; only this caller may erase this one.
  std::optional<Status>& outcome = found->second.outcome;
  if (!has_completed_.wait_for(lock, std::chrono::nanoseconds(timeout_ns), [&] { return outcome.has_value(); })) {
    return std::nullopt;
  }
  Status status = std::move(*outcome);
  operations_.erase(handle);
  return status;
}

}  // namespace ringtune
