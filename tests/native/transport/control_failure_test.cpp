// SPDX-License-Identifier: Apache-2.0
// Behaviour of a world of several hosts when one of its members fails, lies or is not there any more.
#include <sys/socket.h>
#include <sys/wait.h>

#include "transport/cluster.h"
#include "transport/shm/failure_record.h"

namespace ringtune {
namespace {

using testing::bytes_of;
using testing::Cluster;
using testing::eventually;
using testing::SocketKind;

void expect_words(const std::string& text, const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    EXPECT_NE(std::string::npos, text.find(word)) << "no '" << word << "' in: " << text;
  }
}

// A world in which rank 2, alone on host 1, is a socket of the test.
class RawMemberTest : public ::testing::TestWithParam<SocketKind> {
 protected:
  RawMemberTest() : cluster_({0, 0, 1, 2}, GetParam(), 2) {}

  void send_raw(ByteSpan bytes) {
    ASSERT_EQ(static_cast<ssize_t>(bytes.size()), send(cluster_.raw_fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL));
  }

  // Every rank but the raw one knows, with one text, that rank 2 is lost.
  void expect_rank_2_lost(const std::string& reason) {
    const std::vector<Failure> failures = cluster_.failures();
    ASSERT_EQ(3u, failures.size());
    for (const Failure& failure : failures) {
      EXPECT_EQ(StatusCode::kPeerLostError, failure.code);
      EXPECT_EQ(2, failure.culprit_rank);
      EXPECT_EQ(failures[0].text, failure.text);
    }
    expect_words(failures[0].text, {"rank 2", "host 1", "pid 770002", "noticed by rank 0", reason});
  }

  Cluster cluster_;
};

TEST_P(RawMemberTest, AConnectionThatEndsWithoutAGoodbyeIsALostPeer) {
  cluster_.close_raw();

  expect_rank_2_lost("without a goodbye");
}

TEST_P(RawMemberTest, AConnectionThatIsResetIsALostPeer) {
  // Closing over unread bytes resets.
  ASSERT_TRUE(cluster_.transport(kCoordinator).try_publish_response(bytes_of(100, 1)));
  char byte = 0;
  ASSERT_EQ(1, recv(cluster_.raw_fd(), &byte, 1, MSG_PEEK));

  cluster_.close_raw();

  expect_rank_2_lost("without a goodbye");
}

TEST_P(RawMemberTest, GarbageIsALostPeer) {
  send_raw(Bytes(1000, std::byte{0xee}));

  expect_rank_2_lost("cannot be read");
}

TEST_P(RawMemberTest, AFrameThatOnlyRankZeroSendsIsALostPeer) {
  send_raw(encode_frame(FrameType::kResponse, bytes_of(10, 1)));

  expect_rank_2_lost("cannot be read");
}

TEST(LeaderMessages, ARequestOfAnotherThanTheLeaderIsALostPeer) {
  Cluster cluster({0, 1, 1}, SocketKind::kSocketPair, 2);
  const Bytes request = encode_frame(FrameType::kRequest, bytes_of(10, 1));
  ASSERT_EQ(static_cast<ssize_t>(request.size()), send(cluster.raw_fd(), request.data(), request.size(), MSG_NOSIGNAL));

  const std::vector<Failure> failures = cluster.failures();

  ASSERT_EQ(2u, failures.size());
  EXPECT_EQ(2, failures[0].culprit_rank);
  expect_words(failures[0].text, {"rank 2", "noticed by rank 0", "cannot be read"});
}

TEST_P(RawMemberTest, ACulpritOutsideTheWorldIsALostPeer) {
  send_raw(encode_frame(FrameType::kAbort, encode(Failure{StatusCode::kPeerLostError, 4, "nonsense"})));

  expect_rank_2_lost("cannot be read");
}

TEST_P(RawMemberTest, MessagesBeforeGarbageAreStillDelivered) {
  send_raw(encode_frame(FrameType::kRequest, bytes_of(10, 1)));
  send_raw(Bytes(1000, std::byte{0xee}));
  Bytes frame;

  expect_rank_2_lost("cannot be read");

  ASSERT_TRUE(cluster_.transport(kCoordinator).try_receive_forwarded(2, frame));
  EXPECT_EQ(bytes_of(10, 1), frame);
}

TEST_P(RawMemberTest, AGoodbyeAndThenTheEndIsNoFailure) {
  send_raw(encode_frame(FrameType::kDepart, {}));
  ClusterTransport& coordinator = cluster_.transport(kCoordinator);
  ASSERT_TRUE(eventually([&] { return coordinator.has_departed(2); }));

  cluster_.close_raw();

  EXPECT_FALSE(eventually([&] { return coordinator.failure().has_value(); }, 300 * kNsPerMs));
}

TEST_P(RawMemberTest, AFailureAndThenTheEndIsThatFailure) {
  send_raw(encode_frame(FrameType::kAbort, encode(Failure{StatusCode::kConfigError, 1, "what really happened"})));
  cluster_.close_raw();

  const std::vector<Failure> failures = cluster_.failures();

  ASSERT_EQ(3u, failures.size());
  for (const Failure& failure : failures) {
    EXPECT_EQ(StatusCode::kConfigError, failure.code);
    EXPECT_EQ("what really happened", failure.text);
  }
}

INSTANTIATE_TEST_SUITE_P(Sockets, RawMemberTest, ::testing::Values(SocketKind::kSocketPair, SocketKind::kLoopback));

TEST(FailureForwarding, WhatANeighbourRecordsReachesOtherHostsThoughNoTransportIsAsked) {
  for (const int rank : {1, 3}) {  // neighbours of rank 0, and of rank 2
    Cluster cluster({0, 0, 1, 1, 2});
    const std::shared_ptr<Segment> far = cluster.segment_of(4);

    record_failure(*cluster.segment_of(rank), {StatusCode::kCollectiveTimeout, rank, "noticed in shared memory"});

    ASSERT_TRUE(eventually([&] { return has_failure(*far); }, 2 * kNsPerS));
    EXPECT_EQ("noticed in shared memory", read_failure(*far)->text);
  }
}

TEST(FailureForwarding, TheLossOfRankZeroIsNamedByEveryOtherHost) {
  Cluster cluster({0, 1, 2});
  // Destroyed without a goodbye, as by a kill.
  cluster.destroy(kCoordinator);

  for (const int rank : {1, 2}) {
    ASSERT_TRUE(eventually([&] { return cluster.transport(rank).failure().has_value(); }, 2 * kNsPerS));
    EXPECT_EQ(kCoordinator, cluster.transport(rank).failure()->culprit_rank);
  }
}

TEST(FailureForwarding, AWaitingRankIsWoken) {
  Cluster cluster({0, 1});
  ClusterTransport& waiting = cluster.transport(1);
  const int64_t start_ns = now_ns();
  const uint32_t ticket = waiting.announce_wait(Sleeper::kThread);

  cluster.transport(kCoordinator).fail({StatusCode::kPeerLostError, 0, "the world has failed"});
  waiting.wait(Sleeper::kThread, ticket, testing::kPatienceNs);

  EXPECT_LT(now_ns() - start_ns, testing::kPatienceNs);
  EXPECT_TRUE(waiting.failure().has_value());
}

TEST(FailureForwarding, ALongTextComesThroughCut) {
  Cluster cluster({0, 1});

  cluster.transport(1).fail({StatusCode::kPeerLostError, 1, std::string(2 * kFailureTextBytes, 'x')});

  for (const Failure& failure : cluster.failures()) {
    EXPECT_EQ(std::string(kFailureTextBytes - 1, 'x'), failure.text);
  }
}

TEST(AfterFork, TheChildKeepsNoDescriptorAndTheParentNoDamage) {
  const size_t before = testing::open_descriptors();
  Cluster cluster({0, 1});

  const pid_t child = fork();
  if (child == 0) {
    cluster.transport(0).abandon_after_fork();
    cluster.transport(1).abandon_after_fork();
    testing::SocketMesh::close_all(cluster.mesh().data_fds(0));
    testing::SocketMesh::close_all(cluster.mesh().data_fds(1));
    const size_t left = testing::open_descriptors();
    cluster.destroy(0);
    cluster.destroy(1);
    _exit(left == before ? 0 : 1);
  }
  int outcome = 0;
  waitpid(child, &outcome, 0);

  EXPECT_TRUE(WIFEXITED(outcome) && WEXITSTATUS(outcome) == 0) << outcome;
  Bytes frame;
  ASSERT_TRUE(cluster.transport(1).try_forward_request(bytes_of(10, 1)));
  EXPECT_TRUE(eventually([&] { return cluster.transport(0).try_receive_forwarded(1, frame); }));
}

TEST(Silence, ARankThatSendsNothingIsKnownAndOneThatIsIdleIsNot) {
  Cluster idle({0, 1});
  Cluster silent({0, 1}, SocketKind::kSocketPair, 1);  // rank 1's end is unserved
  ClusterTransport& coordinator = silent.transport(kCoordinator);

  EXPECT_TRUE(eventually([&] { return coordinator.silent_rank() == 1; }));

  EXPECT_EQ(kNoCulprit, idle.transport(kCoordinator).silent_rank());
  EXPECT_EQ(kNoCulprit, idle.transport(1).silent_rank());
  EXPECT_FALSE(coordinator.failure().has_value());  // to be silent is no failure; to wait for it too long is
}

}  // namespace
}  // namespace ringtune
