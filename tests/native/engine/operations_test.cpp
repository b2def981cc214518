// SPDX-License-Identifier: Apache-2.0
// Every operation through the engine, in worlds of one and of several hosts. The collectives themselves are tested by
// type and size in tests/native/collectives.
#include <cmath>
#include <cstring>
#include <numeric>

#include <gtest/gtest.h>

#include "local_world.h"

namespace ringtune {
namespace {

using testing::finish;
using testing::kDeadlineNs;
using testing::run_hosts;

// Waits for an operation that returns a buffer.
std::vector<int32_t> rows_of(Engine& engine, Handle handle, std::vector<int64_t>& rows) {
  const std::optional<Outcome> outcome = engine.wait(handle, kDeadlineNs);
  EXPECT_TRUE(outcome && outcome->status.ok() && outcome->result);
  if (!outcome || !outcome->result) {
    return {};
  }
  rows = outcome->result->rows;
  std::vector<int32_t> values(outcome->result->bytes() / sizeof(int32_t));
  if (!values.empty()) {
    std::memcpy(values.data(), outcome->result->data(), outcome->result->bytes());
  }
  return values;
}

class OperationsTest : public ::testing::TestWithParam<std::tuple<std::vector<int>, bool>> {
 protected:
  void run(const std::function<void(Engine&)>& body) const {
    const auto& [hosts, is_hierarchical] = GetParam();
    run_hosts(hosts, body, [&hosts = hosts, is_hierarchical = is_hierarchical](EngineOptions& options) {
      const bool has_hosts = hosts.back() > 0;
      options.config.hierarchical_allreduce = is_hierarchical && has_hosts;
      options.config.hierarchical_allgather = is_hierarchical && has_hosts;
    });
  }
};

TEST_P(OperationsTest, AllgatherTakesAsManyRowsAsARankHas) {
  run([](Engine& engine) {
    for (int round = 0; round < 3; ++round) {
      // Rank r gives (r + round) % 3 rows of two numbers; none at all for some.
      std::vector<int32_t> mine(static_cast<size_t>((engine.rank() + round) % 3) * 2, engine.rank());
      TensorArguments arguments{
          "x", mine.data(), nullptr, {static_cast<int64_t>(mine.size() / 2), 2}, DataType::kInt32};
      Handle handle = kNoHandle;
      ASSERT_TRUE(engine.allgather_async(arguments, false, handle).ok());
      std::vector<int64_t> rows;
      const std::vector<int32_t> all = rows_of(engine, handle, rows);

      std::vector<int32_t> expected;
      for (int rank = 0; rank < engine.world_size(); ++rank) {
        ASSERT_EQ((rank + round) % 3, rows.at(static_cast<size_t>(rank)));
        expected.insert(expected.end(), static_cast<size_t>((rank + round) % 3) * 2, rank);
      }
      EXPECT_EQ(expected, all);
    }
  });
}

TEST_P(OperationsTest, AlltoallSendsEachRankItsSplit) {
  run([](Engine& engine) {
    // Rank r sends (r + to) % 3 rows to rank `to`, each with both numbers in it.
    const auto rows_between = [](int from, int to) { return static_cast<int64_t>((from + to) % 3); };
    std::vector<int64_t> splits;
    std::vector<int32_t> mine;
    for (int to = 0; to < engine.world_size(); ++to) {
      splits.push_back(rows_between(engine.rank(), to));
      mine.insert(mine.end(), static_cast<size_t>(splits.back()), engine.rank() * 100 + to);
    }
    TensorArguments arguments{"x", mine.data(), nullptr, {static_cast<int64_t>(mine.size())}, DataType::kInt32};
    Handle handle = kNoHandle;
    ASSERT_TRUE(engine.alltoall_async(arguments, splits, handle).ok());
    std::vector<int64_t> rows;
    const std::vector<int32_t> received = rows_of(engine, handle, rows);

    std::vector<int32_t> expected;
    for (int from = 0; from < engine.world_size(); ++from) {
      ASSERT_EQ(rows_between(from, engine.rank()), rows.at(static_cast<size_t>(from)));
      expected.insert(expected.end(), static_cast<size_t>(rows_between(from, engine.rank())),
                      from * 100 + engine.rank());
    }
    EXPECT_EQ(expected, received);
  });
}

TEST_P(OperationsTest, ReducescatterGivesEachRankItsRows) {
  run([](Engine& engine) {
    constexpr int64_t kRows = 7;
    constexpr size_t kColumns = 3;
    std::vector<int32_t> values(kRows * kColumns);
    std::iota(values.begin(), values.end(), 0);
    const int size = engine.world_size();
    const int64_t mine = kRows / size + (engine.rank() < kRows % size ? 1 : 0);
    const int64_t first = engine.rank() * (kRows / size) + std::min<int64_t>(engine.rank(), kRows % size);
    std::vector<int32_t> reduced(static_cast<size_t>(mine) * kColumns, -1);
    const TensorArguments arguments{"x", values.data(), reduced.data(), {kRows, kColumns}, DataType::kInt32};
    Handle handle = kNoHandle;
    ASSERT_TRUE(engine.reducescatter_async(arguments, {ReduceOp::kSum}, handle).ok());
    ASSERT_TRUE(finish(engine, handle).ok());

    for (size_t i = 0; i < reduced.size(); ++i) {
      ASSERT_EQ((static_cast<int32_t>(first * kColumns) + static_cast<int32_t>(i)) * size, reduced[i]);
    }
  });
}

TEST_P(OperationsTest, ScalesApplyBeforeAndAfterTheSum) {
  run([](Engine& engine) {
    std::vector<float> values(1000, 3);
    const TensorArguments arguments = testing::tensor("x", values, values);
    Handle handle = kNoHandle;
    ASSERT_TRUE(engine.allreduce_async(arguments, {ReduceOp::kSum, 0.5, 4}, false, handle).ok());
    ASSERT_TRUE(finish(engine, handle).ok());

    EXPECT_EQ(std::vector<float>(1000, 6.0f * static_cast<float>(engine.world_size())), values);
  });
}

TEST_P(OperationsTest, AdasumOfEqualTensorsIsThatTensor) {
  run([](Engine& engine) {
    std::vector<float> values{1, -2, 3, 4};
    ASSERT_TRUE(testing::allreduce(engine, "x", values, ReduceOp::kAdasum).ok());
    for (size_t i = 0; i < values.size(); ++i) {
      EXPECT_FLOAT_EQ((std::vector<float>{1, -2, 3, 4})[i], values[i]);
    }
  });
}

TEST_P(OperationsTest, BroadcastAndBarrierReachEveryRank) {
  run([](Engine& engine) {
    for (int root = 0; root < engine.world_size(); ++root) {
      std::vector<double> values(33, engine.rank());
      Handle handle = kNoHandle;
      ASSERT_TRUE(engine.broadcast_async(testing::tensor("x", values, values), root, handle).ok());
      ASSERT_TRUE(finish(engine, handle).ok());
      ASSERT_EQ(std::vector<double>(33, root), values);
      ASSERT_TRUE(engine.barrier_async(handle).ok());
      ASSERT_TRUE(finish(engine, handle).ok());
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Worlds, OperationsTest,
                         ::testing::Combine(::testing::Values(std::vector<int>{0}, std::vector<int>{0, 0, 0},
                                                              std::vector<int>{0, 0, 1, 1}, std::vector<int>{0, 1, 1},
                                                              std::vector<int>{0, 1, 0, 1, 2}),
                                            ::testing::Bool()));

TEST(Operations, BarriersTakeAFewCacheIdsHoweverManyThereAre) {
  testing::run_world(2, [](Engine& engine) {
    for (int i = 0; i < 500; ++i) {
      Handle handle = kNoHandle;
      ASSERT_TRUE(engine.barrier_async(handle).ok());
      ASSERT_TRUE(finish(engine, handle).ok());
    }
    EXPECT_EQ(2 * 64u, testing::counter(engine, "full_requests"));
    EXPECT_EQ(500u - 2 * 64u, testing::counter(engine, "cached_requests"));
  });
}

TEST(Operations, SplitsThatDoNotFitAreRefusedLocally) {
  testing::run_world(1, [](Engine& engine) {
    std::vector<float> values(4);
    const TensorArguments arguments = testing::tensor("x", values, values);
    Handle handle = kNoHandle;

    for (const std::vector<int64_t>& splits : {std::vector<int64_t>{3}, {5, -1}, {}, {2, 2}}) {
      EXPECT_EQ(StatusCode::kMismatchError, engine.alltoall_async(arguments, splits, handle).code());
    }
    EXPECT_EQ(StatusCode::kMismatchError, engine.reducescatter_async(arguments, {ReduceOp::kAdasum}, handle).code());
    EXPECT_EQ(StatusCode::kMismatchError,
              engine.allreduce_async(arguments, {ReduceOp::kSum, NAN}, false, handle).code());
  });
}

}  // namespace
}  // namespace ringtune
