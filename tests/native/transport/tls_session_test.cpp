// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/tls/tls_session.h"

#include <algorithm>
#include <cerrno>
#include <functional>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "transport/cluster.h"
#include "transport/tcp/control_link.h"
#include "transport/tcp/tcp_links.h"

namespace ringtune {
namespace {

using testing::bytes_of;
using testing::connected_sockets;
using testing::eventually;
using testing::SocketKind;

constexpr std::string_view kPattern = "a pattern that no cipher makes";

std::shared_ptr<const TlsContext> tls_context(int key = 1, uint64_t records_per_key = kRecordsPerKey) {
  std::shared_ptr<const TlsContext> context;
  const Status made =
      TlsContext::create({Bytes(32, static_cast<std::byte>(key)), "", "", ""}, context, records_per_key);
  EXPECT_TRUE(made.ok()) << made.message();
  return context;
}

// Both sockets and their sessions.
class TlsPair {
 public:
  explicit TlsPair(SocketKind kind = SocketKind::kSocketPair, int server_key = 1,
                   uint64_t records_per_key = kRecordsPerKey)
      : fds_(connected_sockets(kind)),
        client_(std::make_shared<TlsSession>(tls_context(1, records_per_key), fds_.first, TlsRole::kClient)),
        server_(std::make_shared<TlsSession>(tls_context(server_key, records_per_key), fds_.second, TlsRole::kServer)) {
  }
  ~TlsPair() {
    for (const int fd : {fds_.first, fds_.second}) {
      if (fd >= 0) {
        close(fd);
      }
    }
  }

  TlsSession& client() { return *client_; }
  TlsSession& server() { return *server_; }
  std::shared_ptr<TlsSession> client_session() { return client_; }
  std::shared_ptr<TlsSession> server_session() { return server_; }
  std::pair<int, int> release() { return std::exchange(fds_, {-1, -1}); }
  int client_fd() const { return fds_.first; }
  int server_fd() const { return fds_.second; }

  // The first failure, or how it is once both are done.
  Status agree() {
    auto client = TlsSession::Handshake::kWantsRead;
    auto server = TlsSession::Handshake::kWantsRead;
    for (int turn = 0; turn < 20; ++turn) {
      if (Status s = client_->handshake(client); !s.ok()) return s;
      if (Status s = server_->handshake(server); !s.ok()) return s;
      if (client == TlsSession::Handshake::kDone && server == TlsSession::Handshake::kDone) return Status::ok_status();
    }
    return {StatusCode::kCollectiveTimeout, "no end of the handshake"};
  }

 private:
  std::pair<int, int> fds_;
  std::shared_ptr<TlsSession> client_;
  std::shared_ptr<TlsSession> server_;
};

// Moves all bytes, by sends and receives in turn.
Bytes passed_through(TlsSession& from, TlsSession& to, ByteSpan sent) {
  Bytes received(sent.size());
  size_t out = 0;
  size_t in = 0;
  EXPECT_TRUE(eventually([&] {
    out += from.try_send(sent.subspan(out)).bytes;
    in += to.try_receive(MutableByteSpan(received).subspan(in)).bytes;
    return in == sent.size();
  }));
  return received;
}

TEST(TlsSession, BytesOfAnySizePassBothWays) {
  TlsPair pair;
  ASSERT_TRUE(pair.agree().ok());

  for (const size_t size : {size_t{0}, size_t{1}, size_t{16384}, size_t{16385}, (size_t{3} << 20) + 7}) {
    const Bytes sent = bytes_of(size, 3);
    EXPECT_TRUE(sent == passed_through(pair.client(), pair.server(), sent)) << size;
    EXPECT_TRUE(sent == passed_through(pair.server(), pair.client(), sent)) << size;
  }
}

TEST(TlsSession, NothingThatIsSentCanBeReadOnTheWay) {
  TlsPair pair;
  ASSERT_TRUE(pair.agree().ok());
  const auto* text = reinterpret_cast<const std::byte*>(kPattern.data());

  pair.client().try_send({text, kPattern.size()});

  Bytes wire(4096);
  const ssize_t found = recv(pair.server_fd(), wire.data(), wire.size(), MSG_DONTWAIT);
  ASSERT_GT(found, static_cast<ssize_t>(kPattern.size()));
  EXPECT_TRUE(std::ranges::search(wire, ByteSpan(text, kPattern.size())).empty());
}

TEST(TlsSession, AnotherKeyEndsTheHandshake) {
  TlsPair pair(SocketKind::kSocketPair, 2);

  const Status agreed = pair.agree();

  EXPECT_EQ(StatusCode::kConfigError, agreed.code());
  EXPECT_FALSE(agreed.message().empty());
}

TEST(TlsSession, AChangedByteIsRefused) {
  TlsPair pair;
  ASSERT_TRUE(pair.agree().ok());
  const Bytes sent = bytes_of(1000, 1);
  pair.client().try_send(sent);
  Bytes wire(4096);
  wire.resize(static_cast<size_t>(recv(pair.server_fd(), wire.data(), wire.size(), MSG_DONTWAIT)));

  wire[wire.size() / 2] ^= std::byte{1};
  ASSERT_EQ(static_cast<ssize_t>(wire.size()), send(pair.client_fd(), wire.data(), wire.size(), 0));
  Bytes received(sent.size());
  const Moved moved = pair.server().try_receive(received);

  EXPECT_TRUE(moved.is_lost);
  EXPECT_EQ(EBADMSG, moved.error);
  EXPECT_FALSE(pair.server().refusal().empty());
}

TEST(TlsSession, ARepeatedRecordIsRefused) {
  TlsPair pair;
  ASSERT_TRUE(pair.agree().ok());
  const Bytes sent = bytes_of(100, 1);
  pair.client().try_send(sent);
  Bytes wire(4096);
  wire.resize(static_cast<size_t>(recv(pair.server_fd(), wire.data(), wire.size(), MSG_DONTWAIT)));

  Bytes received(sent.size());
  send(pair.client_fd(), wire.data(), wire.size(), 0);
  EXPECT_EQ(sent.size(), pair.server().try_receive(received).bytes);
  send(pair.client_fd(), wire.data(), wire.size(), 0);

  EXPECT_EQ(EBADMSG, pair.server().try_receive(received).error);
}

// All bytes of a client are sent again to a server under the same key.
TEST(TlsSession, ARepeatedHandshakeIsRefused) {
  TlsPair honest;
  const std::pair<int, int> relayed = connected_sockets(SocketKind::kSocketPair);
  honest.client().move_to(relayed.first);
  Bytes recorded;
  auto client = TlsSession::Handshake::kWantsRead;
  auto server = TlsSession::Handshake::kWantsRead;
  Bytes piece(1 << 16);
  for (int turn = 0; turn < 4; ++turn) {
    ASSERT_TRUE(honest.client().handshake(client).ok());
    const ssize_t size = recv(relayed.second, piece.data(), piece.size(), MSG_DONTWAIT);
    recorded.insert(recorded.end(), piece.begin(), piece.begin() + std::max<ssize_t>(0, size));
    send(honest.client_fd(), piece.data(), static_cast<size_t>(std::max<ssize_t>(0, size)), 0);
    ASSERT_TRUE(honest.server().handshake(server).ok());
    const ssize_t answer = recv(honest.client_fd(), piece.data(), piece.size(), MSG_DONTWAIT);
    send(relayed.second, piece.data(), static_cast<size_t>(std::max<ssize_t>(0, answer)), 0);
  }
  ASSERT_EQ(TlsSession::Handshake::kDone, server);

  TlsPair attacked;
  send(attacked.client_fd(), recorded.data(), recorded.size(), 0);
  auto state = TlsSession::Handshake::kWantsRead;
  const Status answered = attacked.server().handshake(state);

  EXPECT_EQ(StatusCode::kConfigError, answered.code());
  close(relayed.first);
  close(relayed.second);
}

TEST(TlsSession, KeysAreRenewedAfterTheirRecords) {
  TlsPair pair(SocketKind::kSocketPair, 1, 3);
  ASSERT_TRUE(pair.agree().ok());
  const Bytes sent = bytes_of((400 << 10) + 5, 9);

  for (int round = 0; round < 3; ++round) {
    EXPECT_TRUE(sent == passed_through(pair.client(), pair.server(), sent));
    EXPECT_TRUE(sent == passed_through(pair.server(), pair.client(), sent));
  }
  // A message of one byte after three others goes with one that announces the new key.
  const auto wire_bytes = [&pair] {
    pair.client().try_send(bytes_of(1, 1));
    Bytes wire(1000);
    const ssize_t found = recv(pair.server_fd(), wire.data(), wire.size(), MSG_DONTWAIT | MSG_PEEK);
    Bytes received(1);
    EXPECT_EQ(1U, pair.server().try_receive(received).bytes);
    return found;
  };
  std::vector<ssize_t> sizes;
  for (int message = 0; message < 6; ++message) {
    sizes.push_back(wire_bytes());
  }
  EXPECT_EQ(2, std::ranges::count_if(sizes, [&](ssize_t size) { return size > std::ranges::min(sizes); }));
}

TEST(TlsSession, BothEndsKnowOneSecretOfTheConnection) {
  TlsPair pair;
  TlsPair other;
  ASSERT_TRUE(pair.agree().ok());
  ASSERT_TRUE(other.agree().ok());
  Bytes near;
  Bytes far;
  Bytes elsewhere;

  ASSERT_TRUE(pair.client().export_binding(near).ok());
  ASSERT_TRUE(pair.server().export_binding(far).ok());
  ASSERT_TRUE(other.client().export_binding(elsewhere).ok());

  EXPECT_EQ(near, far);
  EXPECT_NE(near, elsewhere);
}

TEST(TlsSession, APeerThatIsGoneIsALoss) {
  TlsPair pair;
  ASSERT_TRUE(pair.agree().ok());
  close(pair.release().second);

  Bytes received(10);
  const Moved moved = pair.client().try_receive(received);

  EXPECT_TRUE(moved.is_lost);
  EXPECT_EQ("the peer closed it", describe_loss(moved.error));
}

TEST(TlsSession, AFileThatHoldsNoCertificateIsNamed) {
  std::shared_ptr<const TlsContext> context;

  const Status made = TlsContext::create({{}, "/proc/version", "/proc/version", "/proc/version"}, context);

  EXPECT_EQ(StatusCode::kConfigError, made.code());
  EXPECT_NE(std::string::npos, made.message().find("/proc/version holds no certificate"));
}

// A record that is longer than all reads of a turn: its rest, which is in the session, makes no socket readable.
TEST(TlsControlLink, ARecordIsReadToItsEnd) {
  TlsPair pair(SocketKind::kLoopback);
  ASSERT_TRUE(pair.agree().ok());
  const auto [near_fd, far_fd] = pair.release();
  ControlLink near(1, near_fd, 0, pair.client_session());
  ControlLink far(0, far_fd, 0, pair.server_session());
  Bytes scratch(100);
  const Bytes payload = bytes_of(16'000, 1);

  near.send(encode_frame(FrameType::kRequest, payload));
  pollfd readable{far_fd, POLLIN, 0};
  ASSERT_EQ(1, poll(&readable, 1, 10'000));
  const ControlLink::Received received = far.receive(scratch);

  ASSERT_EQ(1U, received.frames.size());
  EXPECT_EQ(payload, received.frames.front().payload);
}

TEST(TlsTcpLinks, ExchangesOfAnySizePass) {
  testing::Cluster cluster({0, 1}, SocketKind::kLoopback);
  TlsPair pair(SocketKind::kLoopback);
  ASSERT_TRUE(pair.agree().ok());
  const auto [near_fd, far_fd] = pair.release();
  const TlsSessions sessions{{near_fd, pair.client_session()}, {far_fd, pair.server_session()}};
  TcpLinks near(cluster.transport(0), Layout(0, {0, 1}), {}, {-1, near_fd}, testing::kPatienceNs, sessions);
  TcpLinks far(cluster.transport(1), Layout(1, {0, 1}), {}, {far_fd, -1}, testing::kPatienceNs, sessions);

  const auto exchange_all = [](TcpLinks& links, int own, int peer) {
    for (const size_t size : {size_t{0}, size_t{1}, size_t{4097}, size_t{1} << 20, (size_t{9} << 20) + 3}) {
      Bytes in(size);
      ASSERT_TRUE(links.exchange(peer, bytes_of(size, own), peer, in).ok());
      ASSERT_TRUE(bytes_of(size, peer) == in) << size;
    }
  };
  std::thread other([&] { exchange_all(far, 1, 0); });
  exchange_all(near, 0, 1);
  other.join();
}

}  // namespace
}  // namespace ringtune
