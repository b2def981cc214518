// SPDX-License-Identifier: Apache-2.0
// Sums of 16-bit floats in registers: contributions are widened, summed and rounded once without a store in between.
#pragma once

#include <cstddef>

#include "collectives/half_loops.h"
#include "collectives/reduce_loops.h"

#if defined(RINGTUNE_HAS_HALF_LOOPS)

namespace ringtune {

using HalfSum = void (*)(const std::byte* const* contributions, const ReductionTargets* targets, size_t count,
                         double by);

// Same bits as fused_loop for Element<Float16> or Element<BFloat16> and Add. Null where there is none for the
// instruction set or for as many contributions.
template <typename Stored>
HalfSum pick_half_sum(size_t sources, bool has_two_targets, FusedEnd end, InstructionSet set);

extern template HalfSum pick_half_sum<Float16>(size_t, bool, FusedEnd, InstructionSet);
extern template HalfSum pick_half_sum<BFloat16>(size_t, bool, FusedEnd, InstructionSet);

}  // namespace ringtune
#endif
