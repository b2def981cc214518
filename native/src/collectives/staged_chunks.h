// SPDX-License-Identifier: Apache-2.0
// The steps of an allreduce through cache-sized stages in shared memory.
//
// A message is cut into chunks, a chunk into one block per owner: the host's first ranks. Per chunk: every rank copies
// the blocks of other owners into its own stage (stage); each owner gathers the contributions to its block from all
// stages, reduces them with its own, which it reads where it lies, and publishes the result in its stage
// (reduce-scatter); every rank collects the other owners' blocks from their stages (allgather).
#pragma once

#include <span>
#include <vector>

#include "collectives/allreduce.h"
#include "transport/shm/stage.h"

namespace ringtune {

class StagedChunks {
 public:
  StagedChunks(const AllreduceTask& task, int owners)
      : task_(task),
        stage_(task.context.stage),
        owners_(owners),
        count_(chunk_count(task.data.bytes(), task.chunk_bytes)),
        sources_(static_cast<size_t>(stage_.local_size())) {}

  Status begin() { return stage_.begin(task_.chunk_bytes, count_); }
  void end() { stage_.end(); }

  uint64_t count() const { return count_; }
  // Number of chunks after which a staged one must have been collected: its slot is needed anew.
  uint64_t max_lag() const { return stage_.depth() - 1; }
  bool is_owner() const { return stage_.local_rank() < owners_; }

  Status stage(uint64_t chunk) {
    if (Status s = stage_.reserve(chunk); !s.ok()) return s;
    std::byte* slot = stage_.slot(stage_.local_rank(), chunk);
    const ByteRange all = range(chunk);
    const ByteRange own = own_block(chunk);
    const size_t after = own.offset + own.bytes;
    task_.data.copy_in(all.offset, slot, own.offset);
    task_.data.copy_in(all.offset + after, slot + after, all.bytes - after);
    stage_.publish(Phase::kStaged, chunk);
    return Status::ok_status();
  }

  // For owners: waits until all have staged the chunk.
  Status gather(uint64_t chunk) { return stage_.wait_for_all(Phase::kStaged, chunk); }
  // Calls `visit(contributions, output, offset within the block, bytes)` for every piece of this rank's block, when it
  // is gathered: the host's contributions, by local rank, and where the result belongs in the end.
  template <typename Visit>
  void for_own_pieces(uint64_t chunk, Visit visit) {
    const ByteRange own = own_block(chunk);
    const auto take = [&](const std::byte* input, std::byte* output, size_t done, size_t bytes) {
      for (int rank = 0; rank < stage_.local_size(); ++rank) {
        sources_[static_cast<size_t>(rank)] = stage_.slot(rank, chunk) + own.offset + done;
      }
      sources_[static_cast<size_t>(stage_.local_rank())] = input;
      visit(std::span<const std::byte* const>(sources_), output, done, bytes);
    };
    task_.data.for_pieces(range(chunk).offset + own.offset, own.bytes, take);
  }
  // Address at which this rank's reduced block is published.
  std::byte* published(uint64_t chunk) const {
    return stage_.slot(stage_.local_rank(), chunk) + own_block(chunk).offset;
  }
  // Copies the published block to where it belongs.
  void keep_published(uint64_t chunk) const {
    const ByteRange own = own_block(chunk);
    task_.data.copy_out(range(chunk).offset + own.offset, published(chunk), own.bytes);
  }
  size_t elements(uint64_t chunk) const { return own_block(chunk).bytes / element_bytes(task_.reduction.dtype); }
  void publish(uint64_t chunk) { stage_.publish(Phase::kReduced, chunk); }

  // The other owners' blocks.
  Status collect(uint64_t chunk) {
    for (int step = 0; step < owners_; ++step) {
      const int owner = (stage_.local_rank() + step) % owners_;
      if (owner == stage_.local_rank()) continue;
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

  const AllreduceTask& task_;
  Stage& stage_;
  int owners_;
  uint64_t count_;
  std::vector<const std::byte*> sources_;
};

}  // namespace ringtune
