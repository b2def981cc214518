// SPDX-License-Identifier: Apache-2.0
// Each rank's rows are its *part*. Parts are cut into pieces, and piece i of all parts moves at once, so that all ranks
// reduce at the same time. A piece of the input is given away before the output reaches its place.
#include "collectives/reducescatter.h"

#include <algorithm>
#include <vector>

#include "base/config.h"
#include "collectives/aligned_buffer.h"
#include "collectives/host_movement.h"
#include "collectives/link_movement.h"
#include "collectives/staged_pipeline.h"

namespace ringtune {
namespace {

// The smallest chunk has a piece of a cache line for every rank.
static_assert(kMinChunkBytes >= kMaxRanksPerHost * kCacheLine);

class Reducescatter {
 public:
  explicit Reducescatter(const ReducescatterTask& task)
      : task_(task),
        context_(task.context),
        world_size_(static_cast<size_t>(context_.world_size())),
        rank_(static_cast<size_t>(context_.rank())) {
    const size_t row_bytes = task.row_elements * element_bytes(task.reduction.dtype);
    size_t offset = 0;
    for (int rank = 0; rank < context_.world_size(); ++rank) {
      parts_.push_back({offset, static_cast<size_t>(rows_of_rank(task.rows, rank, context_.world_size())) * row_bytes});
      offset += parts_.back().bytes;
    }
  }

  // A chunk holds a piece for every rank.
  Status run_on_host() {
    const size_t piece_bytes = task_.chunk_bytes / world_size_ / kCacheLine * kCacheLine;
    std::vector<const std::byte*> sources(world_size_);
    const auto fill = [&](uint64_t number, std::byte* slot) {
      for (size_t rank = 0; rank < world_size_; ++rank) {
        const ByteSpan piece = input_piece(rank, piece_bytes, number);
        copy_bytes(slot + rank * piece_bytes, piece.data(), piece.size());
      }
    };
    const auto take = [&](uint64_t number) {
      if (Status s = context_.stage.wait_for_all(Phase::kStaged, number); !s.ok()) return s;
      for (size_t rank = 0; rank < world_size_; ++rank) {
        sources[rank] = context_.stage.slot(static_cast<int>(rank), number) + rank_ * piece_bytes;
      }
      reduce_piece(sources, piece_bytes, number);
      return Status::ok_status();
    };
    return run_staged(context_.stage, task_.chunk_bytes, pieces(piece_bytes), fill, take);
  }

  // A piece is a chunk; all ranks' contributions to this rank's pieces meet in a buffer.
  Status run_over_links() {
    const size_t piece_bytes = std::min(task_.chunk_bytes, round_up(parts_.front().bytes, kCacheLine));
    AlignedBuffer contributions;
    if (Status s = contributions.allocate(piece_bytes * world_size_); !s.ok()) return s;
    std::vector<const std::byte*> sources(world_size_);
    std::vector<ByteSpan> outgoing(world_size_);
    std::vector<MutableByteSpan> arriving(world_size_);
    for (uint64_t number = 0; number < pieces(piece_bytes); ++number) {
      const ByteSpan own = input_piece(rank_, piece_bytes, number);
      for (size_t rank = 0; rank < world_size_; ++rank) {
        outgoing[rank] = input_piece(rank, piece_bytes, number);
        arriving[rank] = {contributions.data() + rank * piece_bytes, own.size()};
        sources[rank] = arriving[rank].data();
      }
      copy_bytes(arriving[rank_].data(), own.data(), own.size());
      if (Status s = exchange_with_all(context_, outgoing, arriving); !s.ok()) return s;
      reduce_piece(sources, piece_bytes, number);
    }
    return Status::ok_status();
  }

 private:
  // The first part is the largest.
  uint64_t pieces(size_t piece_bytes) const {
    return chunk_count(parts_.front().bytes, std::max<size_t>(1, piece_bytes));
  }

  ByteSpan input_piece(size_t rank, size_t piece_bytes, uint64_t number) const {
    const ByteRange range = chunk_range(parts_[rank].bytes, piece_bytes, number);
    return {task_.input + parts_[rank].offset + range.offset, range.bytes};
  }

  void reduce_piece(std::span<const std::byte* const> sources, size_t piece_bytes, uint64_t number) {
    const ByteRange range = chunk_range(parts_[rank_].bytes, piece_bytes, number);
    reduce_in_rank_order(task_.reduction, sources, task_.output + range.offset,
                         range.bytes / element_bytes(task_.reduction.dtype));
  }

  const ReducescatterTask& task_;
  CollectiveContext& context_;
  size_t world_size_;
  size_t rank_;
  std::vector<ByteRange> parts_;  // of the input
};

}  // namespace

int64_t rows_of_rank(int64_t rows, int rank, int world_size) {
  return rows / world_size + (rank < rows % world_size ? 1 : 0);
}

Status reducescatter(const ReducescatterTask& task) {
  Reducescatter operation(task);
  return task.context.is_one_host() ? operation.run_on_host() : operation.run_over_links();
}

}  // namespace ringtune
