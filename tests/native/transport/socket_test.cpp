// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/socket.h"

#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include "transport/cluster.h"
#include "transport/tcp/round_trip.h"

namespace ringtune {
namespace {

using testing::bytes_of;
using testing::connected_sockets;
using testing::SocketKind;

int option(int fd, int level, int name) {
  int value = -1;
  socklen_t size = sizeof(value);
  EXPECT_EQ(0, getsockopt(fd, level, name, &value, &size));
  return value;
}

class SocketTest : public ::testing::TestWithParam<SocketKind> {
 protected:
  SocketTest() : ends_(connected_sockets(GetParam())) {
    fcntl(ends_.first, F_SETFD, 0);
    adopt_socket(ends_.first, 30 * kNsPerS);
  }
  ~SocketTest() override { testing::SocketMesh::close_all({ends_.first, ends_.second}); }

  std::pair<int, int> ends_;
};

TEST_P(SocketTest, NeitherBlocksNorIsInherited) {
  EXPECT_NE(0, fcntl(ends_.first, F_GETFL) & O_NONBLOCK);
  EXPECT_NE(0, fcntl(ends_.first, F_GETFD) & FD_CLOEXEC);
}

TEST_P(SocketTest, WithNothingToReadNothingMovesAndNothingIsLost) {
  Bytes in(10);

  const Moved moved = try_receive(ends_.first, in);

  EXPECT_EQ(0u, moved.bytes);
  EXPECT_FALSE(moved.is_lost);
}

TEST_P(SocketTest, APeerThatClosedIsLostOnlyAfterItsLastByte) {
  ASSERT_EQ(3u, try_send(ends_.second, bytes_of(3, 1)).bytes);
  close(std::exchange(ends_.second, -1));
  pollfd polled{ends_.first, POLLIN, 0};
  ASSERT_EQ(1, poll(&polled, 1, 10'000));
  Bytes in(10);

  EXPECT_EQ(3u, try_receive(ends_.first, in).bytes);
  const Moved end = try_receive(ends_.first, in);

  EXPECT_TRUE(end.is_lost);
  EXPECT_EQ("the peer closed it", describe_loss(end.error));
}

TEST_P(SocketTest, SendingToAPeerThatClosedIsALossNotASignal) {
  close(std::exchange(ends_.second, -1));

  // TCP learns of it by the answer to the first bytes.
  EXPECT_TRUE(testing::eventually([this] { return try_send(ends_.first, bytes_of(3, 1)).is_lost; }));
}

TEST_P(SocketTest, BytesAreConfirmedOnceTheyAreThere) {
  ASSERT_EQ(3u, try_send(ends_.first, bytes_of(3, 1)).bytes);
  Bytes in(3);
  ASSERT_EQ(3, recv(ends_.second, in.data(), in.size(), MSG_WAITALL));

  EXPECT_TRUE(testing::eventually([this] { return unconfirmed_bytes(ends_.first) == 0; }));
}

INSTANTIATE_TEST_SUITE_P(Sockets, SocketTest, ::testing::Values(SocketKind::kSocketPair, SocketKind::kLoopback));

TEST(TcpSocket, SendsAtOnceAndProbesASilentPeerWithinTheLimit) {
  const auto [fd, peer] = connected_sockets(SocketKind::kLoopback);

  adopt_socket(fd, 30 * kNsPerS);

  EXPECT_EQ(1, option(fd, IPPROTO_TCP, TCP_NODELAY));
  EXPECT_EQ(1, option(fd, SOL_SOCKET, SO_KEEPALIVE));
  EXPECT_EQ(31'000, option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT));
  const int probes_s = option(fd, IPPROTO_TCP, TCP_KEEPIDLE) +
                       option(fd, IPPROTO_TCP, TCP_KEEPCNT) * option(fd, IPPROTO_TCP, TCP_KEEPINTVL);
  EXPECT_LE(probes_s, 30);
  testing::SocketMesh::close_all({fd, peer});
}

TEST(TcpSocket, ABufferGetsTheSizeThatIsGrantedInFullOrKeepsItsOwn) {
  const auto [fd, peer] = connected_sockets(SocketKind::kLoopback);

  widen_buffers(fd, 64 << 10);                                   // any system grants this
  EXPECT_EQ(2 * (64 << 10), option(fd, SOL_SOCKET, SO_SNDBUF));  // the kernel counts its bookkeeping too
  widen_buffers(fd, 1 << 30);                                    // and none this

  EXPECT_EQ(2 * (64 << 10), option(fd, SOL_SOCKET, SO_SNDBUF));
  testing::SocketMesh::close_all({fd, peer});
}

TEST(TcpSocket, WithoutALimitTheSystemsHolds) {
  const auto [fd, peer] = connected_sockets(SocketKind::kLoopback);

  adopt_socket(fd, 0);

  EXPECT_EQ(0, option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT));
  testing::SocketMesh::close_all({fd, peer});
}

TEST(TcpSocket, ARoundTripIsKnownOfTcpAlone) {
  const auto [fd, peer] = connected_sockets(SocketKind::kLoopback);
  const auto [local, other] = connected_sockets(SocketKind::kSocketPair);

  EXPECT_GT(round_trip_ns(fd), 0);
  EXPECT_LT(round_trip_ns(fd), kNsPerS);
  EXPECT_EQ(0, round_trip_ns(local));
  testing::SocketMesh::close_all({fd, peer, local, other});
}

}  // namespace
}  // namespace ringtune
