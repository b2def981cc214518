// SPDX-License-Identifier: Apache-2.0
// Allreduce between hosts: shared memory inside, the network across.
//
// The stages' pipeline runs in every host; each owner of a block, before it publishes the block, reduces it with its
// counterparts: the ranks of its local number on the other hosts. So every local rank drives a slice of the traffic.
// Where hosts have different numbers of ranks, the first ranks own blocks, as many as the smallest host has.
//
// Counterparts exchange whole blocks where that is no more traffic or the block is small: one round. Otherwise a block
// is cut into one *share* per host: every host gets the partial results of its share, reduces them, and sends the
// result to the others. In both cases partial results are reduced in the order of the hosts.
#include <algorithm>
#include <cstring>
#include <vector>

#include "collectives/aligned_buffer.h"
#include "collectives/element.h"
#include "collectives/staged_allreduce.h"

namespace ringtune {
namespace {

// Up to here a round more costs more than the bytes do.
constexpr size_t kMaxWholeBytes = 16 * kKiB;

class Counterparts {
 public:
  explicit Counterparts(const AllreduceTask& task)
      : reduction_(task.reduction),
        comm_(task.comm),
        hosts_(comm_.layout.host_count()),
        stored_bytes_(element_bytes(reduction_.dtype)),
        partial_bytes_(element_bytes(accumulator_dtype(reduction_.dtype))),
        partials_(static_cast<size_t>(hosts_)) {}

  // For blocks of up to so many elements.
  Status prepare(size_t max_elements) {
    max_elements_ = max_elements;
    const size_t stride =
        is_whole(max_elements) ? max_elements : std::max(share_elements(max_elements), kMaxWholeBytes / partial_bytes_);
    return scratch_.allocate((max_elements + stride * hosts_count()) * partial_bytes_);
  }

  // `sources` are the contributions of this host.
  Status reduce_block(std::span<const std::byte* const> sources, std::byte* target, size_t elements) {
    reduce(reduction_, {{}, sources}, ReductionOutput::kPartial, scratch_.data(), elements);
    return is_whole(elements) ? exchange_whole(target, elements) : exchange_shares(target, elements);
  }

 private:
  struct Share {
    size_t first;
    size_t elements;
  };

  size_t hosts_count() const { return static_cast<size_t>(hosts_); }
  int host(int distance) const { return (comm_.layout.host() + distance + hosts_) % hosts_; }
  int counterpart(int host) const {
    return comm_.layout.ranks_of(host)[static_cast<size_t>(comm_.layout.local_rank())];
  }
  size_t share_elements(size_t elements) const { return (elements + hosts_count() - 1) / hosts_count(); }
  Share share(size_t elements, int host) const {
    const size_t first = std::min(elements, share_elements(elements) * static_cast<size_t>(host));
    return {first, std::min(share_elements(elements), elements - first)};
  }

  // Whole: (hosts - 1) partial blocks go out. Shares: as many partial shares, and as many results of a share.
  bool is_whole(size_t elements) const {
    return elements * partial_bytes_ <= kMaxWholeBytes ||
           hosts_count() * partial_bytes_ <= partial_bytes_ + stored_bytes_;
  }

  std::byte* incoming(size_t elements, int host) {
    return scratch_.data() + (max_elements_ + elements * static_cast<size_t>(host)) * partial_bytes_;
  }

  // Sends `outgoing(host)` to the counterpart on each other host, and receives `arriving(host)` from it.
  template <typename Outgoing, typename Arriving>
  Status exchange_with_all(Outgoing outgoing, Arriving arriving) {
    for (int step = 1; step < hosts_; ++step) {
      const int to = host(step);
      const int from = host(-step);
      Status s = comm_.links->exchange(counterpart(to), outgoing(to), counterpart(from), arriving(from));
      if (!s.ok()) return s;
    }
    return Status::ok_status();
  }

  Status exchange_whole(std::byte* target, size_t elements) {
    const size_t bytes = elements * partial_bytes_;
    Status status = exchange_with_all([&](int) { return ByteSpan(scratch_.data(), bytes); },
                                      [&](int from) { return MutableByteSpan(incoming(elements, from), bytes); });
    if (!status.ok()) return status;
    finish(scratch_.data(), elements, target, elements);
    return Status::ok_status();
  }

  Status exchange_shares(std::byte* target, size_t elements) {
    const Share own = share(elements, comm_.layout.host());
    const size_t stride = share_elements(elements);
    const auto partial_of = [&](int to) {
      const Share theirs = share(elements, to);
      return ByteSpan(scratch_.data() + theirs.first * partial_bytes_, theirs.elements * partial_bytes_);
    };
    const auto arriving_of = [&](int from) {
      return MutableByteSpan(incoming(stride, from), own.elements * partial_bytes_);
    };
    if (Status s = exchange_with_all(partial_of, arriving_of); !s.ok()) return s;
    finish(scratch_.data() + own.first * partial_bytes_, stride, target + own.first * stored_bytes_, own.elements);
    const auto result_of = [&](int of) {
      const Share reduced = share(elements, of);
      return MutableByteSpan(target + reduced.first * stored_bytes_, reduced.elements * stored_bytes_);
    };
    return exchange_with_all([&](int) { return result_of(comm_.layout.host()); }, result_of);
  }

  // Reduces the own partial result and those that have arrived, `stride` elements apart.
  void finish(const std::byte* own, size_t stride, std::byte* target, size_t elements) {
    for (int from = 0; from < hosts_; ++from) {
      partials_[static_cast<size_t>(from)] = from == comm_.layout.host() ? own : incoming(stride, from);
    }
    reduce(reduction_, {partials_, {}}, ReductionOutput::kResult, target, elements);
  }

  const Reduction& reduction_;
  Communicator& comm_;
  int hosts_;
  size_t stored_bytes_;
  size_t partial_bytes_;
  size_t max_elements_ = 0;
  AlignedBuffer scratch_;  // the own partial block, then what arrives
  std::vector<const std::byte*> partials_;
};

int smallest_local_size(const Layout& layout) {
  size_t smallest = layout.local_ranks().size();
  for (int host = 0; host < layout.host_count(); ++host) {
    smallest = std::min(smallest, layout.ranks_of(host).size());
  }
  return static_cast<int>(smallest);
}

}  // namespace

Status hierarchical_allreduce(const AllreduceTask& task) {
  const int owners = smallest_local_size(task.comm.layout);
  const size_t largest_chunk = std::min(task.chunk_bytes, task.data.bytes());
  Counterparts counterparts(task);
  Status prepared =
      counterparts.prepare(block_range(largest_chunk, owners, 0).bytes / element_bytes(task.reduction.dtype));
  if (!prepared.ok()) return prepared;
  const auto reduce_block = [&](std::span<const std::byte* const> sources, const ReductionTargets& targets,
                                size_t elements) {
    Status status = counterparts.reduce_block(sources, targets.first, elements);
    if (status.ok() && targets.second != nullptr) {
      std::memcpy(targets.second, targets.first, elements * element_bytes(task.reduction.dtype));
    }
    return status;
  };
  return StagedAllreduce(task, owners, reduce_block).run();
}

}  // namespace ringtune
