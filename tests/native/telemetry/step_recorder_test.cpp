// SPDX-License-Identifier: Apache-2.0
#include "telemetry/step_recorder.h"

#include <atomic>
#include <optional>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace ringtune {
namespace {

std::optional<StepFact> taken(StepRecorder& recorder) {
  StepFact fact{};
  return recorder.take(fact) ? std::optional(fact) : std::nullopt;
}

TEST(StepRecorder, AStepOfTheHostIsThereAtOnce) {
  StepRecorder recorder;
  recorder.add_gradient(7, 100);
  recorder.mark_step(5, 2);

  const auto fact = taken(recorder);

  ASSERT_TRUE(fact.has_value());
  EXPECT_EQ(0u, fact->step);
  EXPECT_EQ(5, fact->end_ns);
  EXPECT_EQ(100u, fact->gradient_bytes);
  EXPECT_EQ(2u, fact->config_epoch);
}

TEST(StepRecorder, AStepOfADeviceIsThereOnceItsEndIsTold) {
  StepRecorder recorder;
  recorder.add_gradient(7, 100);
  recorder.mark_device_step(1);
  recorder.add_gradient(7, 200);
  recorder.mark_device_step(2);
  EXPECT_EQ(2u, recorder.steps());
  EXPECT_FALSE(taken(recorder).has_value());

  recorder.time_device_step(0, 30);
  const auto first = taken(recorder);
  EXPECT_FALSE(taken(recorder).has_value());
  recorder.time_device_step(1, 45);
  const auto second = taken(recorder);

  ASSERT_TRUE(first.has_value() && second.has_value());
  EXPECT_EQ(30, first->end_ns);
  EXPECT_EQ(100u, first->gradient_bytes);
  EXPECT_EQ(1u, first->config_epoch);
  EXPECT_EQ(45, second->end_ns);
  EXPECT_EQ(200u, second->gradient_bytes);
  EXPECT_EQ(1u, second->step);
}

TEST(StepRecorder, AStepOfTheHostDropsThoseThatADeviceIsStillAt) {
  StepRecorder recorder;
  recorder.mark_device_step(0);
  recorder.mark_device_step(0);

  recorder.mark_step(9, 0);
  recorder.time_device_step(0, 50);  // of a step that was dropped
  const auto fact = taken(recorder);

  ASSERT_TRUE(fact.has_value());
  EXPECT_EQ(2u, fact->step);
  EXPECT_EQ(9, fact->end_ns);
  EXPECT_FALSE(taken(recorder).has_value());
}

TEST(StepRecorder, AStepWhoseEndIsNeverToldIsDropped) {
  StepRecorder recorder;
  for (uint64_t step = 0; step < 4; ++step) recorder.mark_device_step(10 + step);

  recorder.time_device_step(2, 20);
  recorder.time_device_step(0, 25);  // too late
  recorder.time_device_step(3, 30);
  const auto first = taken(recorder), second = taken(recorder);

  ASSERT_TRUE(first.has_value() && second.has_value());
  EXPECT_EQ(2u, first->step);
  EXPECT_EQ(12u, first->config_epoch);
  EXPECT_EQ(20, first->end_ns);
  EXPECT_EQ(3u, second->step);
  EXPECT_EQ(30, second->end_ns);
  EXPECT_FALSE(taken(recorder).has_value());
}

TEST(StepRecorder, StepsThatNobodyReadsLeaveAGap) {
  StepRecorder recorder;
  constexpr uint64_t kSteps = 3000;
  for (uint64_t step = 0; step < kSteps; ++step) recorder.mark_device_step(0);
  for (uint64_t step = 0; step < kSteps; ++step) recorder.time_device_step(step, static_cast<int64_t>(step));
  uint64_t count = 0;
  while (const auto fact = taken(recorder)) {
    EXPECT_EQ(count, fact->step);
    ++count;
  }
  EXPECT_LT(count, kSteps);

  recorder.time_device_step(recorder.mark_device_step(0), 1);
  const auto fact = taken(recorder);

  ASSERT_TRUE(fact.has_value());
  EXPECT_EQ(kSteps, fact->step);
}

TEST(StepRecorder, AReaderBesideSeesWholeFacts) {
  StepRecorder recorder;
  constexpr uint64_t kSteps = 20000, kBehind = 8;
  std::atomic<bool> is_over{false};
  std::vector<StepFact> facts;
  std::thread reader([&] {
    StepFact fact{};
    for (bool is_last = false; !is_last;) {
      is_last = is_over;
      while (recorder.take(fact)) facts.push_back(fact);
      std::this_thread::yield();
    }
  });
  for (uint64_t step = 0; step < kSteps; ++step) {
    EXPECT_EQ(step, recorder.mark_device_step(step));
    if (step >= kBehind) recorder.time_device_step(step - kBehind, static_cast<int64_t>(10 * (step - kBehind)));
  }
  is_over = true;
  reader.join();

  ASSERT_FALSE(facts.empty());
  for (const StepFact& fact : facts) {
    EXPECT_EQ(fact.step, fact.config_epoch);
    EXPECT_EQ(static_cast<int64_t>(10 * fact.step), fact.end_ns);
  }
}

}  // namespace
}  // namespace ringtune
