// SPDX-License-Identifier: Apache-2.0
// Allreduce between hosts: shared memory inside, the network across.
//
// The stages' pipeline runs in every host; each owner of a block, before it publishes the block, reduces it with its
// counterparts: the ranks of its local number on the other hosts. So every local rank drives a slice of the traffic.
// Where hosts have different numbers of ranks, the first ranks own blocks, as many as the smallest host has.
//
// Counterparts exchange whole blocks where that is no more traffic or the block is small: one round. Otherwise a block
// is cut into one *share* per host: every host gets the partial results of its share, reduces them, and sends the
// result to the others. Shares are even, or follow the rates of the hosts' links (host_shares.h). In all cases partial
// results are reduced in the pairwise order of the hosts (pairwise.h).
// Partial results of a rounded task travel as bfloat16, are summed in float32 in the order of the hosts, and the sum is
// rounded again, in the one round as in the two: every host gets the same bits. With h hosts, the partial results s and
// their exact sum S, a result is within 2^-8 (|s_1| + ... + |s_h| + |S|) (1 + 2^-8) of S, plus the rounding errors of
// the float32 sums.
//
// `hierarchical_whole` exchanges whole blocks of any size, for links where a round costs more than many bytes.
//
// While a block is on its way, the next chunks are staged and reduced inside the host: the network need not wait.
// Two blocks are on their way at once; between distant hosts as many as the link holds, which wait in memory of their
// own, for the stages are too small for them.
#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "collectives/aligned_buffer.h"
#include "collectives/element.h"
#include "collectives/message_sizes.h"
#include "collectives/pairwise.h"
#include "collectives/staged_chunks.h"

namespace ringtune {
namespace {

// Float32 to bfloat16 as a result of one partial result, and back as a partial result of one contribution. The tensors
// of a rounded task are of either type.
constexpr Reduction kRounding{DataType::kBFloat16};

class Counterparts {
 public:
  Counterparts(const AllreduceTask& task, size_t max_whole_bytes)
      : reduction_(task.reduction),
        context_(task.context),
        max_whole_bytes_(max_whole_bytes),
        hosts_(context_.layout.host_count()),
        shares_(context_.shares == nullptr ? HostShares(hosts_) : *context_.shares),
        is_rounded_(task.is_rounded),
        is_widened_(is_rounded_ && reduction_.dtype != kRounding.dtype),
        rounded_{DataType::kBFloat16, reduction_.op, 1, reduction_.postscale, reduction_.ranks},
        partial_bytes_(element_bytes(accumulator_dtype(reduction_.dtype))),
        sent_bytes_(is_rounded_ ? sizeof(BFloat16) : partial_bytes_),
        result_bytes_(is_rounded_ ? sizeof(BFloat16) : element_bytes(reduction_.dtype)),
        partials_(static_cast<size_t>(hosts_)) {}

  // Whole: (hosts - 1) partial blocks go out. Shares: as many partial shares, and as many results of a share.
  bool is_whole(size_t elements) const {
    return elements * sent_bytes_ <= max_whole_bytes_ || hosts_count() * sent_bytes_ <= sent_bytes_ + result_bytes_;
  }

  // For blocks of up to so many elements, of which `in_flight` are on their way to or from other hosts at once. Results
  // that do not go to the stage at once wait in `results(chunk)`.
  Status prepare(size_t max_elements, uint64_t in_flight, bool has_results) {
    max_elements_ = max_elements;
    in_flight_ = in_flight;
    const size_t stride = is_whole(max_elements)
                              ? max_elements
                              : std::max(shares_.room(max_elements, own_host()), max_whole_bytes_ / sent_bytes_);
    results_offset_ = max_elements * partial_bytes_ + rounded_bytes() + stride * hosts_count() * sent_bytes_;
    results_offset_ = round_up(results_offset_, kCacheLine);
    const size_t results_bytes = has_results ? max_elements * element_bytes(reduction_.dtype) : 0;
    slot_bytes_ = round_up(results_offset_ + results_bytes, kCacheLine);
    return scratch_.allocate(in_flight * slot_bytes_);
  }
  std::byte* results(uint64_t chunk) { return partial(chunk) + results_offset_; }

  // The three steps of a block. Each waits for the transfers that the one before has begun. Other blocks' steps may
  // come between them, in the same order on all hosts.

  // Reduces this host's contributions to a piece of the block.
  void reduce_own(uint64_t chunk, std::span<const std::byte* const> contributions, size_t first, size_t elements) {
    std::byte* const own = partial(chunk) + first * partial_bytes_;
    reduce(reduction_, {{}, contributions}, ReductionOutput::kPartial, own, elements);
    if (is_rounded_) {
      const std::array<const std::byte*, 1> exact{own};
      reduce(kRounding, {exact, {}}, ReductionOutput::kResult, sent(chunk) + first * sent_bytes_, elements);
    }
  }
  // When all pieces are.
  Status begin(uint64_t chunk, size_t elements) {
    if (is_whole(elements)) {
      const ByteSpan all(sent(chunk), elements * sent_bytes_);
      return begin_with_all(
          [&](int) { return all; },
          [&](int from) { return MutableByteSpan(incoming(chunk, elements, from), elements * sent_bytes_); });
    }
    const size_t own_elements = shares_.of(elements, own_host()).elements;
    return begin_with_all(
        [&](int to) {
          const HostShare theirs = shares_.of(elements, to);
          return ByteSpan(sent(chunk) + theirs.first * sent_bytes_, theirs.elements * sent_bytes_);
        },
        [&](int from) { return MutableByteSpan(incoming(chunk, own_elements, from), own_elements * sent_bytes_); });
  }

  // Reduces the arrived partial results into the target: all of the block, or the own share of it.
  Status reduce_arrived(uint64_t chunk, std::byte* target, size_t elements) {
    if (Status s = finish_with_all(); !s.ok()) return s;
    std::byte* const results = is_widened_ ? rounded_results(chunk) : target;
    if (is_whole(elements)) {
      reduce_partials(chunk, {0, elements}, results);
      return Status::ok_status();
    }
    reduce_partials(chunk, shares_.of(elements, own_host()), results);
    const auto result_of = [&](int of) {
      const HostShare reduced = shares_.of(elements, of);
      return MutableByteSpan(results + reduced.first * result_bytes_, reduced.elements * result_bytes_);
    };
    return begin_with_all([&](int) { return result_of(own_host()); }, result_of);
  }

  // The target has the block's results afterwards.
  Status end(uint64_t chunk, std::byte* target, size_t elements) {
    if (!is_whole(elements)) {
      if (Status s = finish_with_all(); !s.ok()) return s;
    }
    if (is_widened_) {
      const std::array<const std::byte*, 1> results{rounded_results(chunk)};
      reduce(kRounding, {{}, results}, ReductionOutput::kPartial, target, elements);
    }
    return Status::ok_status();
  }

 private:
  size_t hosts_count() const { return static_cast<size_t>(hosts_); }
  int own_host() const { return context_.layout.host(); }

  // Bytes of the rounded partial block, and of rounded results where the target takes them in another type.
  size_t rounded_bytes() const {
    return (static_cast<size_t>(is_rounded_) + static_cast<size_t>(is_widened_)) * max_elements_ * sizeof(BFloat16);
  }

  std::byte* partial(uint64_t chunk) { return scratch_.data() + chunk % in_flight_ * slot_bytes_; }
  std::byte* after_partial(uint64_t chunk) { return partial(chunk) + max_elements_ * partial_bytes_; }
  // The own partial results as they go out.
  std::byte* sent(uint64_t chunk) { return is_rounded_ ? after_partial(chunk) : partial(chunk); }
  std::byte* rounded_results(uint64_t chunk) { return after_partial(chunk) + max_elements_ * sizeof(BFloat16); }
  std::byte* incoming(uint64_t chunk, size_t stride, int host) {
    return after_partial(chunk) + rounded_bytes() + stride * static_cast<size_t>(host) * sent_bytes_;
  }

  // Begins to send `outgoing(host)` to the counterpart on each other host, and to receive `arriving(host)` from it.
  template <typename Outgoing, typename Arriving>
  Status begin_with_all(Outgoing outgoing, Arriving arriving) {
    for (int step = 1; step < hosts_; ++step) {
      const int to = context_.host(step);
      const int from = context_.host(-step);
      Status s =
          context_.links->begin(context_.counterpart(to), outgoing(to), context_.counterpart(from), arriving(from));
      if (!s.ok()) return s;
    }
    return Status::ok_status();
  }

  Status finish_with_all() {
    for (int step = 1; step < hosts_; ++step) {
      if (Status s = context_.links->finish(); !s.ok()) return s;
    }
    return Status::ok_status();
  }

  // Reduces the share's own partial results and those that have arrived.
  void reduce_partials(uint64_t chunk, const HostShare& share, std::byte* results) {
    for (int from = 0; from < hosts_; ++from) {
      partials_[static_cast<size_t>(from)] =
          from == own_host() ? sent(chunk) + share.first * sent_bytes_ : incoming(chunk, share.elements, from);
    }
    std::byte* const target = results + share.first * result_bytes_;
    if (is_rounded_) {
      const std::vector<const std::byte*> by_host(partials_.begin(), partials_.end());
      reduce(rounded_, {{}, by_host}, ReductionOutput::kResult, target, share.elements);
    } else {
      reduce_in_pairs(reduction_, partials_, target, share.elements);
    }
  }

  const Reduction& reduction_;
  CollectiveContext& context_;
  size_t max_whole_bytes_;  // of a block's partial results
  int hosts_;
  HostShares shares_;
  bool is_rounded_;
  bool is_widened_;       // its results are rounded beside the target, which is float32
  Reduction rounded_;     // of rounded partial results, which are scaled already
  size_t partial_bytes_;  // of an element, as the next ones
  size_t sent_bytes_;
  size_t result_bytes_;
  size_t max_elements_ = 0;
  uint64_t in_flight_ = 0;
  size_t results_offset_ = 0;
  size_t slot_bytes_ = 0;
  // Per slot the own partial block; where the task is rounded, that block rounded; where it is widened, rounded
  // results; then arrived ones; and results that do not go to the stage at once.
  AlignedBuffer scratch_;
  std::vector<std::byte*> partials_;
};

// Elements.
size_t largest_block(const AllreduceTask& task) {
  const size_t largest_chunk = std::min(task.chunk_bytes, task.data.bytes());
  const int owners = task.context.layout.smallest_local_size();
  return block_range(largest_chunk, owners, 0).bytes / element_bytes(task.reduction.dtype);
}

class HierarchicalAllreduce {
 public:
  HierarchicalAllreduce(const AllreduceTask& task, size_t max_whole_bytes)
      : task_(task),
        owners_(task.context.layout.smallest_local_size()),
        chunks_(task, owners_),
        counterparts_(task, max_whole_bytes) {}

  Status run() {
    if (Status s = begin(); !s.ok()) return s;
    for (uint64_t step = 0; step < chunks_.count() + lags_.collect; ++step) {
      if (Status s = advance(step); !s.ok()) {
        task_.context.links->give_up();
        return s;
      }
    }
    chunks_.end();
    return Status::ok_status();
  }

 private:
  // So many steps after a chunk is staged, the results of its block are reduced, and it is collected. `links` finish
  // exchanges in the order of their beginnings, which is kept where collect = 2 * reduce - 1, or blocks have one round.
  // In two rounds up to `collect` blocks are unfinished at once, in `reduce` slots of the counterparts' memory: a slot
  // has the results of one chunk beside the partial results of the chunk that follows `reduce` later.
  struct Lags {
    uint64_t reduce;
    uint64_t collect;
  };
  static constexpr Lags kOverlapped{kOverlappedChunks / 2, kOverlappedChunks - 1};
  static constexpr Lags kInTurn{1, 1};

  Status begin() {
    const size_t block = largest_block(task_);
    const uint64_t in_flight = std::min(chunks_.count(), chunk_count(task_.in_flight_bytes, task_.chunk_bytes));
    is_distant_ = in_flight > kOverlapped.reduce;
    const Lags distant{in_flight, counterparts_.is_whole(block) ? in_flight : 2 * in_flight - 1};
    if (Status s = chunks_.begin(is_distant_ ? distant.collect : 0); !s.ok()) return s;
    const Lags near = chunks_.max_lag() >= kOverlapped.collect ? kOverlapped : kInTurn;
    lags_ = is_distant_ ? distant : near;
    return counterparts_.prepare(block, lags_.reduce, is_distant_);
  }

  // The step that feeds the network comes first.
  Status advance(uint64_t step) {
    Status s;
    if (is_chunk(step, 1)) s = begin_block(step - 1);
    if (s.ok() && is_chunk(step, 0)) s = chunks_.stage(step);
    if (s.ok() && is_chunk(step, lags_.reduce)) s = reduce_block(step - lags_.reduce);
    if (s.ok() && is_chunk(step, lags_.collect)) s = end_block(step - lags_.collect);
    if (s.ok() && is_chunk(step, lags_.collect)) s = chunks_.collect(step - lags_.collect);
    return s;
  }

  bool is_chunk(uint64_t step, uint64_t lag) const { return step >= lag && step - lag < chunks_.count(); }

  Status begin_block(uint64_t chunk) {
    if (chunks_.is_owner()) {
      if (Status s = begin_own_block(chunk); !s.ok()) return s;
    }
    chunks_.release_contributions(chunk);
    return Status::ok_status();
  }

  Status begin_own_block(uint64_t chunk) {
    if (Status s = chunks_.gather(chunk); !s.ok()) return s;
    const size_t stored_bytes = element_bytes(task_.reduction.dtype);
    chunks_.for_own_pieces(chunk, [&](auto contributions, std::byte* /*output*/, size_t done, size_t bytes) {
      counterparts_.reduce_own(chunk, contributions, done / stored_bytes, bytes / stored_bytes);
    });
    return counterparts_.begin(chunk, chunks_.elements(chunk));
  }

  Status reduce_block(uint64_t chunk) {
    if (!chunks_.is_owner()) return Status::ok_status();
    return counterparts_.reduce_arrived(chunk, results(chunk), chunks_.elements(chunk));
  }

  Status end_block(uint64_t chunk) {
    if (!chunks_.is_owner()) return Status::ok_status();
    if (Status s = counterparts_.end(chunk, results(chunk), chunks_.elements(chunk)); !s.ok()) return s;
    chunks_.keep(chunk, results(chunk));
    if (is_distant_) {
      if (Status s = chunks_.stage_results(chunk, results(chunk)); !s.ok()) return s;
    }
    chunks_.publish(chunk);
    return Status::ok_status();
  }

  std::byte* results(uint64_t chunk) { return is_distant_ ? counterparts_.results(chunk) : chunks_.published(chunk); }

  const AllreduceTask& task_;
  int owners_;
  StagedChunks chunks_;
  Counterparts counterparts_;
  Lags lags_ = kInTurn;
  bool is_distant_ = false;  // more blocks are in flight than the stages hold
};

}  // namespace

Status hierarchical_allreduce(const AllreduceTask& task) {
  return HierarchicalAllreduce(task, kMaxWholeBlockBytes).run();
}

bool has_shares(const AllreduceTask& task) {
  return !Counterparts(task, kMaxWholeBlockBytes).is_whole(largest_block(task));
}

Status hierarchical_whole_allreduce(const AllreduceTask& task) { return HierarchicalAllreduce(task, kAnySize).run(); }

}  // namespace ringtune
