// SPDX-License-Identifier: Apache-2.0
#include "collectives/link_movement.h"

#include <algorithm>

namespace ringtune {
namespace {

template <typename Parts>
auto& part(Parts& parts, int rank) {
  return parts[static_cast<size_t>(rank)];
}

}  // namespace

Status exchange_with_all(const CollectiveContext& context, std::span<const ByteSpan> parts_out,
                         std::span<const MutableByteSpan> parts_in) {
  for (int distance = 1; distance < context.world_size(); ++distance) {
    const int to = context.neighbour(distance);
    const int from = context.neighbour(-distance);
    if (Status s = context.links->exchange(to, part(parts_out, to), from, part(parts_in, from)); !s.ok()) return s;
  }
  return Status::ok_status();
}

Status gather_over_links(const CollectiveContext& context, std::span<const MutableByteSpan> parts) {
  for (int step = 0; step < context.world_size() - 1; ++step) {
    const ByteSpan out = part(parts, context.neighbour(-step));
    const MutableByteSpan in = part(parts, context.neighbour(-step - 1));
    if (Status s = context.links->exchange(context.neighbour(1), out, context.neighbour(-1), in); !s.ok()) return s;
  }
  return Status::ok_status();
}

// Rank r collects the parts of ranks r, r + 1, ...: each round doubles what it has.
Status gather_few_over_links(const CollectiveContext& context, ByteSpan own, MutableByteSpan all) {
  const size_t bytes = own.size();
  Bytes collected(all.size());
  std::copy(own.begin(), own.end(), collected.begin());
  for (int known = 1; known < context.world_size(); known *= 2) {
    const size_t count = static_cast<size_t>(std::min(known, context.world_size() - known));
    const ByteSpan out(collected.data(), count * bytes);
    const MutableByteSpan in(collected.data() + static_cast<size_t>(known) * bytes, count * bytes);
    if (Status s = context.links->exchange(context.neighbour(-known), out, context.neighbour(known), in); !s.ok())
      return s;
  }
  // The parts of the ranks from this one on, then those of the ranks before it.
  const size_t wrapped = static_cast<size_t>(context.rank()) * bytes;
  std::rotate_copy(collected.begin(), collected.end() - static_cast<std::ptrdiff_t>(wrapped), collected.end(),
                   all.begin());
  return Status::ok_status();
}

}  // namespace ringtune
