// SPDX-License-Identifier: Apache-2.0
// Recursive halving and doubling. Reduce-scatter: at each distance partners halve the window of elements that they
// share, and each gets the other's partial results for its half. Allgather: the same way back, with results. Twice as
// many steps as recursive doubling, but no more bytes than a ring sends.
//
// Source: Rabenseifner (2004), Optimization of Collective Reduction Operations.
#include <algorithm>
#include <vector>

#include "collectives/pairwise.h"

namespace ringtune {
namespace {

struct Window {
  size_t first;
  size_t count;
};

// The half that a member keeps, and the one that its partner does.
struct Halves {
  Window kept;
  Window given;
};

Halves halve(const Window& window, bool is_lower) {
  const Window low{window.first, window.count / 2};
  const Window high{window.first + low.count, window.count - low.count};
  return is_lower ? Halves{low, high} : Halves{high, low};
}

}  // namespace

Status halve_and_double(PairwiseGroup& group, const PairwiseBlock& block) {
  std::vector<Halves> halvings;
  Window window{0, block.elements()};
  for (size_t distance = 1; distance < group.paired(); distance *= 2) {
    const size_t partner = group.number() ^ distance;
    const bool is_lower = group.number() < partner;
    const Halves halves = halvings.emplace_back(halve(window, is_lower));
    window = halves.kept;
    Status s = group.exchange(partner, block.partial(halves.given.first, halves.given.count), partner,
                              block.incoming(window.count));
    if (!s.ok()) return s;
    const bool is_last = distance * 2 == group.paired();
    block.add_incoming(window.first, window.count, is_lower,
                       is_last ? ReductionOutput::kResult : ReductionOutput::kPartial);
  }
  for (size_t distance = group.paired() / 2; distance > 0; distance /= 2) {
    const size_t partner = group.number() ^ distance;
    const auto [kept, given] = halvings.back();
    halvings.pop_back();
    Status s = group.exchange(partner, block.result(window.first, window.count), partner,
                              block.result(given.first, given.count));
    if (!s.ok()) return s;
    window = {std::min(kept.first, given.first), kept.count + given.count};
  }
  return Status::ok_status();
}

}  // namespace ringtune
