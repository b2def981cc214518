// SPDX-License-Identifier: Apache-2.0
#include "telemetry/call_rounds.h"

#include <gtest/gtest.h>

namespace ringtune {
namespace {

constexpr size_t kCalls = 4000;

Call call_of(uint64_t kind) { return {DataType::kFloat32, {static_cast<int64_t>(kind)}, 4 * kind}; }

// Takes calls of kinds in turn; returns the places of those that end a round.
std::vector<size_t> ends(CallRounds& rounds, const std::vector<uint64_t>& kinds, size_t calls = kCalls) {
  std::vector<size_t> found;
  for (size_t i = 0; i < calls; ++i) {
    const uint64_t kind = kinds[i % kinds.size()];
    if (rounds.take(kind, call_of(kind))) found.push_back(i);
  }
  return found;
}

std::vector<uint64_t> with_one_more_at_the_end(size_t equal) {
  std::vector<uint64_t> kinds(equal, 1);
  kinds.push_back(2);
  return kinds;
}

TEST(CallRounds, EndAtEqualDistancesWhateverThePeriod) {
  for (const size_t equal : {1, 3, 30, 64, 200}) {
    const std::vector<uint64_t> kinds = with_one_more_at_the_end(equal);
    CallRounds rounds;

    const std::vector<size_t> found = ends(rounds, kinds);

    ASSERT_GT(found.size(), 5U) << equal;
    EXPECT_EQ(0U, (found[1] - found[0]) % kinds.size()) << equal;
    EXPECT_GE(found[1] - found[0], 32U) << equal;
    EXPECT_LT(found[1] - found[0], 32U + kinds.size()) << equal;
    for (size_t i = 2; i < found.size(); ++i) {
      EXPECT_EQ(found[1] - found[0], found[i] - found[i - 1]) << equal;
    }
  }
}

TEST(CallRounds, TellTheirCallsInAnyRotation) {
  CallRounds rounds;
  ends(rounds, with_one_more_at_the_end(3));

  EXPECT_EQ(4U, rounds.calls().size());
  EXPECT_EQ(8 * (3 * 1 + 2), rounds.kinds());
  EXPECT_EQ(8U * (3 * 4 + 8), rounds.bytes());
}

TEST(CallRounds, AreNotLookedForInTheFirstCalls) {
  CallRounds rounds;

  EXPECT_TRUE(ends(rounds, {1}, 1000 + 512).empty());
  EXPECT_FALSE(ends(rounds, {1}, 64).empty());
}

TEST(CallRounds, OtherCallsEndThemAndANewSequenceIsFound) {
  CallRounds rounds;
  ASSERT_FALSE(ends(rounds, {1, 2, 3}).empty());

  EXPECT_TRUE(ends(rounds, {4, 5}, 512).empty());
  EXPECT_FALSE(ends(rounds, {4, 5}).empty());
  EXPECT_EQ(2U, rounds.calls().size());
}

TEST(CallRounds, AreGivenUpWhereNothingRepeats) {
  CallRounds rounds;
  for (uint64_t i = 0; i < 100000; ++i) {
    ASSERT_FALSE(rounds.has_given_up());
    ASSERT_FALSE(rounds.take(i * i % 7919, call_of(1)));
  }

  EXPECT_TRUE(rounds.has_given_up());
}

}  // namespace
}  // namespace ringtune
