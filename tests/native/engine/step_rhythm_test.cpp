// SPDX-License-Identifier: Apache-2.0
#include "engine/step_rhythm.h"

#include <gtest/gtest.h>

#include "base/clock.h"

namespace ringtune {
namespace {

constexpr int64_t kRoundTripNs = 40 * kNsPerMs;
constexpr int64_t kMarginNs = kRoundTripNs / 8;
constexpr uint64_t kTensors = 8;

// At the start of a step like the ones before, which took `span_ns` from their first submission to their last.
StepRhythm rhythm_of(int64_t span_ns, int64_t round_trip_ns = kRoundTripNs, uint64_t steps = 5) {
  StepRhythm rhythm;
  for (uint64_t step = 1; step <= steps; ++step) {
    rhythm.begin_step(step, {kTensors, span_ns}, round_trip_ns);
  }
  return rhythm;
}

TEST(StepRhythm, TensorsWaitForARestThatIsWellWithinARoundTrip) {
  StepRhythm rhythm = rhythm_of(20 * kNsPerMs);

  rhythm.see(1, kNsPerS);

  EXPECT_EQ(kNsPerS + 20 * kNsPerMs + kMarginNs, rhythm.hold_until_ns(kNsPerS));
}

TEST(StepRhythm, TensorsGoWhereTheRestIsFurtherAwayAndLaterOnesWait) {
  StepRhythm rhythm = rhythm_of(35 * kNsPerMs);

  rhythm.see(1, kNsPerS);
  EXPECT_FALSE(rhythm.hold_until_ns(kNsPerS));
  rhythm.let_go();
  rhythm.see(3, kNsPerS + 10 * kNsPerMs);

  EXPECT_EQ(kNsPerS + 35 * kNsPerMs + kMarginNs, rhythm.hold_until_ns(kNsPerS + 10 * kNsPerMs));
}

TEST(StepRhythm, TensorsGoOnceTheStepIsCompleteOrItsTimeIsOver) {
  StepRhythm complete = rhythm_of(20 * kNsPerMs);
  complete.see(kTensors, kNsPerS);
  StepRhythm late = rhythm_of(20 * kNsPerMs);
  late.see(kTensors - 1, kNsPerS);

  EXPECT_FALSE(complete.hold_until_ns(kNsPerS));
  EXPECT_FALSE(late.hold_until_ns(kNsPerS + 20 * kNsPerMs + kMarginNs));
}

TEST(StepRhythm, NothingWaitsOnANearNetworkOrOneOfUnknownLatency) {
  for (const int64_t round_trip_ns : {int64_t{0}, kNsPerMs - 1}) {
    StepRhythm rhythm = rhythm_of(kNsPerMs / 10, round_trip_ns);
    rhythm.see(1, kNsPerS);

    EXPECT_FALSE(rhythm.hold_until_ns(kNsPerS));
  }
}

TEST(StepRhythm, NothingWaitsBeforeARhythmIsKnownOrWithoutSteps) {
  StepRhythm young = rhythm_of(20 * kNsPerMs, kRoundTripNs, 4);
  young.see(1, kNsPerS);
  StepRhythm none;
  none.see(1, kNsPerS);

  EXPECT_FALSE(young.hold_until_ns(kNsPerS));
  EXPECT_FALSE(none.hold_until_ns(kNsPerS));
}

TEST(StepRhythm, WhereTwoOptimizersStepInTurnTheShorterStepDoesNotWaitForTheOthersTensors) {
  StepRhythm rhythm;
  for (uint64_t step = 1; step <= 20; ++step) {
    rhythm.begin_step(step, {step % 2 == 0 ? kTensors : 2 * kTensors, 20 * kNsPerMs}, kRoundTripNs);
    rhythm.see(kTensors, kNsPerS);

    EXPECT_FALSE(rhythm.hold_until_ns(kNsPerS)) << step;
  }
}

TEST(StepRhythm, AFurtherAllreduceNowAndThenKeepsTheRhythm) {
  StepRhythm rhythm = rhythm_of(20 * kNsPerMs);
  for (uint64_t step = 6; step <= 30; ++step) {
    rhythm.begin_step(step, {step % 10 == 0 ? kTensors + 1 : kTensors, 20 * kNsPerMs}, kRoundTripNs);
    rhythm.see(1, kNsPerS);

    EXPECT_TRUE(rhythm.hold_until_ns(kNsPerS)) << step;
  }
}

TEST(StepRhythm, OneOddStepChangesNothing) {
  StepRhythm rhythm = rhythm_of(20 * kNsPerMs);
  rhythm.begin_step(6, {kTensors, 60 * kNsPerS}, kRoundTripNs);

  rhythm.see(1, kNsPerS);

  EXPECT_TRUE(rhythm.hold_until_ns(kNsPerS));
}

// A validation between two training steps has no rest to wait for.
TEST(StepRhythm, MoreTensorsThanInTheStepBeforeGo) {
  StepRhythm rhythm = rhythm_of(20 * kNsPerMs);
  rhythm.see(kTensors, kNsPerS);
  rhythm.let_go();

  rhythm.see(1, kNsPerS);

  EXPECT_FALSE(rhythm.hold_until_ns(kNsPerS));
}

}  // namespace
}  // namespace ringtune
