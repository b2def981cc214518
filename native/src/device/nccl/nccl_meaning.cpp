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

// The one factor for all of it, where NCCL may multiply every element by it before it sums: no bit is lost.
std::optional<double> exact_factor(NcclType type, const WantedReduction& wanted, int average_of) {
  const double factor = wanted.prescale * wanted.postscale / average_of;
  const bool is_exact = type != NcclType::kFloat16 && is_power_of_two(factor) && is_power_of_two(wanted.prescale) &&
                        is_power_of_two(wanted.postscale);
  return is_exact ? std::optional(factor) : std::nullopt;
}

// A scaled sum of floats.
GpuReduction scaled_sum(NcclType type, const WantedReduction& wanted, int average_of) {
  GpuReduction reduction{{type, NcclOp::kSum, 1}, {{wanted.dtype, wanted.dtype}, 1, {}}};
  if (const std::optional<double> factor = exact_factor(type, wanted, average_of)) {
    reduction.nccl.scale = *factor;
    return reduction;
  }
  if (type == NcclType::kFloat16) {
    reduction.nccl.type = NcclType::kFloat32;
    reduction.kernels.types.buffer = DataType::kFloat32;
  }
  reduction.kernels.prescale = wanted.prescale;
  reduction.kernels.after_sum = {average_of, wanted.postscale};
  return reduction;
}

}  // namespace

std::optional<GpuReduction> gpu_reduction(const WantedReduction& wanted, int ranks) {
  const std::optional<NcclType> type = nccl_type(wanted.dtype);
  const std::optional<NcclOp> op = type ? nccl_op(wanted.op, is_float(*type)) : std::nullopt;
  if (!op) {
    return std::nullopt;
  }
  const int average_of = wanted.op == ReduceOp::kAverage ? ranks : 1;
  if (wanted.prescale == 1 && wanted.postscale == 1 && average_of == 1) {
    return GpuReduction{{*type, *op, 1}, {{wanted.dtype, wanted.dtype}, 1, {}}};
  }
  if (!is_float(*type) || *op != NcclOp::kSum) {
    return std::nullopt;
  }
  return scaled_sum(*type, wanted, average_of);
}

}  // namespace ringtune
