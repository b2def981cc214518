// SPDX-License-Identifier: Apache-2.0
// Sixteen 16-bit floats at a time; see half_sums.h.
#pragma once

#include <algorithm>
#include <cstddef>

#include "collectives/half_loops.h"
#include "collectives/reduce_loops.h"

#if defined(RINGTUNE_HAS_HALF_LOOPS)

namespace ringtune {

struct Avx2Halves {
  static constexpr size_t kLanes = 16;

  // The results of as many elements as fill whole registers; returns how many. A template with the instruction set as
  // parameter could not be compiled for it: each set has the loop in its own functions.
  template <typename Stored, FusedEnd kEnd, size_t kSources, size_t kTargets>
  RINGTUNE_AVX2 static size_t sum(const std::byte* const* contributions, const ReductionTargets* targets, size_t count,
                                  float by) {
    const std::byte* sources[kSources];  // here, because a store through a byte might change an array elsewhere
    std::copy_n(contributions, kSources, sources);
    std::byte* const first = targets->first;
    std::byte* const second = targets->second;
    size_t i = 0;
    for (; i + kLanes <= count; i += kLanes) {
      const size_t at = i * sizeof(Stored);
      Floats sum = widen(sources[0] + at, Stored{});
      for (size_t source = 1; source < kSources; ++source) {
        sum = add(sum, widen(sources[source] + at, Stored{}));
      }
      const auto halves = narrow(finish<kEnd>(sum, by), Stored{});
      store(first + at, halves);
      if constexpr (kTargets == 2) store(second + at, halves);
    }
    return i;
  }

 private:
  // The order of elements is the type's own matter: `narrow` puts them back.
  struct Floats {
    __m256 first;
    __m256 second;
  };

  RINGTUNE_AVX2 static Floats widen(const std::byte* source, Float16 /*stored*/) {
    constexpr size_t kHalf = kLanes / 2 * sizeof(Float16);
    return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(source))),
            _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(source + kHalf)))};
  }

  // The lower and the upper halves of 32-bit lanes: no element has to cross from one lane to another.
  RINGTUNE_AVX2 static Floats widen(const std::byte* source, BFloat16 /*stored*/) {
    const __m256i pairs = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(source));
    const __m256i upper = _mm256_and_si256(pairs, _mm256_set1_epi32(static_cast<int>(0xFFFF0000)));
    return {_mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16)), _mm256_castsi256_ps(upper)};
  }

  RINGTUNE_AVX2 static Floats add(const Floats& a, const Floats& b) {
    return {_mm256_add_ps(a.first, b.first), _mm256_add_ps(a.second, b.second)};
  }

  // The rest of a loop makes a NaN's bits plain: so does this, or they would depend on where a chunk ends.
  template <FusedEnd kEnd>
  RINGTUNE_AVX2 static Floats finish(const Floats& sum, float by) {
    const Floats values{at_the_end<kEnd>(sum.first, by), at_the_end<kEnd>(sum.second, by)};
    // True where one of the two is NaN, which is rare.
    if (_mm256_movemask_ps(_mm256_cmp_ps(values.first, values.second, _CMP_UNORD_Q)) != 0) [[unlikely]] {
      return {with_plain_nan(values.first), with_plain_nan(values.second)};
    }
    return values;
  }

  RINGTUNE_AVX2 static __m256i narrow(const Floats& values, Float16 /*stored*/) {
    constexpr int kRounding = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    return _mm256_set_m128i(_mm256_cvtps_ph(values.second, kRounding), _mm256_cvtps_ph(values.first, kRounding));
  }

  RINGTUNE_AVX2 static __m256i narrow(const Floats& values, BFloat16 /*stored*/) {
    constexpr int kUpperHalves = 0xAA;
    const __m256i lower = _mm256_srli_epi32(round_to_bfloat16(values.first), 16);
    return _mm256_blend_epi16(lower, round_to_bfloat16(values.second), kUpperHalves);
  }

  RINGTUNE_AVX2 static void store(std::byte* target, __m256i halves) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(target), halves);
  }

  template <FusedEnd kEnd>
  RINGTUNE_AVX2 static __m256 at_the_end(__m256 sum, float by) {
    if constexpr (kEnd == FusedEnd::kMultiply) {
      return _mm256_mul_ps(sum, _mm256_set1_ps(by));
    } else if constexpr (kEnd == FusedEnd::kDivide) {
      return _mm256_div_ps(sum, _mm256_set1_ps(by));
    } else {
      return sum;
    }
  }

  // To nearest even, as to_bfloat16, in the upper half of each lane. NaN has a bit set below the ones that stay, and
  // must not be carried away: it is a plain one by now.
  RINGTUNE_AVX2 static __m256i round_to_bfloat16(__m256 values) {
    const __m256i bits = _mm256_castps_si256(values);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    return _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7FFF)));
  }
};

}  // namespace ringtune
#endif
