// SPDX-License-Identifier: Apache-2.0
#include "device/nccl/nccl_meaning.h"

#include <cmath>
#include <set>

#include <gtest/gtest.h>

namespace ringtune {
namespace {

bool is_nccl(DataType dtype, ReduceOp op, double scale = 1, int ranks = 2) {
  return nccl_reduction(dtype, op, scale, ranks).has_value();
}

TEST(NcclMeaning, SumsOfTheTypesThatNcclHasGoAsTheyAre) {
  const std::set<DataType> in_nccl{DataType::kInt8,    DataType::kUInt8,   DataType::kInt32,   DataType::kUInt32,
                                   DataType::kInt64,   DataType::kUInt64,  DataType::kFloat16, DataType::kFloat32,
                                   DataType::kFloat64, DataType::kBFloat16};
  for (int number = 0; number < kDataTypeCount; ++number) {
    const auto dtype = static_cast<DataType>(number);

    EXPECT_EQ(in_nccl.contains(dtype), is_nccl(dtype, ReduceOp::kSum)) << dtype_name(dtype);
  }
}

TEST(NcclMeaning, AnAverageIsASumOfScaledNumbersWhereThatIsExact) {
  const NcclReduction expected{NcclType::kBFloat16, NcclOp::kSum, 0.25};

  EXPECT_EQ(expected, nccl_reduction(DataType::kBFloat16, ReduceOp::kAverage, 1, 4));
  EXPECT_FALSE(is_nccl(DataType::kBFloat16, ReduceOp::kAverage, 1, 3));
  EXPECT_FALSE(is_nccl(DataType::kFloat32, ReduceOp::kAverage, 1, 6));
  EXPECT_TRUE(is_nccl(DataType::kFloat32, ReduceOp::kAverage, 3, 6)) << "3/6 is a power of two";
}

TEST(NcclMeaning, AFloat16IsNotScaledForItsSubnormalNumbersWouldLoseBits) {
  EXPECT_TRUE(is_nccl(DataType::kFloat16, ReduceOp::kSum));
  EXPECT_TRUE(is_nccl(DataType::kFloat16, ReduceOp::kAverage, 1, 1));
  EXPECT_FALSE(is_nccl(DataType::kFloat16, ReduceOp::kAverage, 1, 2));
}

TEST(NcclMeaning, IntegersAreNeitherAveragedNorScaled) {
  EXPECT_FALSE(is_nccl(DataType::kInt32, ReduceOp::kAverage, 1, 2));
  EXPECT_FALSE(is_nccl(DataType::kInt32, ReduceOp::kSum, 0.5));
  EXPECT_FALSE(is_nccl(DataType::kInt64, ReduceOp::kSum, 2));
}

TEST(NcclMeaning, ExtremesOfFloatsStayHereBecauseNcclDropsNan) {
  for (const ReduceOp op : {ReduceOp::kMin, ReduceOp::kMax}) {
    EXPECT_TRUE(is_nccl(DataType::kInt64, op));
    EXPECT_FALSE(is_nccl(DataType::kFloat32, op));
    EXPECT_FALSE(is_nccl(DataType::kBFloat16, op));
  }
}

TEST(NcclMeaning, ScalesThatAreNoPowersOfTwoStayHere) {
  for (const double scale : {0.0, 0.1, 3.0, -0.5, std::ldexp(1.0, -66), std::ldexp(1.0, 64), HUGE_VAL}) {
    EXPECT_FALSE(is_nccl(DataType::kFloat32, ReduceOp::kSum, scale)) << scale;
  }
  EXPECT_TRUE(is_nccl(DataType::kFloat64, ReduceOp::kSum, std::ldexp(1.0, -10)));
}

TEST(NcclMeaning, ScaledProductsAndAdasumStayHere) {
  EXPECT_TRUE(is_nccl(DataType::kFloat32, ReduceOp::kProduct));
  EXPECT_FALSE(is_nccl(DataType::kFloat32, ReduceOp::kProduct, 0.5));
  EXPECT_FALSE(is_nccl(DataType::kFloat32, ReduceOp::kAdasum));
}

}  // namespace
}  // namespace ringtune
