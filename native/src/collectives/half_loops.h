// SPDX-License-Identifier: Apache-2.0
// Loops over float16 with the processor's own conversions: compilers do not find them in the portable ones.
#pragma once

#include <algorithm>
#include <cstddef>

#include "base/instruction_set.h"

#if defined(__x86_64__)
#define RINGTUNE_HAS_HALF_LOOPS 1
#include <immintrin.h>

namespace ringtune {

// The conversions would keep some of a NaN's bits, which the portable ones do not.
RINGTUNE_AVX2 inline __m256 with_plain_nan(__m256 values) {
  const __m256 sign = _mm256_and_ps(values, _mm256_set1_ps(-0.0F));
  const __m256 plain = _mm256_or_ps(sign, _mm256_castsi256_ps(_mm256_set1_epi32(0x7FC00000)));
  return _mm256_blendv_ps(values, plain, _mm256_cmp_ps(values, values, _CMP_UNORD_Q));
}

// Same bits as the loops of reduce_loops.h for Element<Float16>; for processors with AVX2 and F16C. `tile` holds
// floats.
void load_halves(void* tile, const std::byte* source, size_t count, double);
void store_halves(const void* tile, std::byte* target, size_t count);

template <typename Op>
RINGTUNE_AVX2 void combine_halves(void* tile, const std::byte* source, size_t count, double) {
  constexpr size_t kBlock = 256;
  auto* __restrict accumulators = static_cast<float*>(tile);
  alignas(64) float values[kBlock];
  for (size_t done = 0; done < count; done += kBlock) {
    const size_t block = std::min(kBlock, count - done);
    load_halves(values, source + done * 2, block, 1);
    for (size_t i = 0; i < block; ++i) {
      accumulators[done + i] = Op::combine(accumulators[done + i], values[i]);
    }
  }
}

}  // namespace ringtune
#endif
