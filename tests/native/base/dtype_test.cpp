// SPDX-License-Identifier: Apache-2.0
#include "base/dtype.h"

#include <set>

#include <gtest/gtest.h>

namespace ringtune {
namespace {

TEST(DataType, SizesAreThoseOfTheTypes) {
  EXPECT_EQ(1U, element_bytes(DataType::kUInt8));
  EXPECT_EQ(2U, element_bytes(DataType::kBFloat16));
  EXPECT_EQ(8U, element_bytes(DataType::kInt64));
  EXPECT_EQ(1U, element_bytes(DataType::kBool));
  EXPECT_EQ("bfloat16", dtype_name(DataType::kBFloat16));
}

TEST(ReduceOp, EveryOneHasItsName) {
  std::set<std::string_view> names;
  for (int op = 0; op < kReduceOpCount; ++op) {
    names.insert(reduce_op_name(static_cast<ReduceOp>(op)));
  }

  EXPECT_EQ((std::set<std::string_view>{"average", "sum", "adasum", "min", "max", "product"}), names);
  EXPECT_EQ("adasum", reduce_op_name(ReduceOp::kAdasum));
}

TEST(DataType, EveryOneHasANameOfItsOwnAndASize) {
  std::set<std::string_view> names;
  for (int number = 0; number < kDataTypeCount; ++number) {
    const auto dtype = static_cast<DataType>(number);
    names.insert(dtype_name(dtype));
    EXPECT_LT(0U, element_bytes(dtype)) << number;
  }

  EXPECT_EQ(static_cast<size_t>(kDataTypeCount), names.size());
  EXPECT_FALSE(names.contains(""));
  EXPECT_EQ("complex128", dtype_name(DataType::kComplex128));
  EXPECT_EQ(16U, element_bytes(DataType::kComplex128));
  EXPECT_EQ("bits16", dtype_name(DataType::kBits16));
}

TEST(ReduceOp, BoolHasNoAverageAndAdasumTakesFloats) {
  const std::set<DataType> floats{DataType::kFloat16, DataType::kBFloat16, DataType::kFloat32, DataType::kFloat64};
  for (int number = 0; number < kDataTypeCount; ++number) {
    const auto dtype = static_cast<DataType>(number);
    const bool can_be_reduced = number <= static_cast<int>(DataType::kUInt64);
    EXPECT_EQ(can_be_reduced && dtype != DataType::kBool, is_supported(ReduceOp::kAverage, dtype));
    EXPECT_EQ(floats.contains(dtype), is_supported(ReduceOp::kAdasum, dtype));
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct}) {
      EXPECT_EQ(can_be_reduced, is_supported(op, dtype));
    }
  }
}

}  // namespace
}  // namespace ringtune
