// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/control_link.h"

#include <cerrno>

#include <poll.h>
#include <sys/socket.h>

#include "transport/cluster.h"

namespace ringtune {
namespace {

using testing::bytes_of;
using testing::connected_sockets;
using testing::SocketKind;

class ControlLinkTest : public ::testing::TestWithParam<SocketKind> {
 protected:
  ControlLinkTest() : ends_(connected_sockets(GetParam())), near_(1, ends_.first, 0), far_(0, ends_.second, 0) {}

  std::vector<Frame> receive_all(ControlLink& link, size_t count) {
    Bytes scratch(1 << 16);
    std::vector<Frame> frames;
    EXPECT_TRUE(testing::eventually([&] {
      near_.flush();
      for (Frame& frame : link.receive(scratch).frames) {
        frames.push_back(std::move(frame));
      }
      return frames.size() >= count;
    }));
    return frames;
  }

  std::pair<int, int> ends_;
  ControlLink near_;
  ControlLink far_;
};

TEST_P(ControlLinkTest, APeerThatDoesNotReadFillsTheQueueToItsBoundAndLosesNothing) {
  constexpr size_t kFrameBytes = 100'000;
  int sent = 0;
  while (near_.has_room(kFrameBytes)) {
    near_.send(encode_frame(FrameType::kRequest, bytes_of(kFrameBytes, sent++)));
    ASSERT_LT(sent, 1000) << "the queue has no bound";
  }
  EXPECT_TRUE((near_.watched().events & POLLOUT) != 0);
  EXPECT_FALSE(near_.is_flushed());

  const std::vector<Frame> frames = receive_all(far_, static_cast<size_t>(sent));

  ASSERT_EQ(static_cast<size_t>(sent), frames.size());
  EXPECT_TRUE(near_.has_room(kFrameBytes));
  EXPECT_TRUE(testing::eventually([&] { return near_.is_flushed(); }));
  for (int i = 0; i < sent; ++i) {
    EXPECT_EQ(bytes_of(kFrameBytes, i), frames[static_cast<size_t>(i)].payload) << i;
  }
}

TEST_P(ControlLinkTest, AFrameDoesNotOvertakeWhatIsLeftOfTheOneBefore) {
  constexpr size_t kFrameBytes = 1'000'000;
  size_t sent = 0;
  while (!near_.send(encode_frame(FrameType::kRequest, bytes_of(kFrameBytes, static_cast<int>(sent++))))) {
  }
  Bytes scratch(1 << 20);
  std::vector<Frame> frames = far_.receive(scratch).frames;  // now the socket has room again

  near_.send(encode_frame(FrameType::kDepart, {}));
  ++sent;

  for (Frame& frame : receive_all(far_, sent - frames.size())) {
    frames.push_back(std::move(frame));
  }
  ASSERT_EQ(sent, frames.size());
  EXPECT_EQ(FrameType::kDepart, frames.back().type);
}

TEST_P(ControlLinkTest, FramesBeforeTheEndAreReceivedWithIt) {
  near_.send(encode_frame(FrameType::kRequest, bytes_of(10, 1)));
  near_.close();
  Bytes scratch(1 << 16);
  std::vector<Frame> frames;
  bool is_lost = false;

  EXPECT_TRUE(testing::eventually([&] {
    ControlLink::Received received = far_.receive(scratch);
    frames.insert(frames.end(), received.frames.begin(), received.frames.end());
    return is_lost = received.is_lost;
  }));

  ASSERT_EQ(1u, frames.size());
  EXPECT_EQ(bytes_of(10, 1), frames[0].payload);
}

TEST(ControlLink, WhatASendLearnsOfTheEndIsReportedWithIt) {
  const auto [near_fd, far_fd] = connected_sockets(SocketKind::kLoopback);
  ControlLink near(1, near_fd, 0);
  const linger reset{1, 0};
  ASSERT_EQ(0, setsockopt(far_fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)));
  close(far_fd);
  pollfd polled{near_fd, POLLIN, 0};
  ASSERT_EQ(1, poll(&polled, 1, 10'000));
  Bytes scratch(16);

  near.send(encode_frame(FrameType::kHeartbeat, {}));  // the system tells an error once, to whoever asks first
  const ControlLink::Received received = near.receive(scratch);

  EXPECT_TRUE(received.is_lost);
  EXPECT_EQ(ECONNRESET, received.error);
}

TEST_P(ControlLinkTest, MessagesThatNobodyTakesStopTheReading) {
  while ((far_.watched().events & POLLIN) != 0) {
    far_.deliver(Bytes(8 << 20));
  }
  Bytes message;

  ASSERT_TRUE(far_.take_message(message));

  EXPECT_TRUE((far_.watched().events & POLLIN) != 0);
}

TEST_P(ControlLinkTest, AnEndedLinkTakesEverythingAndWatchesNothing) {
  near_.end();

  EXPECT_TRUE(near_.has_room(2 * kMaxOutputBytes));
  EXPECT_FALSE(near_.send(encode_frame(FrameType::kDepart, {})));
  EXPECT_TRUE(near_.is_flushed());
  EXPECT_EQ(-1, near_.watched().fd);
}

INSTANTIATE_TEST_SUITE_P(Sockets, ControlLinkTest, ::testing::Values(SocketKind::kSocketPair, SocketKind::kLoopback));

}  // namespace
}  // namespace ringtune
