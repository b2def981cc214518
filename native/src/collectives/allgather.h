// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "base/status.h"
#include "collectives/collective_context.h"
#include "collectives/gathered.h"

namespace ringtune {

struct AllgatherTask {
  CollectiveContext& context;
  const std::byte* input;
  int64_t rows;  // this rank's
  size_t row_bytes;
  bool is_hierarchical;  // between hosts, one rank per host moves its host's rows
  size_t chunk_bytes;    // a multiple of the cache line
};

// All ranks' rows to all ranks. The ranks' numbers of rows are exchanged first.
Status allgather(const AllgatherTask& task, Gathered& result);

// Between hosts: `parts[r]` takes the bytes of rank r, this rank's `own` included. Bytes enter a host once: all of them
// by its leader, or, where hosts have equally many ranks, each rank's by the ranks of its local number.
Status hierarchical_allgather(CollectiveContext& context, ByteSpan own, std::span<const MutableByteSpan> parts,
                              size_t chunk_bytes);
Status allgather_by_counterparts(CollectiveContext& context, ByteSpan own, std::span<const MutableByteSpan> parts,
                                 size_t chunk_bytes);

}  // namespace ringtune
