// SPDX-License-Identifier: Apache-2.0
// Storage of each DataType's elements, and the type in which they are reduced.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/dtype.h"
#include "base/half.h"

namespace ringtune {

// 0 or 1; any other byte that is not 0 is taken for 1.
struct Bool {
  uint8_t value;
};

template <typename StoredType>
struct Element {
  using Stored = StoredType;
  using Accumulator = StoredType;
  static Accumulator load(Stored stored) { return stored; }
  static Stored store(Accumulator value) { return value; }
};

template <>
struct Element<Float16> {
  using Stored = Float16;
  using Accumulator = float;
  static float load(Float16 stored) { return to_float(stored); }
  static Float16 store(float value) { return to_float16(value); }
};

template <>
struct Element<BFloat16> {
  using Stored = BFloat16;
  using Accumulator = float;
  static float load(BFloat16 stored) { return to_float(stored); }
  static BFloat16 store(float value) { return to_bfloat16(value); }
};

template <>
struct Element<Bool> {
  using Stored = Bool;
  using Accumulator = uint8_t;
  static uint8_t load(Bool stored) { return static_cast<uint8_t>(stored.value != 0); }
  static Bool store(uint8_t value) { return {value}; }
};

// The type in which a reduction's partial results are kept and travel.
inline DataType accumulator_dtype(DataType dtype) {
  return dtype == DataType::kFloat16 || dtype == DataType::kBFloat16 ? DataType::kFloat32 : dtype;
}

// Access to arrays that need no alignment.
template <typename T>
T read_element(const std::byte* from, size_t index) {
  T value;
  std::memcpy(&value, from + index * sizeof(T), sizeof(T));
  return value;
}

template <typename T>
void write_element(std::byte* to, size_t index, T value) {
  std::memcpy(to + index * sizeof(T), &value, sizeof(T));
}

template <typename Visit>
auto with_integer_element(DataType dtype, Visit visit) {
  switch (dtype) {
    case DataType::kUInt8:
      return visit(Element<uint8_t>());
    case DataType::kInt8:
      return visit(Element<int8_t>());
    case DataType::kInt16:
      return visit(Element<int16_t>());
    case DataType::kUInt16:
      return visit(Element<uint16_t>());
    case DataType::kInt32:
      return visit(Element<int32_t>());
    case DataType::kUInt32:
      return visit(Element<uint32_t>());
    case DataType::kInt64:
      return visit(Element<int64_t>());
    default:
      return visit(Element<uint64_t>());
  }
}

// Calls `visit` with a default-constructed Element of a type that can be reduced.
template <typename Visit>
auto with_element(DataType dtype, Visit visit) {
  switch (dtype) {
    case DataType::kFloat16:
      return visit(Element<Float16>());
    case DataType::kBFloat16:
      return visit(Element<BFloat16>());
    case DataType::kFloat32:
      return visit(Element<float>());
    case DataType::kFloat64:
      return visit(Element<double>());
    case DataType::kBool:
      return visit(Element<Bool>());
    default:
      return with_integer_element(dtype, visit);
  }
}

}  // namespace ringtune
