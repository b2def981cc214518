// SPDX-License-Identifier: Apache-2.0
#include "base/descriptors.h"

#include <cerrno>

#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include "closed_streams.h"

namespace ringtune {
namespace {

TEST(Descriptors, AreMovedAboveTheStandardStreamsAndClosedOnExec) {
  const testing::ClosedStreams closed;
  const int low = eventfd(0, 0);

  const int moved = above_standard_streams(low);

  EXPECT_EQ(0, low);
  EXPECT_GE(moved, kFirstOwnDescriptor);
  EXPECT_EQ(FD_CLOEXEC, fcntl(moved, F_GETFD));
  EXPECT_TRUE(closed.are_still_closed());
  close(moved);
}

TEST(Descriptors, ThoseAboveStayAndFailuresPass) {
  const int high = fcntl(eventfd(0, EFD_CLOEXEC), F_DUPFD_CLOEXEC, 50);
  errno = ENOENT;

  EXPECT_EQ(high, above_standard_streams(high));
  EXPECT_EQ(-1, above_standard_streams(-1));
  EXPECT_EQ(ENOENT, errno);
  close(high);
}

}  // namespace
}  // namespace ringtune
