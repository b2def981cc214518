// SPDX-License-Identifier: Apache-2.0
// The stand-in's reductions, with NCCL's meanings: min and max of floats drop NaN, sums of 16-bit floats are rounded
// after every addition.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include "base/half.h"
#include "device/nccl/nccl_abi.h"

namespace ringtune::testing {

template <typename T>
struct Arithmetic {
  static T scaled(T value, double scale) { return static_cast<T>(static_cast<double>(value) * scale); }
  static T combined(NcclOp op, T a, T b) {
    switch (op) {
      case NcclOp::kSum:
        return static_cast<T>(a + b);
      case NcclOp::kProduct:
        return static_cast<T>(a * b);
      case NcclOp::kMax:
        return a > b ? a : b;
      case NcclOp::kMin:
        break;
    }
    return a < b ? a : b;
  }
};

template <>
struct Arithmetic<float> {
  static float scaled(float value, double scale) { return value * static_cast<float>(scale); }
  static float combined(NcclOp op, float a, float b) {
    const float extreme = op == NcclOp::kMax ? std::fmax(a, b) : std::fmin(a, b);
    return op == NcclOp::kSum ? a + b : op == NcclOp::kProduct ? a * b : extreme;
  }
};

template <typename Half, Half (*narrow)(float)>
struct HalfArithmetic {
  static Half scaled(Half value, double scale) { return narrow(to_float(value) * static_cast<float>(scale)); }
  static Half combined(NcclOp op, Half a, Half b) {
    return narrow(Arithmetic<float>::combined(op, to_float(a), to_float(b)));
  }
};
template <>
struct Arithmetic<Float16> : HalfArithmetic<Float16, to_float16> {};
template <>
struct Arithmetic<BFloat16> : HalfArithmetic<BFloat16, to_bfloat16> {};

inline size_t bytes_of(NcclType type) {
  constexpr size_t kBytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
  return kBytes[static_cast<size_t>(type)];
}

// The combination that NCCL runs: `scale` of every element first, where the operation is one of the caller's own.
struct Combination {
  NcclType type;
  NcclOp op;
  std::optional<double> scale;
};

template <typename T>
void combine_as(const Combination& how, std::span<const std::byte* const> inputs, size_t elements, std::byte* output) {
  const auto element = [&](size_t rank, size_t i) {
    T value;
    std::memcpy(&value, inputs[rank] + i * sizeof(T), sizeof(T));
    return how.scale ? Arithmetic<T>::scaled(value, *how.scale) : value;
  };
  for (size_t i = 0; i < elements; ++i) {
    T sum = element(0, i);
    for (size_t rank = 1; rank < inputs.size(); ++rank) {
      sum = Arithmetic<T>::combined(how.op, sum, element(rank, i));
    }
    std::memcpy(output + i * sizeof(T), &sum, sizeof(T));
  }
}

inline void combine(const Combination& how, std::span<const std::byte* const> inputs, size_t elements,
                    std::byte* output) {
  using Combine = void (*)(const Combination&, std::span<const std::byte* const>, size_t, std::byte*);
  constexpr Combine kCombine[] = {combine_as<int8_t>,  combine_as<uint8_t>,  combine_as<int32_t>, combine_as<uint32_t>,
                                  combine_as<int64_t>, combine_as<uint64_t>, combine_as<Float16>, combine_as<float>,
                                  combine_as<double>,  combine_as<BFloat16>};
  kCombine[static_cast<size_t>(how.type)](how, inputs, elements, output);
}

}  // namespace ringtune::testing
