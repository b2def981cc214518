// SPDX-License-Identifier: Apache-2.0
#include "transport/cluster_transport.h"

#include <thread>

#include "transport/cluster.h"

namespace ringtune {
namespace {

using testing::bytes_of;
using testing::Cluster;
using testing::eventually;
using testing::SocketKind;

using World = std::tuple<std::vector<int>, SocketKind>;

class MessagesTest : public ::testing::TestWithParam<World> {
 protected:
  MessagesTest() : cluster_(std::get<0>(GetParam()), std::get<1>(GetParam())) {}

  // The next message as a communication thread waits for it: no event may be lost.
  template <typename Receive>
  static Bytes await(Transport& transport, Receive receive) {
    Bytes frame;
    const int64_t limit_ns = now_ns() + testing::kPatienceNs;
    while (now_ns() < limit_ns) {
      const uint32_t ticket = transport.announce_wait(Sleeper::kThread);
      if (receive(frame)) {
        transport.cancel_wait(Sleeper::kThread);
        return frame;
      }
      transport.wait(Sleeper::kThread, ticket, testing::kPatienceNs);
    }
    ADD_FAILURE() << "rank " << transport.rank() << " got no message";
    return frame;
  }

  // Receives a round's requests of the transport's host.
  std::vector<Bytes> receive_requests(ClusterTransport& transport, int round) {
    std::vector<Bytes> frames;
    const Layout layout = cluster_.layout(transport.rank());
    for (const int peer : layout.local_ranks()) {
      const auto receive = [&](Bytes& frame) { return transport.try_receive_request(peer, frame); };
      frames.push_back(await(transport, receive));
      EXPECT_EQ(bytes_of(100, peer + round), frames.back());
    }
    return frames;
  }

  void coordinate(ClusterTransport& transport, int round) {
    receive_requests(transport, round);
    const Layout layout = cluster_.layout(kCoordinator);
    for (int host = 1; host < layout.host_count(); ++host) {
      for (const int peer : layout.ranks_of(host)) {
        const auto receive = [&](Bytes& frame) {
          return transport.try_receive_forwarded(layout.leader_of(host), frame);
        };
        EXPECT_EQ(bytes_of(100, peer + round), await(transport, receive));
      }
    }
    ASSERT_TRUE(transport.try_publish_response(bytes_of(200, round)));
  }

  void lead(ClusterTransport& transport, int round) {
    for (const Bytes& frame : receive_requests(transport, round)) {
      ASSERT_TRUE(transport.try_forward_request(frame));
    }
    const auto receive = [&](Bytes& frame) { return transport.try_receive_published(frame); };
    ASSERT_TRUE(transport.try_publish_response(await(transport, receive)));
  }

  Cluster cluster_;
};

TEST_P(MessagesTest, RequestsReachRankZeroByWayOfLeadersAndResponsesEveryRankInOrder) {
  constexpr int kRounds = 200;
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < cluster_.world_size(); ++rank) {
    ranks.emplace_back([&, rank] {
      ClusterTransport& transport = cluster_.transport(rank);
      for (int round = 0; round < kRounds; ++round) {
        ASSERT_TRUE(transport.try_send_request(bytes_of(100, rank + round)));
        if (rank == kCoordinator) {
          coordinate(transport, round);
        } else if (rank == transport.leader()) {
          lead(transport, round);
        }
        const auto receive = [&](Bytes& frame) { return transport.try_receive_response(frame); };
        ASSERT_EQ(bytes_of(200, round), await(transport, receive)) << "rank " << rank << " round " << round;
      }
    });
  }
  for (std::thread& rank : ranks) {
    rank.join();
  }
}

TEST_P(MessagesTest, ARankThatHasDepartedIsSeenAndIsNoFailure) {
  const int last = cluster_.world_size() - 1;
  ClusterTransport& coordinator = cluster_.transport(kCoordinator);
  ASSERT_FALSE(coordinator.has_departed(last));

  cluster_.transport(last).depart();
  cluster_.destroy(last);

  EXPECT_TRUE(eventually([&] { return coordinator.has_departed(last); }));
  // Its connection has ended too by then, or does so now.
  EXPECT_FALSE(eventually([&] { return coordinator.failure().has_value(); }, 200 * kNsPerMs));
}

TEST_P(MessagesTest, MembersSeeThatRankZeroHasDepartedOnceTheirLeaderSaysSo) {
  cluster_.transport(kCoordinator).depart();

  for (int rank = 1; rank < cluster_.world_size(); ++rank) {
    const auto has_departed = [&] { return cluster_.transport(rank).has_departed(kCoordinator); };
    const int leader = cluster_.transport(rank).leader();
    if (leader != kCoordinator && rank != leader) {
      EXPECT_FALSE(has_departed());
      cluster_.transport(leader).pass_on_departure();
    }
    EXPECT_TRUE(eventually(has_departed)) << rank;
  }
}

TEST_P(MessagesTest, AFailureOfAnyRankIsKnownToAllWithOneText) {
  const int culprit = cluster_.world_size() - 1;

  cluster_.transport(culprit).fail({StatusCode::kCollectiveTimeout, culprit, "the first failure"});

  const std::vector<Failure> failures = cluster_.failures();
  ASSERT_EQ(static_cast<size_t>(cluster_.world_size()), failures.size());
  for (const Failure& failure : failures) {
    EXPECT_EQ(StatusCode::kCollectiveTimeout, failure.code);
    EXPECT_EQ(culprit, failure.culprit_rank);
    EXPECT_EQ("the first failure", failure.text);
  }
}

INSTANTIATE_TEST_SUITE_P(Worlds, MessagesTest,
                         ::testing::Combine(::testing::Values(std::vector<int>{0, 0}, std::vector<int>{0, 1},
                                                              std::vector<int>{0, 0, 1, 1},
                                                              std::vector<int>{0, 1, 0, 2, 1}),
                                            ::testing::Values(SocketKind::kSocketPair, SocketKind::kLoopback)));

// Publishes until there is no room, and says how often there was.
int publish_until_full(Transport& coordinator, size_t frame_bytes) {
  int published = 0;
  while (coordinator.try_publish_response(bytes_of(frame_bytes, published))) {
    ++published;
  }
  return published;
}

int count_responses(Transport& transport) {
  Bytes frame;
  int count = 0;
  while (transport.try_receive_response(frame)) {
    ++count;
  }
  return count;
}

TEST(Publishing, AFullRingHoldsBackWhatTheSocketsWouldTake) {
  Cluster cluster({0, 0, 1});

  const int published = publish_until_full(cluster.transport(kCoordinator), 100'000);

  EXPECT_EQ(published, count_responses(cluster.transport(0)));
  EXPECT_EQ(published, count_responses(cluster.transport(1)));
  Bytes frame;
  for (int i = 0; i < published; ++i) {
    EXPECT_TRUE(eventually([&] { return cluster.transport(2).try_receive_published(frame); })) << i;
  }
  EXPECT_FALSE(cluster.transport(2).try_receive_published(frame));
}

TEST(Publishing, AMemberThatDoesNotReadHoldsBackWhatTheRingWouldTake) {
  constexpr size_t kFrameBytes = 100'000;
  Cluster cluster({0, 1}, SocketKind::kSocketPair, 1);
  ClusterTransport& coordinator = cluster.transport(kCoordinator);
  int published = 0;
  int received = 0;
  while (coordinator.try_publish_response(bytes_of(kFrameBytes, published))) {
    ++published;
    received += count_responses(coordinator);
    ASSERT_LT(published, 1000) << "the queue to the member has no bound";
  }

  EXPECT_GE(published * kFrameBytes, kMaxOutputBytes / 2);
  EXPECT_EQ(published, received);
  EXPECT_EQ(0, count_responses(coordinator));
}

TEST(Publishing, AMessageAboveTheFramesLimitIsRefused) {
  Cluster cluster({0, 1});

  EXPECT_LE(cluster.transport(1).max_frame_bytes(), kMaxPayloadBytes);
  EXPECT_FALSE(cluster.transport(1).try_forward_request(Bytes(kMaxPayloadBytes + 1)));
  EXPECT_TRUE(cluster.transport(1).try_forward_request(Bytes(cluster.transport(1).max_frame_bytes())));
}

TEST(Departure, WhatWasSentBeforeIsReceivedBefore) {
  for (const SocketKind kind : {SocketKind::kSocketPair, SocketKind::kLoopback}) {
    Cluster cluster({0, 1}, kind);
    int sent = 0;
    // More than the sockets take at once: a part waits in the queue when the rank departs.
    while (sent < 30 && cluster.transport(1).try_forward_request(bytes_of(100'000, sent))) {
      ++sent;
    }

    cluster.transport(1).depart();
    cluster.destroy(1);

    ClusterTransport& coordinator = cluster.transport(kCoordinator);
    Bytes frame;
    for (int i = 0; i < sent; ++i) {
      EXPECT_FALSE(coordinator.has_departed(1));
      ASSERT_TRUE(eventually([&] { return coordinator.try_receive_forwarded(1, frame); }));
      EXPECT_EQ(bytes_of(100'000, i), frame);
    }
    EXPECT_TRUE(eventually([&] { return coordinator.has_departed(1); }));
    EXPECT_FALSE(coordinator.failure().has_value());
  }
}

TEST(Departure, WhatIsLeftForASlowReaderIsSentBefore) {
  constexpr size_t kFrameBytes = 100'000;
  Cluster cluster({0, 1}, SocketKind::kSocketPair, 1);
  ClusterTransport& coordinator = cluster.transport(kCoordinator);
  size_t published = 0;
  for (; published < 30; ++published) {
    ASSERT_TRUE(coordinator.try_publish_response(bytes_of(kFrameBytes, 1)));
  }
  ControlLink reader(kCoordinator, cluster.release_raw(), 0);
  std::thread departing([&] { coordinator.depart(); });
  size_t responses = 0;
  bool is_lost = false;
  size_t responses_before_goodbye = 0;  // after it may come a heartbeat that was on its way
  Bytes scratch(1 << 14);

  EXPECT_TRUE(eventually([&] {
    const ControlLink::Received part = reader.receive(scratch);
    for (const Frame& frame : part.frames) {
      responses += frame.type == FrameType::kResponse ? 1 : 0;
      responses_before_goodbye = frame.type == FrameType::kDepart ? responses : responses_before_goodbye;
    }
    return is_lost = part.is_lost;
  }));
  departing.join();

  EXPECT_EQ(published, responses);
  EXPECT_EQ(published, responses_before_goodbye);
}

TEST(Departure, SendingToARankThatIsGoneIsNoFailure) {
  for (const SocketKind kind : {SocketKind::kSocketPair, SocketKind::kLoopback}) {
    Cluster cluster({0, 1}, kind);
    ClusterTransport& coordinator = cluster.transport(kCoordinator);
    cluster.transport(1).depart();
    cluster.destroy(1);

    for (int i = 0; i < 100; ++i) {
      ASSERT_TRUE(coordinator.try_publish_response(bytes_of(1000, i)));
      ASSERT_EQ(1, count_responses(coordinator));
    }

    EXPECT_TRUE(eventually([&] { return coordinator.has_departed(1); }));
    EXPECT_FALSE(eventually([&] { return coordinator.failure().has_value(); }, 200 * kNsPerMs));
  }
}

TEST(Departure, APeerThatNeverReadsDelaysItForABoundedTime) {
  Cluster cluster({0, 1}, SocketKind::kSocketPair, 1);
  ClusterTransport& coordinator = cluster.transport(kCoordinator);
  while (coordinator.try_publish_response(Bytes(100'000))) {
    count_responses(coordinator);
  }
  coordinator.fail({StatusCode::kPeerLostError, 1, "the world has failed"});
  const int64_t start_ns = now_ns();

  coordinator.depart();

  EXPECT_LT(now_ns() - start_ns, 10 * kNsPerS);
}

TEST(Departure, TwiceIsOnce) {
  Cluster cluster({0, 1});

  cluster.transport(1).depart();
  cluster.transport(1).depart();

  EXPECT_TRUE(eventually([&] { return cluster.transport(kCoordinator).has_departed(1); }));
}

TEST(Descriptors, NoneIsLeftAfterAWorldHasEnded) {
  { const Cluster warm_up({0, 1}); }
  const size_t before = testing::open_descriptors();

  {
    Cluster cluster({0, 1, 0, 2}, SocketKind::kLoopback);
    for (int rank = 0; rank < cluster.world_size(); ++rank) {
      cluster.transport(rank).depart();
    }
  }
  {
    Cluster failed({0, 1, 0, 2}, SocketKind::kLoopback);
    failed.transport(3).fail({StatusCode::kPeerLostError, 3, "the world has failed"});
    EXPECT_EQ(4u, failed.failures().size());
  }

  EXPECT_EQ(before, testing::open_descriptors());
}

TEST(BeaconTest, IsSeenBetweenRankZeroAndTheRanksOfOtherHosts) {
  Cluster cluster({0, 0, 1, 1});

  cluster.transport(0).set_beacon(7);
  cluster.transport(1).set_beacon(8);  // a rank of rank 0's host, which has no link to it
  cluster.transport(2).set_beacon(255);

  EXPECT_TRUE(eventually([&] { return cluster.transport(2).beacon_of(0) == 7; }));
  EXPECT_TRUE(eventually([&] { return cluster.transport(3).beacon_of(0) == 7; }));
  EXPECT_TRUE(eventually([&] { return cluster.transport(0).beacon_of(2) == 255; }));
  EXPECT_EQ(0, cluster.transport(0).beacon_of(1));
  EXPECT_EQ(0, cluster.transport(0).beacon_of(3));
  EXPECT_EQ(0, cluster.transport(2).beacon_of(3));
  cluster.transport(2).set_beacon(0);
  EXPECT_TRUE(eventually([&] { return cluster.transport(0).beacon_of(2) == 0; }));
}

}  // namespace
}  // namespace ringtune
