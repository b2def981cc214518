// SPDX-License-Identifier: Apache-2.0
// Callers that wait do the engine's work: whatever they leave behind must go on without them.
#include "engine/progress_loop.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "local_world.h"

namespace ringtune {
namespace {

using testing::run_world;

constexpr int kRounds = 50;

// Shorter than a tick of the communication thread, as long, and longer.
class ProgressLoopTest : public ::testing::TestWithParam<double> {
 protected:
  static void run(int world_size, const std::function<void(Engine&)>& body) {
    run_world(world_size, body, [](EngineOptions& options) { options.config.cycle_ms = GetParam(); });
  }
};

INSTANTIATE_TEST_SUITE_P(CycleMs, ProgressLoopTest, ::testing::Values(0.05, 1, 50));

Handle submit(Engine& engine, const std::string& name, std::vector<float>& values) {
  Handle handle = kNoHandle;
  EXPECT_TRUE(engine.allreduce_async(testing::tensor(name, values, values), {ReduceOp::kSum}, false, handle).ok());
  return handle;
}

bool is_done_soon(Engine& engine, Handle handle) {
  const int64_t limit_ns = now_ns() + testing::kDeadlineNs;
  while (!engine.poll(handle) && now_ns() < limit_ns) {
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  return engine.poll(handle);
}

// Only the communication thread is left to see the end of "late". Without a notice, it would look every quarter of a
// second only: the quickest tenth of the rounds would take nearly as long, however busy the machine.
TEST_P(ProgressLoopTest, WhatAWaitingCallerLeavesPendingEndsWithoutIt) {
  std::vector<double> waited_ms;
  run(2, [&waited_ms](Engine& engine) {
    for (int round = 0; round < kRounds; ++round) {
      std::vector<float> late(16, 1);
      std::vector<float> soon(16, 1);
      const bool is_first = engine.rank() == 0;
      Handle late_handle = is_first ? submit(engine, "late", late) : kNoHandle;
      const Handle soon_handle = is_first ? submit(engine, "soon", soon) : kNoHandle;
      std::this_thread::sleep_for(
          std::chrono::milliseconds(is_first ? 1 : 3));  // the thread looks, then a caller waits
      ASSERT_TRUE(testing::finish(engine, is_first ? soon_handle : submit(engine, "soon", soon)).ok());
      if (!is_first) {
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        late_handle = submit(engine, "late", late);
      }
      const int64_t start_ns = now_ns();
      ASSERT_TRUE(is_done_soon(engine, late_handle)) << "round " << round;
      if (!is_first) {
        waited_ms.push_back(ns_to_ms(now_ns() - start_ns));
      }
      ASSERT_TRUE(testing::finish(engine, late_handle).ok());
      ASSERT_EQ(2, late.front());
    }
  });
  ASSERT_EQ(static_cast<size_t>(kRounds), waited_ms.size());
  std::sort(waited_ms.begin(), waited_ms.end());
  EXPECT_LT(waited_ms[kRounds / 10], 125);
}

TEST_P(ProgressLoopTest, SeveralCallersOfOneRankWaitAtTheSameTime) {
  constexpr int kCallers = 3;
  run(2, [](Engine& engine) {
    std::vector<std::thread> callers;
    for (int caller = 0; caller < kCallers; ++caller) {
      callers.emplace_back([&engine, caller] {
        for (int round = 0; round < kRounds; ++round) {
          std::vector<float> values(64, static_cast<float>(caller));
          ASSERT_TRUE(testing::allreduce(engine, "caller." + std::to_string(caller), values).ok());
          ASSERT_EQ(static_cast<float>(2 * caller), values.back());
        }
      });
    }
    for (std::thread& caller : callers) {
      caller.join();
    }
  });
}

TEST_P(ProgressLoopTest, AWaitEndsAtItsLimitAndTheOperationGoesOn) {
  std::promise<void> ended;
  run(2, [&ended](Engine& engine) {
    std::vector<float> values(16, 1);
    if (engine.rank() == 1) {
      ended.get_future().wait();
      ASSERT_TRUE(testing::allreduce(engine, "x", values).ok());
      return;
    }
    const Handle handle = submit(engine, "x", values);
    EXPECT_FALSE(engine.wait(handle, 5 * kNsPerMs).has_value());
    ended.set_value();
    ASSERT_TRUE(is_done_soon(engine, handle));
    ASSERT_TRUE(testing::finish(engine, handle).ok());
    EXPECT_EQ(2, values.front());
  });
}

}  // namespace
}  // namespace ringtune
