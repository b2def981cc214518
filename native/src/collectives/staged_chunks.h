// SPDX-License-Identifier: Apache-2.0
// The steps of an allreduce through cache-sized stages in shared memory.
//
// A message is cut into chunks, a chunk into one block per owner: the host's first ranks. Per chunk: every rank copies
// the blocks of other owners into its own stage (stage); each owner gathers the contributions to its block from all
// stages, reduces them with its own, which it reads where it lies, and publishes the result in its stage
// (reduce-scatter); every rank collects the other owners' blocks from their stages (allgather).
//
// A chunk's results take the slots of its contributions. Where they come much later, from distant hosts, that would
// keep these slots for as long. There the results have slots of their own, which are filled between those of later
// chunks' contributions: contributions of chunk i take slot 2 i, results of chunk i - lag slot 2 i + 1.
#pragma once

#include <algorithm>
#include <cstring>
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

  // `results_lag`: number of steps from a chunk's contributions to its results; 0: one slot for both. Equal on all
  // ranks of the host.
  Status begin(uint64_t results_lag = 0) {
    // Drained slots are told with each chunk's contributions, then with its results. A longer lag would leave a gap
    // between the two, in which nothing is told and the first result waits for a slot for ever.
    results_lag_ = std::min(results_lag, count_);
    return stage_.begin(task_.chunk_bytes, results_lag == 0 ? count_ : 2 * (count_ + results_lag_));
  }
  void end() { stage_.end(); }

  uint64_t count() const { return count_; }
  // Number of chunks after which a staged one must have been collected: its slot is needed anew.
  uint64_t max_lag() const { return stage_.depth() - 1; }
  bool is_owner() const { return stage_.local_rank() < owners_; }

  Status stage(uint64_t chunk) {
    const uint64_t number = contributions_of(chunk);
    if (Status s = stage_.reserve(number); !s.ok()) return s;
    std::byte* slot = stage_.slot(stage_.local_rank(), number);
    const ByteRange all = range(chunk);
    const ByteRange own = own_block(chunk);
    const size_t after = own.offset + own.bytes;
    task_.data.copy_in(all.offset, slot, own.offset);
    task_.data.copy_in(all.offset + after, slot + after, all.bytes - after);
    stage_.publish(Phase::kStaged, number);
    return Status::ok_status();
  }

  // For owners: waits until all have staged the chunk.
  Status gather(uint64_t chunk) { return stage_.wait_for_all(Phase::kStaged, contributions_of(chunk)); }
  // Calls `visit(contributions, output, offset within the block, bytes)` for every piece of this rank's block, when it
  // is gathered: the host's contributions, by local rank, and where the result belongs in the end.
  template <typename Visit>
  void for_own_pieces(uint64_t chunk, Visit visit) {
    const ByteRange own = own_block(chunk);
    const auto take = [&](const std::byte* input, std::byte* output, size_t done, size_t bytes) {
      for (int rank = 0; rank < stage_.local_size(); ++rank) {
        sources_[static_cast<size_t>(rank)] = stage_.slot(rank, contributions_of(chunk)) + own.offset + done;
      }
      sources_[static_cast<size_t>(stage_.local_rank())] = input;
      visit(std::span<const std::byte* const>(sources_), output, done, bytes);
    };
    task_.data.for_pieces(range(chunk).offset + own.offset, own.bytes, take);
  }
  // This rank needs the chunk's contributions no more. The slot after them is drained, too: results of an earlier chunk
  // lay there, which this rank has collected.
  void release_contributions(uint64_t chunk) {
    if (results_lag_ > 0) stage_.publish(Phase::kDrained, contributions_of(chunk) + 1);
  }
  // Address at which this rank's reduced block is published.
  std::byte* published(uint64_t chunk) const {
    return stage_.slot(stage_.local_rank(), results_of(chunk)) + own_block(chunk).offset;
  }
  // Copies a reduced block to where it is published.
  Status stage_results(uint64_t chunk, const std::byte* block) {
    if (stage_.local_size() == 1) return Status::ok_status();
    if (Status s = stage_.reserve(results_of(chunk)); !s.ok()) return s;
    std::memcpy(published(chunk), block, own_block(chunk).bytes);
    return Status::ok_status();
  }
  // Copies a reduced block to where it belongs.
  void keep(uint64_t chunk, const std::byte* block) const {
    const ByteRange own = own_block(chunk);
    task_.data.copy_out(range(chunk).offset + own.offset, block, own.bytes);
  }
  size_t elements(uint64_t chunk) const { return own_block(chunk).bytes / element_bytes(task_.reduction.dtype); }
  void publish(uint64_t chunk) { stage_.publish(Phase::kReduced, results_of(chunk)); }

  // The other owners' blocks.
  Status collect(uint64_t chunk) {
    for (int step = 0; step < owners_; ++step) {
      const int owner = (stage_.local_rank() + step) % owners_;
      if (owner == stage_.local_rank()) continue;
      if (Status s = stage_.wait_for(owner, Phase::kReduced, results_of(chunk)); !s.ok()) return s;
      const ByteRange block = block_range(range(chunk).bytes, owners_, owner);
      task_.data.copy_out(range(chunk).offset + block.offset, stage_.slot(owner, results_of(chunk)) + block.offset,
                          block.bytes);
    }
    // The release of a later chunk's contributions drains this slot, too, as long as there are any.
    if (results_lag_ == 0 || chunk + results_lag_ >= count_) stage_.publish(Phase::kDrained, results_of(chunk));
    return Status::ok_status();
  }

 private:
  // Numbers of a chunk's slots.
  uint64_t contributions_of(uint64_t chunk) const { return results_lag_ == 0 ? chunk : 2 * chunk; }
  uint64_t results_of(uint64_t chunk) const { return results_lag_ == 0 ? chunk : 2 * (chunk + results_lag_) + 1; }

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
  uint64_t results_lag_ = 0;
  std::vector<const std::byte*> sources_;
};

}  // namespace ringtune
