// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/tcp_links.h"

#include <algorithm>
#include <functional>
#include <thread>

#include <sys/socket.h>

#include "transport/cluster.h"

namespace ringtune {
namespace {

using testing::bytes_of;
using testing::Cluster;
using testing::SocketKind;

// Every rank is a host of its own: all bytes go through sockets.
class LinkedWorld {
 public:
  // `raw_rank`: its data sockets are the test's. `silent_rank`: its sockets are unserved.
  LinkedWorld(int world_size, SocketKind kind, int64_t timeout_ns = testing::kPatienceNs, int raw_rank = -1,
              int silent_rank = -1)
      : cluster_(hosts(world_size), kind, silent_rank) {
    for (int rank = 0; rank < world_size; ++rank) {
      const std::vector<int> data_fds = cluster_.mesh().data_fds(rank);
      if (rank == raw_rank) {
        raw_fds_ = data_fds;
        links_.push_back(nullptr);
        continue;
      }
      if (rank == silent_rank) {
        silent_fds_ = data_fds;
        links_.push_back(nullptr);
        continue;
      }
      std::vector<int> pids(static_cast<size_t>(world_size), testing::kFirstPid);
      links_.push_back(std::make_unique<TcpLinks>(cluster_.transport(rank), Layout(rank, hosts(world_size)),
                                                  std::move(pids), data_fds, timeout_ns));
    }
  }
  ~LinkedWorld() {
    close_raw();
    testing::SocketMesh::close_all(silent_fds_);
  }

  static std::vector<int> hosts(int world_size) {
    std::vector<int> hosts;
    for (int rank = 0; rank < world_size; ++rank) {
      hosts.push_back(rank);
    }
    return hosts;
  }

  TcpLinks& links(int rank) { return *links_[static_cast<size_t>(rank)]; }
  Cluster& cluster() { return cluster_; }

  // The raw rank's socket to `peer`.
  int raw_fd(int peer) const { return raw_fds_[static_cast<size_t>(peer)]; }
  void close_raw() { testing::SocketMesh::close_all(std::exchange(raw_fds_, {})); }

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
  std::vector<int> silent_fds_;
};

class ExchangeTest : public ::testing::TestWithParam<std::tuple<int, SocketKind>> {
 protected:
  int world_size() const { return std::get<0>(GetParam()); }
  SocketKind kind() const { return std::get<1>(GetParam()); }
};

TEST_P(ExchangeTest, BytesOfAnySizeGoAroundTheRing) {
  LinkedWorld world(world_size(), kind());
  world.run([this](int rank, TcpLinks& links) {
    const int right = (rank + 1) % world_size();
    const int left = (rank + world_size() - 1) % world_size();
    for (const size_t size : {size_t{0}, size_t{1}, size_t{4097}, size_t{1} << 20, (size_t{9} << 20) + 3}) {
      const Bytes out = bytes_of(size, rank);
      Bytes in(size);

      ASSERT_TRUE(links.exchange(right, out, left, in).ok());

      ASSERT_EQ(bytes_of(size, left), in) << "rank " << rank << ", " << size << " bytes";
    }
  });
}

TEST_P(ExchangeTest, ManySmallExchangesStayInOrder) {
  LinkedWorld world(world_size(), kind());
  world.run([this](int rank, TcpLinks& links) {
    for (int round = 0; round < 500; ++round) {
      for (int shift = 1; shift < world_size(); ++shift) {
        const int to = (rank + shift) % world_size();
        const int from = (rank + world_size() - shift) % world_size();
        const size_t size = static_cast<size_t>(round % 70);
        Bytes in(size);
        ASSERT_TRUE(links.exchange(to, bytes_of(size, rank + round), from, in).ok());
        ASSERT_EQ(bytes_of(size, from + round), in) << "rank " << rank << " round " << round;
      }
    }
  });
}

TEST_P(ExchangeTest, ASideThatIsEmptyHasNoPeer) {
  LinkedWorld world(world_size(), kind());
  const Bytes sent = bytes_of(300'000, 1);
  world.run([&](int rank, TcpLinks& links) {
    Bytes in(sent.size());
    if (rank == 0) {
      EXPECT_TRUE(links.exchange(1, sent, -1, {}).ok());
    } else if (rank == 1) {
      EXPECT_TRUE(links.exchange(-1, {}, 0, in).ok());
      EXPECT_EQ(sent, in);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Worlds, ExchangeTest,
                         ::testing::Combine(::testing::Values(2, 3, 4),
                                            ::testing::Values(SocketKind::kSocketPair, SocketKind::kLoopback)));

TEST(Exchange, SixtyFourMebibytesBothWaysDoNotBlockEachOther) {
  constexpr size_t kSize = 64 << 20;
  LinkedWorld world(2, SocketKind::kLoopback);
  world.run([](int rank, TcpLinks& links) {
    const Bytes out = bytes_of(kSize, rank);
    Bytes in(kSize);

    ASSERT_TRUE(links.exchange(1 - rank, out, 1 - rank, in).ok());

    EXPECT_TRUE(bytes_of(kSize, 1 - rank) == in);
  });
}

// More than the system buffers, in sizes that end at different times, with two peers: the exchange begun first ends
// first, and later ones must not delay it.
TEST(Begun, ExchangesMoveSideBySideAndKeepTheirOrder) {
  constexpr size_t kSizes[] = {12 << 20, 1, 0, 5 << 20, 300'000, 9 << 20};
  LinkedWorld world(3, SocketKind::kLoopback);
  world.run([&](int rank, TcpLinks& links) {
    std::vector<Bytes> outs;
    std::vector<Bytes> ins;
    for (size_t i = 0; i < std::size(kSizes); ++i) {
      outs.push_back(bytes_of(kSizes[i], rank + static_cast<int>(i)));
      ins.emplace_back(kSizes[i]);
    }
    const auto shift = [](size_t exchange) { return static_cast<int>(1 + exchange % 2); };
    for (size_t i = 0; i < std::size(kSizes); ++i) {
      ASSERT_TRUE(links.begin((rank + shift(i)) % 3, outs[i], (rank + 3 - shift(i)) % 3, ins[i]).ok());
    }
    for (size_t i = 0; i < std::size(kSizes); ++i) {
      ASSERT_TRUE(links.finish().ok());
      const int from = (rank + 3 - shift(i)) % 3;
      EXPECT_TRUE(bytes_of(kSizes[i], from + static_cast<int>(i)) == ins[i]) << "rank " << rank << ", exchange " << i;
    }
  });
}

// The peer finishes no exchange yet: this rank's bytes go out while it does other work.
TEST(Begun, TheSystemSendsWhatWasBegunWithoutBeingAskedAgain) {
  LinkedWorld world(2, SocketKind::kLoopback, testing::kPatienceNs, 1);
  const Bytes out = bytes_of(1000, 0);
  Bytes in(out.size());

  ASSERT_TRUE(world.links(0).begin(1, out, -1, {}).ok());

  EXPECT_EQ(1000, recv(world.raw_fd(0), in.data(), in.size(), MSG_WAITALL));
  EXPECT_EQ(out, in);
}

TEST(Begun, AFailureEndsAllThatHasBegun) {
  LinkedWorld world(2, SocketKind::kLoopback, testing::kPatienceNs, 1);
  {
    Bytes first(4096);
    Bytes second(4096);
    ASSERT_TRUE(world.links(0).begin(-1, {}, 1, first).ok());
    ASSERT_TRUE(world.links(0).begin(-1, {}, 1, second).ok());
    world.close_raw();
    ASSERT_EQ(StatusCode::kPeerLostError, world.links(0).finish().code());
  }  // their memory is gone

  Bytes later(4096);
  EXPECT_EQ(StatusCode::kPeerLostError, world.links(0).begin(-1, {}, 1, later).code());
}

TEST(Exchange, WithItselfARankCopies) {
  LinkedWorld world(2, SocketKind::kSocketPair);
  const Bytes out = bytes_of(1000, 1);
  Bytes in(out.size());

  EXPECT_TRUE(world.links(1).exchange(1, out, 1, in).ok());

  EXPECT_EQ(out, in);
}

class LostPeerTest : public ::testing::TestWithParam<SocketKind> {
 protected:
  // Rank 1 is two sockets of the test.
  LostPeerTest() : world_(3, GetParam(), testing::kPatienceNs, 1) {}

  Status receive_from_rank_1(size_t bytes) {
    Bytes in(bytes);
    return world_.links(0).exchange(-1, {}, 1, in);
  }

  LinkedWorld world_;
};

TEST_P(LostPeerTest, AConnectionThatEndsInTheMiddleIsALostPeer) {
  const Bytes part = bytes_of(100, 1);
  ASSERT_EQ(100, send(world_.raw_fd(0), part.data(), part.size(), 0));
  world_.close_raw();

  const Status status = receive_from_rank_1(4096);

  EXPECT_EQ(StatusCode::kPeerLostError, status.code());
  for (const char* word : {"rank 1", "host 1", "pid 770000", "100 of 4096 bytes", "noticed by rank 0"}) {
    EXPECT_NE(std::string::npos, status.message().find(word)) << status.message();
  }
  // The others learn of it, and so does this rank's next exchange.
  EXPECT_EQ(3u, world_.cluster().failures().size());
  EXPECT_EQ(status.message(), receive_from_rank_1(1).message());
}

TEST_P(LostPeerTest, ASenderNoticesTooAndIsNotKilledByASignal) {
  std::thread closer([this] {
    usleep(50'000);
    world_.close_raw();
  });

  const Status status = world_.links(0).exchange(1, Bytes(64 << 20), -1, {});
  closer.join();

  EXPECT_EQ(StatusCode::kPeerLostError, status.code());
  EXPECT_NE(std::string::npos, status.message().find("of 67108864 bytes")) << status.message();
}

TEST_P(LostPeerTest, WhatIsKnownBetterElsewhereIsReportedInstead) {
  world_.close_raw();
  std::thread other([this] {
    usleep(50'000);
    world_.cluster().transport(2).fail({StatusCode::kPeerLostError, 1, "rank 1 was killed"});
  });

  const Status status = receive_from_rank_1(4096);
  other.join();

  EXPECT_EQ("rank 1 was killed", status.message());
}

TEST(SilentRank, IsTheCulpritAndNotTheNeighbourThatGaveUpOnIt) {
  LinkedWorld world(3, SocketKind::kSocketPair, testing::kPatienceNs, 1, 2);
  ASSERT_TRUE(testing::eventually([&] { return world.cluster().transport(0).silent_rank() == 2; }));
  world.close_raw();
  Bytes in(4096);

  const Status status = world.links(0).exchange(-1, {}, 1, in);

  EXPECT_EQ(StatusCode::kCollectiveTimeout, status.code());
  EXPECT_NE(std::string::npos, status.message().find("rank 2 (host 2, pid 770000) has fallen silent, and rank 1"))
      << status.message();
  EXPECT_EQ(2, world.cluster().transport(0).failure()->culprit_rank);
}

INSTANTIATE_TEST_SUITE_P(Sockets, LostPeerTest, ::testing::Values(SocketKind::kSocketPair, SocketKind::kLoopback));

TEST(ExchangeLimit, APeerThatSendsNothingIsNamedAtTheLimit) {
  LinkedWorld world(2, SocketKind::kLoopback, 300 * kNsPerMs, 1);
  const Bytes part = bytes_of(100, 1);
  ASSERT_EQ(100, send(world.raw_fd(0), part.data(), part.size(), 0));
  Bytes in(4096);
  const int64_t start_ns = now_ns();

  const Status status = world.links(0).exchange(-1, {}, 1, in);

  EXPECT_GE(now_ns() - start_ns, 300 * kNsPerMs);
  EXPECT_EQ(StatusCode::kCollectiveTimeout, status.code());
  for (const char* word :
       {"rank 1", "host 1", "pid 770000", "sent nothing", "100 of 4096 bytes", "0.3 s", "RINGTUNE_TIMEOUT_S"}) {
    EXPECT_NE(std::string::npos, status.message().find(word)) << status.message();
  }
  EXPECT_EQ(1, world.cluster().transport(0).failure()->culprit_rank);
}

TEST(ExchangeLimit, APeerThatTakesNothingIsNamedAtTheLimit) {
  LinkedWorld world(2, SocketKind::kLoopback, 300 * kNsPerMs, 1);

  const Status status = world.links(0).exchange(1, Bytes(64 << 20), -1, {});

  EXPECT_EQ(StatusCode::kCollectiveTimeout, status.code());
  EXPECT_NE(std::string::npos, status.message().find("took nothing")) << status.message();
}

TEST(ExchangeLimit, APeerThatMovesOnSlowlyIsWaitedFor) {
  LinkedWorld world(2, SocketKind::kLoopback, 400 * kNsPerMs, 1);
  const Bytes out = bytes_of(8, 1);
  Bytes in(out.size());
  std::thread slow([&] {
    for (const std::byte& byte : out) {  // twice the limit in all
      usleep(100'000);
      ASSERT_EQ(1, send(world.raw_fd(0), &byte, 1, 0));
    }
  });

  const Status status = world.links(0).exchange(-1, {}, 1, in);
  slow.join();

  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(out, in);
}

TEST(ExchangeLimit, AFailureOfTheWorldEndsAnExchangeThatWaits) {
  LinkedWorld world(3, SocketKind::kSocketPair, 60 * kNsPerS);
  std::thread failing([&] {
    usleep(50'000);
    world.cluster().transport(2).fail({StatusCode::kPeerLostError, 2, "rank 2 was killed"});
  });
  Bytes in(10);
  const int64_t start_ns = now_ns();

  const Status status = world.links(0).exchange(-1, {}, 1, in);
  failing.join();

  EXPECT_EQ("rank 2 was killed", status.message());
  EXPECT_LT(now_ns() - start_ns, 2 * kNsPerS);
}

TEST(LinksDescriptors, NoneIsLeftAfterTheEndNorInAForkedChild) {
  { const LinkedWorld warm_up(2, SocketKind::kSocketPair); }
  testing::expect_no_descriptor_left<LinkedWorld>(3, SocketKind::kLoopback);
}

}  // namespace
}  // namespace ringtune
