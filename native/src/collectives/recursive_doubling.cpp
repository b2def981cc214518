// SPDX-License-Identifier: Apache-2.0
// Recursive doubling: at each distance, partners exchange all that they have and reduce it alike. ceil(log2 p) steps,
// each with the whole message: for short ones.
#include "collectives/pairwise.h"

namespace ringtune {

Status double_recursively(PairwiseGroup& group, const PairwiseBlock& block) {
  const size_t elements = block.elements();
  for (size_t distance = 1; distance < group.paired(); distance *= 2) {
    const size_t partner = group.number() ^ distance;
    Status s = group.exchange(partner, block.partial(0, elements), partner, block.incoming(elements));
    if (!s.ok()) return s;
    const bool is_last = distance * 2 == group.paired();
    block.add_incoming(0, elements, group.number() < partner,
                       is_last ? ReductionOutput::kResult : ReductionOutput::kPartial);
  }
  return Status::ok_status();
}

}  // namespace ringtune
