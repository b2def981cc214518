// SPDX-License-Identifier: Apache-2.0
#include "device/nccl/nccl_meaning.h"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace ringtune {
namespace {

// Far from where a scaled number of any of the types would overflow or become subnormal on its own.
constexpr int kMaxExponent = 64;

struct TypePair {
  DataType dtype;
  NcclType type;
};
constexpr TypePair kTypes[] = {
    {DataType::kInt8, NcclType::kInt8},       {DataType::kUInt8, NcclType::kUInt8},
    {DataType::kInt32, NcclType::kInt32},     {DataType::kUInt32, NcclType::kUInt32},
    {DataType::kInt64, NcclType::kInt64},     {DataType::kUInt64, NcclType::kUInt64},
    {DataType::kFloat16, NcclType::kFloat16}, {DataType::kFloat32, NcclType::kFloat32},
    {DataType::kFloat64, NcclType::kFloat64}, {DataType::kBFloat16, NcclType::kBFloat16},
};

std::optional<NcclType> nccl_type(DataType dtype) {
  const TypePair* found = std::ranges::find(kTypes, dtype, &TypePair::dtype);
  return found == std::end(kTypes) ? std::nullopt : std::optional(found->type);
}

bool is_float(NcclType type) {
  return type == NcclType::kFloat16 || type == NcclType::kFloat32 || type == NcclType::kFloat64 ||
         type == NcclType::kBFloat16;
}

std::optional<NcclOp> nccl_op(ReduceOp op, bool is_float) {
  switch (op) {
    case ReduceOp::kSum:
      return NcclOp::kSum;
    case ReduceOp::kAverage:
      return is_float ? std::optional(NcclOp::kSum) : std::nullopt;
    case ReduceOp::kProduct:
      return NcclOp::kProduct;
    case ReduceOp::kMin:
      return is_float ? std::nullopt : std::optional(NcclOp::kMin);
    case ReduceOp::kMax:
      return is_float ? std::nullopt : std::optional(NcclOp::kMax);
    case ReduceOp::kAdasum:
      break;
  }
  return std::nullopt;
}

bool is_power_of_two(double scale) {
  int exponent = 0;
  return std::frexp(scale, &exponent) == 0.5 && std::abs(exponent) <= kMaxExponent;
}

}  // namespace

std::optional<NcclReduction> nccl_reduction(DataType dtype, ReduceOp op, double scale, int ranks) {
  const std::optional<NcclType> type = nccl_type(dtype);
  const std::optional<NcclOp> nccl = type ? nccl_op(op, is_float(*type)) : std::nullopt;
  if (!nccl) {
    return std::nullopt;
  }
  if (op == ReduceOp::kAverage) {
    scale /= ranks;
  }
  const bool is_exact =
      is_float(*type) && *type != NcclType::kFloat16 && nccl == NcclOp::kSum && is_power_of_two(scale);
  if (scale != 1 && !is_exact) {
    return std::nullopt;
  }
  return NcclReduction{*type, *nccl, scale};
}

}  // namespace ringtune
