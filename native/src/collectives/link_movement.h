// SPDX-License-Identifier: Apache-2.0
// Bytes between all ranks of a world of several hosts, over its links.
#pragma once

#include <functional>
#include <span>

#include "base/bytes.h"
#include "base/status.h"
#include "collectives/collective_context.h"

namespace ringtune {

// Sends `parts_out[r]` to every other rank r, and receives `parts_in[r]` from it: all at once, in one round.
Status exchange_with_all(const CollectiveContext& context, std::span<const ByteSpan> parts_out,
                         std::span<const MutableByteSpan> parts_in);

// The same in ceil(log2 p) rounds of one message each, in which parts pass other ranks: for few bytes between so many
// ranks that messages cost more than rounds. Every rank calls it; `bytes_between(from, to)` is known to all.
//
// Source: Bruck et al. (1997), Efficient Algorithms for All-to-All Communications in Multiport Message-Passing Systems.
Status exchange_by_way_of_others(const CollectiveContext& context, std::span<const ByteSpan> parts_out,
                                 std::span<const MutableByteSpan> parts_in,
                                 const std::function<size_t(int, int)>& bytes_between);

// `parts[r]` of rank r to every rank. This rank's own part is there, and the parts follow each other in memory. In
// ceil(log2 p) rounds, each of which doubles a rank's parts (Bruck et al.), or, where a host has several ranks, all of
// which would then send most of it to another host, around the ring.
Status gather_over_links(const CollectiveContext& context, std::span<const MutableByteSpan> parts);

// The same for a few bytes, equally many of every rank: `all` takes them in rank order. In as few rounds as can be.
//
// Source: Bruck et al. (1997), Efficient Algorithms for All-to-All Communications in Multiport Message-Passing Systems.
Status gather_few_over_links(const CollectiveContext& context, ByteSpan own, MutableByteSpan all);

}  // namespace ringtune
