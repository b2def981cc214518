// SPDX-License-Identifier: Apache-2.0
#include "collectives/reduce_kernels.h"

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "collectives/element.h"
#include "reduction_reference.h"

namespace ringtune {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

template <typename T>
const std::byte* bytes_of(const std::vector<T>& values) {
  return reinterpret_cast<const std::byte*>(values.data());
}

template <typename T>
std::vector<T> reduce_all(Reduction reduction, const std::vector<std::vector<T>>& inputs) {
  std::vector<const std::byte*> sources;
  for (const auto& input : inputs) {
    sources.push_back(bytes_of(input));
  }
  reduction.ranks = static_cast<int>(inputs.size());
  std::vector<T> result(inputs[0].size());
  reduce_in_rank_order(reduction, sources, reinterpret_cast<std::byte*>(result.data()), result.size());
  return result;
}

std::vector<uint16_t> halves(const std::vector<float>& values) {
  std::vector<uint16_t> stored;
  for (const float value : values) {
    stored.push_back(to_float16(value).bits);
  }
  return stored;
}

class ReduceKernelsTest : public ::testing::TestWithParam<InstructionSet> {};

INSTANTIATE_TEST_SUITE_P(Sets, ReduceKernelsTest,
                         ::testing::ValuesIn(instruction_sets().begin(), instruction_sets().end()));

TEST_P(ReduceKernelsTest, EveryDtypeAndOperationFollowsItsDefinition) {
  for (const int ranks : {1, 2, 3, 8}) {
    for (const Reduction& reduction : testing::all_reductions(ranks)) {
      for (const size_t elements : {0, 1, 3, 17, 1000, 4099}) {
        std::vector<Bytes> contributions;
        std::vector<const std::byte*> sources;
        for (int rank = 0; rank < ranks; ++rank) {
          contributions.push_back(testing::contribution_of(reduction, rank, elements));
          sources.push_back(contributions.back().data());
        }
        Bytes only(elements * element_bytes(reduction.dtype));
        Bytes first(only.size());
        Bytes second(only.size());

        reduce(reduction, {{}, sources}, ReductionOutput::kResult, only.data(), elements, GetParam());
        reduce(reduction, {{}, sources}, ReductionOutput::kResult, {first.data(), second.data()}, elements, GetParam());

        const Bytes expected = testing::expected_result(reduction, elements);
        for (const Bytes& result : {only, first, second}) {
          ASSERT_EQ(expected, result) << testing::describe(reduction) << ", " << elements << " elements of " << ranks
                                      << " ranks";
        }
      }
    }
  }
}

// Unaligned, too; and both targets.
TEST_P(ReduceKernelsTest, TheTargetsMayBeAnyOfTheContributions) {
  constexpr size_t kElements = 1003;
  for (const Reduction& reduction : testing::all_reductions(2)) {
    const size_t bytes = kElements * element_bytes(reduction.dtype);
    for (const size_t target : {0, 1}) {
      std::array<Bytes, 2> memory;
      std::array<const std::byte*, 2> sources;
      for (int rank = 0; rank < 2; ++rank) {
        const Bytes contribution = testing::contribution_of(reduction, rank, kElements);
        Bytes& own = memory[static_cast<size_t>(rank)];
        own.assign(1, std::byte{0});
        own.insert(own.end(), contribution.begin(), contribution.end());
        sources[static_cast<size_t>(rank)] = own.data() + 1;
      }
      std::byte* const result = memory[target].data() + 1;
      std::byte* const other = memory[1 - target].data() + 1;

      reduce(reduction, {{}, sources}, ReductionOutput::kResult, {result, other}, kElements, GetParam());

      ASSERT_EQ(testing::expected_result(reduction, kElements), Bytes(result, result + bytes))
          << testing::describe(reduction) << " over contribution " << target;
      ASSERT_EQ(Bytes(result, result + bytes), Bytes(other, other + bytes)) << testing::describe(reduction);
    }
  }
}

// The bits of the sums, NaN all alike: of two NaN, compilers may take either.
std::vector<uint16_t> sums_of(const Reduction& reduction, std::span<const std::byte* const> sources, size_t elements,
                              InstructionSet set) {
  std::vector<uint16_t> sums(elements);
  reduce(reduction, {{}, sources}, ReductionOutput::kResult, reinterpret_cast<std::byte*>(sums.data()), elements, set);
  for (uint16_t& bits : sums) {
    const float value = reduction.dtype == DataType::kFloat16 ? to_float(Float16{bits}) : to_float(BFloat16{bits});
    bits = std::isnan(value) ? 0x7FFF : bits;
  }
  return sums;
}

// Every 16-bit float, infinities and NaN among them, beside others.
TEST_P(ReduceKernelsTest, SumsOf16BitFloatsAreTheSameBitsInEverySet) {
  constexpr size_t kPatterns = 1 << 16;
  std::array<std::vector<uint16_t>, 3> inputs;
  for (size_t i = 0; i < kPatterns; ++i) {
    inputs[0].push_back(static_cast<uint16_t>(i));
    inputs[1].push_back(static_cast<uint16_t>(i * 40'503 + 7));
    inputs[2].push_back(static_cast<uint16_t>(i * 2'654'435'761U >> 11));
  }
  const std::array<const std::byte*, 3> sources{bytes_of(inputs[0]), bytes_of(inputs[1]), bytes_of(inputs[2])};
  for (const DataType dtype : {DataType::kFloat16, DataType::kBFloat16}) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAverage}) {
      for (const size_t ranks : {2, 3}) {
        const Reduction reduction{dtype, op, 1, 1, static_cast<int>(ranks)};
        const auto contributions = std::span(sources).first(ranks);

        ASSERT_EQ(sums_of(reduction, contributions, kPatterns, InstructionSet::kPortable),
                  sums_of(reduction, contributions, kPatterns, GetParam()))
            << testing::describe(reduction) << ", " << ranks << " ranks";
      }
    }
  }
}

// The payload of a NaN must not decide the bits, nor where a vector ends: the last elements are summed one by one.
TEST_P(ReduceKernelsTest, ANanOfOneContributionHasTheSameBitsInEverySetAndPlace) {
  constexpr size_t kElements = 21;
  const std::array<uint16_t, kElements> zeros{};
  for (const DataType dtype : {DataType::kFloat16, DataType::kBFloat16}) {
    for (const uint16_t nan : {0x7FFF, 0xFFC1, 0x7FE5}) {
      const std::vector<uint16_t> nans(kElements, nan);
      const std::array<const std::byte*, 2> sources{bytes_of(nans), reinterpret_cast<const std::byte*>(zeros.data())};
      std::vector<uint16_t> sums(kElements);

      reduce({dtype, ReduceOp::kSum, 1, 1, 2}, {{}, sources}, ReductionOutput::kResult,
             reinterpret_cast<std::byte*>(sums.data()), kElements, GetParam());

      const uint16_t plain = dtype == DataType::kFloat16 ? 0x7E00 : 0x7FC0;
      EXPECT_EQ(std::vector<uint16_t>(kElements, static_cast<uint16_t>(plain | (nan & 0x8000))), sums);
    }
  }
}

// In two steps: the contributions of each of two groups, then the two partial results.
TEST(ReduceKernels, PartialResultsReduceToTheSame) {
  constexpr size_t kElements = 4099;
  for (const Reduction& reduction : testing::all_reductions(5)) {
    std::vector<Bytes> contributions;
    std::vector<const std::byte*> sources;
    for (int rank = 0; rank < 5; ++rank) {
      contributions.push_back(testing::contribution_of(reduction, rank, kElements));
      sources.push_back(contributions.back().data());
    }
    const std::span<const std::byte* const> all(sources);
    const size_t partial_bytes = kElements * element_bytes(accumulator_dtype(reduction.dtype));
    std::array<Bytes, 2> partials{Bytes(partial_bytes), Bytes(partial_bytes)};
    Bytes result(kElements * element_bytes(reduction.dtype));

    reduce(reduction, {{}, all.first(2)}, ReductionOutput::kPartial, partials[0].data(), kElements);
    reduce(reduction, {{}, all.subspan(2, 2)}, ReductionOutput::kPartial, partials[1].data(), kElements);
    const std::array<const std::byte*, 2> arrived{partials[0].data(), partials[1].data()};
    reduce(reduction, {arrived, all.last(1)}, ReductionOutput::kResult, result.data(), kElements);

    ASSERT_EQ(testing::expected_result(reduction, kElements), result) << testing::describe(reduction);
  }
}

TEST(ReduceKernels, ContributionsAreTakenInTheirOrder) {
  // (1 + big) - big is 0 and not 1: the order is visible in the bits.
  const float big = 1e8F;

  EXPECT_EQ(std::vector<float>{0}, reduce_all<float>({DataType::kFloat32, ReduceOp::kSum}, {{1}, {big}, {-big}}));
}

TEST(ReduceKernels, HalvesAreRoundedOnce) {
  // In float16, 2048 + 1 is 2048: a sum rounded on its way would stay there.
  const std::vector<std::vector<uint16_t>> inputs{halves({2048}), halves({1}), halves({1})};

  EXPECT_EQ(halves({2050}), reduce_all<uint16_t>({DataType::kFloat16, ReduceOp::kSum}, inputs));
}

TEST(ReduceKernels, HalvesDoNotOverflowOnTheirWay) {
  const std::vector<std::vector<uint16_t>> inputs{halves({60000}), halves({60000})};

  EXPECT_EQ(halves({60000}), reduce_all<uint16_t>({DataType::kFloat16, ReduceOp::kAverage}, inputs));
}

TEST(ReduceKernels, IntegersWrapAndTheirAveragesAreCutOff) {
  const int64_t max = std::numeric_limits<int64_t>::max();

  EXPECT_EQ((std::vector<int64_t>{std::numeric_limits<int64_t>::min()}),
            reduce_all<int64_t>({DataType::kInt64, ReduceOp::kSum}, {{max}, {1}}));
  EXPECT_EQ((std::vector<int32_t>{-1, 1}),
            reduce_all<int32_t>({DataType::kInt32, ReduceOp::kAverage}, {{-3, 3}, {0, 0}}));
  EXPECT_EQ((std::vector<int16_t>{-16384, -1}),
            reduce_all<int16_t>({DataType::kInt16, ReduceOp::kAverage}, {{32767, -3}, {1, 0}}));
  EXPECT_EQ((std::vector<uint16_t>{1, 65534}),
            reduce_all<uint16_t>({DataType::kUInt16, ReduceOp::kProduct}, {{65535, 65535}, {65535, 2}}));
}

TEST(ReduceKernels, ScaledIntegersAreCutOffAndStayInTheirType) {
  EXPECT_EQ((std::vector<int8_t>{-1, 1, 127, -128}),
            reduce_all<int8_t>({DataType::kInt8, ReduceOp::kSum, 1.5}, {{-1, 1, 100, -100}}));
  EXPECT_EQ((std::vector<uint8_t>{4, 255}), reduce_all<uint8_t>({DataType::kUInt8, ReduceOp::kSum, 1, 2}, {{2, 200}}));
  EXPECT_EQ((std::vector<uint8_t>{0}), reduce_all<uint8_t>({DataType::kUInt8, ReduceOp::kSum, -1}, {{9}}));
}

TEST(ReduceKernels, MinAndMaxOfNanAreNan) {
  for (const ReduceOp op : {ReduceOp::kMin, ReduceOp::kMax}) {
    const std::vector<float> result =
        reduce_all<float>({DataType::kFloat32, op}, {{kNan, 1, 2}, {1, kNan, 2}, {5, 5, 2}});

    EXPECT_TRUE(std::isnan(result[0]));
    EXPECT_TRUE(std::isnan(result[1]));
    EXPECT_EQ(2, result[2]);
  }
}

TEST(ReduceKernels, AnyByteButZeroIsTrue) {
  EXPECT_EQ((std::vector<uint8_t>{1, 0, 1}),
            reduce_all<uint8_t>({DataType::kBool, ReduceOp::kSum}, {{2, 0, 0}, {0, 0, 255}}));
  EXPECT_EQ((std::vector<uint8_t>{1, 0, 0}),
            reduce_all<uint8_t>({DataType::kBool, ReduceOp::kProduct}, {{2, 0, 1}, {4, 0, 0}}));
}

TEST(ReduceKernels, TheTargetMayBeOneOfTheSources) {
  constexpr size_t kCount = 5000;  // several tiles and a rest
  std::vector<double> a(kCount);
  std::vector<double> b(kCount);
  for (size_t i = 0; i < kCount; ++i) {
    a[i] = static_cast<double>(i);
    b[i] = 0.5;
  }
  const std::array<const std::byte*, 2> sources{bytes_of(a), bytes_of(b)};

  reduce_in_rank_order({DataType::kFloat64, ReduceOp::kAverage, 1, 1, 2}, sources,
                       reinterpret_cast<std::byte*>(b.data()), kCount);

  for (size_t i = 0; i < kCount; ++i) {
    ASSERT_EQ((static_cast<double>(i) + 0.5) / 2, b[i]);
  }
}

}  // namespace
}  // namespace ringtune
