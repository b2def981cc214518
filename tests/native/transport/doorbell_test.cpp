// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/doorbell.h"

#include <atomic>
#include <memory>
#include <thread>

#include <gtest/gtest.h>

#include "base/clock.h"

namespace ringtune {
namespace {

TEST(Doorbell, NoRingIsLostBetweenTheLookAndTheSleep) {
  constexpr uint64_t kRounds = 50000;         // on a busy machine each may wait for a processor twice:
  constexpr int64_t kEnoughNs = 5 * kNsPerS;  // then as many as this leaves time for
  constexpr int64_t kSleepNs = 20 * kNsPerS;
  auto bell = std::make_unique<Doorbell>();
  std::atomic<uint64_t> posted{0};
  std::atomic<uint64_t> seen{0};
  std::atomic<bool> is_over{false};
  int lost = 0;  // rings, each of which costs a whole sleep

  std::thread sleeper([&] {
    for (uint64_t round = 1; !is_over.load(); ++round) {
      const auto is_time = [&] { return posted.load() >= round || is_over.load(); };
      while (!is_time()) {
        const uint32_t ticket = bell->announce(Sleeper::kThread);
        if (is_time()) {
          bell->cancel(Sleeper::kThread);
          break;
        }
        const int64_t start_ns = now_ns();
        bell->sleep(Sleeper::kThread, ticket, kSleepNs);
        lost += now_ns() - start_ns >= kSleepNs ? 1 : 0;
      }
      seen.store(round);
    }
  });
  const int64_t end_ns = now_ns() + kEnoughNs;
  for (uint64_t round = 1; round <= kRounds && now_ns() < end_ns; ++round) {
    posted.store(round);
    bell->ring();
    while (seen.load() < round) {
      std::this_thread::yield();
    }
  }
  is_over.store(true);
  bell->ring();
  sleeper.join();

  EXPECT_EQ(0, lost);
}

TEST(Doorbell, ASleepEndsAtItsLimit) {
  auto bell = std::make_unique<Doorbell>();
  const int64_t start_ns = now_ns();

  bell->sleep(Sleeper::kThread, bell->announce(Sleeper::kThread), 20 * kNsPerMs);

  EXPECT_GE(now_ns() - start_ns, 20 * kNsPerMs);
  EXPECT_EQ(0u, bell->sleepers.load());
}

}  // namespace
}  // namespace ringtune
