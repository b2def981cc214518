// SPDX-License-Identifier: Apache-2.0
// Allreduce on a ring of all ranks, in rank order: a rank sends to the next and receives from the one before.
//
// A message is cut into segments of one chunk per rank, which bounds the memory, and a segment into one block per rank.
// Reduce-scatter: partial results travel around the ring, and every rank adds its contribution to the one that comes
// by; after world size - 1 steps, rank r has the whole of block r + 1. Allgather: the results travel on until all
// have them. A block is reduced along one path and rounded once, so that all ranks get the same bits.
#include <array>
#include <utility>

#include "collectives/aligned_buffer.h"
#include "collectives/allreduce.h"
#include "collectives/element.h"

namespace ringtune {
namespace {

class Ring {
 public:
  explicit Ring(const AllreduceTask& task)
      : task_(task),
        context_(task.context),
        world_size_(context_.world_size()),
        stored_bytes_(element_bytes(task.reduction.dtype)),
        partial_bytes_(element_bytes(accumulator_dtype(task.reduction.dtype))) {}

  Status run() {
    const size_t segment_bytes = task_.chunk_bytes * static_cast<size_t>(world_size_);
    if (Status s = prepare(std::min(segment_bytes, task_.data.bytes())); !s.ok()) return s;
    const uint64_t segments = chunk_count(task_.data.bytes(), segment_bytes);
    for (uint64_t number = 0; number < segments; ++number) {
      segment_ = chunk_range(task_.data.bytes(), segment_bytes, number);
      if (Status s = reduce_scatter(); !s.ok()) return s;
      if (Status s = allgather(); !s.ok()) return s;
    }
    return Status::ok_status();
  }

 private:
  // A block that a rank is about to send, and the one that arrives meanwhile.
  struct Pair {
    std::byte* outgoing;
    std::byte* arriving;
  };

  Status prepare(size_t largest_segment) {
    const size_t stored = round_up(block_range(largest_segment, world_size_, 0).bytes, kCacheLine);
    const size_t partial = stored / stored_bytes_ * partial_bytes_;
    if (Status s = scratch_.allocate(3 * stored + 2 * partial); !s.ok()) return s;
    contribution_ = scratch_.data();
    results_ = {contribution_ + stored, contribution_ + 2 * stored};
    partials_ = {contribution_ + 3 * stored, contribution_ + 3 * stored + partial};
    return Status::ok_status();
  }

  // Of the block `distance` ranks further, counted around the ring.
  ByteRange block(int distance) const { return block_range(segment_.bytes, world_size_, context_.neighbour(distance)); }
  size_t elements(int distance) const { return block(distance).bytes / stored_bytes_; }

  void load_contribution(int distance) {
    task_.data.copy_in(segment_.offset + block(distance).offset, contribution_, block(distance).bytes);
  }

  // Passes the outgoing block, which is number `distance` from here, on.
  Status pass_on(const Pair& pair, int distance, size_t element_bytes) {
    const ByteSpan out(pair.outgoing, elements(distance) * element_bytes);
    const MutableByteSpan in(pair.arriving, elements(distance - 1) * element_bytes);
    return context_.links->exchange(context_.neighbour(1), out, context_.neighbour(-1), in);
  }

  Status reduce_scatter() {
    const std::array<const std::byte*, 1> own{contribution_};
    load_contribution(0);
    reduce(task_.reduction, {{}, own}, ReductionOutput::kPartial, partials_.outgoing, elements(0));
    for (int step = 0; step < world_size_ - 1; ++step) {
      if (Status s = pass_on(partials_, -step, partial_bytes_); !s.ok()) return s;
      const bool is_last = step == world_size_ - 2;
      const std::array<const std::byte*, 1> arrived{partials_.arriving};
      load_contribution(-step - 1);
      reduce(task_.reduction, {arrived, own}, is_last ? ReductionOutput::kResult : ReductionOutput::kPartial,
             is_last ? results_.outgoing : partials_.arriving, elements(-step - 1));
      std::swap(partials_.outgoing, partials_.arriving);
    }
    return Status::ok_status();
  }

  Status allgather() {
    copy_out(results_.outgoing, 1);
    for (int step = 0; step < world_size_ - 1; ++step) {
      if (Status s = pass_on(results_, 1 - step, stored_bytes_); !s.ok()) return s;
      copy_out(results_.arriving, -step);
      std::swap(results_.outgoing, results_.arriving);
    }
    return Status::ok_status();
  }

  void copy_out(const std::byte* result, int distance) {
    task_.data.copy_out(segment_.offset + block(distance).offset, result, block(distance).bytes);
  }

  const AllreduceTask& task_;
  CollectiveContext& context_;
  int world_size_;
  size_t stored_bytes_;
  size_t partial_bytes_;
  ByteRange segment_{};
  AlignedBuffer scratch_;  // the buffers below, each of one block
  std::byte* contribution_ = nullptr;
  Pair partials_{};
  Pair results_{};
};

}  // namespace

Status ring_allreduce(const AllreduceTask& task) { return Ring(task).run(); }

}  // namespace ringtune
