// SPDX-License-Identifier: Apache-2.0
#include "engine/gpu/staging/staging_memory.h"

#include "base/config.h"
#include "device/standin_world.h"

namespace ringtune {
namespace {

class StagingMemoryTest : public testing::StandinTest {
 protected:
  void SetUp() override {
    StandinTest::SetUp();
    std::shared_ptr<const Driver> driver;
    ASSERT_TRUE(Driver::load(RINGTUNE_STANDIN_CUDA, driver).ok());
    ASSERT_TRUE(Device::open(driver, 0, device_).ok());
    segment_ = testing::make_segment(2);
  }
  void TearDown() override {
    device_.reset();
    StandinTest::TearDown();
  }

  std::shared_ptr<Arena> arena(int rank) const { return std::make_shared<Arena>(segment_->arenas(), rank); }

  std::shared_ptr<Device> device_;
  std::shared_ptr<Segment> segment_;
};

TEST_F(StagingMemoryTest, EqualSequencesGiveEqualPlacesOnAllRanks) {
  StagingMemory first(arena(0));
  StagingMemory second(arena(1));
  const Device::Scope scope(*device_);
  for (size_t i = 0; i < 50; ++i) {
    const size_t bytes = (i * 7919) % (3 * kMiB) + 1;
    const std::string name = "g" + std::to_string(i);
    const StagingBlock* one = first.take(name, bytes, true, *device_);
    const StagingBlock* two = second.take(name, bytes, true, *device_);

    ASSERT_TRUE(one->is_place && two->is_place) << i;
    ASSERT_EQ(first.offset_of(*one, bytes), second.offset_of(*two, bytes)) << i;
  }
}

TEST_F(StagingMemoryTest, AGradientKeepsItsPlace) {
  StagingMemory memory(arena(0));
  const Device::Scope scope(*device_);
  StagingBlock* const block = memory.take("g", 1000, true, *device_);
  memory.put_back(block, nullptr);

  EXPECT_EQ(block, memory.take("g", 1000, true, *device_));
}

TEST_F(StagingMemoryTest, WhileItsPlaceIsTakenANameIsStagedElsewhere) {
  StagingMemory memory(arena(0));
  const Device::Scope scope(*device_);
  const StagingBlock* block = memory.take("g", 1000, true, *device_);

  const StagingBlock* other = memory.take("g", 1000, true, *device_);

  EXPECT_NE(block, other);
  EXPECT_FALSE(other->is_place);
}

TEST_F(StagingMemoryTest, ThePoolGivesABlockAgainAndFreesWhatIsMuchTooMuch) {
  StagingMemory memory(nullptr);
  const Device::Scope scope(*device_);
  for (int round = 0; round < 3; ++round) {
    StagingBlock* const block = memory.take("x", kMiB, false, *device_);
    memory.put_back(block, nullptr);
  }
  EXPECT_EQ(1, standin_counts().pinned_allocations);

  std::vector<StagingBlock*> blocks;
  for (int i = 0; i < 20; ++i) {
    blocks.push_back(memory.take("x", 64 * kMiB, false, *device_));
  }
  for (StagingBlock* block : blocks) {
    memory.put_back(block, nullptr);
  }
  EXPECT_EQ(21, standin_counts().pinned_allocations);
  memory.take("y", 200 * kMiB, false, *device_);
  EXPECT_LE(standin_counts().pinned_allocations, 6);
}

TEST_F(StagingMemoryTest, WithoutPinnedMemoryThereIsPageable) {
  reset({1, 1, 0, 0, 0});
  StagingMemory memory(arena(0));
  const Device::Scope scope(*device_);

  const StagingBlock* block = memory.take("g", 1000, true, *device_);

  ASSERT_NE(nullptr, block);
  EXPECT_EQ(nullptr, block->pinned_through);
  EXPECT_EQ(kNotInArena, memory.offset_of(*block, 1000));
}

}  // namespace
}  // namespace ringtune
