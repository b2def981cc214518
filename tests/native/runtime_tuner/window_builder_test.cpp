// SPDX-License-Identifier: Apache-2.0
#include "runtime_tuner/window_builder.h"

#include <gtest/gtest.h>

#include "base/clock.h"
#include "local_world.h"
#include "runtime_tuner/runtime_tuner.h"

namespace ringtune {
namespace {

// Feeds steps of 10 ms unless told otherwise.
class Feed {
 public:
  explicit Feed(const WindowSpec& spec) { builder.begin(spec); }

  std::optional<Window> step(double ms = 10) {
    fact.end_ns += static_cast<int64_t>(ms * static_cast<double>(kNsPerMs));
    ++fact.step;
    return builder.add(fact);
  }

  std::optional<Window> steps(int count, double ms = 10) {
    for (int i = 0; i < count; ++i) {
      if (std::optional<Window> window = step(ms)) {
        return window;
      }
    }
    return std::nullopt;
  }

  WindowBuilder builder;
  StepFact fact{0, 0, 1000, 77, 0};
};

TEST(WindowBuilder, ClosesAfterTheStepsAskedForBeyondTheSettlingOnes) {
  Feed feed({.epoch = 0, .settle_steps = 2, .steps = 5});

  EXPECT_FALSE(feed.steps(1 + 2 + 4).has_value());
  const std::optional<Window> window = feed.step();

  ASSERT_TRUE(window.has_value());
  EXPECT_EQ(VoidReason::kNone, window->void_reason);
  EXPECT_EQ(std::vector<double>(5, 10.0), window->step_ms);
  EXPECT_EQ(1000u, window->bytes_per_step);
  EXPECT_EQ(77u, window->tensor_set);
  EXPECT_EQ(1u + 2 + 5, window->last_step);
}

TEST(WindowBuilder, BytesPerStepAreTheMeanOfTheWindowsSteps) {
  Feed feed({.epoch = 0, .settle_steps = 1, .steps = 3});
  feed.steps(1 + 1);
  std::optional<Window> window;

  for (const uint64_t bytes : {100, 400, 1000}) {
    feed.fact.gradient_bytes = bytes;
    window = feed.step();
  }

  ASSERT_TRUE(window.has_value());
  EXPECT_EQ(500u, window->bytes_per_step);
}

TEST(WindowBuilder, StepsOfAnOldEpochNeverCount) {
  Feed feed({.epoch = 3, .steps = 2});
  feed.steps(20, 500);
  feed.fact.config_epoch = 3;

  EXPECT_FALSE(feed.step(250).has_value());  // began under the old one
  const std::optional<Window> window = feed.steps(2);

  ASSERT_TRUE(window.has_value());
  EXPECT_EQ(std::vector<double>(2, 10.0), window->step_ms);
}

TEST(WindowBuilder, TwoEpochsInOneWindowMakeItVoid) {
  Feed feed({.epoch = 1, .steps = 10});
  feed.fact.config_epoch = 1;
  feed.steps(4);
  feed.fact.config_epoch = 2;

  const std::optional<Window> window = feed.step();

  ASSERT_TRUE(window.has_value());
  EXPECT_EQ(VoidReason::kMixedEpochs, window->void_reason);
}

TEST(WindowBuilder, APauseMakesItVoidAndASlowStepDoesNot) {
  Feed slow({.epoch = 0, .steps = 10});
  slow.steps(8);
  EXPECT_FALSE(slow.step(900).has_value());  // 90 medians, but under a second

  Feed pause({.epoch = 0, .steps = 10});
  pause.steps(8);
  const std::optional<Window> window = pause.step(1100);
  ASSERT_TRUE(window.has_value());
  EXPECT_EQ(VoidReason::kPause, window->void_reason);

  Feed long_steps({.epoch = 0, .steps = 10});
  long_steps.steps(8, 3000);
  EXPECT_FALSE(long_steps.step(14000).has_value());  // under five medians
}

TEST(WindowBuilder, AChangedTensorSetOrNoGradientsMakeItVoid) {
  Feed changed({.epoch = 0, .steps = 10});
  changed.steps(4);
  changed.fact.tensor_set = 78;
  EXPECT_EQ(VoidReason::kTensorSetChanged, changed.step()->void_reason);

  Feed none({.epoch = 0, .steps = 10});
  none.fact.gradient_bytes = 0;
  none.step();
  EXPECT_EQ(VoidReason::kNoGradients, none.step()->void_reason);
}

TEST(WindowBuilder, IsCutWhenItsStepsRunOverTheLimit) {
  Feed feed({.epoch = 0, .steps = 100, .limit_ms = 20});

  const std::optional<Window> window = feed.steps(100, 30);

  ASSERT_TRUE(window.has_value());
  EXPECT_TRUE(window->was_cut);
  EXPECT_EQ(VoidReason::kNone, window->void_reason);
  EXPECT_EQ(3u, window->step_ms.size());
}

TEST(WindowBuilder, AShortWindowCanBeCutAndAWholeOneWasNot) {
  Feed of_five({.epoch = 0, .steps = 5, .limit_ms = 20});
  EXPECT_TRUE(of_five.steps(1 + 3, 30).value().was_cut);

  Feed of_three({.epoch = 0, .steps = 3, .limit_ms = 20});
  EXPECT_FALSE(of_three.steps(1 + 3, 30).value().was_cut);
}

TEST(WindowBuilder, OneSlowStepNeverCutsAWindow) {
  Feed feed({.epoch = 0, .steps = 6, .limit_ms = 20});
  feed.steps(1);
  feed.step(900);

  const std::optional<Window> window = feed.steps(6);

  EXPECT_FALSE(window->was_cut);
  EXPECT_EQ(6u, window->step_ms.size());
}

TEST(WindowBuilder, FactsThatWereLostStartTheWindowAgain) {
  Feed feed({.epoch = 0, .steps = 5});
  feed.steps(4);
  feed.fact.step += 3;

  EXPECT_FALSE(feed.steps(1 + 4).has_value());
  EXPECT_TRUE(feed.step().has_value());
}

TEST(RuntimeTuner, MeasuresTheRunningJobUnderTheEpochAskedFor) {
  testing::run_world(2, [](Engine& engine) {
    std::atomic<bool> is_measured{false};
    std::thread tuning;
    if (engine.rank() == 0) {
      tuning = std::thread([&] {
        RuntimeTuner tuner(engine);
        uint64_t epoch = 0;
        EngineConfig config;
        config.fusion_bytes = 0;
        EXPECT_TRUE(engine.apply_config(config, epoch).ok());
        tuner.begin_window({epoch, 1, 20, 0});
        const std::optional<Window> window = tuner.next_window(testing::kDeadlineNs);
        EXPECT_TRUE(window.has_value() && window->step_ms.size() == 20 && window->bytes_per_step == 64);
        is_measured = true;
      });
    }
    bool is_through = false;
    while (!is_through) {
      std::vector<int32_t> votes(16, is_measured ? 1 : 0);
      Handle handle = 0;
      const auto arguments = testing::tensor("gradient", votes, votes);
      ASSERT_TRUE(engine.allreduce_async(arguments, {ReduceOp::kSum}, true, handle).ok());
      ASSERT_TRUE(testing::finish(engine, handle).ok());
      engine.mark_step();
      is_through = votes[0] > 0;
    }
    if (tuning.joinable()) {
      tuning.join();
    }
  });
}

// Gathered in two parts: as many bytes as this rank has given of both.
TEST(RuntimeTuner, SparseGradientsCount) {
  testing::run_world(2, [](Engine& engine) {
    RuntimeTuner tuner(engine);
    tuner.begin_window({0, 0, 2, 0});
    for (int step = 0; step < 4; ++step) {
      std::vector<int64_t> indices(static_cast<size_t>(1 + engine.rank()));
      std::vector<float> values(8 * indices.size());
      const auto rows = static_cast<int64_t>(indices.size());
      const TensorArguments parts[] = {
          {"gradient.indices", indices.data(), nullptr, {rows, 1}, DataType::kInt64},
          {"gradient.values", values.data(), nullptr, {rows, 8}, DataType::kFloat32},
      };
      for (const TensorArguments& part : parts) {
        Handle handle = kNoHandle;
        ASSERT_TRUE(engine.allgather_async(part, true, handle).ok());
        ASSERT_TRUE(testing::finish(engine, handle).ok());
      }
      engine.mark_step();
    }

    const std::optional<Window> window = tuner.next_window(testing::kDeadlineNs);

    ASSERT_TRUE(window.has_value());
    EXPECT_EQ(VoidReason::kNone, window->void_reason);
    EXPECT_EQ((1u + static_cast<uint64_t>(engine.rank())) * (8 + 8 * 4), window->bytes_per_step);
  });
}

}  // namespace
}  // namespace ringtune
