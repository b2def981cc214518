// SPDX-License-Identifier: Apache-2.0
#include "base/dtype.h"

#include <array>

namespace ringtune {
namespace {

struct TypeRow {
  std::string_view name;
  size_t bytes;
  bool is_reducible;
};

// Indexed by DataType.
constexpr std::array<TypeRow, kDataTypeCount> kTypes{{
    {"uint8", 1, false},
    {"int8", 1, false},
    {"int32", 4, true},
    {"int64", 8, true},
    {"float16", 2, false},
    {"bfloat16", 2, false},
    {"float32", 4, true},
    {"float64", 8, true},
    {"bool", 1, false},
}};

const TypeRow& row(DataType dtype) { return kTypes[static_cast<size_t>(dtype)]; }

}  // namespace

size_t element_bytes(DataType dtype) { return row(dtype).bytes; }
std::string_view dtype_name(DataType dtype) { return row(dtype).name; }
bool is_reducible(DataType dtype) { return row(dtype).is_reducible; }

std::string_view reduce_op_name(ReduceOp op) { return op == ReduceOp::kAverage ? "average" : "sum"; }

}  // namespace ringtune
