// SPDX-License-Identifier: Apache-2.0
#include "engine/allreduce_timer.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "local_world.h"

namespace ringtune {
namespace {

using testing::counter;
using testing::run_hosts;
using testing::run_world;

const int kTimedDirect = algorithm_named("direct");
const int kTimedStaged = algorithm_named("reduce_scatter_allgather");

// On rank 0 `lead(timer)` and the end; the others follow.
template <typename Lead>
void time_with(Engine& engine, Lead lead) {
  if (engine.rank() != 0) {
    EXPECT_TRUE(engine.timer().follow().ok());
    return;
  }
  lead(engine.timer());
  EXPECT_TRUE(engine.timer().end().ok());
}

void expect_sum(Engine& engine, const std::string& name, size_t count) {
  std::vector<float> values(count, static_cast<float>(engine.rank() + 1));
  ASSERT_TRUE(testing::allreduce(engine, name, values).ok());
  const float expected = static_cast<float>(engine.world_size() * (engine.world_size() + 1)) / 2;
  EXPECT_EQ(std::vector<float>(count, expected), values);
}

TEST(AllreduceTimer, TheEngineRunsAsBeforeOnceAllHaveTimed) {
  for (const std::vector<int>& hosts : {std::vector<int>{0, 0, 0}, std::vector<int>{0, 0, 1, 1}}) {
    run_hosts(hosts, [&](Engine& engine) {
      time_with(engine, [&](AllreduceTimer& timer) {
        const AlgorithmTable table(Layout(0, hosts));
        bool has_room = false;
        ASSERT_TRUE(timer.begin(kMiB, has_room).ok());
        ASSERT_TRUE(has_room);
        for (const TableRow& row : table.rows()) {
          int64_t elapsed_ns = 0;
          EXPECT_TRUE(timer.run({kMiB, row.algorithm, row.chunk_bytes, 3}, elapsed_ns).ok());
          EXPECT_GT(elapsed_ns, 0);
        }
      });
      expect_sum(engine, "after", 100000);
    });
  }
}

TEST(AllreduceTimer, TheTableDecidesOnAlgorithmAndChunk) {
  run_world(2, [](Engine& engine) {
    time_with(engine, [](AllreduceTimer& timer) {
      ASSERT_TRUE(timer.set_table({{kMiB, kTimedDirect, 128 * kKiB}, {kAnySize, kTimedStaged, 32 * kKiB}}).ok());
    });
    expect_sum(engine, "of 1 MiB", kMiB / sizeof(float));
    EXPECT_EQ(1u, counter(engine, "algorithm.direct"));
    const uint64_t chunks = counter(engine, "chunks");
    expect_sum(engine, "of 2 MiB", 2 * kMiB / sizeof(float));
    EXPECT_EQ(1u, counter(engine, "algorithm.reduce_scatter_allgather"));
    EXPECT_EQ(64u, counter(engine, "chunks") - chunks);
  });
}

TEST(AllreduceTimer, WhateverTheTableTheBitsAreTheSame) {
  std::vector<std::vector<float>> results;
  for (const std::vector<TableRow>& rows :
       {std::vector<TableRow>{{kAnySize, kTimedDirect, 128 * kKiB}},
        {{kAnySize, kTimedStaged, 16 * kKiB}},
        {{100 * kKiB, kTimedDirect, 128 * kKiB}, {kAnySize, kTimedStaged, 4 * kMiB}}}) {
    run_world(3, [&](Engine& engine) {
      time_with(engine, [&](AllreduceTimer& timer) { ASSERT_TRUE(timer.set_table(rows).ok()); });
      for (const size_t count : {size_t{1000}, size_t{300001}}) {
        std::vector<float> values(count);
        for (size_t i = 0; i < count; ++i) {
          values[i] = 1.0f / static_cast<float>(7 * i + static_cast<size_t>(engine.rank()) * 13 + 3);
        }
        ASSERT_TRUE(testing::allreduce(engine, std::to_string(count), values).ok());
        if (engine.rank() == 0) {
          results.push_back(std::move(values));
        }
      }
    });
  }

  ASSERT_EQ(6u, results.size());
  for (const size_t other : {2u, 4u}) {
    EXPECT_EQ(results[0], results[other]);
    EXPECT_EQ(results[1], results[other + 1]);
  }
}

TEST(AllreduceTimer, WhatCannotBeTimedIsRefusedAndTheWorldLivesOn) {
  run_world(2, [](Engine& engine) {
    time_with(engine, [](AllreduceTimer& timer) {
      int64_t elapsed_ns = 0;
      bool has_room = false;
      EXPECT_EQ(StatusCode::kConfigError, timer.run({64, kTimedDirect, 16 * kKiB, 1}, elapsed_ns).code());
      ASSERT_TRUE(timer.begin(64, has_room).ok());
      EXPECT_EQ(StatusCode::kConfigError, timer.run({128, kTimedDirect, 16 * kKiB, 1}, elapsed_ns).code());
    });
    if (engine.rank() == 1) {
      EXPECT_EQ(StatusCode::kConfigError, engine.timer().set_table({{kAnySize, kTimedDirect, 128 * kKiB}}).code());
    }
    expect_sum(engine, "after", 1000);
  });
}

TEST(AllreduceTimer, ARankThatFollowsNobodyIsToldWhy) {
  run_world(
      2,
      [](Engine& engine) {
        if (engine.rank() == 1) {
          EXPECT_EQ(StatusCode::kCollectiveTimeout, engine.timer().follow().code());
        }
      },
      [](EngineOptions& options) { options.timeout_s = 0.2; });
}

TEST(AllreduceTimer, AfterShutdownNothingIsTimed) {
  run_world(1, [](Engine& engine) {
    engine.shutdown();
    EXPECT_EQ(StatusCode::kShutDown, engine.timer().end().code());
  });
}

}  // namespace
}  // namespace ringtune
