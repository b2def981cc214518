// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <barrier>
#include <latch>

#include <gtest/gtest.h>

#include "local_world.h"

namespace ringtune {
namespace {

using testing::allreduce;
using testing::finish;
using testing::run_world;

void shorten_limits(EngineOptions& options) {
  options.stall_warn_s = 0.2;
  options.timeout_s = 1.5;
}

TEST(Failure, ATensorThatOneRankNeverSubmitsEndsInATimeoutThatNamesIt) {
  run_world(
      3,
      [](Engine& engine) {
        std::vector<float> values(4, 1);
        Status status;
        if (engine.rank() == 2) {
          // Learns of the end of the world at its next call, however late.
          while (status.ok()) {
            status = allreduce(engine, "late" + std::to_string(now_ns()), values);
          }
        } else {
          status = allreduce(engine, "forgotten", values);
        }

        EXPECT_EQ(StatusCode::kCollectiveTimeout, status.code()) << status.message();
      },
      shorten_limits);
}

TEST(Failure, TheTextNamesTensorRankAndLimit) {
  run_world(
      2,
      [](Engine& engine) {
        if (engine.rank() == 1) {
          return;
        }
        std::vector<float> values(4, 1);

        const Status status = allreduce(engine, "forgotten", values);

        for (const char* word : {"'forgotten'", "rank 1", "1.5 s", "RINGTUNE_TIMEOUT_S"}) {
          EXPECT_NE(std::string::npos, status.message().find(word)) << status.message();
        }
      },
      shorten_limits);
}

TEST(Failure, ACoordinatorThatDoesNotAnswerIsNoticed) {
  const auto segment = testing::make_segment(2);
  EngineOptions options = testing::make_options(1, 2);
  shorten_limits(options);
  Engine rank_1(segment, options);  // rank 0 never starts
  std::vector<float> values(4, 1);

  const Status status = allreduce(rank_1, "x", values);

  EXPECT_EQ(StatusCode::kCollectiveTimeout, status.code());
  EXPECT_NE(std::string::npos, status.message().find("rank 0 has not answered")) << status.message();
}

// The seconds that rank 1 waits for a silent rank 0 of another host, until its limit of 1.2 s ends the world.
double seconds_until_silence_ends_the_world() {
  testing::SocketMesh mesh({0, 1});  // keeps rank 0's ends open, unserved
  EngineOptions options = testing::make_options(1, {0, 1});
  options.timeout_s = 1.2;
  options.transport.control_fds = mesh.control_fds(1);
  options.make_links = [&mesh](Transport& transport, const Layout& own) {
    return std::make_unique<TcpLinks>(transport, own, std::vector<int>{}, mesh.data_fds(1), 60 * kNsPerS);
  };
  Engine rank_1(testing::make_segment(1), options);
  std::vector<float> values(4, 1);
  const int64_t start_ns = now_ns();

  const Status status = allreduce(rank_1, "x", values);

  EXPECT_EQ(StatusCode::kCollectiveTimeout, status.code());
  EXPECT_NE(std::string::npos, status.message().find("rank 0 has not answered")) << status.message();
  return ns_to_seconds(now_ns() - start_ns);
}

TEST(Failure, ACoordinatorThatHasFallenSilentHasNoGrace) {
  double shortest_s = seconds_until_silence_ends_the_world();
  for (int attempt = 0; attempt < 12 && shortest_s > 1.6; ++attempt) {  // a machine may be busy, but not always so
    shortest_s = std::min(shortest_s, seconds_until_silence_ends_the_world());
  }

  EXPECT_LT(shortest_s, 1.2 + 0.5);  // a coordinator that is there has so much more
}

TEST(Failure, ARankThatHasFallenSilentIsTheCulpritOfATimeout) {
  const std::vector<int> hosts{0, 1, 2};
  testing::SocketMesh mesh(hosts);  // rank 2's ends are unserved
  std::vector<std::unique_ptr<Engine>> engines;
  for (const int rank : {0, 1}) {
    EngineOptions options = testing::make_options(rank, hosts);
    options.timeout_s = 1.5;
    options.transport.control_fds = mesh.control_fds(rank);
    options.make_links = [&mesh, rank](Transport& transport, const Layout& own) {
      return std::make_unique<TcpLinks>(transport, own, std::vector<int>{}, mesh.data_fds(rank), 60 * kNsPerS);
    };
    engines.push_back(std::make_unique<Engine>(testing::make_segment(1), options));
  }
  std::vector<float> values(4, 1);

  const Status status = allreduce(*engines[0], "x", values);  // rank 1 does not submit it, as if it waited for rank 2

  EXPECT_EQ(StatusCode::kCollectiveTimeout, status.code());
  EXPECT_EQ(0u, status.message().find("rank 2 (host 2) has fallen silent; tensor 'x' waits for ranks 1, 2"))
      << status.message();
}

class DepartureTest : public ::testing::TestWithParam<std::tuple<std::vector<int>, int>> {};

TEST_P(DepartureTest, ARankThatIsStillNeededIsMissedByTheOthers) {
  const auto& [hosts, leaver] = GetParam();
  std::barrier all_are_done(static_cast<std::ptrdiff_t>(hosts.size()));

  testing::run_hosts(hosts, [leaver = leaver, &all_are_done](Engine& engine) {
    std::vector<float> values(4, 1);
    EXPECT_TRUE(allreduce(engine, "together", values).ok());
    all_are_done.arrive_and_wait();  // else a rank that is late may hear of the failure there
    if (engine.rank() == leaver) {
      engine.shutdown();
      return;
    }

    const Status status = allreduce(engine, "alone", values);

    EXPECT_EQ(StatusCode::kPeerLostError, status.code());
    EXPECT_NE(std::string::npos, status.message().find("left the job")) << status.message();
    // The failure stays: every later call says the same at once.
    EXPECT_EQ(StatusCode::kPeerLostError, allreduce(engine, "later", values).code());
  });
}

INSTANTIATE_TEST_SUITE_P(OneHost, DepartureTest,
                         ::testing::Combine(::testing::Values(std::vector<int>{0, 0}), ::testing::Values(0, 1)));
INSTANTIATE_TEST_SUITE_P(TwoHosts, DepartureTest,
                         ::testing::Combine(::testing::Values(std::vector<int>{0, 0, 1, 1}),
                                            ::testing::Values(0, 1, 2, 3)));

TEST(Failure, ALeaderThatLeavesIsMissedByANeighbourOfWhomNobodyElseKnowsThatItWaits) {
  std::latch leader_has_left{1};

  testing::run_hosts({0, 1, 1}, [&leader_has_left](Engine& engine) {
    if (engine.rank() == 1) {
      engine.shutdown();
      leader_has_left.count_down();
    }
    if (engine.rank() != 2) {
      return;
    }
    leader_has_left.wait();  // else the leader may pass the request on first, and rank 0 knows of it
    std::vector<float> values(4, 1);

    const Status status = allreduce(engine, "alone", values);

    EXPECT_EQ(StatusCode::kPeerLostError, status.code());
    EXPECT_NE(std::string::npos, status.message().find("rank 1 left the job (shutdown) while rank 2 waits for 'alone'"))
        << status.message();
  });
}

// Rank 0 finishes a join without the others: its goodbye must not overtake, on a socket of its own, the answers that
// come to a rank by way of its leader.
TEST(Failure, AGoodbyeDoesNotOvertakeAnswers) {
  for (int round = 0; round < 20; ++round) {
    testing::run_hosts({0, 1, 1}, [](Engine& engine) {
      Handle handle = kNoHandle;
      ASSERT_TRUE(engine.join_async(handle).ok());
      EXPECT_TRUE(finish(engine, handle).ok());
      engine.shutdown();
    });
  }
}

TEST(Failure, WhatIsPendingAtShutdownFailsWithItsName) {
  run_world(2, [](Engine& engine) {
    if (engine.rank() == 1) {
      return;
    }
    std::vector<float> values(4, 1);
    Handle handle = 0;
    ASSERT_TRUE(engine.allreduce_async(testing::tensor("x", values, values), {ReduceOp::kSum}, false, handle).ok());

    engine.shutdown();

    const std::optional<Outcome> outcome = engine.wait(handle, testing::kDeadlineNs);
    ASSERT_TRUE(outcome.has_value());
    EXPECT_EQ(StatusCode::kShutDown, outcome->status.code());
    EXPECT_NE(std::string::npos, outcome->status.message().find("'x'"));
    EXPECT_FALSE(allreduce(engine, "y", values).ok());
  });
}

TEST(Failure, AHandleIsGoodForOneWait) {
  run_world(1, [](Engine& engine) {
    std::vector<float> values(4, 1);
    Handle handle = 0;
    ASSERT_TRUE(engine.allreduce_async(testing::tensor("x", values, values), {ReduceOp::kSum}, false, handle).ok());
    ASSERT_TRUE(finish(engine, handle).ok());

    EXPECT_EQ(StatusCode::kConfigError, finish(engine, handle).code());
    EXPECT_TRUE(engine.poll(handle));
  });
}

}  // namespace
}  // namespace ringtune
