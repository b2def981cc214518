// SPDX-License-Identifier: Apache-2.0
// The engine's collectives, for every algorithm, world size and chunk size.
#include <cstring>
#include <numeric>
#include <tuple>

#include <gtest/gtest.h>

#include "collectives/allreduce.h"
#include "local_world.h"

namespace ringtune {
namespace {

using testing::allreduce;
using testing::finish;
using testing::run_world;

class AllreduceTest : public ::testing::TestWithParam<std::tuple<int, std::string, uint64_t>> {
 protected:
  int world_size() const { return std::get<0>(GetParam()); }

  void configure(EngineOptions& options) const {
    options.config.allreduce_algorithm = std::get<1>(GetParam());
    options.config.chunk_bytes = std::get<2>(GetParam());
  }

  void run(const std::function<void(Engine&)>& body) const {
    run_world(world_size(), body, [this](EngineOptions& options) { configure(options); });
  }
};

// Around the chunk, block and cache-line boundaries, and nothing at all.
constexpr size_t kCounts[] = {0, 1, 7, 8, 9, 16, 2047, 2048, 2049, 4096 * 5 + 3, 300001};

TEST_P(AllreduceTest, IntegersAreExact) {
  run([this](Engine& engine) {
    for (const size_t count : kCounts) {
      std::vector<int64_t> values(count);
      std::iota(values.begin(), values.end(), int64_t{1} << 40);
      for (int64_t& value : values) {
        value *= engine.rank() + 1;
      }

      ASSERT_TRUE(allreduce(engine, "x", values).ok());

      const int64_t factor = world_size() * (world_size() + 1) / 2;
      for (size_t i = 0; i < count; ++i) {
        ASSERT_EQ(((int64_t{1} << 40) + static_cast<int64_t>(i)) * factor, values[i]) << "element " << i;
      }
    }
  });
}

TEST_P(AllreduceTest, FloatsHaveTheBitsOfTheSumInRankOrder) {
  run([this](Engine& engine) {
    constexpr size_t kCount = 70001;
    const auto value_of = [](int rank, size_t i) { return 1.0f / static_cast<float>(1 + i * 7 + rank * 13); };
    std::vector<float> values(kCount);
    for (size_t i = 0; i < kCount; ++i) {
      values[i] = value_of(engine.rank(), i);
    }

    ASSERT_TRUE(allreduce(engine, "x", values, ReduceOp::kAverage).ok());

    for (size_t i = 0; i < kCount; ++i) {
      float sum = value_of(0, i);
      for (int rank = 1; rank < world_size(); ++rank) {
        sum += value_of(rank, i);
      }
      const float expected = sum / static_cast<float>(world_size());
      ASSERT_EQ(0, std::memcmp(&expected, &values[i], sizeof(float))) << "element " << i;
    }
  });
}

TEST_P(AllreduceTest, FusedTensorsEndWhereTheyBelong) {
  run([this](Engine& engine) {
    constexpr int kTensors = 40;
    std::vector<std::vector<int32_t>> tensors;
    std::vector<Handle> handles(kTensors);
    for (int i = 0; i < kTensors; ++i) {
      tensors.emplace_back(static_cast<size_t>(i * 97 % 5000), engine.rank() + i);
    }

    for (int i = 0; i < kTensors; ++i) {
      const auto arguments = testing::tensor("t" + std::to_string(i), tensors[i], tensors[i]);
      ASSERT_TRUE(engine.allreduce_async(arguments, ReduceOp::kSum, true, handles[i]).ok());
    }
    for (const Handle handle : handles) {
      ASSERT_TRUE(finish(engine, handle).ok());
    }

    for (int i = 0; i < kTensors; ++i) {
      const int32_t expected = world_size() * (world_size() - 1) / 2 + world_size() * i;
      for (const int32_t value : tensors[i]) {
        ASSERT_EQ(expected, value) << "tensor " << i;
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Worlds, AllreduceTest,
                         ::testing::Combine(::testing::Values(1, 2, 3, 4),
                                            ::testing::Values("direct", "reduce_scatter_allgather", "auto"),
                                            ::testing::Values(0, 16 * kKiB, 4 * kMiB)));

// Differs in every element: a chunk that comes late or twice shows.
std::vector<int64_t> values_of(int rank, size_t count) {
  std::vector<int64_t> values(count);
  std::iota(values.begin(), values.end(), static_cast<int64_t>(rank) << 32);
  return values;
}

TEST(DataMovement, EveryRootBroadcastsItsBytes) {
  run_world(3, [](Engine& engine) {
    for (int root = 0; root < 3; ++root) {
      for (const size_t count : kCounts) {
        std::vector<int64_t> values = values_of(engine.rank(), count);
        Handle handle = 0;

        ASSERT_TRUE(engine.broadcast_async(testing::tensor("b", values, values), root, handle).ok());
        ASSERT_TRUE(finish(engine, handle).ok());

        ASSERT_EQ(values_of(root, count), values);
      }
    }
  });
}

TEST(DataMovement, GathersInRankOrder) {
  run_world(3, [](Engine& engine) {
    for (const size_t count : kCounts) {
      const std::vector<int64_t> input = values_of(engine.rank(), count);
      std::vector<int64_t> output(3 * count, -1);
      Handle handle = 0;

      ASSERT_TRUE(engine.allgather_async(testing::tensor("g", input, output), handle).ok());
      ASSERT_TRUE(finish(engine, handle).ok());

      std::vector<int64_t> expected;
      for (int rank = 0; rank < 3; ++rank) {
        const std::vector<int64_t> part = values_of(rank, count);
        expected.insert(expected.end(), part.begin(), part.end());
      }
      ASSERT_EQ(expected, output);
    }
  });
}

TEST(DataMovement, NobodyLeavesABarrierBeforeAllHaveCome) {
  std::atomic<int> arrived{0};

  run_world(4, [&](Engine& engine) {
    for (int round = 1; round <= 50; ++round) {
      arrived.fetch_add(1);
      Handle handle = 0;
      ASSERT_TRUE(engine.barrier_async(handle).ok());
      ASSERT_TRUE(finish(engine, handle).ok());
      ASSERT_GE(arrived.load(), 4 * round);
    }
  });
}

TEST(Registry, AutoCoversEverySize) {
  for (size_t bytes = 0; bytes < (size_t{1} << 40); bytes = bytes * 2 + 1) {
    ASSERT_LT(static_cast<size_t>(auto_allreduce_algorithm(bytes)), allreduce_algorithms().size());
  }
}

}  // namespace
}  // namespace ringtune
