// SPDX-License-Identifier: Apache-2.0
// Thirty-two 16-bit floats at a time; see half_sums.h. The steps are those of Avx2Halves.
#pragma once

#include <algorithm>
#include <cstddef>

#include "collectives/half_loops.h"
#include "collectives/reduce_loops.h"

#if defined(RINGTUNE_HAS_HALF_LOOPS)

namespace ringtune {

struct Avx512Halves {
  static constexpr size_t kLanes = 32;

  // The results of as many elements as fill whole registers; returns how many. A template with the instruction set as
  // parameter could not be compiled for it: each set has the loop in its own functions.
  template <typename Stored, FusedEnd kEnd, size_t kSources, size_t kTargets>
  RINGTUNE_AVX512 static size_t sum(const std::byte* const* contributions, const ReductionTargets* targets,
                                    size_t count, float by) {
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
  struct Floats {
    __m512 first;
    __m512 second;
  };

  RINGTUNE_AVX512 static __m512 widen_16(const std::byte* source) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(source)));
  }

  RINGTUNE_AVX512 static __m256i narrow_16(__m512 values) {
    return _mm512_cvtps_ph(values, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }

  RINGTUNE_AVX512 static Floats widen(const std::byte* source, Float16 /*stored*/) {
    constexpr size_t kHalf = kLanes / 2 * sizeof(Float16);
    return {widen_16(source), widen_16(source + kHalf)};
  }

  RINGTUNE_AVX512 static Floats widen(const std::byte* source, BFloat16 /*stored*/) {
    const __m512i pairs = _mm512_loadu_si512(source);
    const __m512i upper = _mm512_and_si512(pairs, _mm512_set1_epi32(static_cast<int>(0xFFFF0000)));
    return {_mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16)), _mm512_castsi512_ps(upper)};
  }

  RINGTUNE_AVX512 static Floats add(const Floats& a, const Floats& b) {
    return {_mm512_add_ps(a.first, b.first), _mm512_add_ps(a.second, b.second)};
  }

  template <FusedEnd kEnd>
  RINGTUNE_AVX512 static Floats finish(const Floats& sum, float by) {
    const Floats values{at_the_end<kEnd>(sum.first, by), at_the_end<kEnd>(sum.second, by)};
    if (_mm512_cmp_ps_mask(values.first, values.second, _CMP_UNORD_Q) != 0) [[unlikely]] {
      return {with_plain_nan(values.first), with_plain_nan(values.second)};
    }
    return values;
  }

  RINGTUNE_AVX512 static __m512i narrow(const Floats& values, Float16 /*stored*/) {
    return _mm512_inserti64x4(_mm512_castsi256_si512(narrow_16(values.first)), narrow_16(values.second), 1);
  }

  RINGTUNE_AVX512 static __m512i narrow(const Floats& values, BFloat16 /*stored*/) {
    constexpr __mmask32 kUpperHalves = 0xAAAAAAAA;
    const __m512i lower = _mm512_srli_epi32(round_to_bfloat16(values.first), 16);
    return _mm512_mask_blend_epi16(kUpperHalves, lower, round_to_bfloat16(values.second));
  }

  RINGTUNE_AVX512 static void store(std::byte* target, __m512i halves) { _mm512_storeu_si512(target, halves); }

  template <FusedEnd kEnd>
  RINGTUNE_AVX512 static __m512 at_the_end(__m512 sum, float by) {
    if constexpr (kEnd == FusedEnd::kMultiply) {
      return _mm512_mul_ps(sum, _mm512_set1_ps(by));
    } else if constexpr (kEnd == FusedEnd::kDivide) {
      return _mm512_div_ps(sum, _mm512_set1_ps(by));
    } else {
      return sum;
    }
  }

  RINGTUNE_AVX512 static __m512 with_plain_nan(__m512 values) {
    const __m512i bits = _mm512_castps_si512(values);
    const __m512i sign = _mm512_and_si512(bits, _mm512_set1_epi32(static_cast<int>(0x80000000)));
    const __mmask16 is_nan = _mm512_cmp_ps_mask(values, values, _CMP_UNORD_Q);
    return _mm512_castsi512_ps(_mm512_mask_or_epi32(bits, is_nan, sign, _mm512_set1_epi32(0x7FC00000)));
  }

  RINGTUNE_AVX512 static __m512i round_to_bfloat16(__m512 values) {
    const __m512i bits = _mm512_castps_si512(values);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    return _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7FFF)));
  }
};

}  // namespace ringtune
#endif
