// SPDX-License-Identifier: Apache-2.0
// Plan of which tensors of a response are packed into a buffer, and which NCCL reduces where they are. It follows from
// values that all ranks have agreed on, so that all of them make the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ringtune {

// Elements of a tensor, and their place in the buffer.
struct PackedPiece {
  size_t tensor = 0;  // number of the tensor
  uint64_t first = 0;
  uint64_t elements = 0;
  uint64_t offset = 0;  // in elements of the buffer

  bool operator==(const PackedPiece&) const = default;
};

// One filling of the buffer.
struct PackingRound {
  std::vector<PackedPiece> pieces;
  uint64_t elements = 0;  // length of the filling, gaps included
};

struct PackingPlan {
  std::vector<size_t> in_place;  // numbers of tensors
  std::vector<PackingRound> rounds;
  size_t packed = 0;  // number of tensors
};

struct PackingRule {
  uint64_t largest_elements = 0;  // a tensor with more is reduced where it is
  bool is_for_all = false;        // none is
  uint64_t buffer_elements = 0;   // at least `alignment`
  uint64_t alignment = 1;         // offsets are multiples of it; in elements
};

// For tensors of so many elements.
PackingPlan plan_packing(std::span<const uint64_t> elements, const PackingRule& rule);

}  // namespace ringtune
