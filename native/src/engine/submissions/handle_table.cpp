// SPDX-License-Identifier: Apache-2.0
#include "engine/submissions/handle_table.h"

#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace ringtune {

Handle HandleTable::open(OnEnd on_end) {
  const std::lock_guard lock(mutex_);
  operations_.emplace(next_, Operation{std::nullopt, std::move(on_end)});
  return next_++;
}

void HandleTable::complete(std::span<const Submission> done, const Status& status) {
  std::vector<std::pair<OnEnd, Outcome>> ended;
  {
    const std::lock_guard lock(mutex_);
    for (const Submission& submission : done) {
      Operation& operation = operations_[submission.handle];
      Outcome outcome{status, submission.result, submission.done};
      if (operation.on_end) {
        ended.emplace_back(std::move(operation.on_end), std::move(outcome));
        operations_.erase(submission.handle);
      } else {
        operation.outcome = std::move(outcome);
      }
    }
  }
  has_completed_.notify_all();
  for (const auto& [tell, outcome] : ended) {
    tell(outcome);
  }
}

void HandleTable::forget(Handle handle) {
  const std::lock_guard lock(mutex_);
  operations_.erase(handle);
}

bool HandleTable::is_done(Handle handle) const {
  const std::lock_guard lock(mutex_);
  const auto found = operations_.find(handle);
  return found == operations_.end() || found->second.outcome.has_value();
}

std::optional<Outcome> HandleTable::take(Handle handle, int64_t timeout_ns) {
  std::unique_lock lock(mutex_);
  const auto found = operations_.find(handle);
  if (found == operations_.end()) {
    return Outcome{{StatusCode::kConfigError,
                    "handle " + std::to_string(handle) + " is unknown: it was synchronized before, or never given out"},
                   nullptr,
                   nullptr};
  }
  // Elements of an unordered_map stay where they are; only this caller may erase this one.
  std::optional<Outcome>& outcome = found->second.outcome;
  if (!has_completed_.wait_for(lock, std::chrono::nanoseconds(timeout_ns), [&] { return outcome.has_value(); })) {
    return std::nullopt;
  }
  Outcome taken = std::move(*outcome);
  operations_.erase(handle);
  return taken;
}

}  // namespace ringtune
