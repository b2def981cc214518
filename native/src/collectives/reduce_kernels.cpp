// SPDX-License-Identifier: Apache-2.0
#include "collectives/reduce_kernels.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "collectives/element.h"
#include "collectives/reduce_loops.h"

namespace ringtune {
namespace {

// The accumulators of one tile stay in the first-level cache while the inputs stream by.
constexpr size_t kTileBytes = 4096;

using TakeLoop = void (*)(void* tile, const std::byte* source, size_t count, double scale);
using FinishLoop = void (*)(void* tile, size_t count, const Reduction* reduction);
using StoreLoop = void (*)(const void* tile, std::byte* target, size_t count);
using PairLoop = void (*)(const std::byte* first, const std::byte* second, std::byte* target, size_t count, double by);

struct Loops {
  size_t stored_bytes;
  size_t accumulator_bytes;
  TakeLoop load;
  TakeLoop combine;
  TakeLoop load_partial;
  TakeLoop combine_partial;
  FinishLoop finish;
  StoreLoop store;
  PairLoop pair;  // null where two contributions take the long way
};

bool is_pair(const ReductionInputs& inputs, ReductionOutput output) {
  return inputs.partials.empty() && inputs.contributions.size() == 2 && output == ReductionOutput::kResult;
}

// What the reduction does to the sum of a pair, where that is one operation.
struct PairPlan {
  bool is_possible;
  PairEnd end;
  double by;
};

PairPlan plan_pair(const Reduction& reduction, bool is_float) {
  const bool is_average = reduction.op == ReduceOp::kAverage;
  const bool is_scaled = reduction.prescale != 1 || reduction.postscale != 1;
  if (is_scaled || (is_average && !is_float)) {
    return {false, PairEnd::kNothing, 1};
  }
  if (!is_average) {
    return {true, PairEnd::kNothing, 1};
  }
  // The reciprocal of a power of two is exact, so that the product has the quotient's bits.
  const bool is_power_of_two = std::has_single_bit(static_cast<unsigned>(reduction.ranks));
  return is_power_of_two ? PairPlan{true, PairEnd::kMultiply, 1.0 / reduction.ranks}
                         : PairPlan{true, PairEnd::kDivide, static_cast<double>(reduction.ranks)};
}

template <typename E, typename Op>
PairLoop pick_pair(const PairPlan& plan, InstructionSet set) {
  using Pair = Compiled<PairLoop>;
  if (!plan.is_possible) {
    return nullptr;
  }
  if constexpr (std::is_floating_point_v<typename E::Accumulator> && std::is_same_v<Op, Add>) {
    if (plan.end == PairEnd::kMultiply) {
      return Pair::pick<&pair_loop<E, Op, PairEnd::kMultiply>>(set);
    }
    if (plan.end == PairEnd::kDivide) {
      return Pair::pick<&pair_loop<E, Op, PairEnd::kDivide>>(set);
    }
  }
  return Pair::pick<&pair_loop<E, Op, PairEnd::kNothing>>(set);
}

template <typename E, typename Op>
Loops loops(const Reduction& reduction, const PairPlan& plan, InstructionSet set) {
  using Partial = Element<typename E::Accumulator>;
  using Take = Compiled<TakeLoop>;
  const bool is_scaled = reduction.prescale != 1;
  return {sizeof(typename E::Stored),
          sizeof(typename E::Accumulator),
          is_scaled ? Take::pick<&load_loop<E, true>>(set) : Take::pick<&load_loop<E, false>>(set),
          is_scaled ? Take::pick<&combine_loop<E, Op, true>>(set) : Take::pick<&combine_loop<E, Op, false>>(set),
          Take::pick<&load_loop<Partial, false>>(set),
          Take::pick<&combine_loop<Partial, Op, false>>(set),
          Compiled<FinishLoop>::pick<&finish_loop<E>>(set),
          Compiled<StoreLoop>::pick<&store_loop<E>>(set),
          pick_pair<E, Op>(plan, set)};
}

template <typename E>
Loops loops_of(const Reduction& reduction, InstructionSet set) {
  constexpr bool kIsBool = std::is_same_v<E, Element<Bool>>;
  const PairPlan plan = plan_pair(reduction, std::is_floating_point_v<typename E::Accumulator>);
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

}  // namespace

void reduce(const Reduction& reduction, const ReductionInputs& inputs, ReductionOutput output, std::byte* target,
            size_t elements, InstructionSet set) {
  const Loops kernel =
      with_element(reduction.dtype, [&](auto element) { return loops_of<decltype(element)>(reduction, set); });
  if (kernel.pair != nullptr && is_pair(inputs, output)) {
    kernel.pair(inputs.contributions[0], inputs.contributions[1], target, elements, plan_pair(reduction, true).by);
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
      kernel.store(tile, target + start * kernel.stored_bytes, count);
    } else {
      std::memcpy(target + start * kernel.accumulator_bytes, tile, count * kernel.accumulator_bytes);
    }
  }
}

}  // namespace ringtune
