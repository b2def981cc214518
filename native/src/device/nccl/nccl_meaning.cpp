// SPDX-License-Identifier: Apache-2.0
#include "device/nccl/nccl_meaning.h"

#include <cmath>

namespace ringtune {
namespace {

// Far from where a scaled number of any of the types would overflow or become subnormal on its own.
constexpr int kMaxExponent = 64;

std::optional<NcclType> nccl_type(DataType dtype) {
  switch (dtype) {
    case DataType::kInt8:
      return NcclType::kInt8;
    case DataType::kUInt8:
      return NcclType::kUInt8;
    case DataType::kInt32:
      return NcclType::kInt32;
    case DataType::kUInt32:
      return NcclType::kUInt32;
    case DataType::kInt64:
      return NcclType::kInt64;
    case DataType::kUInt64:
      return NcclType::kUInt64;
    case DataType::kFloat16:
      return NcclType::kFloat16;
    case DataType::kFloat32:
      return NcclType::kFloat32;
    case DataType::kFloat64:
      return NcclType::kFloat64;
    case DataType::kBFloat16:
      return NcclType::kBFloat16;
    default:
      return std::nullopt;
  }
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
