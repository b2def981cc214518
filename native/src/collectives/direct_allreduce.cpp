// SPDX-License-Identifier: Apache-2.0
// Allreduce for small messages: every rank reads all stages and reduces everything itself. One wait instead of two;
// the ranks' contributions are taken in rank order on every rank, so all get the same bits.
#include <algorithm>
#include <array>
#include <vector>

#include "collectives/allreduce.h"
#include "collectives/staged_pipeline.h"

namespace ringtune {
namespace {

// Results pass through a buffer of this size on their way to the tensors.
constexpr size_t kPassBytes = 4096;

void reduce_chunk(const AllreduceTask& task, uint64_t chunk, const ByteRange& range) {
  const Stage& stage = task.comm.stage;
  std::vector<const std::byte*> sources(static_cast<size_t>(stage.local_size()));
  alignas(kCacheLine) std::array<std::byte, kPassBytes> reduced;
  for (size_t done = 0; done < range.bytes; done += kPassBytes) {
    const size_t bytes = std::min(kPassBytes, range.bytes - done);
    for (int rank = 0; rank < stage.local_size(); ++rank) {
      sources[static_cast<size_t>(rank)] = stage.slot(rank, chunk) + done;
    }
    reduce_in_rank_order(task.reduction, sources, reduced.data(), bytes / element_bytes(task.reduction.dtype));
    task.data.copy_out(range.offset + done, reduced.data(), bytes);
  }
}

}  // namespace

Status direct_allreduce(const AllreduceTask& task) {
  Stage& stage = task.comm.stage;
  const auto range_of = [&](uint64_t chunk) { return chunk_range(task.data.bytes(), task.chunk_bytes, chunk); };
  const auto fill = [&](uint64_t chunk, std::byte* slot) {
    task.data.copy_in(range_of(chunk).offset, slot, range_of(chunk).bytes);
  };
  const auto take = [&](uint64_t chunk) {
    if (Status s = stage.wait_for_all(Phase::kStaged, chunk); !s.ok()) return s;
    reduce_chunk(task, chunk, range_of(chunk));
    return Status::ok_status();
  };
  return run_staged(stage, task.chunk_bytes, chunk_count(task.data.bytes(), task.chunk_bytes), fill, take);
}

}  // namespace ringtune
