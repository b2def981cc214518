// SPDX-License-Identifier: Apache-2.0
#include "collectives/pairwise.h"

#include <algorithm>

namespace ringtune {
namespace {

// Bytes of each partial result that are reduced in turn: those of eight members stay in a first-level cache.
constexpr size_t kTileBytes = 4 << 10;

struct Merge {
  size_t into;
  size_t from;
};

std::vector<Merge> merges_of(const PairwiseOrder& order) {
  std::vector<Merge> merges;
  for (size_t member = 0; order.folds(member); member += 2) {
    merges.push_back({member, member + 1});
  }
  for (size_t distance = 1; distance < order.paired(); distance *= 2) {
    for (size_t number = 0; number < order.paired(); number += 2 * distance) {
      merges.push_back({order.member_of(number), order.member_of(number + distance)});
    }
  }
  return merges;
}

}  // namespace

void reduce_in_pairs(const Reduction& reduction, std::span<std::byte* const> partials, std::byte* target,
                     size_t elements) {
  const size_t partial_bytes = element_bytes(accumulator_dtype(reduction.dtype));
  const size_t stored_bytes = element_bytes(reduction.dtype);
  const std::vector<Merge> merges = merges_of(PairwiseOrder(partials.size()));
  const size_t tile = kTileBytes / partial_bytes;
  for (size_t first = 0; first < elements; first += tile) {
    const size_t count = std::min(tile, elements - first);
    for (size_t i = 0; i < merges.size(); ++i) {
      const bool is_last = i + 1 == merges.size();
      std::byte* into = partials[merges[i].into] + first * partial_bytes;
      const std::array<const std::byte*, 2> both{into, partials[merges[i].from] + first * partial_bytes};
      reduce(reduction, {both, {}}, is_last ? ReductionOutput::kResult : ReductionOutput::kPartial,
             is_last ? target + first * stored_bytes : into, count);
    }
  }
}

}  // namespace ringtune
