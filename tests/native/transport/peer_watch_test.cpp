// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/peer_watch.h"

#include <future>

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ringtune {
namespace {

pid_t start_sleeper() {
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  return child;
}

int open_pidfd(pid_t pid) { return static_cast<int>(syscall(SYS_pidfd_open, pid, 0)); }

TEST(PeerWatch, AKilledPeerIsNoticed) {
  const pid_t child = start_sleeper();
  std::promise<int> dead_rank;
  PeerWatch watch({-1, open_pidfd(child)}, [&](int rank) { dead_rank.set_value(rank); });

  kill(child, SIGKILL);

  auto noticed = dead_rank.get_future();
  ASSERT_EQ(std::future_status::ready, noticed.wait_for(std::chrono::seconds(20)));
  EXPECT_EQ(1, noticed.get());
  waitpid(child, nullptr, 0);
}

TEST(PeerWatch, EndsWhileAllPeersLive) {
  const pid_t child = start_sleeper();
  bool is_reported = false;

  {
    PeerWatch watch({open_pidfd(child)}, [&](int) { is_reported = true; });
  }

  EXPECT_FALSE(is_reported);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

TEST(PeerWatch, EndsWhereNoDescriptorWasLeftToWakeIt) {
  const pid_t child = start_sleeper();
  const int pidfd = open_pidfd(child);
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  const rlimit none{0, limit.rlim_max};
  setrlimit(RLIMIT_NOFILE, &none);

  auto ended = std::async(std::launch::async, [pidfd] { const PeerWatch watch({pidfd}, [](int) {}); });
  const bool has_ended = ended.wait_for(std::chrono::seconds(20)) == std::future_status::ready;

  setrlimit(RLIMIT_NOFILE, &limit);
  EXPECT_TRUE(has_ended);
  kill(child, SIGKILL);  // ends the watch, too, where it has not
  waitpid(child, nullptr, 0);
}

}  // namespace
}  // namespace ringtune
