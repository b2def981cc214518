// SPDX-License-Identifier: Apache-2.0
#include "device/nccl/nccl_meaning.h"

#include <cmath>
#include <optional>
#include <set>

#include <gtest/gtest.h>

namespace ringtune {
namespace {

using Wanted = WantedReduction;

bool is_able(const Wanted& wanted, int ranks = 2) { return gpu_reduction(wanted, ranks).has_value(); }

// True if NCCL does all of it by itself.
bool is_by_nccl_alone(const Wanted& wanted, int ranks = 2) {
  const std::optional<GpuReduction> reduction = gpu_reduction(wanted, ranks);
  return reduction && !reduction->kernels.is_needed();
}

constexpr DataType kFloats[] = {DataType::kFloat16, DataType::kBFloat16, DataType::kFloat32, DataType::kFloat64};

TEST(NcclMeaning, SumsOfTheTypesThatNcclHasGoAsTheyAre) {
  const std::set<DataType> in_nccl{DataType::kInt8,    DataType::kUInt8,   DataType::kInt32,   DataType::kUInt32,
                                   DataType::kInt64,   DataType::kUInt64,  DataType::kFloat16, DataType::kFloat32,
                                   DataType::kFloat64, DataType::kBFloat16};
  for (int number = 0; number < kDataTypeCount; ++number) {
    const auto dtype = static_cast<DataType>(number);

    EXPECT_EQ(in_nccl.contains(dtype), is_by_nccl_alone({dtype, ReduceOp::kSum})) << dtype_name(dtype);
  }
}

TEST(NcclMeaning, AnAverageIsASumOfScaledNumbersWhereThatIsExact) {
  const auto average = gpu_reduction({DataType::kBFloat16, ReduceOp::kAverage}, 4);

  EXPECT_EQ((NcclReduction{NcclType::kBFloat16, NcclOp::kSum, 0.25}), average->nccl);
  EXPECT_FALSE(average->kernels.is_needed());
}

TEST(NcclMeaning, AnyOtherAverageIsASumThatAKernelDivides) {
  const auto average = gpu_reduction({DataType::kBFloat16, ReduceOp::kAverage, 1, 3}, 6);

  EXPECT_EQ((NcclReduction{NcclType::kBFloat16, NcclOp::kSum, 1}), average->nccl);
  EXPECT_EQ(6, average->kernels.after_sum.average_of);
  EXPECT_EQ(3, average->kernels.after_sum.factor);
  EXPECT_FALSE(average->kernels.needs_buffer());
}

TEST(NcclMeaning, AFloat16IsAveragedInFloat32ForItsSumMayOverflow) {
  EXPECT_TRUE(is_by_nccl_alone({DataType::kFloat16, ReduceOp::kSum}));
  EXPECT_TRUE(is_by_nccl_alone({DataType::kFloat16, ReduceOp::kAverage}, 1));

  const auto average = gpu_reduction({DataType::kFloat16, ReduceOp::kAverage}, 2);

  EXPECT_EQ((NcclReduction{NcclType::kFloat32, NcclOp::kSum, 1}), average->nccl);
  EXPECT_TRUE(average->kernels.is_widened());
  EXPECT_TRUE(average->kernels.needs_buffer());
}

TEST(NcclMeaning, IntegersAreNeitherAveragedNorScaled) {
  EXPECT_FALSE(is_able({DataType::kInt32, ReduceOp::kAverage}));
  EXPECT_FALSE(is_able({DataType::kInt32, ReduceOp::kSum, 0.5}));
  EXPECT_FALSE(is_able({DataType::kInt64, ReduceOp::kSum, 1, 2}));
  EXPECT_FALSE(is_able({DataType::kInt64, ReduceOp::kSum, 0.5, 2})) << "on CPUs, halves are cut off before the sum";
}

TEST(NcclMeaning, ExtremesOfFloatsStayHereBecauseNcclDropsNan) {
  for (const ReduceOp op : {ReduceOp::kMin, ReduceOp::kMax}) {
    EXPECT_TRUE(is_by_nccl_alone({DataType::kInt64, op}));
    EXPECT_FALSE(is_able({DataType::kFloat32, op}));
    EXPECT_FALSE(is_able({DataType::kBFloat16, op}));
  }
}

TEST(NcclMeaning, ScalesThatAreNoPowersOfTwoAreKernelsWork) {
  for (const double scale : {0.0, 0.1, 3.0, -0.5, std::ldexp(1.0, -66), std::ldexp(1.0, 64)}) {
    for (const DataType dtype : kFloats) {
      const auto before = gpu_reduction({dtype, ReduceOp::kSum, scale}, 2);
      const auto after = gpu_reduction({dtype, ReduceOp::kSum, 1, scale}, 2);

      EXPECT_EQ(scale, before->kernels.prescale);
      EXPECT_EQ(scale, after->kernels.after_sum.factor);
      EXPECT_EQ(1, before->nccl.scale * after->nccl.scale);
    }
  }
  EXPECT_TRUE(is_by_nccl_alone({DataType::kFloat64, ReduceOp::kSum, std::ldexp(1.0, -10)}));
  EXPECT_TRUE(is_by_nccl_alone({DataType::kFloat32, ReduceOp::kSum, 4, 0.25}));
  EXPECT_FALSE(is_by_nccl_alone({DataType::kFloat32, ReduceOp::kSum, 0.1, 10})) << "rounded twice on CPUs";
}

TEST(NcclMeaning, ScaledProductsAndAdasumStayHere) {
  EXPECT_TRUE(is_by_nccl_alone({DataType::kFloat32, ReduceOp::kProduct}));
  EXPECT_FALSE(is_able({DataType::kFloat32, ReduceOp::kProduct, 0.5}));
  EXPECT_FALSE(is_able({DataType::kFloat32, ReduceOp::kAdasum}));
}

}  // namespace
}  // namespace ringtune
