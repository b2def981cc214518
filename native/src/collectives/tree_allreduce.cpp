// SPDX-License-Identifier: Apache-2.0
// A binomial tree in segments: partial results go up to number 0, results come down. Number v hears from v plus each
// power of two below its lowest bit, the nearest first, and passes on to v without its lowest bit. While a segment is
// on its way, the next one follows it.
#include <algorithm>

#include "collectives/pairwise.h"

namespace ringtune {
namespace {

// Bytes of partial results that move at once: a segment costs a system call at each end, and a level of the tree more
// costs the time of one segment.
constexpr size_t kSegmentBytes = 64 << 10;

// Distance to the member above; as many as there are members at the top.
size_t lowest_bit(const PairwiseGroup& group) {
  return group.number() == 0 ? group.paired() : group.number() & (~group.number() + 1);
}

Status reduce_up(PairwiseGroup& group, const PairwiseBlock& block, size_t first, size_t count) {
  const size_t above = lowest_bit(group);
  for (size_t distance = 1; distance < above; distance *= 2) {
    if (Status s = group.exchange(0, {}, group.number() + distance, block.incoming(count)); !s.ok()) return s;
    const bool is_last = distance * 2 == group.paired();
    block.add_incoming(first, count, true, is_last ? ReductionOutput::kResult : ReductionOutput::kPartial);
  }
  return group.number() == 0 ? Status::ok_status()
                             : group.exchange(group.number() - above, block.partial(first, count), 0, {});
}

Status spread_down(PairwiseGroup& group, const PairwiseBlock& block, size_t first, size_t count) {
  const size_t above = lowest_bit(group);
  const MutableByteSpan result = block.result(first, count);
  if (group.number() != 0) {
    if (Status s = group.exchange(0, {}, group.number() - above, result); !s.ok()) return s;
  }
  for (size_t distance = above / 2; distance > 0; distance /= 2) {
    if (Status s = group.exchange(group.number() + distance, result, 0, {}); !s.ok()) return s;
  }
  return Status::ok_status();
}

}  // namespace

Status reduce_and_spread(PairwiseGroup& group, const PairwiseBlock& block) {
  const size_t segment = kSegmentBytes / block.partial_bytes();
  for (const auto pass : {&reduce_up, &spread_down}) {
    for (size_t first = 0; first < block.elements(); first += segment) {
      if (Status s = pass(group, block, first, std::min(segment, block.elements() - first)); !s.ok()) return s;
    }
  }
  return Status::ok_status();
}

}  // namespace ringtune
