// SPDX-License-Identifier: Apache-2.0
#include "collectives/half_sums.h"

#if defined(RINGTUNE_HAS_HALF_LOOPS)
#include <type_traits>

#include <immintrin.h>

namespace ringtune {
namespace {

constexpr size_t kLanes = 8;

RINGTUNE_AVX2 inline __m128i load_lanes(const std::byte* source, size_t index) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(source + index * sizeof(uint16_t)));
}

RINGTUNE_AVX2 inline __m256 widen(__m128i halves, Float16 /*stored*/) { return _mm256_cvtph_ps(halves); }
RINGTUNE_AVX2 inline __m256 widen(__m128i halves, BFloat16 /*stored*/) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
}

RINGTUNE_AVX2 inline __m128i narrow(__m256 values, Float16 /*stored*/) {
  return _mm256_cvtps_ph(with_plain_nan(values), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

// To nearest even, as to_bfloat16: NaN has a bit set below the ones that stay, and must not be carried away.
RINGTUNE_AVX2 inline __m128i narrow(__m256 values, BFloat16 /*stored*/) {
  const __m256i bits = _mm256_castps_si256(with_plain_nan(values));
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7FFF)));
  const __m256i halves = _mm256_srli_epi32(rounded, 16);
  return _mm_packus_epi32(_mm256_castsi256_si128(halves), _mm256_extracti128_si256(halves, 1));
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

template <typename Stored, FusedEnd kEnd, size_t kSources, size_t kTargets>
RINGTUNE_AVX2 void sum_halves(const std::byte* const* contributions, const ReductionTargets* targets, size_t count,
                              double by) {
  const __m256 factor = _mm256_set1_ps(static_cast<float>(by));
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    __m256 sum = widen(load_lanes(contributions[0], i), Stored{});
    for (size_t source = 1; source < kSources; ++source) {
      sum = _mm256_add_ps(sum, widen(load_lanes(contributions[source], i), Stored{}));
    }
    const __m128i halves = narrow(at_the_end<kEnd>(sum, factor), Stored{});
    _mm_storeu_si128(reinterpret_cast<__m128i*>(targets->first + i * sizeof(Stored)), halves);
    if constexpr (kTargets == 2) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(targets->second + i * sizeof(Stored)), halves);
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
