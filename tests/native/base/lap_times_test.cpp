// SPDX-License-Identifier: Apache-2.0
#include "base/lap_times.h"

#include <chrono>
#include <thread>

#include <gtest/gtest.h>

namespace ringtune {
namespace {

void let_time_pass() { std::this_thread::sleep_for(std::chrono::milliseconds(2)); }

int64_t sum_ns(const LapTimes& laps) {
  int64_t sum = 0;
  for (size_t lap = 0; lap < kLapCount; ++lap) {
    sum += laps.total_ns(static_cast<Lap>(lap));
  }
  return sum;
}

TEST(LapTimes, NothingIsCountedUntilTheStart) {
  LapTimes laps;

  laps.end(Lap::kReduce);

  EXPECT_EQ(0, sum_ns(laps));
}

TEST(LapTimes, AllTimeBelongsToALap) {
  LapTimes laps;
  const int64_t before_ns = now_ns();
  laps.start();
  for (const Lap lap : {Lap::kCopyIn, Lap::kReduce, Lap::kCopyIn}) {
    let_time_pass();
    laps.end(lap);
  }
  const int64_t end_ns = now_ns();

  EXPECT_GE(laps.total_ns(Lap::kCopyIn), 4 * kNsPerMs);
  EXPECT_GE(laps.total_ns(Lap::kReduce), 2 * kNsPerMs);
  EXPECT_LE(sum_ns(laps), end_ns - before_ns);
  EXPECT_EQ(sum_ns(laps), laps.total_ns(Lap::kCopyIn) + laps.total_ns(Lap::kReduce));
  EXPECT_GE(sum_ns(laps), 6 * kNsPerMs);
}

TEST(LapTimes, AStartForgetsWhatWasBefore) {
  LapTimes laps;
  laps.start();
  let_time_pass();
  laps.end(Lap::kReduce);

  laps.start();

  EXPECT_EQ(0, sum_ns(laps));
}

}  // namespace
}  // namespace ringtune
