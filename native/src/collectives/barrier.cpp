// SPDX-License-Identifier: Apache-2.0
#include "collectives/barrier.h"

#include <array>

#include "collectives/staged_pipeline.h"

namespace ringtune {
namespace {

// Dissemination: in the round of distance d a rank learns, from the rank d before it, of the d ranks up to that one.
Status barrier_over_links(const CollectiveContext& context) {
  const std::array<std::byte, 1> token{};
  std::array<std::byte, 1> arrived{};
  for (int distance = 1; distance < context.world_size(); distance *= 2) {
    Status s = context.links->exchange(context.neighbour(distance), token, context.neighbour(-distance), arrived);
    if (!s.ok()) return s;
  }
  return Status::ok_status();
}

}  // namespace

Status barrier(CollectiveContext& context, size_t chunk_bytes) {
  if (!context.is_one_host()) {
    return barrier_over_links(context);
  }
  const auto take = [&context](uint64_t chunk) { return context.stage.wait_for_all(Phase::kStaged, chunk); };
  return run_staged(context.stage, chunk_bytes, 1, [](uint64_t, std::byte*) {}, take);
}

}  // namespace ringtune
