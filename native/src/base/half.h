// SPDX-License-Identifier: Apache-2.0
// The two 16-bit float formats and their conversions, rounded to nearest even. Portable, and free of branches, so that
// compilers vectorize loops over them for any processor.
#pragma once

#include <bit>
#include <cstdint>

namespace ringtune {

// IEEE 754 binary16: 1 bit sign, 5 bits exponent, 10 bits mantissa.
struct Float16 {
  uint16_t bits;
};

// The upper half of a float32.
struct BFloat16 {
  uint16_t bits;
};

// Masks, for compilers turn a conditional expression with floating-point operations into a branch, which ends the
// vectorization (sums of float16 took twice the time).
inline uint32_t select(bool condition, uint32_t if_true, uint32_t if_false) {
  const uint32_t mask = 0U - static_cast<uint32_t>(condition);
  return (if_true & mask) | (if_false & ~mask);
}

inline float to_float(Float16 value) {
  constexpr uint32_t kTwiceRebias = 2 * (127U - 15U) << 23;
  const uint32_t magnitude = value.bits & 0x7FFFU;
  // The exponent is put so high that infinities and NaN stay what they are; the product brings the others down.
  const float normal = std::bit_cast<float>((magnitude << 13) + kTwiceRebias) * 0x1.0p-112F;
  // Below the smallest normal number the bits count steps of 2^-24, as the bits of a float32 above 0.5 do.
  const float subnormal = std::bit_cast<float>(magnitude | std::bit_cast<uint32_t>(0.5F)) - 0.5F;
  const uint32_t result =
      select(magnitude < 0x0400U, std::bit_cast<uint32_t>(subnormal), std::bit_cast<uint32_t>(normal));
  return std::bit_cast<float>((static_cast<uint32_t>(value.bits & 0x8000U) << 16) | result);
}

inline Float16 to_float16(float value) {
  constexpr uint32_t kRebias = (127U - 15U) << 23;
  constexpr uint32_t kFirstNormal = 0x38800000U;    // 2^-14
  constexpr uint32_t kFirstInfinity = 0x477FF000U;  // 65520: rounds beyond the largest finite number
  constexpr uint32_t kInfinity = 0x7F800000U;
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t magnitude = bits & 0x7FFFFFFFU;
  const uint32_t normal = (magnitude - kRebias + 0x0FFFU + ((magnitude >> 13) & 1U)) >> 13;
  // The bits of a float32 above 0.5 count steps of 2^-24, as those of subnormal numbers do: the addition rounds.
  const uint32_t subnormal =
      std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - std::bit_cast<uint32_t>(0.5F);
  const uint32_t finite = select(magnitude < kFirstNormal, subnormal, normal);
  const uint32_t special = select(magnitude > kInfinity, 0x7E00U, 0x7C00U);
  const uint32_t result = select(magnitude < kFirstInfinity, finite, special);
  return {static_cast<uint16_t>(((bits >> 16) & 0x8000U) | result)};
}

inline float to_float(BFloat16 value) { return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16); }

inline BFloat16 to_bfloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16;
  const bool is_nan = (bits & 0x7FFFFFFFU) > 0x7F800000U;
  const uint32_t quiet_nan = ((bits >> 16) & 0x8000U) | 0x7FC0U;
  return {static_cast<uint16_t>(is_nan ? quiet_nan : rounded)};
}

}  // namespace ringtune
