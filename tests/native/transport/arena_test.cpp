// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/arena.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "transport/cluster.h"

namespace ringtune {
namespace {

constexpr size_t kTensorBytes = 100 * 1000;

// The value that `body` returns in a forked child.
int in_child(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    _exit(body());
  }
  int outcome = 0;
  waitpid(child, &outcome, 0);
  return WIFEXITED(outcome) ? WEXITSTATUS(outcome) : -1;
}

class ArenaTest : public ::testing::Test {
 protected:
  ArenaTest() : segment_(testing::host_segment(2)), arena_(make(0)) {}

  std::shared_ptr<Arena> make(int rank) const { return std::make_shared<Arena>(segment_->arenas(), rank); }

  static std::shared_ptr<std::byte> allocate(Arena& arena, size_t bytes) {
    std::shared_ptr<std::byte> memory;
    const Status status = arena.allocate(bytes, memory);
    EXPECT_TRUE(status.ok()) << status.message();
    return memory;
  }

  ArenaOffset place(const std::shared_ptr<std::byte>& memory) const { return arena_->offset_of(memory.get(), 1); }

  std::shared_ptr<Segment> segment_;
  std::shared_ptr<Arena> arena_;
};

TEST_F(ArenaTest, EqualCallsGiveEqualOffsetsAndAllRanksSeeTheMemory) {
  const auto other = make(1);
  for (const size_t bytes : {size_t{1}, kTensorBytes, size_t{64}, kTensorBytes + 1}) {
    const auto mine = allocate(*arena_, bytes);
    const auto theirs = allocate(*other, bytes);

    ASSERT_EQ(0u, reinterpret_cast<uintptr_t>(mine.get()) % kCacheLine);
    ASSERT_EQ(place(mine), other->offset_of(theirs.get(), bytes));
    std::memset(mine.get(), 7, bytes);
    ASSERT_EQ(std::byte{7}, segment_->arenas()->arena(0)[place(mine) + bytes - 1]);
  }
}

TEST_F(ArenaTest, ArenasDoNotOverlapAndAreStaggered) {
  const Arenas& arenas = *segment_->arenas();
  const auto distance = static_cast<size_t>(arenas.arena(1) - arenas.arena(0));

  EXPECT_GE(distance, arenas.arena_bytes());
  EXPECT_NE(0u, distance % kPage);
}

TEST_F(ArenaTest, OnlyWhatIsAskedForIsAllocated) {
  int fd = -1;
  ASSERT_TRUE(Segment::create(2, fd).ok());
  struct stat info {};

  ASSERT_EQ(0, fstat(fd, &info));

  EXPECT_LT(static_cast<size_t>(info.st_blocks) * 512, Segment::total_bytes(2) + kPage);
  EXPECT_GT(static_cast<size_t>(info.st_size), 2 * kMaxArenaBytes);
  close(fd);
}

TEST_F(ArenaTest, WhatWasGivenBackIsUsedAgainAndTheLastRangeGrows) {
  auto first = allocate(*arena_, kTensorBytes);
  auto second = allocate(*arena_, kTensorBytes);
  auto third = allocate(*arena_, kTensorBytes);
  const ArenaOffset at_first = place(first);
  const ArenaOffset at_second = place(second);

  first.reset();
  const auto small = allocate(*arena_, kTensorBytes / 2);
  EXPECT_EQ(at_first, place(small));
  second.reset();  // joins the rest of the first
  const auto medium = allocate(*arena_, kTensorBytes * 5 / 4);
  EXPECT_LT(place(medium), at_second);
  third.reset();
  const auto large = allocate(*arena_, 3 * kTensorBytes);
  EXPECT_LT(place(large), 3 * kTensorBytes);
}

TEST_F(ArenaTest, OtherMemoryIsInNoArena) {
  std::byte elsewhere{};
  const auto memory = allocate(*arena_, kTensorBytes);
  const Arenas& arenas = *segment_->arenas();

  EXPECT_EQ(kNotInArena, arena_->offset_of(&elsewhere, 1));
  EXPECT_EQ(kNotInArena, arena_->offset_of(arenas.arena(1), 1));
  EXPECT_EQ(kNotInArena, arena_->offset_of(memory.get(), arenas.arena_bytes() + 1));
  EXPECT_NE(kNotInArena, arena_->offset_of(memory.get(), kTensorBytes));
}

TEST_F(ArenaTest, MemoryOutlivesTheSegmentAndTheArena) {
  const auto memory = allocate(*arena_, kTensorBytes);
  std::memset(memory.get(), 3, kTensorBytes);

  arena_.reset();
  segment_.reset();

  EXPECT_EQ(std::byte{3}, memory.get()[kTensorBytes - 1]);
}

TEST_F(ArenaTest, AForkedChildReadsItsParentsTensors) {
  const auto memory = allocate(*arena_, kTensorBytes);
  std::memset(memory.get(), 5, kTensorBytes);

  EXPECT_EQ(5, in_child([&] { return std::to_integer<int>(memory.get()[kTensorBytes - 1]); }));
}

TEST_F(ArenaTest, TooLittleMemoryIsAnErrorAndNothingIsLost) {
  std::string pattern = ::testing::TempDir() + "arena.XXXXXX";
  const std::filesystem::path root = mkdtemp(pattern.data());
  std::ofstream(root / "meminfo") << "MemAvailable:  64 kB\n";
  const auto poor = std::make_shared<Arena>(segment_->arenas(), 0, MemoryBudget(root, root / "none"));
  std::shared_ptr<std::byte> memory;

  const Status status = poor->allocate(kTensorBytes, memory);

  EXPECT_EQ(StatusCode::kConfigError, status.code());
  EXPECT_NE(std::string::npos, status.message().find("65536 bytes are available")) << status.message();
  EXPECT_EQ(nullptr, memory);
  EXPECT_EQ(0u, poor->offset_of(allocate(*poor, 1000).get(), 1000));
  std::filesystem::remove_all(root);
}

TEST_F(ArenaTest, MoreThanAnArenaHoldsIsAnError) {
  std::shared_ptr<std::byte> memory;

  EXPECT_EQ(StatusCode::kConfigError, arena_->allocate(kMaxArenaBytes + 1, memory).code());
  const auto some = allocate(*arena_, kTensorBytes);
  EXPECT_EQ(StatusCode::kConfigError, arena_->allocate(kMaxArenaBytes, memory).code());
}

// The bytes that the process has mapped; a sanitizer maps a lot.
size_t mapped_bytes() {
  size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * kPage;
}

TEST(Arenas, LimitsOfTheProcessLeaveThemOutOrMakeThemSmaller) {
  const auto limited = [](decltype(RLIMIT_AS) kind, size_t bytes) {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{bytes, bytes};
    setrlimit(kind, &limit);
    return testing::host_segment(2)->arenas();
  };
  constexpr size_t kGiB = size_t{1} << 30;

  EXPECT_EQ(1, in_child([&] { return limited(RLIMIT_AS, mapped_bytes() + 4 * kGiB) == nullptr ? 1 : 0; }));
  EXPECT_EQ(1, in_child([&] {
              const auto arenas = limited(RLIMIT_FSIZE, 2 * kGiB);
              const size_t bytes = arenas == nullptr ? 0 : arenas->arena_bytes();
              return bytes > kGiB / 2 && bytes < kGiB ? 1 : 0;
            }));
}

}  // namespace
}  // namespace ringtune
