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
};
inline constexpr int kDataTypeCount = 9;

// Horovod's numbers.
enum class ReduceOp : uint8_t { kAverage, kSum, kAdasum, kMin, kMax, kProduct };
inline constexpr int kReduceOpCount = 6;

size_t element_bytes(DataType dtype);
std::string_view dtype_name(DataType dtype);
std::string_view reduce_op_name(ReduceOp op);

// Whether elements of the type can be reduced so: bool takes sum and max (or), product and min (and); Adasum needs
// floats. Collectives that only move bytes take any type.
bool is_supported(ReduceOp op, DataType dtype);

}  // namespace ringtune
