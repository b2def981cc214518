// SPDX-License-Identifier: Apache-2.0
// Allgather between hosts in which bytes enter a host once: its first rank, the *leader*, passes the rows of whole
// hosts around a ring of leaders, and each leader passes arrived rows to its host through shared memory.
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

  int host(int distance) const {
    const int hosts = context_.layout.host_count();
    return (context_.layout.host() + distance + hosts) % hosts;
  }

 private:
  int leader(int distance) const { return context_.layout.ranks_of(host(distance)).front(); }
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

}  // namespace

Status hierarchical_allgather(CollectiveContext& context, ByteSpan own, std::span<const MutableByteSpan> parts,
                              size_t chunk_bytes) {
  if (Status s = gather_own_host(context, own, parts, chunk_bytes); !s.ok()) return s;
  const LeaderRing ring(context, parts);
  const auto is_there = [](const ByteRange&) { return Status::ok_status(); };
  for (int step = 0; step < context.layout.host_count() - 1; ++step) {
    const int arriving = ring.host(-step - 1);
    if (context.layout.local_rank() == 0) {
      if (Status s = ring.exchange(ring.host(-step), arriving); !s.ok()) return s;
    }
    for (const int rank : context.layout.ranks_of(arriving)) {
      Status s = broadcast_on_host(context.stage, 0, parts[static_cast<size_t>(rank)], chunk_bytes, is_there);
      if (!s.ok()) return s;
    }
  }
  return Status::ok_status();
}

}  // namespace ringtune
