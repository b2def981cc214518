// SPDX-License-Identifier: Apache-2.0
#include "collectives/message_sizes.h"

#include <gtest/gtest.h>

#include "base/clock.h"

namespace ringtune {
namespace {

TEST(MessageSizes, NearHostsKeepTwoChunksInFlight) {
  EXPECT_EQ(0u, in_flight_bytes(0));
  EXPECT_EQ(0u, in_flight_bytes(kDistantRoundTripNs - 1));
}

TEST(MessageSizes, DistantHostsFillAFastLink) {
  EXPECT_EQ(625'000u, in_flight_bytes(kNsPerMs));  // 1.25 GB/s for half a millisecond
  EXPECT_EQ(6'250'000u, in_flight_bytes(10 * kNsPerMs));
}

TEST(MessageSizes, MemoryLimitsTheBytesInFlight) { EXPECT_EQ(kMaxInFlightBytes, in_flight_bytes(1000 * kNsPerMs)); }

}  // namespace
}  // namespace ringtune
