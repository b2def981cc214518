// SPDX-License-Identifier: Apache-2.0
// The steps of an allreduce through cache-sized stages in shared memory.
//
// A message is cut into chunks, a chunk into one block per owner: the host's first ranks. Per chunk: every rank copies
// what others reduce into its own stage (stage); each owner gathers the contributions to its block from all stages,
// reduces them into its own stage, and publishes it (reduce-scatter); every rank collects the reduced blocks from their
// owners' stages (allgather).
#pragma once

#include <vector>

#include "collectives/allreduce.h"
#include "transport/shm/stage.h"

namespace ringtune {

class StagedChunks {
 public:
  StagedChunks(const AllreduceTask& task, int owners)
      : task_(task),
        stage_(task.comm.stage),
        owners_(owners),
        count_(chunk_count(task.data.bytes(), task.chunk_bytes)),
        sources_(static_cast<size_t>(stage_.local_size())) {}

  Status begin() { return stage_.begin(task_.chunk_bytes, count_); }
  void end() { stage_.end(); }

  uint64_t count() const { return count_; }
  // So many chunks after one is staged, it must have been collected: its slot is needed anew.
  uint64_t max_lag() const { return stage_.depth() - 1; }
  bool is_owner() const { return stage_.local_rank() < owners_; }

  Status stage(uint64_t chunk) {
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

  // For owners: waits until all have staged the chunk.
  Status gather(uint64_t chunk) { return stage_.wait_for_all(Phase::kStaged, chunk); }
  // The host's contributions to this rank's block, by local rank, when they are gathered.
  std::span<const std::byte* const> sources(uint64_t chunk) {
    for (int rank = 0; rank < stage_.local_size(); ++rank) {
      sources_[static_cast<size_t>(rank)] = stage_.slot(rank, chunk) + own_block(chunk).offset;
    }
    if (const std::byte* in_place = own_contribution(chunk); in_place != nullptr) {
      sources_[static_cast<size_t>(stage_.local_rank())] = in_place;
    }
    return sources_;
  }
  // Where this rank's reduced block goes: to its stage, possibly one of the sources, and where it belongs in the end,
  // if it lies in one piece there.
  ReductionTargets targets(uint64_t chunk) const {
    const ByteRange own = own_block(chunk);
    return {stage_.slot(stage_.local_rank(), chunk) + own.offset,
            task_.data.contiguous_output(range(chunk).offset + own.offset, own.bytes)};
  }
  size_t elements(uint64_t chunk) const { return own_block(chunk).bytes / element_bytes(task_.reduction.dtype); }
  void publish(uint64_t chunk) { stage_.publish(Phase::kReduced, chunk); }

  Status collect(uint64_t chunk) {
    for (int step = 0; step < owners_; ++step) {
      const int owner = (stage_.local_rank() + step) % owners_;
      if (owner == stage_.local_rank() && targets(chunk).second != nullptr) continue;  // it is there already
      if (Status s = stage_.wait_for(owner, Phase::kReduced, chunk); !s.ok()) return s;
      const ByteRange block = block_range(range(chunk).bytes, owners_, owner);
      task_.data.copy_out(range(chunk).offset + block.offset, stage_.slot(owner, chunk) + block.offset, block.bytes);
    }
    stage_.publish(Phase::kDrained, chunk);
    return Status::ok_status();
  }

 private:
  ByteRange range(uint64_t chunk) const { return chunk_range(task_.data.bytes(), task_.chunk_bytes, chunk); }

  // This rank's block of a chunk; empty where it owns none.
  ByteRange own_block(uint64_t chunk) const {
    return is_owner() ? block_range(range(chunk).bytes, owners_, stage_.local_rank())
                      : ByteRange{range(chunk).bytes, 0};
  }

  // This rank's own block is read where it is, if it lies in one piece there.
  const std::byte* own_contribution(uint64_t chunk) const {
    const ByteRange own = own_block(chunk);
    return task_.data.contiguous_input(range(chunk).offset + own.offset, own.bytes);
  }

  const AllreduceTask& task_;
  Stage& stage_;
  int owners_;
  uint64_t count_;
  std::vector<const std::byte*> sources_;
};

}  // namespace ringtune
