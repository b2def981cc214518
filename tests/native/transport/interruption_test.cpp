// SPDX-License-Identifier: Apache-2.0
// A collective in which a peer does not move is left by a caller that wants out, and by an engine that is shut down.
#include "transport/interruption.h"

#include <gtest/gtest.h>

#include "base/clock.h"
#include "collectives/barrier.h"
#include "collectives/collective_world.h"

namespace ringtune {
namespace {

constexpr size_t kChunkBytes = 64 << 10;

// Waits on rank 0 for rank 1, which never comes.
Status wait_alone(testing::CollectiveWorld& world) {
  Status status;
  world.run([&status](CollectiveContext& context) {
    if (context.layout.rank() == 0) {
      status = barrier(context, kChunkBytes);
    }
  });
  return status;
}

// Inside a host and between two.
class InterruptionTest : public ::testing::TestWithParam<testing::Hosts> {
 protected:
  InterruptionTest() : world_(GetParam()) {}

  void expect_interrupted(const Status& status) {
    EXPECT_EQ(StatusCode::kPeerLostError, status.code());
    EXPECT_EQ(0u, status.message().find("rank 0 was interrupted")) << status.message();
  }

  testing::CollectiveWorld world_;
};

INSTANTIATE_TEST_SUITE_P(Worlds, InterruptionTest, ::testing::Values(testing::Hosts{0, 0}, testing::Hosts{0, 1}));

TEST_P(InterruptionTest, ACallerIsAskedUntilItWantsOut) {
  int looks = 0;
  const Interruption::WantsOut wants_out = [&looks] { return ++looks > 2; };
  world_.interruption(0).set_caller(&wants_out);

  const Status status = wait_alone(world_);

  expect_interrupted(status);
  EXPECT_EQ(3, looks);
}

TEST_P(InterruptionTest, AnEngineThatIsShutDownLeaves) {
  world_.interruption(0).shut_down();

  expect_interrupted(wait_alone(world_));
}

TEST_P(InterruptionTest, WhatMovesIsNotDisturbed) {
  const Interruption::WantsOut wants_out = [] { return true; };
  world_.interruption(0).set_caller(&wants_out);
  world_.interruption(1).shut_down();

  world_.run([](CollectiveContext& context) {
    for (int i = 0; i < 100; ++i) {
      const Status status = barrier(context, kChunkBytes);
      ASSERT_TRUE(status.ok()) << status.message();
    }
  });
}

TEST(Interruption, AWaitIsGivenAMomentAfterSomebodyWantsToLeave) {
  Interruption interruption;
  const int64_t long_ago_ns = now_ns() - 3600 * kNsPerS;
  const Interruption::WantsOut wants_out = [] { return true; };

  EXPECT_FALSE(interruption.is_due(long_ago_ns));
  interruption.set_caller(&wants_out);
  EXPECT_FALSE(interruption.is_due(long_ago_ns));
  interruption.set_caller(nullptr);
  interruption.shut_down();
  EXPECT_FALSE(interruption.is_due(long_ago_ns));
}

TEST(Interruption, ANeighbourThatHasLeftTheJobIsMissed) {
  testing::CollectiveWorld world({0, 0});
  world.depart(1);

  const Status status = wait_alone(world);

  EXPECT_EQ(StatusCode::kPeerLostError, status.code());
  EXPECT_EQ(0u, status.message().find("rank 1 left the job (shutdown)")) << status.message();
}

}  // namespace
}  // namespace ringtune
