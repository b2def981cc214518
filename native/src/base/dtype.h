// SPDX-License-Identifier: Apache-2.0
// Element types and reductions, with the numbers that travel through the binding and over the wire.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ringtune {

enum class DataType : uint8_t {
  kUInt8,
  kInt8,
  kInt32,
  kInt64,
  kFloat16,
  kBFloat16,
  kFloat32,
  kFloat64,
  kBool,
  kInt16,
  kUInt16,
  kUInt32,
  kUInt64,
  // Elements of the following types are moved, never computed with.
  kComplex32,
  kComplex64,
  kComplex128,
  kFloat8E4M3FN,
  kFloat8E4M3FNUZ,
  kFloat8E5M2,
  kFloat8E5M2FNUZ,
  kFloat8E8M0FNU,
  kFloat4E2M1FNX2,
  kInt1,
  kInt2,
  kInt3,
  kInt4,
  kInt5,
  kInt6,
  kInt7,
  kUInt1,
  kUInt2,
  kUInt3,
  kUInt4,
  kUInt5,
  kUInt6,
  kUInt7,
  kBits1x8,
  kBits2x4,
  kBits4x2,
  kBits8,
  kBits16,
};
inline constexpr int kDataTypeCount = 41;

// Horovod's numbers.
enum class ReduceOp : uint8_t { kAverage, kSum, kAdasum, kMin, kMax, kProduct };
inline constexpr int kReduceOpCount = 6;

size_t element_bytes(DataType dtype);
std::string_view dtype_name(DataType dtype);
std::string_view reduce_op_name(ReduceOp op);

// True if elements of the type can be reduced so: bool takes sum and max (or), product and min (and); Adasum needs
// floats of 16 bits or more; types that are only moved take none. Collectives that only move bytes take any type.
bool is_supported(ReduceOp op, DataType dtype);

}  // namespace ringtune
