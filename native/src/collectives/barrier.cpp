// SPDX-License-Identifier: Apache-2.0
#include "collectives/barrier.h"

#include <array>

#include "collectives/staged_pipeline.h"

namespace ringtune {
namespace {

// Dissemination: in the round of distance d a rank learns, from the rank d before it, of the d ranks up to that one.
Status barrier_over_links(const Communicator& comm) {
  const std::array<std::byte, 1> token{};
  std::array<std::byte, 1> arrived{};
  for (int distance = 1; distance < comm.world_size(); distance *= 2) {
    Status s = comm.links->exchange(comm.neighbour(distance), token, comm.neighbour(-distance), arrived);
    if (!s.ok()) return s;
  }
  return Status::ok_status();
}

}  // namespace

Status barrier(Communicator& comm, size_t chunk_bytes) {
  if (!comm.is_one_host()) {
    return barrier_over_links(comm);
  }
  const auto take = [&comm](uint64_t chunk) { return comm.stage.wait_for_all(Phase::kStaged, chunk); };
  return run_staged(comm.stage, chunk_bytes, 1, [](uint64_t, std::byte*) {}, take);
}

}  // namespace ringtune
