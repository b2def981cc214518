// SPDX-License-Identifier: Apache-2.0
// All ranks give the same answer to whether tuning has finished after the same step, whatever each of them waits for.
#include <array>
#include <random>
#include <thread>

#include <gtest/gtest.h>

#include "local_world.h"

namespace ringtune {
namespace {

using testing::allreduce;
using testing::run_world;

void take_step(Engine& engine) {
  std::vector<float> values(4, 1);
  ASSERT_TRUE(allreduce(engine, "gradient", values).ok());
  engine.mark_step();
}

void join_world(Engine& engine) {
  Handle handle = kNoHandle;
  ASSERT_TRUE(engine.join_async(handle).ok());
  ASSERT_TRUE(testing::finish(engine, handle).ok());
}

// A rank that loses the processor now and then, so that ranks are apart by as much as they can be.
void be_late(std::mt19937& random) {
  if (random() % 8 == 0) {
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
  }
}

TEST(TuningTold, EveryRankLeavesItsLoopAfterTheSameStep) {
  constexpr int kRounds = 60;
  for (const int world_size : {1, 2, 3}) {
    std::vector<std::array<int, kRounds>> left(static_cast<size_t>(world_size));
    run_world(world_size, [&left](Engine& engine) {
      std::mt19937 random(static_cast<unsigned>(engine.rank()));
      bool wanted = true;
      int step = 0;
      for (int round = 0; round < kRounds; ++round, wanted = !wanted) {
        std::thread tuner;
        if (engine.rank() == 0) {
          tuner = std::thread([&engine, wanted, delay_us = random() % 500] {
            std::this_thread::sleep_for(std::chrono::microseconds(delay_us));
            EXPECT_TRUE(engine.tell_tuning(wanted).ok());
          });
        }
        while (engine.is_tuning_finished() != wanted) {
          be_late(random);
          take_step(engine);
          ++step;
        }
        left[static_cast<size_t>(engine.rank())][static_cast<size_t>(round)] = step;
        if (tuner.joinable()) {
          tuner.join();
        }
      }
    });
    for (const auto& of_rank : left) {
      EXPECT_EQ(left.front(), of_rank) << world_size << " ranks";
    }
  }
}

TEST(TuningTold, RanksWithUnevenDataAgreeOnceTheyHaveJoined) {
  constexpr int kEpochs = 40;
  std::array<std::array<bool, kEpochs>, 3> answers{};
  run_world(3, [&answers](Engine& engine) {
    std::mt19937 random(static_cast<unsigned>(engine.rank()));
    for (int epoch = 0; epoch < kEpochs; ++epoch) {
      if (engine.rank() == 0 && epoch % 3 == 0) {
        ASSERT_TRUE(engine.tell_tuning(epoch % 2 == 0).ok());
      }
      for (int step = 0; step < 2 + 3 * ((engine.rank() + epoch) % 3); ++step) {
        be_late(random);
        take_step(engine);
      }
      join_world(engine);
      answers[static_cast<size_t>(engine.rank())][static_cast<size_t>(epoch)] = engine.is_tuning_finished();
    }
  });
  EXPECT_EQ(answers[0], answers[1]);
  EXPECT_EQ(answers[0], answers[2]);
  EXPECT_TRUE(answers[0][1]);
}

TEST(TuningTold, OnlyRankZeroTells) {
  run_world(2, [](Engine& engine) {
    EXPECT_EQ(engine.rank() == 0 ? StatusCode::kOk : StatusCode::kConfigError, engine.tell_tuning(true).code());
    EXPECT_FALSE(engine.is_tuning_finished());
  });
}

}  // namespace
}  // namespace ringtune
