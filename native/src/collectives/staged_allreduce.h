// SPDX-License-Identifier: Apache-2.0
// Allreduce through cache-sized stages in shared memory.
//
// A message is cut into chunks, a chunk into one block per owner: the host's first ranks. Per chunk: every rank copies
// what others reduce into its own stage (stage); each owner reduces its block over all stages, into its own stage
// (reduce-scatter); every rank copies the reduced blocks out of their owners' stages (allgather).
#pragma once

#include <vector>

#include "collectives/allreduce.h"
#include "transport/shm/stage.h"

namespace ringtune {

// `reduce_block(sources, targets, elements)` reduces the host's contributions to a block, which it writes to all
// `targets`, possibly among the sources, and returns a Status.
template <typename ReduceBlock>
class StagedAllreduce {
 public:
  StagedAllreduce(const AllreduceTask& task, int owners, ReduceBlock reduce_block)
      : task_(task),
        stage_(task.comm.stage),
        owners_(owners),
        reduce_block_(reduce_block),
        sources_(static_cast<size_t>(stage_.local_size())) {}

  Status run() {
    const uint64_t chunks = chunk_count(task_.data.bytes(), task_.chunk_bytes);
    if (Status s = stage_.begin(task_.chunk_bytes, chunks); !s.ok()) return s;
    const uint64_t lag = stage_.depth() > 2 ? 2 : 1;  // a slot must be collected before it is staged anew
    for (uint64_t step = 0; step < chunks + lag; ++step) {
      if (Status s = advance(step, chunks, lag); !s.ok()) return s;
    }
    stage_.end();
    return Status::ok_status();
  }

 private:
  // Stages a chunk, reduces the one before and collects the one `lag` before, so that nobody waits for what its peers
  // have only just begun.
  Status advance(uint64_t step, uint64_t chunks, uint64_t lag) {
    Status s;
    if (step < chunks) s = copy_to_stage(step);
    if (s.ok() && step >= 1 && step <= chunks) s = reduce_own_block(step - 1);
    if (s.ok() && step >= lag) s = copy_from_stages(step - lag);
    return s;
  }

  ByteRange range(uint64_t chunk) const { return chunk_range(task_.data.bytes(), task_.chunk_bytes, chunk); }

  // This rank's block of a chunk; empty where it owns none.
  ByteRange own_block(uint64_t chunk) const {
    return stage_.local_rank() < owners_ ? block_range(range(chunk).bytes, owners_, stage_.local_rank())
                                         : ByteRange{range(chunk).bytes, 0};
  }

  // This rank's own block is read where it is, if it lies in one piece there.
  const std::byte* own_contribution(uint64_t chunk) const {
    const ByteRange own = own_block(chunk);
    return task_.data.contiguous_input(range(chunk).offset + own.offset, own.bytes);
  }

  // Where this rank's own block belongs in the end, if it lies in one piece there.
  std::byte* own_result(uint64_t chunk) const {
    const ByteRange own = own_block(chunk);
    return task_.data.contiguous_output(range(chunk).offset + own.offset, own.bytes);
  }

  Status copy_to_stage(uint64_t chunk) {
    if (Status s = stage_.reserve(chunk); !s.ok()) return s;
    std::byte* slot = stage_.slot(stage_.local_rank(), chunk);
    const ByteRange all = range(chunk);
    if (own_contribution(chunk) == nullptr) {
      task_.data.copy_in(all.offset, slot, all.bytes);
    } else {
      const ByteRange own = own_block(chunk);
      const size_t after = own.offset + own.bytes;
      task_.data.copy_in(all.offset, slot, own.offset);
      task_.data.copy_in(all.offset + after, slot + after, all.bytes - after);
    }
    stage_.publish(Phase::kStaged, chunk);
    return Status::ok_status();
  }

  Status reduce_own_block(uint64_t chunk) {
    if (stage_.local_rank() >= owners_) return Status::ok_status();
    if (Status s = stage_.wait_for_all(Phase::kStaged, chunk); !s.ok()) return s;
    const ByteRange own = own_block(chunk);
    for (int rank = 0; rank < stage_.local_size(); ++rank) {
      sources_[static_cast<size_t>(rank)] = stage_.slot(rank, chunk) + own.offset;
    }
    if (const std::byte* in_place = own_contribution(chunk); in_place != nullptr) {
      sources_[static_cast<size_t>(stage_.local_rank())] = in_place;
    }
    const ReductionTargets targets{stage_.slot(stage_.local_rank(), chunk) + own.offset, own_result(chunk)};
    const size_t elements = own.bytes / element_bytes(task_.reduction.dtype);
    if (Status s = reduce_block_(std::span<const std::byte* const>(sources_), targets, elements); !s.ok()) return s;
    stage_.publish(Phase::kReduced, chunk);
    return Status::ok_status();
  }

  Status copy_from_stages(uint64_t chunk) {
    for (int step = 0; step < owners_; ++step) {
      const int owner = (stage_.local_rank() + step) % owners_;
      if (owner == stage_.local_rank() && own_result(chunk) != nullptr) continue;  // it is there already
      if (Status s = stage_.wait_for(owner, Phase::kReduced, chunk); !s.ok()) return s;
      const ByteRange block = block_range(range(chunk).bytes, owners_, owner);
      task_.data.copy_out(range(chunk).offset + block.offset, stage_.slot(owner, chunk) + block.offset, block.bytes);
    }
    stage_.publish(Phase::kDrained, chunk);
    return Status::ok_status();
  }

  const AllreduceTask& task_;
  Stage& stage_;
  int owners_;
  ReduceBlock reduce_block_;
  std::vector<const std::byte*> sources_;
};

}  // namespace ringtune
