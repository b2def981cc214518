// SPDX-License-Identifier: Apache-2.0
// Allgathers between hosts in which bytes enter a host once, and reach its other ranks through shared memory.
//
// The leaders' way: a host's first rank, the *leader*, passes the rows of whole hosts around a ring of leaders. The
// counterparts' way: each rank sends its own rows to the rank of its local number on every other host, all at once, in
// segments; while one is on its way, those before it spread in the host.
#include <algorithm>
#include <vector>

#include "collectives/allgather.h"
#include "collectives/host_movement.h"

namespace ringtune {
namespace {

class LeaderRing {
 public:
  LeaderRing(CollectiveContext& context, std::span<const MutableByteSpan> parts) : context_(context), parts_(parts) {}

  // The parts of host `outgoing` go to the next leader, those of host `arriving` come from the one before.
  Status exchange(int outgoing, int arriving) const {
    const std::vector<int>& sent = context_.layout.ranks_of(outgoing);
    const std::vector<int>& received = context_.layout.ranks_of(arriving);
    for (size_t i = 0; i < std::max(sent.size(), received.size()); ++i) {
      const ByteSpan out = i < sent.size() ? part(sent[i]) : MutableByteSpan();
      const MutableByteSpan in = i < received.size() ? part(received[i]) : MutableByteSpan();
      if (Status s = context_.links->exchange(leader(1), out, leader(-1), in); !s.ok()) return s;
    }
    return Status::ok_status();
  }

 private:
  int leader(int distance) const { return context_.layout.leader_of(context_.host(distance)); }
  MutableByteSpan part(int rank) const { return parts_[static_cast<size_t>(rank)]; }

  CollectiveContext& context_;
  std::span<const MutableByteSpan> parts_;
};

Status gather_own_host(CollectiveContext& context, ByteSpan own, std::span<const MutableByteSpan> parts,
                       size_t chunk_bytes) {
  std::vector<MutableByteSpan> local_parts;
  for (const int rank : context.layout.local_ranks()) {
    local_parts.push_back(parts[static_cast<size_t>(rank)]);
  }
  return gather_on_host(context.stage, own, local_parts, chunk_bytes);
}

// Large enough for a link's rate, small enough that the last one's way through the host is short.
constexpr size_t kSegmentBytes = size_t{1} << 20;

class CounterpartGather {
 public:
  CounterpartGather(CollectiveContext& context, ByteSpan own, std::span<const MutableByteSpan> parts,
                    size_t chunk_bytes)
      : context_(context), own_(own), parts_(parts), chunk_bytes_(chunk_bytes) {
    size_t largest = 0;
    for (const MutableByteSpan& part : parts) {
      largest = std::max(largest, part.size());
    }
    segments_ = chunk_count(largest, kSegmentBytes);
  }

  // Exchanges of a segment begin before the one before it is finished.
  Status run() {
    Status s = begin(0);
    if (s.ok()) s = gather_own_host(context_, own_, parts_, chunk_bytes_);
    for (uint64_t segment = 0; s.ok() && segment < segments_; ++segment) {
      if (segment + 1 < segments_) s = begin(segment + 1);
      if (s.ok()) s = finish(segment);
    }
    if (!s.ok()) context_.links->give_up();
    return s;
  }

 private:
  MutableByteSpan segment_of(int rank, uint64_t segment) const {
    const MutableByteSpan part = parts_[static_cast<size_t>(rank)];
    const ByteRange range = chunk_range(part.size(), kSegmentBytes, segment);
    return part.subspan(range.offset, range.bytes);
  }

  Status begin(uint64_t segment) const {
    const ByteRange range = chunk_range(own_.size(), kSegmentBytes, segment);
    const ByteSpan out = own_.subspan(range.offset, range.bytes);
    for (int step = 1; step < context_.layout.host_count(); ++step) {
      const int from = context_.counterpart(context_.host(-step));
      const int to = context_.counterpart(context_.host(step));
      Status s = context_.links->begin(to, out, from, segment_of(from, segment));
      if (!s.ok()) return s;
    }
    return Status::ok_status();
  }

  Status finish(uint64_t segment) const {
    std::vector<MutableByteSpan> arrived(static_cast<size_t>(context_.layout.local_size()));
    for (int step = 1; step < context_.layout.host_count(); ++step) {
      if (Status s = context_.links->finish(); !s.ok()) return s;
      const std::vector<int>& ranks = context_.layout.ranks_of(context_.host(-step));
      std::transform(ranks.begin(), ranks.end(), arrived.begin(), [&](int rank) { return segment_of(rank, segment); });
      const MutableByteSpan own = arrived[static_cast<size_t>(context_.layout.local_rank())];
      if (Status s = gather_on_host(context_.stage, own, arrived, chunk_bytes_); !s.ok()) return s;
    }
    return Status::ok_status();
  }

  CollectiveContext& context_;
  ByteSpan own_;
  std::span<const MutableByteSpan> parts_;
  size_t chunk_bytes_;
  uint64_t segments_ = 0;
};

}  // namespace

Status allgather_by_counterparts(CollectiveContext& context, ByteSpan own, std::span<const MutableByteSpan> parts,
                                 size_t chunk_bytes) {
  return CounterpartGather(context, own, parts, chunk_bytes).run();
}

Status hierarchical_allgather(CollectiveContext& context, ByteSpan own, std::span<const MutableByteSpan> parts,
                              size_t chunk_bytes) {
  if (Status s = gather_own_host(context, own, parts, chunk_bytes); !s.ok()) return s;
  const LeaderRing ring(context, parts);
  const auto is_there = [](const ByteRange&) { return Status::ok_status(); };
  for (int step = 0; step < context.layout.host_count() - 1; ++step) {
    const int arriving = context.host(-step - 1);
    if (context.layout.local_rank() == 0) {
      if (Status s = ring.exchange(context.host(-step), arriving); !s.ok()) return s;
    }
    for (const int rank : context.layout.ranks_of(arriving)) {
      Status s = broadcast_on_host(context.stage, 0, parts[static_cast<size_t>(rank)], chunk_bytes, is_there);
      if (!s.ok()) return s;
    }
  }
  return Status::ok_status();
}

}  // namespace ringtune
