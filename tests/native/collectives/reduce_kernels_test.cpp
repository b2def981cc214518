// SPDX-License-Identifier: Apache-2.0
#include "collectives/reduce_kernels.h"

#include <cstring>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

namespace ringtune {
namespace {

template <typename T>
std::vector<T> reduce_all(DataType dtype, ReduceOp op, const std::vector<std::vector<T>>& inputs) {
  std::vector<const std::byte*> sources;
  for (const auto& input : inputs) {
    sources.push_back(reinterpret_cast<const std::byte*>(input.data()));
  }
  std::vector<T> result(inputs[0].size());
  reduce_in_rank_order(dtype, op, sources, reinterpret_cast<std::byte*>(result.data()), result.size());
  return result;
}

TEST(ReduceKernels, SumsAreTakenInRankOrder) {
  // (1 + big) - big is 0 and not 1: the order is visible in the bits.
  const float big = 1e8f;
  const std::vector<std::vector<float>> inputs{{1}, {big}, {-big}};

  EXPECT_EQ(std::vector<float>{0}, reduce_all(DataType::kFloat32, ReduceOp::kSum, inputs));
}

TEST(ReduceKernels, IntegerSumsWrapAndAveragesRoundDown) {
  const int64_t max = std::numeric_limits<int64_t>::max();

  EXPECT_EQ((std::vector<int64_t>{std::numeric_limits<int64_t>::min()}),
            reduce_all<int64_t>(DataType::kInt64, ReduceOp::kSum, {{max}, {1}}));
  EXPECT_EQ((std::vector<int32_t>{-2, 1}),
            reduce_all<int32_t>(DataType::kInt32, ReduceOp::kAverage, {{-3, 3}, {0, 0}}));
}

TEST(ReduceKernels, TheTargetMayBeOneOfTheSources) {
  constexpr size_t kCount = 5000;  // several tiles and a rest
  std::vector<double> a(kCount);
  std::vector<double> b(kCount);
  for (size_t i = 0; i < kCount; ++i) {
    a[i] = static_cast<double>(i);
    b[i] = 0.5;
  }
  const std::byte* sources[] = {reinterpret_cast<const std::byte*>(a.data()),
                                reinterpret_cast<const std::byte*>(b.data())};

  reduce_in_rank_order(DataType::kFloat64, ReduceOp::kAverage, sources, reinterpret_cast<std::byte*>(b.data()), kCount);

  for (size_t i = 0; i < kCount; ++i) {
    ASSERT_EQ((static_cast<double>(i) + 0.5) / 2, b[i]);
  }
}

}  // namespace
}  // namespace ringtune
