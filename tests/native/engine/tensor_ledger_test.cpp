// SPDX-License-Identifier: Apache-2.0
#include "engine/tensor_ledger.h"

#include <gtest/gtest.h>

namespace ringtune {
namespace {

constexpr int kRanks = 3;
constexpr int64_t kNow = 5;

Signature shaped(int64_t elements) {
  Signature signature;
  signature.kind = OpKind::kAllreduce;
  signature.dtype = DataType::kFloat32;
  signature.shape = {elements};
  return signature;
}

class TensorLedgerTest : public ::testing::Test {
 protected:
  // An id that all ranks know, of a tensor at one place of every arena.
  CacheId learn(const std::string& name, const Signature& signature, ArenaOffset place = kNotInArena) {
    return cache_.assign(name, signature, std::vector<ArenaOffset>(kRanks, place));
  }

  bool add_cached(int rank, CacheId id) { return ledger_.add_cached({&rank, 1}, id, kNow); }
  bool add(int rank, const std::string& name, const Signature& signature, ArenaOffset place = kNotInArena) {
    return ledger_.add(rank, {name, signature, place}, kNow);
  }

  // The one that is ready; taken out.
  LedgerEntry take_ready() {
    EXPECT_EQ(1u, ledger_.ready().size());
    const LedgerEntry entry = *ledger_.ready().front();
    ledger_.remove({ledger_.ready().front()});
    return entry;
  }

  ResponseCache cache_;
  TensorLedger ledger_{kRanks, cache_};
};

TEST_F(TensorLedgerTest, ATensorAskedForByItsIdIsReadyOnceEveryRankHasAskedInEveryRound) {
  const CacheId id = learn("x", shaped(4), 128);
  for (int round = 0; round < 3; ++round) {
    ASSERT_TRUE(add_cached(2, id));
    ASSERT_TRUE(add_cached(0, id));
    ASSERT_TRUE(ledger_.ready().empty());
    ASSERT_EQ(std::vector<int>{1}, ledger_.missing_ranks(*ledger_.waiting().front()));

    ASSERT_TRUE(add_cached(1, id));

    const LedgerEntry entry = take_ready();
    EXPECT_EQ("x", entry.name);
    EXPECT_EQ("", entry.error);
    EXPECT_TRUE(entry.is_by_id_alone());
    EXPECT_EQ(128u, entry.place);
    EXPECT_TRUE(ledger_.waiting().empty());
  }
}

TEST_F(TensorLedgerTest, AnIdIsRefusedWhileItIsPendingAndWhereItMeansNothing) {
  const CacheId id = learn("x", shaped(4));

  EXPECT_FALSE(add_cached(0, kNoCacheId));
  EXPECT_FALSE(add_cached(0, id + 1));
  EXPECT_TRUE(add_cached(0, id));
  EXPECT_FALSE(add_cached(0, id));
  EXPECT_FALSE(add(0, "x", shaped(4)));

  const CacheId newer = learn("y", shaped(1));
  learn("y", shaped(2));
  EXPECT_FALSE(add_cached(0, newer));
}

TEST_F(TensorLedgerTest, TensorsThatWaitAsLongForTheSameRanksAreAlike) {
  ASSERT_TRUE(add(0, "a", shaped(1)));
  ASSERT_TRUE(add(2, "b", shaped(2)));
  ASSERT_TRUE(add(0, "c", shaped(3)));
  ASSERT_TRUE(add(2, "a", shaped(1)));
  ASSERT_TRUE(add(2, "c", shaped(3)));
  for (const int rank : {0, 2}) {
    ASSERT_TRUE(ledger_.add(rank, {"begun a moment ago", shaped(4), kNotInArena}, kNow + 9));
  }

  const std::vector<LedgerEntry*> alike = ledger_.waiting_like(*ledger_.waiting().front(), kNow + 10);

  ASSERT_EQ(2u, alike.size());
  EXPECT_EQ("a", alike[0]->name);
  EXPECT_EQ("c", alike[1]->name);
}

TEST_F(TensorLedgerTest, RanksMayAskTogether) {
  const CacheId id = learn("x", shaped(4), 128);
  const std::vector<int> host{1, 2};
  for (int round = 0; round < 2; ++round) {
    ASSERT_TRUE(ledger_.add_cached(host, id, kNow));
    ASSERT_EQ(std::vector<int>{0}, ledger_.missing_ranks(*ledger_.waiting().front()));

    ASSERT_TRUE(add_cached(0, id));

    EXPECT_EQ(kRanks, take_ready().submitted);
  }
  ASSERT_TRUE(add_cached(2, id));
  EXPECT_FALSE(ledger_.add_cached(host, id, kNow));
}

TEST_F(TensorLedgerTest, AnIdAndANameMeetInOneEntry) {
  const CacheId id = learn("x", shaped(4), 128);

  ASSERT_TRUE(add(1, "x", shaped(4), 128));
  ASSERT_TRUE(add_cached(0, id));
  ASSERT_TRUE(add_cached(2, id));

  const LedgerEntry entry = take_ready();
  EXPECT_EQ("", entry.error);
  EXPECT_EQ(128u, entry.place);
}

TEST_F(TensorLedgerTest, OneRankThatLiesElsewhereMakesTheTensorAnOrdinaryOne) {
  const CacheId id = learn("x", shaped(4), 128);

  ASSERT_TRUE(add_cached(0, id));
  ASSERT_TRUE(add(1, "x", shaped(4), 256));
  ASSERT_TRUE(add_cached(2, id));

  ASSERT_EQ(1u, ledger_.ready().size());
  EXPECT_EQ((std::vector<ArenaOffset>{128, 256, 128}), ledger_.places(*ledger_.ready().front()));
  EXPECT_FALSE(take_ready().is_registered());
}

TEST_F(TensorLedgerTest, ARankThatDiffersFromTheIdIsNamed) {
  const CacheId id = learn("x", shaped(4));

  ASSERT_TRUE(add_cached(0, id));
  ASSERT_TRUE(add(1, "x", shaped(7)));
  ASSERT_TRUE(add_cached(2, id));

  const std::string error = take_ready().error;
  EXPECT_NE(std::string::npos, error.find("[4] on ranks 0, 2; ")) << error;
  EXPECT_NE(std::string::npos, error.find("[7] on rank 1;")) << error;
  for (int rank = 0; rank < kRanks; ++rank) {
    ASSERT_TRUE(add_cached(rank, id));
  }
  EXPECT_EQ("", take_ready().error);
}

TEST_F(TensorLedgerTest, AllRanksMayChangeTheSignatureTogether) {
  learn("x", shaped(4));

  for (int rank = 0; rank < kRanks; ++rank) {
    ASSERT_TRUE(add(rank, "x", shaped(7)));
  }

  const LedgerEntry entry = take_ready();
  EXPECT_EQ("", entry.error);
  EXPECT_EQ(shaped(7), entry.signature());
}

TEST_F(TensorLedgerTest, AJoinCompletesWhatWaitedForItsRankInTheOrderInWhichItWasBegun) {
  const CacheId first = learn("z", shaped(4));
  const CacheId second = learn("a", shaped(4));
  for (const CacheId id : {first, second}) {
    ASSERT_TRUE(add_cached(0, id));
    ASSERT_TRUE(add_cached(1, id));
  }

  ASSERT_TRUE(ledger_.join(2));

  ASSERT_EQ(2u, ledger_.ready().size());
  EXPECT_EQ("z", ledger_.ready().front()->name);
  EXPECT_EQ(2, ledger_.ready().front()->submitted);
  EXPECT_FALSE(ledger_.join(2));
  EXPECT_FALSE(add_cached(2, learn("b", shaped(1))));
}

TEST_F(TensorLedgerTest, WhatWasRegisteredIsNotWhileARankHasJoined) {
  const CacheId id = learn("x", shaped(4), 128);
  ASSERT_TRUE(ledger_.join(1));

  ASSERT_TRUE(add_cached(0, id));
  ASSERT_TRUE(add_cached(2, id));

  EXPECT_FALSE(take_ready().is_registered());
}

TEST_F(TensorLedgerTest, AGroupAskedForByIdsGoesAsAWhole) {
  Signature member = shaped(4);
  member.group = "g";
  member.group_size = 2;
  const CacheId first = learn("x", member);
  const CacheId second = learn("y", member);
  for (int rank = 0; rank < kRanks; ++rank) {
    ASSERT_TRUE(add_cached(rank, first));
  }
  EXPECT_TRUE(ledger_.ready().empty());
  EXPECT_TRUE(ledger_.missing_ranks(*ledger_.waiting().front()).empty());

  for (int rank = 0; rank < kRanks; ++rank) {
    ASSERT_TRUE(add_cached(rank, second));
  }

  EXPECT_EQ(2u, ledger_.ready().size());
  EXPECT_TRUE(ledger_.waiting().empty());
}

}  // namespace
}  // namespace ringtune
