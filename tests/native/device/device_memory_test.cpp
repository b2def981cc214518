// SPDX-License-Identifier: Apache-2.0
#include "device/device_memory.h"

#include <memory>
#include <vector>

#include "device/standin_world.h"

namespace ringtune {
namespace {

using testing::DeviceVector;
using testing::UserStream;

constexpr size_t kElements = 1000;
constexpr size_t kBytes = kElements * sizeof(int32_t);

class DeviceMemoryTest : public testing::StandinTest {
 protected:
  // Streams run at very different speeds.
  void SetUp() override { reset({1, 3, 5000, 1, 1, 1}); }

  static std::shared_ptr<Device> open() {
    std::shared_ptr<const Driver> driver;
    EXPECT_TRUE(Driver::load(RINGTUNE_STANDIN_CUDA, driver).ok());
    std::shared_ptr<Device> device;
    EXPECT_TRUE(Device::open(driver, 0, device).ok());
    return device;
  }
};

TEST_F(DeviceMemoryTest, AUserWritesAfterTheAllocationAndATakerReadsBeforeTheEnd) {
  const std::shared_ptr<Device> device = open();
  std::shared_ptr<DeviceMemoryPool> pool;
  ASSERT_TRUE(DeviceMemoryPool::open(device, pool).ok());
  const UserStream user;
  const UserStream taker;
  const Device::Scope scope(*device);
  for (int round = 0; round < 10; ++round) {
    DeviceVector<int32_t> target(kElements);
    std::shared_ptr<DeviceMemory> memory;
    ASSERT_TRUE(pool->allocate(kBytes, user.raw(), memory).ok());
    std::shared_ptr<DeviceEvent> filled;
    ASSERT_TRUE(device->make_event(filled).ok());
    standin_fill(user.raw(), reinterpret_cast<uint64_t>(memory->data()), round, kBytes, 0);
    ASSERT_TRUE(device->record(*filled, user.raw()).ok());
    memory->set_filled(filled);
    ASSERT_TRUE(device->wait_for(*filled, taker.raw()).ok());

    ASSERT_TRUE(memory->move_to(target.address(), taker.raw()).ok());

    EXPECT_EQ(std::vector<int32_t>(kElements, round * 0x01010101), target.read_on(taker));
    EXPECT_EQ(0, standin_counts().pool_allocations);
  }
}

TEST_F(DeviceMemoryTest, WhatNobodyTakesIsFreedOnceItIsFilled) {
  const std::shared_ptr<Device> device = open();
  std::shared_ptr<DeviceMemoryPool> pool;
  ASSERT_TRUE(DeviceMemoryPool::open(device, pool).ok());
  const UserStream user;
  const Device::Scope scope(*device);
  std::shared_ptr<DeviceMemory> memory;
  ASSERT_TRUE(pool->allocate(kBytes, user.raw(), memory).ok());
  std::shared_ptr<DeviceEvent> filled;
  ASSERT_TRUE(device->make_event(filled).ok());
  standin_fill(user.raw(), reinterpret_cast<uint64_t>(memory->data()), 1, kBytes, 20'000);
  ASSERT_TRUE(device->record(*filled, user.raw()).ok());
  memory->set_filled(filled);

  pool.reset();  // allocated memory keeps the pool alive
  memory.reset();

  EXPECT_EQ(0, standin_counts().pool_allocations);
  EXPECT_EQ(0, standin_counts().pools);
}

TEST_F(DeviceMemoryTest, AFailedPoolOrAllocationLeavesNothing) {
  const std::shared_ptr<Device> device = open();
  std::shared_ptr<DeviceMemoryPool> pool;
  for (const char* function : {"cuStreamCreate", "cuMemPoolCreate", "cuMemPoolSetAttribute"}) {
    standin_fail(function, 1, testing::kInvalidValue);
    const Status status = DeviceMemoryPool::open(device, pool);
    EXPECT_EQ(0U, status.message().find(function)) << status.message();
    EXPECT_EQ(nullptr, pool);
    EXPECT_EQ(0, standin_counts().pools);
    EXPECT_EQ(0, standin_counts().streams);
  }
  ASSERT_TRUE(DeviceMemoryPool::open(device, pool).ok());
  const UserStream user;
  const Device::Scope scope(*device);
  for (const char* function : {"cuEventCreate", "cuMemAllocFromPoolAsync", "cuEventRecord", "cuStreamWaitEvent"}) {
    standin_fail(function, 1, testing::kInvalidValue);
    std::shared_ptr<DeviceMemory> memory;
    const Status status = pool->allocate(kBytes, user.raw(), memory);
    EXPECT_EQ(0U, status.message().find(function)) << status.message();
    EXPECT_EQ(nullptr, memory);
    EXPECT_EQ(0, standin_counts().pool_allocations);
  }
}

}  // namespace
}  // namespace ringtune
