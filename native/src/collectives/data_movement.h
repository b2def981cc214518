// SPDX-License-Identifier: Apache-2.0
// Collectives that move bytes and reduce nothing: broadcast, allgather, barrier. Any element type.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/status.h"
#include "transport/shm/stage.h"

namespace ringtune {

struct MovementTask {
  const std::byte* input;
  std::byte* output;  // may be the input for broadcast
  size_t bytes;       // of one rank's contribution
  size_t chunk_bytes;
  Stage& stage;
};

Status broadcast(const MovementTask& task, int root_rank);
// `output` takes world size times `bytes`, in rank order.
Status allgather(const MovementTask& task);
Status barrier(Stage& stage, size_t chunk_bytes);

}  // namespace ringtune
