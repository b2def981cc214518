// SPDX-License-Identifier: Apache-2.0
#include "engine/parked_submissions.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "engine/device_staging.h"

namespace ringtune {
namespace {

// Whether the copy to the host has ended; if not, its end notifies.
Status look_at(const StagedTensor& staged, bool& is_copied) {
  Device& device = *staged.lane->device();
  const Device::Scope scope(device);
  if (!scope.status().ok()) return scope.status();
  if (Status s = device.is_complete(*staged.copied, is_copied); !s.ok()) return s;
  return is_copied ? Status::ok_status() : staged.lane->notify_at(*staged.copied);
}

}  // namespace

Status ParkedSubmissions::exchange(std::vector<Submission> batch, std::vector<Submission>& ready) {
  const auto is_staged = [](const Submission& submission) {
    return submission.staged != nullptr && !submission.staged->is_on_gpu;
  };
  if (parked_.empty() && std::ranges::none_of(batch, is_staged)) {
    ready = std::move(batch);
    return Status::ok_status();
  }
  std::ranges::move(batch, std::back_inserter(parked_));
  std::vector<const DeviceLane*> busy;  // copies of one lane end in their order
  for (auto next = parked_.begin(); next != parked_.end();) {
    bool is_ready = true;
    if (is_staged(*next)) {
      const DeviceLane* lane = next->staged->lane.get();
      is_ready = std::ranges::find(busy, lane) == busy.end();
      if (is_ready) {
        if (Status s = look_at(*next->staged, is_ready); !s.ok()) return s;
      }
      if (!is_ready) {
        busy.push_back(lane);
      }
    } else if (next->signature.kind == OpKind::kJoin) {
      is_ready = next == parked_.begin();  // nothing may come after it
    }
    if (is_ready) {
      ready.push_back(std::move(*next));
      next = parked_.erase(next);
    } else {
      ++next;
    }
  }
  return Status::ok_status();
}

std::vector<Submission> ParkedSubmissions::take_all() {
  std::vector<Submission> all;
  std::ranges::move(parked_, std::back_inserter(all));
  parked_.clear();
  return all;
}

}  // namespace ringtune
