// SPDX-License-Identifier: Apache-2.0
// Links of several connections per pair of ranks.
#include <cstdlib>
#include <functional>
#include <random>
#include <thread>

#include <sys/socket.h>

#include "transport/cluster.h"
#include "transport/tcp/tcp_links.h"

namespace ringtune {
namespace {

using testing::bytes_of;
using testing::Cluster;
using testing::SocketKind;

constexpr size_t kSharing = 8;

// The count of the full run, which `make test-long` asks for.
int exchange_rounds() {
  const char* rounds = std::getenv("RINGTUNE_TEST_STRESS_ROUNDS");
  return rounds == nullptr ? 200 : std::atoi(rounds);
}

// Every rank is a host of its own; between two of them are a first connection and lanes.
class LanedWorld {
 public:
  // `raw_rank`: its sockets are the test's.
  explicit LanedWorld(int world_size, SocketKind kind = SocketKind::kLoopback, int raw_rank = -1,
                      int64_t timeout_ns = testing::kPatienceNs)
      : cluster_(hosts(world_size), kind, -1, kSharing) {
    for (int rank = 0; rank < world_size; ++rank) {
      const std::vector<int> fds = cluster_.mesh().data_fds(rank);
      if (rank == raw_rank) {
        raw_fds_ = fds;
        links_.push_back(nullptr);
        continue;
      }
      std::vector<int> pids(static_cast<size_t>(world_size), testing::kFirstPid);
      links_.push_back(std::make_unique<TcpLinks>(cluster_.transport(rank), Layout(rank, hosts(world_size)),
                                                  std::move(pids), fds, timeout_ns));
    }
  }
  ~LanedWorld() { testing::SocketMesh::close_all(raw_fds_); }

  static std::vector<int> hosts(int world_size) {
    std::vector<int> hosts(static_cast<size_t>(world_size));
    for (int rank = 0; rank < world_size; ++rank) {
      hosts[static_cast<size_t>(rank)] = rank;
    }
    return hosts;
  }

  TcpLinks& links(int rank) { return *links_[static_cast<size_t>(rank)]; }
  Cluster& cluster() { return cluster_; }
  // The raw rank's connection to `peer`: 0 is the first, then come the lanes.
  int& raw_fd(int peer, size_t connection) {
    return raw_fds_[connection * static_cast<size_t>(cluster_.world_size()) + static_cast<size_t>(peer)];
  }

  // Ends a connection as a link that breaks does.
  void reset_raw(int peer, size_t connection) {
    const linger at_once{1, 0};
    const int fd = std::exchange(raw_fd(peer, connection), -1);
    EXPECT_EQ(0, setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)));
    close(fd);
  }

  void run(const std::function<void(int, TcpLinks&)>& body) {
    std::vector<std::thread> ranks;
    for (int rank = 0; rank < cluster_.world_size(); ++rank) {
      ranks.emplace_back([&, rank] { body(rank, links(rank)); });
    }
    for (std::thread& rank : ranks) {
      rank.join();
    }
  }

 private:
  Cluster cluster_;
  std::vector<std::unique_ptr<TcpLinks>> links_;
  std::vector<int> raw_fds_;
};

class LanedExchangeTest : public ::testing::TestWithParam<std::tuple<int, SocketKind>> {};

// No rank waits for the others before it switches: one may be several exchanges ahead.
TEST_P(LanedExchangeTest, BytesAreTheSameWhateverTheNumberOfConnections) {
  const auto [world_size, kind] = GetParam();
  LanedWorld world(world_size, kind);
  world.run([&](int rank, TcpLinks& links) {
    std::mt19937 random(23);  // equal on all ranks
    for (int round = 0; round < exchange_rounds(); ++round) {
      links.use_connections(1 + random() % (kSharing + 2));
      const int distance = 1 + static_cast<int>(random() % static_cast<unsigned>(world_size - 1));
      const int to = (rank + distance) % world_size;
      const int from = (rank + world_size - distance) % world_size;
      const size_t begun = 1 + random() % 4;
      std::vector<Bytes> outs;
      std::vector<Bytes> ins;
      for (size_t i = 0; i < begun; ++i) {
        const size_t size = random() % 3 == 0 ? random() % 200 : 60'000 + random() % 400'000;
        outs.push_back(bytes_of(size, rank + round));
        ins.emplace_back(size);
      }
      for (size_t i = 0; i < begun; ++i) {
        ASSERT_TRUE(links.begin(to, outs[i], from, ins[i]).ok());
      }
      for (size_t i = 0; i < begun; ++i) {
        ASSERT_TRUE(links.finish().ok());
        ASSERT_TRUE(bytes_of(ins[i].size(), from + round) == ins[i]) << "rank " << rank << ", round " << round;
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Worlds, LanedExchangeTest,
                         ::testing::Combine(::testing::Values(2, 3),
                                            ::testing::Values(SocketKind::kSocketPair, SocketKind::kLoopback)));

TEST(LanedExchange, CountsShowWhichConnectionsCarriedTheBytes) {
  constexpr size_t kSize = 8 << 20;
  LanedWorld world(2);
  const auto exchange = [&](uint64_t connections, size_t size) {
    world.run([&](int rank, TcpLinks& links) {
      links.use_connections(connections);
      Bytes in(size);
      ASSERT_TRUE(links.exchange(1 - rank, bytes_of(size, rank), 1 - rank, in).ok());
    });
    std::vector<uint64_t> sent;
    for (size_t connection = 0; connection < world.links(0).connections(); ++connection) {
      sent.push_back(world.links(0).sent_bytes(connection));
    }
    return sent;
  };

  const std::vector<uint64_t> alone = exchange(1, kSize);
  const std::vector<uint64_t> shared = exchange(4, kSize);
  const std::vector<uint64_t> small = exchange(4, 1000);

  ASSERT_EQ(1 + kSharing, alone.size());
  EXPECT_EQ((std::vector<uint64_t>{kSize, 0, 0, 0, 0, 0, 0, 0, 0}), alone);
  EXPECT_EQ(kSize, shared[0]);
  EXPECT_EQ(kSize, shared[1] + shared[2] + shared[3] + shared[4]);
  EXPECT_EQ(0U, shared[5]);
  EXPECT_EQ(kSize + 1000, small[0]);
}

TEST(LanedExchange, ALaneThatIsLostIsAnErrorThatNamesLinkAndPeer) {
  LanedWorld world(2, SocketKind::kLoopback, 1);
  world.links(0).use_connections(3);
  world.reset_raw(0, 2);
  Bytes in(1 << 20);

  const Status status = world.links(0).exchange(-1, {}, 1, in);

  EXPECT_EQ(StatusCode::kPeerLostError, status.code());
  for (const char* word : {"rank 1 (host 1, pid 770000) is lost", "its data connection to 127.0.0.1 (lo) ended",
                           "0 of 1048576 bytes", "Connection reset by peer"}) {
    EXPECT_NE(std::string::npos, status.message().find(word)) << status.message();
  }
  EXPECT_EQ(2U, world.cluster().failures().size());
}

TEST(LanedExchange, ALaneThatIsLostEndsASenderToo) {
  LanedWorld world(2, SocketKind::kLoopback, 1);
  world.links(0).use_connections(2);
  std::thread closer([&] {
    usleep(50'000);
    world.reset_raw(0, 1);
  });

  const Status status = world.links(0).exchange(1, Bytes(64 << 20), -1, {});
  closer.join();

  EXPECT_EQ(StatusCode::kPeerLostError, status.code());
}

TEST(LanedExchange, WhatIsNoPartOfAMessageIsAnError) {
  LanedWorld world(2, SocketKind::kLoopback, 1);
  world.links(0).use_connections(2);
  const Bytes header = encode(ChunkHeader{0, 100, 1 << 20});
  ASSERT_EQ(static_cast<ssize_t>(header.size()), send(world.raw_fd(0, 1), header.data(), header.size(), 0));
  Bytes in(1 << 20);

  const Status status = world.links(0).exchange(-1, {}, 1, in);

  EXPECT_EQ(StatusCode::kPeerLostError, status.code());
  EXPECT_NE(std::string::npos, status.message().find("no part of a message")) << status.message();
}

TEST(LanedExchange, APeerThatSendsNothingByOneLaneIsNamedAtTheLimit) {
  LanedWorld world(2, SocketKind::kLoopback, 1, 300 * kNsPerMs);
  world.links(0).use_connections(2);
  const Bytes header = encode(ChunkHeader{0, 100'000, 0});
  ASSERT_EQ(static_cast<ssize_t>(header.size()), send(world.raw_fd(0, 2), header.data(), header.size(), 0));
  Bytes in(100'000);

  const Status status = world.links(0).exchange(-1, {}, 1, in);

  EXPECT_EQ(StatusCode::kCollectiveTimeout, status.code());
  for (const char* word : {"rank 1", "sent nothing", "0 of 100000 bytes", "RINGTUNE_TIMEOUT_S"}) {
    EXPECT_NE(std::string::npos, status.message().find(word)) << status.message();
  }
}

TEST(LanedExchange, APeerThatTakesNothingIsNamedWithTheEndsOfItsConnections) {
  LanedWorld world(2, SocketKind::kLoopback, 1, 300 * kNsPerMs);
  world.links(0).use_connections(2);

  const Status status = world.links(0).exchange(1, Bytes(64 << 20), -1, {});

  EXPECT_EQ(StatusCode::kCollectiveTimeout, status.code());
  EXPECT_NE(std::string::npos, status.message().find("took nothing")) << status.message();
  EXPECT_NE(std::string::npos, status.message().find("unconfirmed by way of 127.0.0.1 (lo); see")) << status.message();
}

TEST(LanedDescriptors, NoneIsLeftAfterTheEndNorInAForkedChild) {
  { const LanedWorld warm_up(2); }
  testing::expect_no_descriptor_left<LanedWorld>(3);
}

}  // namespace
}  // namespace ringtune
