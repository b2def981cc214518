// SPDX-License-Identifier: Apache-2.0
#include "engine/gpu/nccl/nccl_packing.h"

#include <algorithm>
#include <utility>

namespace ringtune {
namespace {

class Rounds {
 public:
  explicit Rounds(const PackingRule& rule) : rule_(rule) {}

  // Cuts the tensor where the buffer is full.
  void add(size_t tensor, uint64_t elements) {
    for (uint64_t first = 0; first < elements;) {
      if (rounds_.empty() || next_offset() >= rule_.buffer_elements) {
        rounds_.emplace_back();
      }
      PackingRound& round = rounds_.back();
      const uint64_t offset = next_offset();
      const uint64_t count = std::min(elements - first, rule_.buffer_elements - offset);
      round.pieces.push_back({tensor, first, count, offset});
      round.elements = offset + count;
      first += count;
    }
  }

  std::vector<PackingRound> take() { return std::move(rounds_); }

 private:
  uint64_t next_offset() const {
    return (rounds_.back().elements + rule_.alignment - 1) / rule_.alignment * rule_.alignment;
  }

  const PackingRule& rule_;
  std::vector<PackingRound> rounds_;
};

}  // namespace

PackingPlan plan_packing(std::span<const uint64_t> elements, const PackingRule& rule) {
  const auto is_packed = [&rule](uint64_t count) {
    return count > 0 && (rule.is_for_all || count <= rule.largest_elements);
  };
  // Packing does not help a single small tensor.
  const bool has_several = std::ranges::count_if(elements, is_packed) > 1;
  PackingPlan plan;
  Rounds rounds(rule);
  for (size_t tensor = 0; tensor < elements.size(); ++tensor) {
    if (elements[tensor] == 0) {
      continue;
    }
    if (is_packed(elements[tensor]) && (has_several || rule.is_for_all)) {
      rounds.add(tensor, elements[tensor]);
      ++plan.packed;
    } else {
      plan.in_place.push_back(tensor);
    }
  }
  plan.rounds = rounds.take();
  return plan;
}

}  // namespace ringtune
