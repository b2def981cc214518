// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "base/status.h"
#include "collectives/collective_context.h"

namespace ringtune {

struct BroadcastTask {
  CollectiveContext& context;
  std::byte* data;  // the root's are sent, the others' overwritten
  size_t bytes;
  int root_rank;
  size_t chunk_bytes;  // a multiple of the cache line
};

Status broadcast(const BroadcastTask& task);

}  // namespace ringtune
