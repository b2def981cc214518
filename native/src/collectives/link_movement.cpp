// SPDX-License-Identifier: Apache-2.0
#include "collectives/link_movement.h"

#include <algorithm>
#include <array>
#include <vector>

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
    if (Status s = context.links->begin(to, part(parts_out, to), from, part(parts_in, from)); !s.ok()) return s;
  }
  for (int distance = 1; distance < context.world_size(); ++distance) {
    if (Status s = context.links->finish(); !s.ok()) return s;
  }
  return Status::ok_status();
}

// The part for the rank at a distance makes the steps of the distance's bits, the lowest first. So after the step of a
// bit, a rank holds, for each distance d, the part of the rank that lies d's bits up to that one behind.
Status exchange_by_way_of_others(const CollectiveContext& context, std::span<const ByteSpan> parts_out,
                                 std::span<const MutableByteSpan> parts_in,
                                 const std::function<size_t(int, int)>& bytes_between) {
  const int ranks = context.world_size();
  std::vector<ByteSpan> held;  // by distance
  for (int distance = 0; distance < ranks; ++distance) {
    held.push_back(part(parts_out, context.neighbour(distance)));
  }
  std::vector<Bytes> arrived;  // by bit
  for (int bit = 1; bit < ranks; bit *= 2) {
    Bytes outgoing;
    size_t arriving_bytes = 0;
    const auto bytes_of = [&](int distance) {
      const int origin = context.neighbour(-(distance & (2 * bit - 1)));
      return bytes_between(origin, (origin + distance) % ranks);
    };
    for (int distance = bit; distance < ranks; ++distance) {
      if ((distance & bit) != 0) {
        outgoing.insert(outgoing.end(), part(held, distance).begin(), part(held, distance).end());
        arriving_bytes += bytes_of(distance);
      }
    }
    const MutableByteSpan arriving = arrived.emplace_back(arriving_bytes);
    Status s = context.links->exchange(context.neighbour(bit), outgoing, context.neighbour(-bit), arriving);
    if (!s.ok()) return s;
    size_t offset = 0;
    for (int distance = bit; distance < ranks; ++distance) {
      if ((distance & bit) != 0) {
        part(held, distance) = arriving.subspan(offset, bytes_of(distance));
        offset += bytes_of(distance);
      }
    }
  }
  for (int distance = 1; distance < ranks; ++distance) {
    const MutableByteSpan& target = part(parts_in, context.neighbour(-distance));
    std::copy_n(part(held, distance).begin(), target.size(), target.begin());
  }
  return Status::ok_status();
}

namespace {

Status gather_around_ring(const CollectiveContext& context, std::span<const MutableByteSpan> parts) {
  for (int step = 0; step < context.world_size() - 1; ++step) {
    const ByteSpan out = part(parts, context.neighbour(-step));
    const MutableByteSpan in = part(parts, context.neighbour(-step - 1));
    if (Status s = context.links->exchange(context.neighbour(1), out, context.neighbour(-1), in); !s.ok()) return s;
  }
  return Status::ok_status();
}

// The parts of `count` ranks from one on, around the end: the piece up to the end, and the rest.
std::array<MutableByteSpan, 2> parts_from(std::span<const MutableByteSpan> parts, int first, int count) {
  const auto joined = [&](size_t begin, size_t end) {
    if (begin == end) {
      return MutableByteSpan();
    }
    std::byte* data = parts[begin].data();
    return MutableByteSpan(data, static_cast<size_t>(parts[end - 1].data() + parts[end - 1].size() - data));
  };
  const size_t begin = static_cast<size_t>(first);
  const size_t end = begin + static_cast<size_t>(count);
  return {joined(begin, std::min(end, parts.size())), joined(0, end - std::min(end, parts.size()))};
}

Status gather_by_doubling(const CollectiveContext& context, std::span<const MutableByteSpan> parts) {
  for (int known = 1; known < context.world_size(); known *= 2) {
    const int count = std::min(known, context.world_size() - known);
    const auto outgoing = parts_from(parts, context.rank(), count);
    const auto arriving = parts_from(parts, context.neighbour(known), count);
    for (const bool is_after_end : {false, true}) {
      Status s = context.links->begin(context.neighbour(-known), outgoing[is_after_end], 0, {});
      if (s.ok()) s = context.links->begin(0, {}, context.neighbour(known), arriving[is_after_end]);
      if (!s.ok()) return s;
    }
    for (int begun = 0; begun < 4; ++begun) {
      if (Status s = context.links->finish(); !s.ok()) return s;
    }
  }
  return Status::ok_status();
}

}  // namespace

Status gather_over_links(const CollectiveContext& context, std::span<const MutableByteSpan> parts) {
  const bool has_one_rank_per_host = context.layout.host_count() == context.world_size();
  return has_one_rank_per_host ? gather_by_doubling(context, parts) : gather_around_ring(context, parts);
}

// Rank r collects the parts of ranks r, r + 1, ...: each round doubles their number.
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
