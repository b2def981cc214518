// SPDX-License-Identifier: Apache-2.0
// Pairwise allreduces (see pairwise.h) between all ranks, and host by host: as in a hierarchical allreduce, the owners
// of blocks reduce them with their counterparts on the other hosts.
#include <array>
#include <numeric>

#include "collectives/aligned_buffer.h"
#include "collectives/allreduce.h"
#include "collectives/pairwise.h"
#include "collectives/staged_chunks.h"

namespace ringtune {
namespace {

// The algorithm among the members that take part, with the others folded in before and sent the result after.
class PairwiseReducer {
 public:
  PairwiseReducer(const Reduction& reduction, PairwiseAlgorithm algorithm, PairwiseGroup group)
      : reduction_(reduction),
        algorithm_(algorithm),
        group_(std::move(group)),
        stored_bytes_(element_bytes(reduction.dtype)),
        partial_bytes_(element_bytes(accumulator_dtype(reduction.dtype))) {}

  // For blocks of up to so many elements.
  Status prepare(size_t max_elements) {
    max_elements_ = max_elements;
    return scratch_.allocate(2 * max_elements * partial_bytes_);
  }

  // Reduces contributions to the block's elements from `first` on.
  void reduce_own(std::span<const std::byte* const> contributions, size_t first, size_t elements) {
    reduce(reduction_, {{}, contributions}, ReductionOutput::kPartial, scratch_.data() + first * partial_bytes_,
           elements);
  }

  // When all are: the result of all members.
  Status run(std::byte* result, size_t elements) {
    const PairwiseBlock block(reduction_, scratch_.data(), scratch_.data() + max_elements_ * partial_bytes_, result,
                              elements);
    if (!group_.takes_part()) {
      if (Status s = group_.send_to_neighbour(block.partial(0, elements)); !s.ok()) return s;
      return group_.receive_from_neighbour(block.result(0, elements));
    }
    if (group_.folds()) {
      if (Status s = group_.receive_from_neighbour(block.incoming(elements)); !s.ok()) return s;
      block.add_incoming(0, elements, true, ReductionOutput::kPartial);
    }
    if (Status s = algorithm_(group_, block); !s.ok()) return s;
    return group_.folds() ? group_.send_to_neighbour(block.result(0, elements)) : Status::ok_status();
  }

 private:
  const Reduction& reduction_;
  PairwiseAlgorithm algorithm_;
  PairwiseGroup group_;
  size_t stored_bytes_;
  size_t partial_bytes_;
  size_t max_elements_ = 0;
  AlignedBuffer scratch_;  // partial results: the own ones, then those that arrive
};

// Segments of a chunk per rank bound the memory.
Status reduce_between_ranks(const AllreduceTask& task, PairwiseAlgorithm algorithm) {
  const CollectiveContext& context = task.context;
  std::vector<int> ranks(static_cast<size_t>(context.world_size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  PairwiseReducer reducer(task.reduction, algorithm, PairwiseGroup(*context.links, std::move(ranks), context.rank()));
  const size_t stored_bytes = element_bytes(task.reduction.dtype);
  const size_t segment_bytes =
      std::min(task.data.bytes(), task.chunk_bytes * static_cast<size_t>(context.world_size()));
  AlignedBuffer result;
  if (Status s = reducer.prepare(segment_bytes / stored_bytes); !s.ok()) return s;
  if (Status s = result.allocate(segment_bytes); !s.ok()) return s;
  for (size_t offset = 0; offset < task.data.bytes(); offset += segment_bytes) {
    const size_t bytes = std::min(segment_bytes, task.data.bytes() - offset);
    task.data.for_pieces(offset, bytes, [&](const std::byte* input, std::byte*, size_t done, size_t count) {
      reducer.reduce_own(std::array{input}, done / stored_bytes, count / stored_bytes);
    });
    if (Status s = reducer.run(result.data(), bytes / stored_bytes); !s.ok()) return s;
    task.data.copy_out(offset, result.data(), bytes);
  }
  return Status::ok_status();
}

// Ranks of this one's local number, of every host.
std::vector<int> counterparts(const Layout& layout) {
  std::vector<int> ranks;
  for (int host = 0; host < layout.host_count(); ++host) {
    ranks.push_back(layout.ranks_of(host)[static_cast<size_t>(layout.local_rank())]);
  }
  return ranks;
}

class HostByHost {
 public:
  HostByHost(const AllreduceTask& task, PairwiseAlgorithm algorithm)
      : task_(task),
        algorithm_(algorithm),
        owners_(task.context.layout.smallest_local_size()),
        chunks_(task, owners_) {}

  Status run() {
    if (Status s = chunks_.begin(); !s.ok()) return s;
    if (Status s = chunks_.is_owner() ? reduce_as_owner() : collect_all(); !s.ok()) return s;
    chunks_.end();
    return Status::ok_status();
  }

 private:
  Status reduce_as_owner() {
    const Layout& layout = task_.context.layout;
    PairwiseReducer reducer(task_.reduction, algorithm_,
                            PairwiseGroup(*task_.context.links, counterparts(layout), layout.host()));
    const size_t largest_chunk = std::min(task_.chunk_bytes, task_.data.bytes());
    const size_t largest_block = block_range(largest_chunk, owners_, 0).bytes / element_bytes(task_.reduction.dtype);
    if (Status s = reducer.prepare(largest_block); !s.ok()) return s;
    for (uint64_t chunk = 0; chunk < chunks_.count(); ++chunk) {
      if (Status s = reduce_block(reducer, chunk); !s.ok()) return s;
      if (Status s = chunks_.collect(chunk); !s.ok()) return s;
    }
    return Status::ok_status();
  }

  Status reduce_block(PairwiseReducer& reducer, uint64_t chunk) {
    const size_t stored_bytes = element_bytes(task_.reduction.dtype);
    if (Status s = chunks_.stage(chunk); !s.ok()) return s;
    if (Status s = chunks_.gather(chunk); !s.ok()) return s;
    chunks_.for_own_pieces(chunk, [&](auto contributions, std::byte* /*output*/, size_t done, size_t bytes) {
      reducer.reduce_own(contributions, done / stored_bytes, bytes / stored_bytes);
    });
    if (Status s = reducer.run(chunks_.published(chunk), chunks_.elements(chunk)); !s.ok()) return s;
    chunks_.keep(chunk, chunks_.published(chunk));
    chunks_.publish(chunk);
    return Status::ok_status();
  }

  // A rank of a large host that owns no block.
  Status collect_all() {
    for (uint64_t chunk = 0; chunk < chunks_.count(); ++chunk) {
      if (Status s = chunks_.stage(chunk); !s.ok()) return s;
      if (Status s = chunks_.collect(chunk); !s.ok()) return s;
    }
    return Status::ok_status();
  }

  const AllreduceTask& task_;
  PairwiseAlgorithm algorithm_;
  int owners_;
  StagedChunks chunks_;
};

}  // namespace

Status recursive_doubling_allreduce(const AllreduceTask& task) {
  return reduce_between_ranks(task, &double_recursively);
}
Status halving_doubling_allreduce(const AllreduceTask& task) { return reduce_between_ranks(task, &halve_and_double); }
Status tree_allreduce(const AllreduceTask& task) { return reduce_between_ranks(task, &reduce_and_spread); }

Status hierarchical_recursive_doubling_allreduce(const AllreduceTask& task) {
  return HostByHost(task, &double_recursively).run();
}
Status hierarchical_halving_doubling_allreduce(const AllreduceTask& task) {
  return HostByHost(task, &halve_and_double).run();
}
Status hierarchical_tree_allreduce(const AllreduceTask& task) { return HostByHost(task, &reduce_and_spread).run(); }

}  // namespace ringtune
