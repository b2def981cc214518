// SPDX-License-Identifier: Apache-2.0
// Each rank's rows are its *part*. Parts are cut into pieces, and piece i of all parts moves at once, so that all ranks
// reduce at the same time. A piece of the input is given away before the output reaches its place.
//
// Between hosts of equally many ranks, a rank first reduces its host's contributions to the parts of its
// *counterparts*, the ranks of its local number on the other hosts. Then each gets one partial result from every other
// host, and reduces them in the pairwise order of the hosts (pairwise.h). So a piece enters a host once, not once for
// each of its ranks; while it is on its way, the next one is reduced in the host. Elsewhere all ranks exchange with
// all, and reduce in rank order.
#include "collectives/reducescatter.h"

#include <algorithm>
#include <vector>

#include "base/config.h"
#include "collectives/aligned_buffer.h"
#include "collectives/host_movement.h"
#include "collectives/link_movement.h"
#include "collectives/pairwise.h"
#include "collectives/staged_pipeline.h"

namespace ringtune {
namespace {

// The smallest chunk has a piece of a cache line for every rank.
static_assert(kMinChunkBytes >= kMaxRanksPerHost * kCacheLine);

// Pieces whose partial results are in use at once: one is on its way while the next is reduced.
constexpr uint64_t kSlots = 2;

// Partial results of pieces, which travel between this rank and its counterparts.
class Partials {
 public:
  Partials(const Reduction& reduction, CollectiveContext& context, size_t piece_bytes)
      : reduction_(reduction),
        context_(context),
        hosts_(context.layout.host_count()),
        stored_bytes_(element_bytes(reduction.dtype)),
        partial_bytes_(element_bytes(accumulator_dtype(reduction.dtype))),
        stride_(round_up(piece_bytes / stored_bytes_ * partial_bytes_, kCacheLine)),
        by_host_(static_cast<size_t>(hosts_)) {}

  Status allocate() { return scratch_.allocate(kSlots * 2 * by_host_.size() * stride_); }

  // Reduces this host's contributions, of so many bytes each, to the piece of the counterpart on a host.
  void reduce_own(uint64_t piece, int host, std::span<const std::byte* const> contributions, size_t bytes) {
    reduce(reduction_, {{}, contributions}, ReductionOutput::kPartial, outgoing(piece, host), bytes / stored_bytes_);
  }

  // Begins to send that to the host at a distance, and to receive what the one at as much the other way has for this.
  Status begin(uint64_t piece, int distance, size_t outgoing_bytes, size_t own_bytes) {
    const int to = context_.host(distance);
    const int from = context_.host(-distance);
    return context_.links->begin(context_.counterpart(to), {outgoing(piece, to), travelling(outgoing_bytes)},
                                 context_.counterpart(from), {incoming(piece, from), travelling(own_bytes)});
  }

  // Reduces the partial results of all hosts to the result.
  Status end(uint64_t piece, MutableByteSpan result) {
    for (int distance = 1; distance < hosts_; ++distance) {
      if (Status s = context_.links->finish(); !s.ok()) return s;
    }
    for (int from = 0; from < hosts_; ++from) {
      by_host_[static_cast<size_t>(from)] =
          from == context_.layout.host() ? outgoing(piece, from) : incoming(piece, from);
    }
    reduce_in_pairs(reduction_, by_host_, result.data(), result.size() / stored_bytes_);
    return Status::ok_status();
  }

 private:
  size_t travelling(size_t bytes) const { return bytes / stored_bytes_ * partial_bytes_; }
  std::byte* outgoing(uint64_t piece, int host) {
    const size_t slot = static_cast<size_t>(piece % kSlots) * 2 * by_host_.size();
    return scratch_.data() + (slot + static_cast<size_t>(host)) * stride_;
  }
  std::byte* incoming(uint64_t piece, int host) { return outgoing(piece, host) + by_host_.size() * stride_; }

  const Reduction& reduction_;
  CollectiveContext& context_;
  int hosts_;
  size_t stored_bytes_;
  size_t partial_bytes_;
  size_t stride_;
  AlignedBuffer scratch_;
  std::vector<std::byte*> by_host_;
};

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

  // A chunk holds a piece for every rank of one host: those of the other hosts first, by distance, then the own.
  Status run_by_counterparts() {
    const auto hosts = static_cast<uint64_t>(context_.layout.host_count());
    const auto local_size = static_cast<size_t>(context_.layout.local_size());
    const size_t piece_bytes = task_.chunk_bytes / local_size / kCacheLine * kCacheLine;
    const uint64_t last = pieces(piece_bytes) - 1;
    Partials partials(task_.reduction, context_, piece_bytes);
    if (Status s = partials.allocate(); !s.ok()) return s;
    const auto fill = [&](uint64_t number, std::byte* slot) {
      const int target = context_.host(static_cast<int>(number % hosts) + 1);
      for (const int rank : context_.layout.ranks_of(target)) {
        const ByteSpan piece = input_piece(static_cast<size_t>(rank), piece_bytes, number / hosts);
        copy_bytes(slot, piece.data(), piece.size());
        slot += piece_bytes;
      }
    };
    const auto take = [&](uint64_t number) {
      if (Status s = context_.stage.wait_for_all(Phase::kStaged, number); !s.ok()) return s;
      const uint64_t piece = number / hosts;
      const int distance = static_cast<int>(number % hosts) + 1;
      const int target = context_.host(distance);
      const auto owner = static_cast<size_t>(context_.counterpart(target));
      const size_t bytes = input_piece(owner, piece_bytes, piece).size();
      partials.reduce_own(piece, target, staged_pieces(number, piece_bytes), bytes);
      if (target != context_.layout.host()) {
        return partials.begin(piece, distance, bytes, output_piece(piece_bytes, piece).size());
      }
      return piece == 0 ? Status::ok_status() : partials.end(piece - 1, output_piece(piece_bytes, piece - 1));
    };
    Status s = run_staged(context_.stage, task_.chunk_bytes, (last + 1) * hosts, fill, take);
    if (s.ok()) s = partials.end(last, output_piece(piece_bytes, last));
    if (!s.ok()) context_.links->give_up();
    return s;
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

  MutableByteSpan output_piece(size_t piece_bytes, uint64_t number) const {
    const ByteRange range = chunk_range(parts_[rank_].bytes, piece_bytes, number);
    return {task_.output + range.offset, range.bytes};
  }

  // The host's contributions to the pieces of this rank's local number, in a chunk.
  std::vector<const std::byte*> staged_pieces(uint64_t chunk, size_t piece_bytes) const {
    std::vector<const std::byte*> pieces;
    for (int local = 0; local < context_.layout.local_size(); ++local) {
      pieces.push_back(context_.stage.slot(local, chunk) +
                       static_cast<size_t>(context_.layout.local_rank()) * piece_bytes);
    }
    return pieces;
  }

  void reduce_piece(std::span<const std::byte* const> sources, size_t piece_bytes, uint64_t number) {
    const MutableByteSpan piece = output_piece(piece_bytes, number);
    reduce_in_rank_order(task_.reduction, sources, piece.data(), piece.size() / element_bytes(task_.reduction.dtype));
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
  if (task.context.is_one_host()) return operation.run_on_host();
  return task.context.layout.has_equal_hosts() ? operation.run_by_counterparts() : operation.run_over_links();
}

}  // namespace ringtune
