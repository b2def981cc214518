// SPDX-License-Identifier: Apache-2.0
#include "collectives/half_sums.h"

#if defined(RINGTUNE_HAS_HALF_LOOPS)
#include <type_traits>

#include <immintrin.h>

namespace ringtune {
namespace {

// Sixteen elements. Where they stand is the type's own matter: `narrow` puts them back.
struct Floats {
  __m256 first;
  __m256 second;
};
constexpr size_t kLanes = 16;

RINGTUNE_AVX2 inline __m128i load_8(const std::byte* source) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(source));
}

RINGTUNE_AVX2 inline __m256i load_16(const std::byte* source) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(source));
}

RINGTUNE_AVX2 inline Floats widen(const std::byte* source, Float16 /*stored*/) {
  return {_mm256_cvtph_ps(load_8(source)), _mm256_cvtph_ps(load_8(source + kLanes / 2 * sizeof(Float16)))};
}

// The lower and the upper halves of 32-bit lanes: nothing has to cross from one lane to another.
RINGTUNE_AVX2 inline Floats widen(const std::byte* source, BFloat16 /*stored*/) {
  const __m256i pairs = load_16(source);
  const __m256i upper = _mm256_and_si256(pairs, _mm256_set1_epi32(static_cast<int>(0xFFFF0000)));
  return {_mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16)), _mm256_castsi256_ps(upper)};
}

RINGTUNE_AVX2 inline __m256i narrow(const Floats& values, Float16 /*stored*/) {
  constexpr int kRounding = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  return _mm256_set_m128i(_mm256_cvtps_ph(values.second, kRounding), _mm256_cvtps_ph(values.first, kRounding));
}

// To nearest even, as to_bfloat16, in the upper half of each lane. NaN has a bit set below the ones that stay, and must
// not be carried away: it is a plain one by now.
RINGTUNE_AVX2 inline __m256i round_to_bfloat16(__m256 values) {
  const __m256i bits = _mm256_castps_si256(values);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  return _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7FFF)));
}

RINGTUNE_AVX2 inline __m256i narrow(const Floats& values, BFloat16 /*stored*/) {
  constexpr int kUpperHalves = 0xAA;
  const __m256i lower = _mm256_srli_epi32(round_to_bfloat16(values.first), 16);
  return _mm256_blend_epi16(lower, round_to_bfloat16(values.second), kUpperHalves);
}

template <FusedEnd kEnd>
RINGTUNE_AVX2 inline __m256 at_the_end(__m256 sum, __m256 by) {
  if constexpr (kEnd == FusedEnd::kMultiply) {
    return _mm256_mul_ps(sum, by);
  } else if constexpr (kEnd == FusedEnd::kDivide) {
    return _mm256_div_ps(sum, by);
  } else {
    return sum;
  }
}

// The rest of a loop makes a NaN's bits plain: so does this, or they would depend on where a chunk ends.
template <FusedEnd kEnd>
RINGTUNE_AVX2 inline Floats finish(const Floats& sum, __m256 by) {
  const Floats values{at_the_end<kEnd>(sum.first, by), at_the_end<kEnd>(sum.second, by)};
  // True where one of the two is NaN, which is rare.
  if (_mm256_movemask_ps(_mm256_cmp_ps(values.first, values.second, _CMP_UNORD_Q)) != 0) [[unlikely]] {
    return {with_plain_nan(values.first), with_plain_nan(values.second)};
  }
  return values;
}

template <typename Stored, FusedEnd kEnd, size_t kSources, size_t kTargets>
RINGTUNE_AVX2 void sum_halves(const std::byte* const* contributions, const ReductionTargets* targets, size_t count,
                              double by) {
  const __m256 factor = _mm256_set1_ps(static_cast<float>(by));
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const size_t at = i * sizeof(Stored);
    Floats sum = widen(contributions[0] + at, Stored{});
    for (size_t source = 1; source < kSources; ++source) {
      const Floats values = widen(contributions[source] + at, Stored{});
      sum = {_mm256_add_ps(sum.first, values.first), _mm256_add_ps(sum.second, values.second)};
    }
    const __m256i halves = narrow(finish<kEnd>(sum, factor), Stored{});
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(targets->first + at), halves);
    if constexpr (kTargets == 2) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(targets->second + at), halves);
    }
  }
  const std::byte* rest[kSources];
  for (size_t source = 0; source < kSources; ++source) {
    rest[source] = contributions[source] + i * sizeof(Stored);
  }
  const ReductionTargets rest_targets{targets->first + i * sizeof(Stored),
                                      kTargets == 2 ? targets->second + i * sizeof(Stored) : nullptr};
  fused_loop<Element<Stored>, Add, kEnd, kSources, kTargets>(rest, &rest_targets, count - i, by);
}

template <typename Stored, FusedEnd kEnd, size_t kSources>
HalfSum pick(bool has_two_targets) {
  return has_two_targets ? &sum_halves<Stored, kEnd, kSources, 2> : &sum_halves<Stored, kEnd, kSources, 1>;
}

template <typename Stored, size_t kSources>
HalfSum pick(bool has_two_targets, FusedEnd end) {
  switch (end) {
    case FusedEnd::kMultiply:
      return pick<Stored, FusedEnd::kMultiply, kSources>(has_two_targets);
    case FusedEnd::kDivide:
      return pick<Stored, FusedEnd::kDivide, kSources>(has_two_targets);
    case FusedEnd::kNothing:
      break;
  }
  return pick<Stored, FusedEnd::kNothing, kSources>(has_two_targets);
}

}  // namespace

template <typename Stored>
HalfSum pick_half_sum(size_t sources, bool has_two_targets, FusedEnd end) {
  switch (sources) {
    case 2:
      return pick<Stored, 2>(has_two_targets, end);
    case 3:
      return pick<Stored, 3>(has_two_targets, end);
    case 4:
      return pick<Stored, 4>(has_two_targets, end);
    default:
      return nullptr;
  }
}

template HalfSum pick_half_sum<Float16>(size_t, bool, FusedEnd);
template HalfSum pick_half_sum<BFloat16>(size_t, bool, FusedEnd);

}  // namespace ringtune
#endif
