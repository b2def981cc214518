// SPDX-License-Identifier: Apache-2.0
// Allreduce for small messages: every rank reads all stages and reduces everything itself. One wait instead of two;
// the sum is taken in rank order on every rank, so all get the same bits.
#include <algorithm>
#include <array>
#include <vector>

#include "collectives/allreduce.h"
#include "collectives/reduce_kernels.h"

namespace ringtune {
namespace {

// Reduced sums pass through a buffer of this size on their way to the tensors.
constexpr size_t kPassBytes = 4096;

void reduce_chunk(const AllreduceTask& task, uint64_t chunk, size_t offset, size_t bytes) {
  std::vector<const std::byte*> sources(static_cast<size_t>(task.stage.world_size()));
  alignas(kCacheLine) std::array<std::byte, kPassBytes> reduced;
  for (size_t done = 0; done < bytes; done += kPassBytes) {
    const size_t count = std::min(kPassBytes, bytes - done);
    for (int rank = 0; rank < task.stage.world_size(); ++rank) {
      sources[static_cast<size_t>(rank)] = task.stage.slot(rank, chunk) + done;
    }
    reduce_in_rank_order(task.dtype, task.op, sources, reduced.data(), count / element_bytes(task.dtype));
    task.data.copy_out(offset + done, reduced.data(), count);
  }
}

}  // namespace

Status direct_allreduce(const AllreduceTask& task) {
  const uint64_t chunks = chunk_count(task.data.bytes(), task.chunk_bytes);
  if (Status s = task.stage.begin(task.chunk_bytes, chunks); !s.ok()) return s;
  for (uint64_t chunk = 0; chunk < chunks; ++chunk) {
    const size_t offset = chunk * task.chunk_bytes;
    const size_t bytes = std::min(task.chunk_bytes, task.data.bytes() - offset);
    if (Status s = task.stage.reserve(chunk); !s.ok()) return s;
    task.data.copy_in(offset, task.stage.slot(task.stage.rank(), chunk), bytes);
    task.stage.publish(Phase::kStaged, chunk);
    if (Status s = task.stage.wait_for_all(Phase::kStaged, chunk); !s.ok()) return s;
    reduce_chunk(task, chunk, offset, bytes);
    task.stage.publish(Phase::kDrained, chunk);
  }
  task.stage.end();
  return Status::ok_status();
}

}  // namespace ringtune
