// SPDX-License-Identifier: Apache-2.0
// Bytes between all ranks of a world of several hosts, over its links.
#pragma once

#include <span>

#include "base/bytes.h"
#include "base/status.h"
#include "collectives/collective_context.h"

namespace ringtune {

// Sends `parts_out[r]` to every other rank r, and receives `parts_in[r]` from it.
Status exchange_with_all(const CollectiveContext& context, std::span<const ByteSpan> parts_out,
                         std::span<const MutableByteSpan> parts_in);

// `parts[r]` of rank r to every rank, around the ring. This rank's own part is there.
Status gather_over_links(const CollectiveContext& context, std::span<const MutableByteSpan> parts);

// The same for a few bytes, equally many of every rank: `all` takes them in rank order. In as few rounds as can be.
//
// Source: Bruck et al. (1997), Efficient Algorithms for All-to-All Communications in Multiport Message-Passing Systems.
Status gather_few_over_links(const CollectiveContext& context, ByteSpan own, MutableByteSpan all);

}  // namespace ringtune
