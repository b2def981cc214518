// SPDX-License-Identifier: Apache-2.0
#include "engine/gpu/staging/parked_submissions.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "engine/gpu/staging/device_staging.h"

namespace ringtune {
namespace {

// Asks whether the copy to the host has ended; if not, its end notifies.
Status look_at(const StagedTensor& staged, bool& is_copied) {
  Device& device = *staged.lane->device();
  const Device::Scope scope(device);
  if (!scope.status().ok()) return scope.status();
  if (Status s = device.is_complete(*staged.copied, is_copied); !s.ok()) return s;
  return is_copied ? Status::ok_status() : staged.lane->notify_at(*staged.copied);
}

// The same, asked once for each lane whose copies have not ended.
Status look_at(const StagedTensor& staged, std::vector<const DeviceLane*>& busy, bool& is_copied) {
  const DeviceLane* lane = staged.lane.get();
  is_copied = false;
  if (std::ranges::find(busy, lane) != busy.end()) return Status::ok_status();
  if (Status s = look_at(staged, is_copied); !s.ok()) return s;
  if (!is_copied) {
    busy.push_back(lane);
  }
  return Status::ok_status();
}

bool is_staged(const Submission& submission) { return submission.staged != nullptr && !submission.staged->is_on_gpu; }

}  // namespace

Status ParkedSubmissions::exchange(std::vector<Submission> batch, std::vector<Submission>& ready) {
  if (parked_.empty() && std::ranges::none_of(batch, is_staged)) {
    ready = std::move(batch);
    return Status::ok_status();
  }
  std::ranges::move(batch, std::back_inserter(parked_));
  std::vector<const DeviceLane*> busy;  // copies of one lane end in their order
  for (auto next = parked_.begin(); next != parked_.end();) {
    bool is_ready = true;
    if (is_staged(*next)) {
      if (Status s = look_at(*next->staged, busy, is_ready); !s.ok()) return s;
    } else if (next->signature.kind == OpKind::kJoin) {
      is_ready = next == parked_.begin();  // no tensor may come after it
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
