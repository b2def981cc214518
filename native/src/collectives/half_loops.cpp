// SPDX-License-Identifier: Apache-2.0
#include "collectives/half_loops.h"

#if defined(RINGTUNE_HAS_HALF_LOOPS)
#include "collectives/element.h"

namespace ringtune {
namespace {

constexpr size_t kLanes = 8;

}  // namespace

RINGTUNE_AVX2 void load_halves(void* tile, const std::byte* source, size_t count, double /*scale*/) {
  auto* floats = static_cast<float*>(tile);
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(source + i * sizeof(Float16)));
    _mm256_storeu_ps(floats + i, _mm256_cvtph_ps(halves));
  }
  for (; i < count; ++i) {
    floats[i] = to_float(read_element<Float16>(source, i));
  }
}

RINGTUNE_AVX2 void store_halves(const void* tile, std::byte* target, size_t count) {
  const auto* floats = static_cast<const float*>(tile);
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const __m256 values = with_plain_nan(_mm256_loadu_ps(floats + i));
    const __m128i halves = _mm256_cvtps_ph(values, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(target + i * sizeof(Float16)), halves);
  }
  for (; i < count; ++i) {
    write_element(target, i, to_float16(floats[i]));
  }
}

}  // namespace ringtune
#endif
