// SPDX-License-Identifier: Apache-2.0
#include "base/dtype.h"

#include <array>

namespace ringtune {
namespace {

enum class Family { kInteger, kFloat, kBool };

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
  switch (op) {
    case ReduceOp::kAverage:
      return row(dtype).family != Family::kBool;
    case ReduceOp::kAdasum:
      return row(dtype).family == Family::kFloat;
    default:
      return true;
  }
}

}  // namespace ringtune
