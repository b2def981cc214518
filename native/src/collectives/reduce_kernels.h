// SPDX-License-Identifier: Apache-2.0
// Reductions of the ranks' contributions, in the order in which they are given: the same bits wherever it is done.
//
// A *contribution* is a rank's input, a *partial result* the reduction of some contributions, in the accumulator type
// (float32 for 16-bit floats, which are rounded once, at the end), a *result* the output that ranks get.
#pragma once

#include <cstddef>
#include <span>

#include "base/dtype.h"
#include "base/instruction_set.h"

namespace ringtune {

// result = postscale * op over all ranks of (prescale * contribution); Average also divides by `ranks`.
//
// Floats are scaled in their accumulator type. Integers wrap; their scales are computed in double, truncated towards
// zero and kept within the type; their average is truncated as well. Sum of bool is or, Product is and; a
// scale of 0 makes it false. Min and Max of floats are NaN where a contribution is.
struct Reduction {
  DataType dtype = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;  // supported for the dtype, and not Adasum
  double prescale = 1;
  double postscale = 1;
  int ranks = 1;
};

// Inputs in their order: first the partial results, then the contributions; at least one of them.
struct ReductionInputs {
  std::span<const std::byte* const> partials;
  std::span<const std::byte* const> contributions;
};

enum class ReductionOutput { kPartial, kResult };

// One target, or two at once, which is cheaper than to copy the result afterwards.
struct ReductionTargets {
  // NOLINTNEXTLINE(google-explicit-constructor): a place is where it goes
  ReductionTargets(std::byte* only) : first(only) {}
  ReductionTargets(std::byte* first, std::byte* second) : first(first), second(second) {}

  std::byte* first;
  std::byte* second = nullptr;  // may be null
};

// A target may be one of the inputs if that has its element size, not an overlapping one. No alignment is needed.
void reduce(const Reduction& reduction, const ReductionInputs& inputs, ReductionOutput output,
            const ReductionTargets& targets, size_t elements, InstructionSet set = instruction_sets().back());

// All ranks' contributions to the result.
inline void reduce_in_rank_order(const Reduction& reduction, std::span<const std::byte* const> contributions,
                                 const ReductionTargets& targets, size_t elements) {
  reduce(reduction, {{}, contributions}, ReductionOutput::kResult, targets, elements);
}

}  // namespace ringtune
