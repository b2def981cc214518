// SPDX-License-Identifier: Apache-2.0
// In one host every rank owns a block, and the result is ready when the host's contributions are reduced.
#include <algorithm>
#include <cstring>

#include "collectives/staged_chunks.h"

namespace ringtune {
namespace {

// Into the tensor, and from there into the stage: between cores that share no cache, a copy writes lines that peers
// have read twice as fast as the reduction's own stores would.
Status reduce_own_block(StagedChunks& chunks, const Reduction& reduction, uint64_t chunk) {
  if (Status s = chunks.gather(chunk); !s.ok()) return s;
  std::byte* const published = chunks.published(chunk);
  chunks.for_own_pieces(chunk, [&](auto contributions, std::byte* output, size_t done, size_t bytes) {
    reduce_in_rank_order(reduction, contributions, output, bytes / element_bytes(reduction.dtype));
    std::memcpy(published + done, output, bytes);
  });
  chunks.publish(chunk);
  return Status::ok_status();
}

}  // namespace

// Stages a chunk, reduces the one before and collects the one `lag` before, so that no rank waits for a step that its
// peers have only just begun.
Status reduce_scatter_allgather(const AllreduceTask& task) {
  StagedChunks chunks(task, task.context.stage.local_size());
  if (Status s = chunks.begin(); !s.ok()) return s;
  const uint64_t lag = std::min<uint64_t>(2, chunks.max_lag());
  for (uint64_t step = 0; step < chunks.count() + lag; ++step) {
    Status s;
    if (step < chunks.count()) s = chunks.stage(step);
    if (s.ok() && step >= 1 && step <= chunks.count()) s = reduce_own_block(chunks, task.reduction, step - 1);
    if (s.ok() && step >= lag) s = chunks.collect(step - lag);
    if (!s.ok()) return s;
  }
  chunks.end();
  return Status::ok_status();
}

}  // namespace ringtune
