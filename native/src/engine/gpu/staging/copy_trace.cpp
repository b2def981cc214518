// SPDX-License-Identifier: Apache-2.0
#include "engine/gpu/staging/copy_trace.h"

#include <algorithm>

#include "engine/gpu/staging/device_staging.h"

namespace ringtune {

CopyTrace::Row& CopyTrace::row_of(int device, bool is_to_host) {
  Row& row = rows_[{device, is_to_host}];
  if (row.name.empty()) {
    const std::string gpu = "GPU " + std::to_string(device);
    row.name = is_to_host ? gpu + " to host" : "host to " + gpu;
  }
  return row;
}

// Copies of one direction are done one after the other.
void CopyTrace::draw(Row& row, const UnderWay& copies, bool is_to_host, int64_t now_ns) {
  const TrackId track = timeline_.row(row.name);
  const std::string_view operation = is_to_host ? "copy_to_host" : "copy_to_gpu";
  timeline_.begin(track, {operation, "", copies.tensors, copies.bytes}, std::max(copies.begin_ns, row.end_ns));
  timeline_.end(track, now_ns);
  row.end_ns = now_ns;
}

void CopyTrace::end_to_host(std::span<const Submission> tensors, int64_t now_ns) {
  if (!timeline_.is_on()) {
    return;
  }
  for (const Submission& tensor : tensors) {
    if (tensor.staged != nullptr && !tensor.staged->is_on_gpu) {
      const int device = tensor.staged->lane->device()->ordinal();
      draw(row_of(device, true), {nullptr, tensor.staged->begin_ns, tensor.bytes(), 1}, true, now_ns);
    }
  }
}

void CopyTrace::begin_to_device(std::span<const Submission> tensors, int64_t now_ns) {
  if (!timeline_.is_on()) {
    return;
  }
  for (const Submission& tensor : tensors) {
    if (tensor.done == nullptr || tensor.staged->result.bytes == 0) {
      continue;
    }
    const auto is_same = [&tensor](const UnderWay& copies) { return copies.end == tensor.done; };
    auto copies = std::ranges::find_if(under_way_, is_same);
    if (copies == under_way_.end()) {
      copies = under_way_.insert(copies, {tensor.done, now_ns, 0, 0});
    }
    copies->bytes += tensor.staged->result.bytes;
    ++copies->tensors;
  }
}

void CopyTrace::look(int64_t now_ns) {
  while (!under_way_.empty()) {
    const UnderWay& copies = under_way_.front();
    Device& device = copies.end->device();
    const Device::Scope scope(device);
    bool is_over = false;
    if (scope.status().ok() && device.is_complete(*copies.end, is_over).ok() && !is_over) {
      return;
    }
    if (is_over) {
      draw(row_of(device.ordinal(), false), copies, false, now_ns);
    }
    under_way_.pop_front();
  }
}

}  // namespace ringtune
