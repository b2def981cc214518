// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/lanes.h"

#include <array>
#include <random>

#include <sys/socket.h>

#include "transport/cluster.h"

namespace ringtune {
namespace {

using testing::bytes_of;
using testing::SocketKind;

TEST(ChunkHeaders, AreReadAsTheyWereWritten) {
  const ChunkHeader header{0xffffffff, kMaxStreamedChunkBytes, uint64_t{1} << 40};
  ChunkHeader read;

  ASSERT_EQ(kChunkHeaderBytes, encode(header).size());
  ASSERT_TRUE(decode(encode(header), read));

  EXPECT_EQ(header, read);
}

TEST(ChunkHeaders, OfChunksThatNoSenderMakesAreRefused) {
  ChunkHeader read;
  const Bytes whole = encode(ChunkHeader{1, 2, 3});
  Bytes longer = whole;
  longer.push_back(std::byte{0});

  EXPECT_FALSE(decode(ByteSpan(whole).first(kChunkHeaderBytes - 1), read));
  EXPECT_FALSE(decode(longer, read));
  EXPECT_FALSE(decode(encode(ChunkHeader{1, 0, 0}), read));
  EXPECT_FALSE(decode(encode(ChunkHeader{1, kMaxStreamedChunkBytes + 1, 0}), read));
}

// Two ends in one thread, which take their turns by chance.
class JoinedLanes {
 public:
  static constexpr size_t kMaxLanes = 16;

  explicit JoinedLanes(size_t lanes, SocketKind kind = SocketKind::kSocketPair) {
    std::vector<int> sending_fds;
    for (size_t lane = 0; lane < lanes; ++lane) {
      const auto [sending, receiving] = testing::connected_sockets(kind);
      sending_fds.push_back(sending);
      fds_.push_back(receiving);
    }
    sending.emplace(sending_fds, sent_bytes);
    receiving.emplace(fds_);
    fds_.insert(fds_.end(), sending_fds.begin(), sending_fds.end());
  }
  ~JoinedLanes() { testing::SocketMesh::close_all(fds_); }
  JoinedLanes(const JoinedLanes&) = delete;
  JoinedLanes& operator=(const JoinedLanes&) = delete;

  // Writes bytes that a peer never would.
  void write_by_hand(size_t lane, ByteSpan bytes) {
    ASSERT_EQ(static_cast<ssize_t>(bytes.size()), send(sending_fd(lane), bytes.data(), bytes.size(), 0));
  }
  int receiving_fd(size_t lane) const { return fds_[lane]; }
  int sending_fd(size_t lane) const { return fds_[fds_.size() / 2 + lane]; }
  void close_lane(size_t lane) { close(std::exchange(fds_[fds_.size() / 2 + lane], -1)); }

  std::array<std::atomic<uint64_t>, kMaxLanes> sent_bytes{};
  std::optional<SendingLanes> sending;
  std::optional<ReceivingLanes> receiving;

 private:
  std::vector<int> fds_;
};

// Messages of random sizes, which the sender and the receiver begin at random times.
class RandomMessages {
 public:
  RandomMessages(JoinedLanes& joined, unsigned seed) : joined_(joined), random_(seed) {
    for (size_t i = 0; i < kMessages; ++i) {
      const size_t limit = random_() % 4 == 0 ? 1'500'000 : 70'000;
      outs_.push_back(bytes_of(1 + random_() % limit, static_cast<int>(i)));
      ins_.emplace_back(outs_.back().size());
      bytes_ += outs_.back().size();
    }
  }

  bool is_done() const {
    return begun_in_ == kMessages && begun_out_ == kMessages && joined_.receiving->is_idle() &&
           joined_.sending->is_idle();
  }
  uint64_t bytes() const { return bytes_; }

  // Something that one of the ends does; a lane that is lost is the outcome.
  LaneTurn act() {
    const unsigned choice = random_() % 6;
    if (choice == 0 && begun_out_ < kMessages) {
      joined_.sending->push(outs_[begun_out_], sent_[begun_out_]);
      ++begun_out_;
    }
    if (choice == 1 && begun_in_ < kMessages) {
      joined_.receiving->push(ins_[begun_in_], received_[begun_in_]);
      ++begun_in_;
    }
    return choice < 4 ? joined_.sending->turn() : joined_.receiving->turn();
  }

  void expect_whole() const {
    for (size_t i = 0; i < kMessages; ++i) {
      EXPECT_EQ(outs_[i].size(), sent_[i]);
      EXPECT_EQ(outs_[i].size(), received_[i]);
      EXPECT_TRUE(outs_[i] == ins_[i]) << "message " << i;
    }
  }

 private:
  static constexpr size_t kMessages = 60;

  JoinedLanes& joined_;
  std::mt19937 random_;
  std::vector<Bytes> outs_;
  std::vector<Bytes> ins_;
  std::array<size_t, kMessages> sent_{};
  std::array<size_t, kMessages> received_{};
  size_t begun_out_ = 0;
  size_t begun_in_ = 0;
  uint64_t bytes_ = 0;
};

class LanesTest : public ::testing::TestWithParam<std::tuple<size_t, SocketKind>> {};

// Chunks of later messages arrive before the receiver has begun them.
TEST_P(LanesTest, MessagesOfRandomSizesArriveWhole) {
  const auto [lanes, kind] = GetParam();
  JoinedLanes joined(lanes, kind);
  RandomMessages messages(joined, static_cast<unsigned>(lanes));

  const int64_t limit_ns = now_ns() + testing::kPatienceNs;
  while (!messages.is_done() && now_ns() < limit_ns) {
    ASSERT_EQ(-1, messages.act().lost_lane);
  }

  ASSERT_TRUE(messages.is_done());
  messages.expect_whole();
  uint64_t counted = 0;
  for (const std::atomic<uint64_t>& lane : joined.sent_bytes) {
    counted += lane.load();
  }
  EXPECT_EQ(messages.bytes(), counted);
}

INSTANTIATE_TEST_SUITE_P(Numbers, LanesTest,
                         ::testing::Combine(::testing::Values(1, 2, 3, 8, 16),
                                            ::testing::Values(SocketKind::kSocketPair, SocketKind::kLoopback)));

// Lane 1 goes nowhere: all but what its system's buffers take goes by lane 0.
TEST(Lanes, ThatTakeNothingLeaveTheBytesToTheOthers) {
  JoinedLanes joined(2);
  const Bytes out = bytes_of(32 << 20, 1);
  size_t sent = 0;
  Bytes drain(1 << 20);
  joined.sending->push(out, sent);

  const bool is_through = testing::eventually([&] {
    joined.sending->turn();
    const ssize_t taken = recv(joined.receiving_fd(0), drain.data(), drain.size(), MSG_DONTWAIT);
    return taken < 0 && joined.sent_bytes[0] + joined.sent_bytes[1] + kMaxStreamedChunkBytes >= out.size();
  });

  EXPECT_TRUE(is_through);
  EXPECT_GT(joined.sent_bytes[1], 0U);
  EXPECT_LT(joined.sent_bytes[1], 2U << 20);
}

TEST(Lanes, AHeaderMayArriveByteByByte) {
  JoinedLanes joined(1);
  const Bytes out = bytes_of(100, 1);
  Bytes in(out.size());
  size_t received = 0;
  joined.receiving->push(in, received);

  for (const std::byte& byte : encode(ChunkHeader{0, 100, 0})) {
    EXPECT_EQ(0U, received);
    joined.write_by_hand(0, {&byte, 1});
    joined.receiving->turn();
  }
  joined.write_by_hand(0, out);
  joined.receiving->turn();

  EXPECT_EQ(out, in);
  EXPECT_TRUE(joined.receiving->is_idle());
}

class SenselessChunkTest : public ::testing::TestWithParam<std::vector<ChunkHeader>> {};

TEST_P(SenselessChunkTest, IsTheEndOfItsLane) {
  JoinedLanes joined(2);
  Bytes first(100);
  Bytes second(1000);
  std::array<size_t, 2> received{};
  joined.receiving->push(first, received[0]);
  joined.receiving->push(second, received[1]);
  for (const ChunkHeader& header : GetParam()) {
    joined.write_by_hand(1, encode(header));
    joined.write_by_hand(1, Bytes(std::min<size_t>(header.bytes, 1000)));
  }
  LaneTurn turn;

  for (size_t turns = 0; turns < 4 && turn.lost_lane < 0; ++turns) {
    turn = joined.receiving->turn();
  }

  EXPECT_EQ(1, turn.lost_lane);
  EXPECT_TRUE(turn.is_broken);
}

INSTANTIATE_TEST_SUITE_P(Headers, SenselessChunkTest,
                         ::testing::Values(std::vector<ChunkHeader>{{0, 101, 0}}, std::vector<ChunkHeader>{{0, 1, 100}},
                                           std::vector<ChunkHeader>{{1, 2, uint64_t{0} - 1}},
                                           std::vector<ChunkHeader>{{0, 60, 0}, {0, 60, 0}},
                                           std::vector<ChunkHeader>{{0, 100, 0}, {0, 100, 0}},
                                           std::vector<ChunkHeader>{{0xffffffff, 1, 0}},
                                           std::vector<ChunkHeader>{{0, 0, 0}},
                                           std::vector<ChunkHeader>{{1 << 24, 1, 0}}));

// A peer that has sent all that it had may close its lanes before all bytes have come.
TEST(Lanes, TheLastOneThatEndsIsALossAndNoneBefore) {
  JoinedLanes joined(2);
  Bytes in(100);
  size_t received = 0;
  joined.receiving->push(in, received);
  joined.close_lane(1);
  ASSERT_EQ(-1, joined.receiving->turn().lost_lane);

  joined.close_lane(0);
  const LaneTurn turn = joined.receiving->turn();

  EXPECT_EQ(0, turn.lost_lane);
  EXPECT_FALSE(turn.is_broken);
  EXPECT_EQ(0, turn.error);
}

TEST(Lanes, OneThatEndsWithinAChunkIsALoss) {
  JoinedLanes joined(2);
  Bytes in(100);
  size_t received = 0;
  joined.receiving->push(in, received);
  joined.write_by_hand(1, encode(ChunkHeader{0, 100, 0}));
  joined.close_lane(1);

  const LaneTurn turn = joined.receiving->turn();

  EXPECT_EQ(1, turn.lost_lane);
}

TEST(LaneShares, EndAtOneTimeByRate) {
  const std::array lanes{LaneLoad{1000, 0}, LaneLoad{300, 0}};

  EXPECT_EQ((std::vector<double>{1000, 300}), lane_shares(1300, lanes));
}

TEST(LaneShares, CountWhatIsQueuedAlready) {
  const std::array lanes{LaneLoad{1000, 500}, LaneLoad{1000, 0}};

  EXPECT_EQ((std::vector<double>{250, 750}), lane_shares(1000, lanes));
}

TEST(LaneShares, ALaneWhoseQueueAloneTakesLongerGetsNone) {
  const std::array lanes{LaneLoad{100, 900}, LaneLoad{1000, 0}};

  EXPECT_EQ((std::vector<double>{0, 1000}), lane_shares(1000, lanes));
}

TEST(LaneShares, ALaneThatHasSentNothingCountsAsAnAverageOne) {
  const std::array lanes{LaneLoad{100, 0}, LaneLoad{300, 0}, LaneLoad{0, 0}};

  EXPECT_EQ((std::vector<double>{100, 300, 200}), lane_shares(600, lanes));
  EXPECT_EQ((std::vector<double>{50, 50}), lane_shares(100, std::array{LaneLoad{}, LaneLoad{}}));
}

TEST(Lanes, GivenUpTouchNoMemoryAnyMore) {
  JoinedLanes joined(2);
  const auto out = std::make_unique<Bytes>(8 << 20);
  auto in = std::make_unique<Bytes>(8 << 20);
  size_t sent = 0;
  size_t received = 0;
  joined.sending->push(*out, sent);
  joined.receiving->push(*in, received);
  joined.sending->turn();
  joined.receiving->turn();
  ASSERT_GT(received, 0U);

  joined.sending->give_up();
  joined.receiving->give_up();
  in.reset();

  EXPECT_TRUE(joined.sending->is_idle());
  EXPECT_TRUE(joined.receiving->is_idle());
  EXPECT_EQ(0U, joined.receiving->turn().bytes);
  EXPECT_EQ(0U, joined.sending->turn().bytes);
}

}  // namespace
}  // namespace ringtune
