// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/byte_ring.h"

#include <cstdlib>
#include <memory>
#include <random>
#include <thread>

#include <gtest/gtest.h>
#include <sched.h>

namespace ringtune {
namespace {

struct Memory {
  Memory(size_t capacity_bytes, int readers)
      : size(ByteRing::footprint(capacity_bytes, readers)),
        bytes(static_cast<std::byte*>(std::aligned_alloc(kCacheLine, size)), &std::free) {
    std::fill_n(bytes.get(), size, std::byte{0});
  }
  size_t size;
  std::unique_ptr<std::byte, decltype(&std::free)> bytes;
};

Bytes frame_of(size_t size, uint8_t value) { return Bytes(size, static_cast<std::byte>(value)); }

TEST(ByteRing, AFullRingTakesNothingUntilTheSlowestReaderHasRead) {
  Memory memory(128, 2);
  ByteRing ring(memory.bytes.get(), 128, 2);
  Bytes frame;

  EXPECT_TRUE(ring.try_write(frame_of(100, 1)));
  EXPECT_FALSE(ring.try_write(frame_of(100, 2)));
  EXPECT_TRUE(ring.try_read(0, frame));
  EXPECT_FALSE(ring.try_write(frame_of(100, 2)));
  EXPECT_TRUE(ring.try_read(1, frame));

  EXPECT_TRUE(ring.try_write(frame_of(100, 2)));
  EXPECT_TRUE(ring.try_read(0, frame));
  EXPECT_EQ(frame_of(100, 2), frame);
}

TEST(ByteRing, EveryReaderGetsEveryFrameInOrderAcrossTheWrap) {
  constexpr int kFrames = 20000;
  constexpr size_t kCapacity = 997;  // frames wrap at every offset
  Memory memory(kCapacity, 2);
  const auto size_of = [](int i) { return static_cast<size_t>(i * 31 % 200); };

  const auto read_all = [&](int reader) {
    ByteRing ring(memory.bytes.get(), kCapacity, 2);
    Bytes frame;
    for (int i = 0; i < kFrames; ++i) {
      while (!ring.try_read(reader, frame)) {
        sched_yield();
      }
      ASSERT_EQ(frame_of(size_of(i), static_cast<uint8_t>(i)), frame) << "frame " << i;
    }
  };
  std::thread first(read_all, 0);
  std::thread second(read_all, 1);
  ByteRing ring(memory.bytes.get(), kCapacity, 2);
  for (int i = 0; i < kFrames; ++i) {
    while (!ring.try_write(frame_of(size_of(i), static_cast<uint8_t>(i)))) {
      sched_yield();
    }
  }
  first.join();
  second.join();
}

}  // namespace
}  // namespace ringtune
