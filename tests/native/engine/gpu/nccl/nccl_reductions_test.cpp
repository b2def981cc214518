// SPDX-License-Identifier: Apache-2.0
// Allreduces by NCCL: packed, scaled by kernels, limited, and reduced in two levels.
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "base/half.h"
#include "device/nccl/standin_nccl_world.h"

namespace ringtune {
namespace testing {

template <>
constexpr DataType dtype_of<Float16>() {
  return DataType::kFloat16;
}

}  // namespace testing

namespace {

using testing::by_nccl;
using testing::counter;
using testing::DeviceVector;
using testing::finish_on;
using testing::ramp;
using testing::run_nccl_hosts;
using testing::UserStream;

class NcclReductions : public testing::NcclTest {};

constexpr ReduceArguments kSumUp{ReduceOp::kSum};

// Tensors of one response, each of its own size, in place.
template <typename T>
std::vector<std::vector<T>> reduced_together(Engine& engine, const std::vector<std::vector<T>>& values,
                                             const ReduceArguments& reduce, const UserStream& stream) {
  std::vector<std::unique_ptr<DeviceVector<T>>> tensors;
  std::vector<Handle> handles;
  for (const std::vector<T>& input : values) {
    tensors.push_back(std::make_unique<DeviceVector<T>>(input.size()));
    tensors.back()->write_on(stream, input, 100);
    TensorArguments arguments = tensors.back()->arguments("t" + std::to_string(tensors.size()), stream);
    arguments.group = "all";
    arguments.group_size = values.size();
    EXPECT_TRUE(engine.allreduce_async(arguments, reduce, true, handles.emplace_back()).ok());
  }
  std::vector<std::vector<T>> results;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Status status = finish_on(engine, handles[i], stream);
    EXPECT_TRUE(status.ok()) << status.message();
    results.push_back(tensors[i]->read_on(stream));
  }
  return results;
}

template <typename T>
std::vector<T> reduced(Engine& engine, const std::vector<T>& values, const ReduceArguments& reduce,
                       const UserStream& stream) {
  return reduced_together<T>(engine, {values}, reduce, stream).front();
}

EngineConfig config_with(uint64_t pack_bytes, uint64_t ctas = 0, bool is_hierarchical = false) {
  EngineConfig config;
  config.nccl_pack_bytes = pack_bytes;
  config.nccl_ctas = ctas;
  config.nccl_hierarchical = is_hierarchical;
  return config;
}

// Sums of tensors on both sides of the bound, and empty ones.
void expect_sums(Engine& engine, const UserStream& stream) {
  std::vector<std::vector<float>> values;
  for (const size_t size : {3UL, 1000UL, 1UL, 300UL, 70'000UL, 256UL}) {
    values.push_back(ramp<float>(size, engine.rank()));
  }
  const auto sums = reduced_together(engine, values, kSumUp, stream);
  const int ranks = engine.world_size();
  for (size_t t = 0; t < values.size(); ++t) {
    for (size_t i = 0; i < values[t].size(); ++i) {
      ASSERT_EQ(static_cast<float>(static_cast<size_t>(ranks) * i) + static_cast<float>(ranks * (ranks - 1) / 2),
                sums[t][i])
          << t << " " << i;
    }
  }
}

TEST_F(NcclReductions, TheBoundDecidesWhichTensorsArePacked) {
  const auto packed_with = [](uint64_t pack_bytes) {
    uint64_t packed = 0;
    run_nccl_hosts(
        {0, 0, 0},
        [&packed](Engine& engine) {
          const UserStream stream(engine.rank());
          expect_sums(engine, stream);
          EXPECT_EQ(1U, by_nccl(engine));
          if (engine.rank() == 0) {
            packed = counter(engine, "nccl_packed_tensors");
          }
        },
        config_with(pack_bytes));
    return packed;
  };

  EXPECT_EQ(0U, packed_with(0));
  EXPECT_EQ(4U, packed_with(2 * kKiB));
  EXPECT_EQ(6U, packed_with(kMiB));
}

TEST_F(NcclReductions, AnAverageOfAnyNumberOfRanksHasTheBitsOfADivision) {
  for (const uint64_t pack_bytes : {uint64_t{0}, kMiB}) {
    run_nccl_hosts(
        {0, 0, 0},
        [](Engine& engine) {
          const UserStream stream(engine.rank());
          const auto averages = reduced_together<float>(engine, {{0.1F, 1, static_cast<float>(engine.rank())}, {5}},
                                                        {ReduceOp::kAverage}, stream);

          EXPECT_EQ((std::vector<float>{(0.1F + 0.1F + 0.1F) / 3.0F, 1, 1}), averages[0]);
          EXPECT_EQ(std::vector<float>{5}, averages[1]);
          EXPECT_EQ(1U, by_nccl(engine));
        },
        config_with(pack_bytes));
  }
}

TEST_F(NcclReductions, AnAverageOfFloat16NeitherOverflowsNorLosesSubnormalNumbers) {
  run_nccl_hosts(
      {0, 0},
      [](Engine& engine) {
        const UserStream stream(engine.rank());
        const Float16 smallest{0x0001};
        const Float16 largest{0x7BFF};

        const auto average = reduced<Float16>(engine, {smallest, largest}, {ReduceOp::kAverage}, stream);

        EXPECT_EQ(smallest.bits, average[0].bits);
        EXPECT_EQ(largest.bits, average[1].bits);
        EXPECT_EQ(1U, by_nccl(engine));
      },
      config_with(0));
}

TEST_F(NcclReductions, ScalesBeforeAndAfterTheSumAreTheCpus) {
  run_nccl_hosts(
      {0, 0},
      [](Engine& engine) {
        const UserStream stream(engine.rank());
        const double huge = std::numeric_limits<double>::max();

        const auto scaled = reduced<double>(engine, {huge, 3}, {ReduceOp::kSum, 0.3, 1.1}, stream);

        EXPECT_EQ(1.1 * (0.3 * huge + 0.3 * huge), scaled[0]) << "the sum of the unscaled overflows";
        EXPECT_EQ(1.1 * (0.3 * 3 + 0.3 * 3), scaled[1]);
        EXPECT_EQ(1U, by_nccl(engine));
      },
      config_with(0));
}

TEST_F(NcclReductions, AReducescatterIsDividedInPlace) {
  run_nccl_hosts(
      {0, 0, 0},
      [](Engine& engine) {
        const UserStream stream(engine.rank());
        for (const size_t rows : {3UL, 4UL}) {
          DeviceVector<float> all(rows * 2);
          const size_t own_rows = rows / 3 + (static_cast<size_t>(engine.rank()) < rows % 3 ? 1 : 0);
          DeviceVector<float> own(own_rows * 2);
          const std::vector<float> values(rows * 2, engine.rank() == 0 ? 1.0F : 0.0F);
          all.write_on(stream, values, 100);
          TensorArguments arguments = all.arguments("rows" + std::to_string(rows), stream);
          arguments.shape = {static_cast<int64_t>(rows), 2};
          arguments.output = reinterpret_cast<void*>(own.address());
          Handle handle = kNoHandle;
          ASSERT_TRUE(engine.reducescatter_async(arguments, {ReduceOp::kAverage}, handle).ok());
          EXPECT_TRUE(finish_on(engine, handle, stream).ok());

          EXPECT_EQ(std::vector<float>(own_rows * 2, 1.0F / 3.0F), own.read_on(stream));
        }
        EXPECT_EQ(2U, by_nccl(engine));
      },
      config_with(0));
}

// Sums go by NCCL one by one, an average of three through the host.
void expect_that_all_do_without_kernels() {
  run_nccl_hosts(
      {0, 0, 0},
      [](Engine& engine) {
        const UserStream stream(engine.rank());
        expect_sums(engine, stream);
        EXPECT_EQ(std::vector<float>{1}, reduced<float>(engine, {1}, {ReduceOp::kAverage}, stream));

        EXPECT_EQ(1U, by_nccl(engine)) << "the average goes through the host";
        EXPECT_EQ(0U, counter(engine, "nccl_packed_tensors"));
      },
      config_with(kMiB));
}

TEST_F(NcclReductions, WithoutKernelsOnOneRankAllDoWithoutThem) {
  standin_fail("cuModuleLoadData", 1, testing::kInvalidValue);
  expect_that_all_do_without_kernels();
}

TEST_F(NcclReductions, KernelsThatGiveOtherBitsThanTheCpuAreNotUsed) {
  standin_spoil_kernels();
  expect_that_all_do_without_kernels();
}

TEST_F(NcclReductions, ALimitOnThreadBlocksHoldsFromTheSwitchOn) {
  run_nccl_hosts(
      {0, 0},
      [](Engine& engine) {
        const UserStream stream(engine.rank());
        expect_sums(engine, stream);
        EXPECT_EQ(8, standin_nccl_last_ctas());
        EXPECT_EQ(counter(engine, "nccl_responses"), counter(engine, "nccl_limited_responses"));

        if (engine.rank() == 0) {
          uint64_t epoch = 0;
          ASSERT_TRUE(engine.apply_config(config_with(0, 16), epoch).ok());
        }
        Handle barrier = kNoHandle;
        ASSERT_TRUE(engine.barrier_async(barrier).ok());
        ASSERT_TRUE(testing::finish(engine, barrier).ok());
        ASSERT_EQ(16U, engine.config().nccl_ctas);
        expect_sums(engine, stream);
        EXPECT_EQ(16, standin_nccl_last_ctas());
      },
      config_with(0, 8));
}

class NcclHierarchies : public NcclReductions, public ::testing::WithParamInterface<std::vector<int>> {};

TEST_P(NcclHierarchies, SumInsideHostsAndAcross) {
  reset({8, 7, 300, 1, 1, 1});
  run_nccl_hosts(
      GetParam(),
      [](Engine& engine) {
        const UserStream stream(engine.rank());
        for (int round = 0; round < 3; ++round) {
          expect_sums(engine, stream);
        }
        const auto ranks = static_cast<float>(engine.world_size());
        EXPECT_EQ(std::vector<float>(2, (ranks - 1) / 2),
                  reduced<float>(engine, std::vector<float>(2, static_cast<float>(engine.rank())), {ReduceOp::kAverage},
                                 stream));
        const auto largest = reduced<int32_t>(engine, {engine.rank(), -engine.rank()}, {ReduceOp::kMax}, stream);
        EXPECT_EQ((std::vector<int32_t>{engine.world_size() - 1, 0}), largest);
        EXPECT_EQ(by_nccl(engine), counter(engine, "nccl_hierarchical_responses"));
        EXPECT_EQ(5U, by_nccl(engine));
      },
      config_with(0, 0, true));
}

INSTANTIATE_TEST_SUITE_P(Layouts, NcclHierarchies,
                         ::testing::Values(std::vector<int>{0, 0, 1, 1}, std::vector<int>{0, 1, 1},
                                           std::vector<int>{0, 1, 0, 1, 0}, std::vector<int>{0, 0, 1, 1, 2, 2}));

TEST_F(NcclReductions, OnOneHostThereIsNoHierarchy) {
  run_nccl_hosts(
      {0, 0},
      [](Engine& engine) {
        const UserStream stream(engine.rank());
        expect_sums(engine, stream);
        EXPECT_EQ(0U, counter(engine, "nccl_hierarchical_responses"));
      },
      config_with(0, 0, true));
}

TEST_F(NcclReductions, AFailureInAnyStepOfTheHierarchyEndsTheWorld) {
  for (const char* function : {"ncclReduce", "ncclBroadcast", "ncclCommSplit"}) {
    run_nccl_hosts(
        {0, 0, 1, 1},
        [function](Engine& engine) {
          const UserStream stream(engine.rank());
          if (engine.rank() == 3) {
            standin_nccl_fail(function, 1, 1);
          }
          Handle barrier = kNoHandle;
          ASSERT_TRUE(engine.barrier_async(barrier).ok());
          ASSERT_TRUE(testing::finish(engine, barrier).ok());
          DeviceVector<float> tensor(50);
          const std::vector<float> ones(50, 1);
          tensor.write_on(stream, ones, 100);
          Status status;
          for (const int64_t limit_ns = now_ns() + testing::kDeadlineNs; status.ok() && now_ns() < limit_ns;) {
            Handle handle = kNoHandle;
            status = engine.allreduce_async(tensor.arguments("b", stream), kSumUp, true, handle);
            if (status.ok()) {
              status = finish_on(engine, handle, stream);
            }
          }
          stream.synchronize();  // no kernel hangs

          EXPECT_EQ(StatusCode::kDeviceError, status.code()) << status.message();
          EXPECT_NE(std::string::npos, status.message().find(function)) << status.message();
        },
        config_with(0, 0, true));
  }
}

}  // namespace
}  // namespace ringtune
