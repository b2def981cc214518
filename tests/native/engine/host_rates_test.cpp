// SPDX-License-Identifier: Apache-2.0
// Measurements of the hosts' links between two rounds of a job at work.
#include <gtest/gtest.h>

#include "local_world.h"

namespace ringtune {
namespace {

using testing::allreduce;
using testing::run_hosts;

TEST(HostRates, AreMeasuredBetweenTwoRoundsAndTheSameOnAllRanks) {
  const std::vector<int> hosts{0, 1, 1, 2};
  std::vector<HostRates> rates(hosts.size());

  run_hosts(hosts, [&](Engine& engine) {
    std::vector<float> values(100'000, 1);
    ASSERT_TRUE(allreduce(engine, "before", values).ok());
    EXPECT_EQ(0U, engine.host_rates().measurements);
    if (engine.rank() == 0) {
      EngineConfig skewed;
      skewed.skew = true;
      uint64_t epoch = 0;
      ASSERT_TRUE(engine.apply_config(skewed, epoch).ok());
      ASSERT_TRUE(engine.measure_host_rates().ok());
    }
    ASSERT_TRUE(allreduce(engine, "after", values).ok());
    rates[static_cast<size_t>(engine.rank())] = engine.host_rates();
    EXPECT_EQ(16.0F, values.back());
  });

  for (const HostRates& each : rates) {
    EXPECT_EQ(1U, each.measurements);
    EXPECT_EQ(3U, each.bytes_per_s.size());
    EXPECT_EQ(rates.front().bytes_per_s, each.bytes_per_s);
  }
}

TEST(HostRates, RankZeroAloneAsksForThem) {
  run_hosts({0, 1}, [](Engine& engine) {
    if (engine.rank() == 1) {
      EXPECT_EQ(StatusCode::kConfigError, engine.measure_host_rates().code());
    }
  });
}

}  // namespace
}  // namespace ringtune
