// SPDX-License-Identifier: Apache-2.0
#include "engine/response_check.h"

#include <algorithm>

#include "base/config.h"
#include "collectives/message_sizes.h"
#include "engine/fusion.h"
#include "transport/shm/atomics.h"

namespace ringtune {

std::string_view find_fault(const Response& response, std::span<const Submission> tensors) {
  if (tensors.empty()) {
    return "it names no tensor";
  }
  if (response.chunk_bytes < kMinChunkBytes || response.chunk_bytes > kMaxChunkBytes ||
      response.chunk_bytes % kCacheLine != 0) {
    return "its chunks have a size that is not allowed";
  }
  if (response.in_flight_bytes > kMaxInFlightBytes) {
    return "it has more bytes in flight than are allowed";
  }
  const auto is_at_home = [](const Submission& tensor) { return tensor.staged == nullptr; };
  if (response.is_for_nccl && std::ranges::any_of(tensors, is_at_home)) {
    return "it sends a tensor of the host by NCCL";
  }
  const auto fits = [&tensors](const Submission& tensor) {
    return is_fusable(tensors.front().signature, tensor.signature);
  };
  if (tensors.size() > 1 && !std::ranges::all_of(tensors, fits)) {
    return "it fuses tensors that do not fit together";
  }
  return {};
}

}  // namespace ringtune
