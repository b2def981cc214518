// SPDX-License-Identifier: Apache-2.0
#include "base/dtype.h"

#include <array>

namespace ringtune {
namespace {

enum class Family { kInteger, kFloat, kBool, kMoved };

struct TypeRow {
  std::string_view name;
  size_t bytes;
  Family family;
};

// Indexed by DataType.
constexpr std::array<TypeRow, kDataTypeCount> kTypes{{
    {"uint8", 1, Family::kInteger},
    {"int8", 1, Family::kInteger},
    {"int32", 4, Family::kInteger},
    {"int64", 8, Family::kInteger},
    {"float16", 2, Family::kFloat},
    {"bfloat16", 2, Family::kFloat},
    {"float32", 4, Family::kFloat},
    {"float64", 8, Family::kFloat},
    {"bool", 1, Family::kBool},
    {"int16", 2, Family::kInteger},
    {"uint16", 2, Family::kInteger},
    {"uint32", 4, Family::kInteger},
    {"uint64", 8, Family::kInteger},
    {"complex32", 4, Family::kMoved},
    {"complex64", 8, Family::kMoved},
    {"complex128", 16, Family::kMoved},
    {"float8_e4m3fn", 1, Family::kMoved},
    {"float8_e4m3fnuz", 1, Family::kMoved},
    {"float8_e5m2", 1, Family::kMoved},
    {"float8_e5m2fnuz", 1, Family::kMoved},
    {"float8_e8m0fnu", 1, Family::kMoved},
    {"float4_e2m1fn_x2", 1, Family::kMoved},
    {"int1", 1, Family::kMoved},
    {"int2", 1, Family::kMoved},
    {"int3", 1, Family::kMoved},
    {"int4", 1, Family::kMoved},
    {"int5", 1, Family::kMoved},
    {"int6", 1, Family::kMoved},
    {"int7", 1, Family::kMoved},
    {"uint1", 1, Family::kMoved},
    {"uint2", 1, Family::kMoved},
    {"uint3", 1, Family::kMoved},
    {"uint4", 1, Family::kMoved},
    {"uint5", 1, Family::kMoved},
    {"uint6", 1, Family::kMoved},
    {"uint7", 1, Family::kMoved},
    {"bits1x8", 1, Family::kMoved},
    {"bits2x4", 1, Family::kMoved},
    {"bits4x2", 1, Family::kMoved},
    {"bits8", 1, Family::kMoved},
    {"bits16", 2, Family::kMoved},
}};

// Indexed by ReduceOp.
constexpr std::array<std::string_view, kReduceOpCount> kReduceOpNames{"average", "sum", "adasum",
                                                                      "min",     "max", "product"};

const TypeRow& row(DataType dtype) { return kTypes[static_cast<size_t>(dtype)]; }

}  // namespace

size_t element_bytes(DataType dtype) { return row(dtype).bytes; }
std::string_view dtype_name(DataType dtype) { return row(dtype).name; }
std::string_view reduce_op_name(ReduceOp op) { return kReduceOpNames[static_cast<size_t>(op)]; }

bool is_supported(ReduceOp op, DataType dtype) {
  const Family family = row(dtype).family;
  switch (op) {
    case ReduceOp::kAverage:
      return family == Family::kInteger || family == Family::kFloat;
    case ReduceOp::kAdasum:
      return family == Family::kFloat;
    default:
      return family != Family::kMoved;
  }
}

}  // namespace ringtune
