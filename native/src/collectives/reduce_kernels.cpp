// SPDX-License-Identifier: Apache-2.0
#include "collectives/reduce_kernels.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "collectives/element.h"
#include "collectives/half_loops.h"
#include "collectives/half_sums.h"
#include "collectives/reduce_loops.h"

namespace ringtune {
namespace {

// The accumulators of one tile stay in the first-level cache while the inputs stream by.
constexpr size_t kTileBytes = 4096;

using TakeLoop = void (*)(void* tile, const std::byte* source, size_t count, double scale);
using FinishLoop = void (*)(void* tile, size_t count, const Reduction* reduction);
using StoreLoop = void (*)(const void* tile, std::byte* target, size_t count);
using FusedLoop = void (*)(const std::byte* const* contributions, const ReductionTargets* targets, size_t count,
                           double by);

struct Loops {
  size_t stored_bytes;
  size_t accumulator_bytes;
  TakeLoop load;
  TakeLoop combine;
  TakeLoop load_partial;
  TakeLoop combine_partial;
  FinishLoop finish;
  StoreLoop store;
  FusedLoop fused;  // of all contributions; null where they take the long way
};

// Plan to reduce all contributions in one pass, if there is one.
struct FusedPlan {
  size_t sources;  // 0: they cannot
  bool has_two_targets;
  FusedEnd end;
  double by;
};

FusedPlan plan_fused(const Reduction& reduction, const ReductionInputs& inputs, ReductionOutput output,
                     bool has_two_targets) {
  const bool is_average = reduction.op == ReduceOp::kAverage;
  const bool is_integer =
      accumulator_dtype(reduction.dtype) != DataType::kFloat32 && reduction.dtype != DataType::kFloat64;
  const bool is_scaled = reduction.prescale != 1 || reduction.postscale != 1;
  if (!inputs.partials.empty() || output != ReductionOutput::kResult || is_scaled || (is_average && is_integer)) {
    return {0, has_two_targets, FusedEnd::kNothing, 1};
  }
  if (!is_average) {
    return {inputs.contributions.size(), has_two_targets, FusedEnd::kNothing, 1};
  }
  // The reciprocal of a power of two is exact, so that the product has the quotient's bits.
  if (std::has_single_bit(static_cast<unsigned>(reduction.ranks))) {
    return {inputs.contributions.size(), has_two_targets, FusedEnd::kMultiply, 1.0 / reduction.ranks};
  }
  return {inputs.contributions.size(), has_two_targets, FusedEnd::kDivide, static_cast<double>(reduction.ranks)};
}

template <typename E, typename Op, FusedEnd kEnd, size_t kTargets>
FusedLoop pick_fused(size_t sources, InstructionSet set) {
  using Fused = Compiled<FusedLoop>;
  switch (sources) {
    case 2:
      return Fused::pick<&fused_loop<E, Op, kEnd, 2, kTargets>>(set);
    case 3:
      return Fused::pick<&fused_loop<E, Op, kEnd, 3, kTargets>>(set);
    case 4:
      return Fused::pick<&fused_loop<E, Op, kEnd, 4, kTargets>>(set);
    default:
      return nullptr;
  }
}

template <typename E, typename Op, FusedEnd kEnd>
FusedLoop pick_fused_to(const FusedPlan& plan, InstructionSet set) {
  return plan.has_two_targets ? pick_fused<E, Op, kEnd, 2>(plan.sources, set)
                              : pick_fused<E, Op, kEnd, 1>(plan.sources, set);
}

template <typename E, typename Op>
FusedLoop pick_fused(const FusedPlan& plan, InstructionSet set) {
  if constexpr (std::is_floating_point_v<typename E::Accumulator> && std::is_same_v<Op, Add>) {
    if (plan.end == FusedEnd::kMultiply) {
      return pick_fused_to<E, Op, FusedEnd::kMultiply>(plan, set);
    }
    if (plan.end == FusedEnd::kDivide) {
      return pick_fused_to<E, Op, FusedEnd::kDivide>(plan, set);
    }
  }
  return pick_fused_to<E, Op, FusedEnd::kNothing>(plan, set);
}

#if defined(RINGTUNE_HAS_HALF_LOOPS)
// Replaces the loops over 16-bit floats that compilers leave slow.
template <typename E, typename Op>
void use_half_loops(Loops& chosen, const FusedPlan& plan, bool is_scaled, InstructionSet set) {
  constexpr bool kIsFloat16 = std::is_same_v<E, Element<Float16>>;
  constexpr bool kIsSum = std::is_same_v<Op, Add>;
  if constexpr (kIsFloat16) {
    chosen.store = &store_halves;
    chosen.load = is_scaled ? chosen.load : &load_halves;
    chosen.combine = is_scaled ? chosen.combine : &combine_halves<Op>;
    chosen.fused = nullptr;
  }
  if constexpr (kIsSum && (kIsFloat16 || std::is_same_v<E, Element<BFloat16>>)) {
    chosen.fused = pick_half_sum<typename E::Stored>(plan.sources, plan.has_two_targets, plan.end, set);
  }
}
#endif

template <typename E, typename Op>
Loops loops(const Reduction& reduction, const FusedPlan& plan, InstructionSet set) {
  using Partial = Element<typename E::Accumulator>;
  using Take = Compiled<TakeLoop>;
  const bool is_scaled = reduction.prescale != 1;
  Loops chosen{sizeof(typename E::Stored),
               sizeof(typename E::Accumulator),
               is_scaled ? Take::pick<&load_loop<E, true>>(set) : Take::pick<&load_loop<E, false>>(set),
               is_scaled ? Take::pick<&combine_loop<E, Op, true>>(set) : Take::pick<&combine_loop<E, Op, false>>(set),
               Take::pick<&load_loop<Partial, false>>(set),
               Take::pick<&combine_loop<Partial, Op, false>>(set),
               Compiled<FinishLoop>::pick<&finish_loop<E>>(set),
               Compiled<StoreLoop>::pick<&store_loop<E>>(set),
               pick_fused<E, Op>(plan, set)};
#if defined(RINGTUNE_HAS_HALF_LOOPS)
  if (set != InstructionSet::kPortable) {
    use_half_loops<E, Op>(chosen, plan, is_scaled, set);
  }
#endif
  return chosen;
}

template <typename E>
Loops loops_of(const Reduction& reduction, const FusedPlan& plan, InstructionSet set) {
  constexpr bool kIsBool = std::is_same_v<E, Element<Bool>>;
  switch (reduction.op) {
    case ReduceOp::kMin:
      return loops<E, Minimum>(reduction, plan, set);
    case ReduceOp::kMax:
      return loops<E, Maximum>(reduction, plan, set);
    case ReduceOp::kProduct:
      return loops<E, std::conditional_t<kIsBool, Minimum, Multiply>>(reduction, plan, set);
    default:
      return loops<E, std::conditional_t<kIsBool, Maximum, Add>>(reduction, plan, set);
  }
}

// The elements [start, start + count) of the output.
void store_tile(const Loops& kernel, ReductionOutput output, const std::byte* tile, std::byte* target, size_t start,
                size_t count) {
  if (output == ReductionOutput::kResult) {
    kernel.store(tile, target + start * kernel.stored_bytes, count);
  } else {
    std::memcpy(target + start * kernel.accumulator_bytes, tile, count * kernel.accumulator_bytes);
  }
}

}  // namespace

void reduce(const Reduction& reduction, const ReductionInputs& inputs, ReductionOutput output,
            const ReductionTargets& targets, size_t elements, InstructionSet set) {
  const FusedPlan plan = plan_fused(reduction, inputs, output, targets.second != nullptr);
  const Loops kernel =
      with_element(reduction.dtype, [&](auto element) { return loops_of<decltype(element)>(reduction, plan, set); });
  if (kernel.fused != nullptr) {
    kernel.fused(inputs.contributions.data(), &targets, elements, plan.by);
    return;
  }
  alignas(64) std::byte tile[kTileBytes];
  const size_t tile_elements = kTileBytes / kernel.accumulator_bytes;
  for (size_t start = 0; start < elements; start += tile_elements) {
    const size_t count = std::min(tile_elements, elements - start);
    bool is_first = true;
    for (const std::byte* partial : inputs.partials) {
      (is_first ? kernel.load_partial : kernel.combine_partial)(tile, partial + start * kernel.accumulator_bytes, count,
                                                                1);
      is_first = false;
    }
    for (const std::byte* source : inputs.contributions) {
      (is_first ? kernel.load : kernel.combine)(tile, source + start * kernel.stored_bytes, count, reduction.prescale);
      is_first = false;
    }
    if (output == ReductionOutput::kResult) {
      kernel.finish(tile, count, &reduction);
    }
    store_tile(kernel, output, tile, targets.first, start, count);
    if (targets.second != nullptr) {
      store_tile(kernel, output, tile, targets.second, start, count);
    }
  }
}

}  // namespace ringtune
