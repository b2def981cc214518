// SPDX-License-Identifier: Apache-2.0
#include "base/half.h"

#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace ringtune {
namespace {

constexpr uint32_t kBitPatterns = 1 << 16;

// The value of a format's bits, by its definition.
double value_of(uint32_t bits, int mantissa_bits, int exponent_bits) {
  const auto mantissa = static_cast<double>(bits & ((1U << mantissa_bits) - 1));
  const int exponent = static_cast<int>(bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const double sign = (bits & 0x8000U) != 0 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) {
    return mantissa == 0 ? sign * std::numeric_limits<double>::infinity() : std::nan("");
  }
  const double significand = exponent == 0 ? mantissa : mantissa + std::ldexp(1, mantissa_bits);
  return sign * std::ldexp(significand, (exponent == 0 ? 1 : exponent) - bias - mantissa_bits);
}

struct Float16Format {
  static float widen(uint32_t bits) { return to_float(Float16{static_cast<uint16_t>(bits)}); }
  static uint32_t narrow(float value) { return to_float16(value).bits; }
  static double value(uint32_t bits) { return value_of(bits, 10, 5); }
  static constexpr uint32_t kInfinity = 0x7C00;
};

struct BFloat16Format {
  static float widen(uint32_t bits) { return to_float(BFloat16{static_cast<uint16_t>(bits)}); }
  static uint32_t narrow(float value) { return to_bfloat16(value).bits; }
  static double value(uint32_t bits) { return value_of(bits, 7, 8); }
  static constexpr uint32_t kInfinity = 0x7F80;
};

template <typename Format>
class HalfTest : public ::testing::Test {};

using Formats = ::testing::Types<Float16Format, BFloat16Format>;
TYPED_TEST_SUITE(HalfTest, Formats);

TYPED_TEST(HalfTest, EveryBitPatternHasItsValueAndComesBack) {
  for (uint32_t bits = 0; bits < kBitPatterns; ++bits) {
    const double expected = TypeParam::value(bits);
    const float widened = TypeParam::widen(bits);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(widened)) << bits;
      ASSERT_TRUE(std::isnan(TypeParam::value(TypeParam::narrow(widened)))) << bits;
      continue;
    }
    ASSERT_EQ(expected, static_cast<double>(widened)) << bits;
    ASSERT_EQ(std::signbit(expected), std::signbit(widened)) << bits;
    ASSERT_EQ(bits, TypeParam::narrow(widened));
  }
}

// Between two neighbours: below the middle goes down, above goes up, the middle to the even one. The step beyond the
// largest finite number leads to infinity.
TYPED_TEST(HalfTest, RoundsToNearestEven) {
  for (uint32_t lower = 0; lower < TypeParam::kInfinity; ++lower) {
    const double low = TypeParam::value(lower);
    const double step = lower == 0 ? TypeParam::value(1) : low - TypeParam::value(lower - 1);
    const bool is_last = lower + 1 == TypeParam::kInfinity;
    const double high = is_last ? low + step : TypeParam::value(lower + 1);
    const auto middle = static_cast<float>((low + high) / 2);
    const uint32_t even = (lower & 1U) == 0 ? lower : lower + 1;
    for (const uint32_t sign : {0U, 0x8000U}) {
      const float factor = sign == 0 ? 1.0F : -1.0F;
      ASSERT_EQ(sign | even, TypeParam::narrow(factor * middle)) << lower;
      ASSERT_EQ(sign | lower, TypeParam::narrow(factor * std::nextafter(middle, 0.0F))) << lower;
      ASSERT_EQ(sign | (lower + 1),
                TypeParam::narrow(factor * std::nextafter(middle, std::numeric_limits<float>::infinity())))
          << lower;
    }
  }
}

TYPED_TEST(HalfTest, WhatIsTooLargeBecomesInfinityAndNanStaysNan) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(TypeParam::kInfinity, TypeParam::narrow(infinity));
  EXPECT_EQ(0x8000 | TypeParam::kInfinity, TypeParam::narrow(-infinity));
  EXPECT_EQ(TypeParam::kInfinity, TypeParam::narrow(std::numeric_limits<float>::max()));
  for (const uint32_t payload : {1U, 0x1FFFU, 0x2000U, 0x400000U, 0x7FFFFFU}) {
    const auto nan = std::bit_cast<float>(0x7F800000U | payload);
    EXPECT_TRUE(std::isnan(TypeParam::value(TypeParam::narrow(nan)))) << payload;
  }
}

#if defined(__x86_64__)
__attribute__((target("f16c"))) uint32_t narrow_in_hardware(float value) {
  constexpr int kToNearestEven = 0;
  return static_cast<uint32_t>(_mm_cvtsi128_si32(_mm_cvtps_ph(_mm_set_ss(value), kToNearestEven))) & 0xFFFFU;
}

TEST(Float16, EqualsTheProcessorsConversion) {
  if (!__builtin_cpu_supports("avx2")) {  // never without F16C, for which compilers do not let us ask
    GTEST_SKIP() << "this processor has no AVX2";
  }
  constexpr uint64_t kStride = 4099;  // a prime: all exponents, and every residue of the bits that are rounded away
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += kStride) {
    const auto value = std::bit_cast<float>(static_cast<uint32_t>(bits));
    if (!std::isnan(value)) {
      ASSERT_EQ(narrow_in_hardware(value), to_float16(value).bits) << value;
    }
  }
}
#endif

}  // namespace
}  // namespace ringtune
