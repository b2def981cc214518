// SPDX-License-Identifier: Apache-2.0
#include "engine/gpu/nccl/nccl_packing.h"

#include <numeric>
#include <random>

#include <gtest/gtest.h>

namespace ringtune {
namespace {

uint64_t elements_in(const PackingPlan& plan, size_t tensor) {
  uint64_t elements = 0;
  for (const PackingRound& round : plan.rounds) {
    for (const PackedPiece& piece : round.pieces) {
      elements += piece.tensor == tensor ? piece.elements : 0;
    }
  }
  return elements;
}

TEST(NcclPacking, SmallTensorsShareABufferAndLargeOnesStayWhereTheyAre) {
  const std::vector<uint64_t> elements{3, 1000, 0, 5, 1};

  const PackingPlan plan = plan_packing(elements, {10, false, 64, 4});

  EXPECT_EQ((std::vector<size_t>{1}), plan.in_place);
  ASSERT_EQ(1U, plan.rounds.size());
  EXPECT_EQ((std::vector<PackedPiece>{{0, 0, 3, 0}, {3, 0, 5, 4}, {4, 0, 1, 12}}), plan.rounds[0].pieces);
  EXPECT_EQ(13U, plan.rounds[0].elements);
  EXPECT_EQ(3U, plan.packed);
}

TEST(NcclPacking, ASingleSmallTensorIsNotPackedUnlessAllAre) {
  const std::vector<uint64_t> elements{7, 0, 100};

  EXPECT_EQ((std::vector<size_t>{0, 2}), plan_packing(elements, {10, false, 64, 4}).in_place);
  EXPECT_TRUE(plan_packing(elements, {0, true, 64, 4}).in_place.empty());
}

TEST(NcclPacking, NothingIsPackedWhereTheBoundIsZero) {
  const std::vector<uint64_t> elements{1, 1, 1};

  EXPECT_TRUE(plan_packing(elements, {0, false, 64, 4}).rounds.empty());
}

TEST(NcclPacking, ATensorThatDoesNotFitIsCutOverRounds) {
  const PackingPlan plan = plan_packing(std::vector<uint64_t>{10, 40}, {0, true, 16, 4});

  ASSERT_EQ(4U, plan.rounds.size());
  EXPECT_EQ((std::vector<PackedPiece>{{0, 0, 10, 0}, {1, 0, 4, 12}}), plan.rounds[0].pieces);
  EXPECT_EQ((std::vector<PackedPiece>{{1, 36, 4, 0}}), plan.rounds[3].pieces);
}

TEST(NcclPacking, EveryElementHasOnePlaceInABufferOfItsSize) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<uint64_t> elements(1 + random() % 20);
    for (uint64_t& count : elements) {
      count = random() % 3 == 0 ? 0 : random() % 300;
    }
    const PackingRule rule{random() % 200, random() % 2 == 0, 64 + random() % 100, 1ULL << random() % 5};

    const PackingPlan plan = plan_packing(elements, rule);

    for (size_t tensor = 0; tensor < elements.size(); ++tensor) {
      const bool is_in_place = std::ranges::find(plan.in_place, tensor) != plan.in_place.end();
      EXPECT_EQ(is_in_place ? 0 : elements[tensor], elements_in(plan, tensor));
    }
    for (const PackingRound& filling : plan.rounds) {
      uint64_t end = 0;
      for (const PackedPiece& piece : filling.pieces) {
        EXPECT_EQ(0U, piece.offset % rule.alignment);
        EXPECT_GE(piece.offset, end);
        end = piece.offset + piece.elements;
      }
      EXPECT_EQ(end, filling.elements);
      EXPECT_LE(end, rule.buffer_elements);
    }
  }
}

}  // namespace
}  // namespace ringtune
