// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/status.h"
#include "collectives/collective_context.h"
#include "collectives/gathered.h"

namespace ringtune {

struct AlltoallTask {
  CollectiveContext& context;
  const std::byte* input;           // rows for rank 0, for rank 1, ...
  std::span<const int64_t> splits;  // rows for each rank
  size_t row_bytes;
  size_t chunk_bytes;                // a multiple of the cache line
  bool has_costly_messages = false;  // between hosts: few bytes go by way of other ranks
};

// Sends rows to every rank; `result` has those that came from each. The ranks' splits are exchanged first.
Status alltoall(const AlltoallTask& task, Gathered& result);

}  // namespace ringtune
