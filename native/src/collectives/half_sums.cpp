// SPDX-License-Identifier: Apache-2.0
#include "collectives/half_sums.h"

#if defined(RINGTUNE_HAS_HALF_LOOPS)
#include "collectives/half_sums_avx2.h"
#include "collectives/half_sums_avx512.h"

namespace ringtune {
namespace {

template <typename Halves, typename Stored, FusedEnd kEnd, size_t kSources, size_t kTargets>
void sum_halves(const std::byte* const* contributions, const ReductionTargets* targets, size_t count, double by) {
  const auto factor = static_cast<float>(by);
  const size_t done = Halves::template sum<Stored, kEnd, kSources, kTargets>(contributions, targets, count, factor);
  const size_t at = done * sizeof(Stored);
  const std::byte* rest[kSources];
  for (size_t source = 0; source < kSources; ++source) {
    rest[source] = contributions[source] + at;
  }
  const ReductionTargets rest_targets{targets->first + at, kTargets == 2 ? targets->second + at : nullptr};
  fused_loop<Element<Stored>, Add, kEnd, kSources, kTargets>(rest, &rest_targets, count - done, by);
}

template <typename Halves, typename Stored, FusedEnd kEnd, size_t kTargets>
HalfSum pick(size_t sources) {
  switch (sources) {
    case 2:
      return &sum_halves<Halves, Stored, kEnd, 2, kTargets>;
    case 3:
      return &sum_halves<Halves, Stored, kEnd, 3, kTargets>;
    case 4:
      return &sum_halves<Halves, Stored, kEnd, 4, kTargets>;
    default:
      return nullptr;
  }
}

template <typename Halves, typename Stored, FusedEnd kEnd>
HalfSum pick(size_t sources, bool has_two_targets) {
  return has_two_targets ? pick<Halves, Stored, kEnd, 2>(sources) : pick<Halves, Stored, kEnd, 1>(sources);
}

template <typename Halves, typename Stored>
HalfSum pick(size_t sources, bool has_two_targets, FusedEnd end) {
  switch (end) {
    case FusedEnd::kMultiply:
      return pick<Halves, Stored, FusedEnd::kMultiply>(sources, has_two_targets);
    case FusedEnd::kDivide:
      return pick<Halves, Stored, FusedEnd::kDivide>(sources, has_two_targets);
    case FusedEnd::kNothing:
      break;
  }
  return pick<Halves, Stored, FusedEnd::kNothing>(sources, has_two_targets);
}

}  // namespace

template <typename Stored>
HalfSum pick_half_sum(size_t sources, bool has_two_targets, FusedEnd end, InstructionSet set) {
  switch (set) {
    case InstructionSet::kAvx512:
      return pick<Avx512Halves, Stored>(sources, has_two_targets, end);
    case InstructionSet::kAvx2:
      return pick<Avx2Halves, Stored>(sources, has_two_targets, end);
    case InstructionSet::kPortable:
      break;
  }
  return nullptr;
}

template HalfSum pick_half_sum<Float16>(size_t, bool, FusedEnd, InstructionSet);
template HalfSum pick_half_sum<BFloat16>(size_t, bool, FusedEnd, InstructionSet);

}  // namespace ringtune
#endif
