// SPDX-License-Identifier: Apache-2.0
// Uneven data: a rank that has joined gives zeros until all have.
#include <gtest/gtest.h>

#include "local_world.h"

namespace ringtune {
namespace {

using testing::allreduce;
using testing::kDeadlineNs;
using testing::run_hosts;
using testing::run_world;

// The rank that joined last, as reported to this rank.
int64_t join(Engine& engine) {
  Handle handle = kNoHandle;
  EXPECT_TRUE(engine.join_async(handle).ok());
  const std::optional<Outcome> outcome = engine.wait(handle, kDeadlineNs);
  EXPECT_TRUE(outcome && outcome->status.ok() && outcome->result);
  return outcome && outcome->result ? outcome->result->rows.at(0) : -1;
}

// Rank r has `2 + 3 * r` batches; every sum has the contributions of the ranks that still have data.
void train_unevenly(Engine& engine, const std::string& epoch) {
  const auto batches = [](int rank) { return 2 + 3 * rank; };
  for (int batch = 0; batch < batches(engine.rank()); ++batch) {
    std::vector<float> values(100, static_cast<float>(engine.rank() + 1));
    ASSERT_TRUE(allreduce(engine, epoch + std::to_string(batch % 2), values).ok());
    float expected = 0;
    for (int rank = 0; rank < engine.world_size(); ++rank) {
      expected += batch < batches(rank) ? static_cast<float>(rank + 1) : 0;
    }
    ASSERT_EQ(std::vector<float>(100, expected), values) << "batch " << batch;
  }
  EXPECT_EQ(engine.world_size() - 1, join(engine));
}

class JoinTest : public ::testing::TestWithParam<std::tuple<std::vector<int>, bool>> {};

TEST_P(JoinTest, ARankWithoutDataGivesZerosUntilAllHaveJoined) {
  const auto& [hosts, is_cached] = GetParam();
  run_hosts(
      hosts,
      [](Engine& engine) {
        for (const char* epoch : {"first", "second", "first"}) {  // also names that a joined rank learned late
          train_unevenly(engine, epoch);
        }
      },
      [is_cached = is_cached](EngineOptions& options) { options.config.response_cache = is_cached; });
}

INSTANTIATE_TEST_SUITE_P(Worlds, JoinTest,
                         ::testing::Combine(::testing::Values(std::vector<int>{0}, std::vector<int>{0, 0, 0},
                                                              std::vector<int>{0, 0, 1}, std::vector<int>{0, 1, 1, 1}),
                                            ::testing::Bool()));

TEST(Join, ATensorThatIsKnownMayGoInOneBatchWithTheJoinBehindIt) {
  run_world(2, [](Engine& engine) {
    std::vector<float> values(4, 1);
    ASSERT_TRUE(allreduce(engine, "x", values).ok());
    Handle handle = kNoHandle;
    ASSERT_TRUE(engine.allreduce_async(testing::tensor("x", values, values), {ReduceOp::kSum}, false, handle).ok());

    join(engine);

    ASSERT_TRUE(testing::finish(engine, handle).ok());
    EXPECT_EQ(std::vector<float>(4, 4), values);
  });
}

TEST(Join, WhatNeedsEveryRanksDataIsAnErrorMeanwhile) {
  run_world(2, [](Engine& engine) {
    if (engine.rank() == 0) {
      std::vector<float> values(4, 1);
      // Until rank 1 has joined, this waits for it.
      const Status status = allreduce(engine, "x", values, ReduceOp::kMax);
      EXPECT_EQ(StatusCode::kMismatchError, status.code());
      EXPECT_NE(std::string::npos, status.message().find("rank 1, which joined")) << status.message();
    }
    EXPECT_EQ(0, join(engine));
  });
}

TEST(Join, AJoinedRankWaitsLongerThanTheLimit) {
  run_world(
      2,
      [](Engine& engine) {
        if (engine.rank() == 0) {
          const int64_t end_ns = now_ns() + 6 * kNsPerS;
          while (now_ns() < end_ns) {
            std::vector<float> values(4, 1);
            ASSERT_TRUE(allreduce(engine, "x", values).ok());
          }
        }
        EXPECT_EQ(0, join(engine));
      },
      [](EngineOptions& options) { options.stall_warn_s = options.timeout_s = 4; });
}

TEST(Join, ALostRankIsNoticedByThoseThatHaveJoined) {
  run_world(2, [](Engine& engine) {
    if (engine.rank() == 0) {
      engine.shutdown();
      return;
    }
    Handle handle = kNoHandle;
    ASSERT_TRUE(engine.join_async(handle).ok());
    const std::optional<Outcome> outcome = engine.wait(handle, kDeadlineNs);
    ASSERT_TRUE(outcome.has_value());
    EXPECT_FALSE(outcome->status.ok());
  });
}

}  // namespace
}  // namespace ringtune
