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
  constexpr uint64_t kRounds = 50000;
  auto bell = std::make_unique<Doorbell>();
  std::atomic<uint64_t> posted{0};
  std::atomic<uint64_t> seen{0};

  // A lost ring would cost the whole limit once; two of them fail the test.
  const int64_t start_ns = now_ns();
  std::thread sleeper([&] {
    for (uint64_t round = 1; round <= kRounds; ++round) {
      while (posted.load() < round) {
        const uint32_t ticket = bell->announce(Sleeper::kThread);
        if (posted.load() >= round) {
          bell->cancel(Sleeper::kThread);
          break;
        }
        bell->sleep(Sleeper::kThread, ticket, 20 * kNsPerS);
      }
      seen.store(round);
    }
  });
  for (uint64_t round = 1; round <= kRounds; ++round) {
    posted.store(round);
    bell->ring();
    while (seen.load() < round) {
      std::this_thread::yield();
    }
  }
  sleeper.join();

  EXPECT_LT(now_ns() - start_ns, 40 * kNsPerS);
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
