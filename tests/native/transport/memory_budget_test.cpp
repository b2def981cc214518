// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/memory_budget.h"

#include <filesystem>
#include <fstream>
#include <limits>

#include <gtest/gtest.h>

#include "base/config.h"

namespace ringtune {
namespace {

// A kernel's files, as far as they are written by the test.
class MemoryBudgetTest : public ::testing::Test {
 protected:
  MemoryBudgetTest() {
    std::string pattern = ::testing::TempDir() + "memory_budget.XXXXXX";
    root_ = mkdtemp(pattern.data());
  }
  ~MemoryBudgetTest() override { std::filesystem::remove_all(root_); }

  void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text << "\n";
  }

  uint64_t available_bytes() const { return MemoryBudget(root_ / "proc", root_ / "cgroup").available_bytes(); }

  std::filesystem::path root_;
};

TEST_F(MemoryBudgetTest, WithoutAnyFileNothingIsKnown) {
  EXPECT_EQ(std::numeric_limits<uint64_t>::max(), available_bytes());
}

TEST_F(MemoryBudgetTest, TheMachineTellsWhatItHas) {
  write("proc/meminfo", "MemTotal:  4096 kB\nMemFree:  512 kB\nMemAvailable:  2048 kB");

  EXPECT_EQ(2 * kMiB, available_bytes());
}

TEST_F(MemoryBudgetTest, TheTightestGroupAboveTheProcessDecides) {
  write("proc/meminfo", "MemAvailable:  1048576 kB");
  write("proc/self/cgroup", "0::/jobs/one");
  write("cgroup/jobs/memory.max", "8388608");
  write("cgroup/jobs/memory.current", "7340032");
  write("cgroup/jobs/one/memory.max", "max");
  write("cgroup/jobs/one/memory.current", "1048576");

  EXPECT_EQ(1 * kMiB, available_bytes());
}

TEST_F(MemoryBudgetTest, APathThatOnlyTheHostKnowsLeavesTheMountItself) {
  write("proc/self/cgroup", "0::/host/only");
  write("cgroup/memory.max", "8388608");
  write("cgroup/memory.current", "6291456");

  EXPECT_EQ(2 * kMiB, available_bytes());
}

TEST_F(MemoryBudgetTest, CacheThatCanGoIsAvailable) {
  write("cgroup/memory.max", "8388608");
  write("cgroup/memory.current", "8388608");
  write("cgroup/memory.stat", "anon 4194304\ninactive_file 3145728\nactive_file 1048576");

  EXPECT_EQ(3 * kMiB, available_bytes());
}

TEST_F(MemoryBudgetTest, AGroupOverItsLimitLeavesNothing) {
  write("cgroup/memory.max", "1048576");
  write("cgroup/memory.current", "2097152");

  EXPECT_EQ(0u, available_bytes());
}

TEST_F(MemoryBudgetTest, TheOlderInterfaceIsReadToo) {
  write("proc/self/cgroup", "5:cpu:/\n4:memory:/job\n0::/");
  write("cgroup/memory/job/memory.limit_in_bytes", "4194304");
  write("cgroup/memory/job/memory.usage_in_bytes", "3145728");
  write("cgroup/memory/job/memory.stat", "inactive_file 0\ntotal_inactive_file 1048576");

  EXPECT_EQ(2 * kMiB, available_bytes());
}

TEST_F(MemoryBudgetTest, FilesThatMakeNoSenseAreAsGoodAsNone) {
  write("proc/meminfo", "MemAvailable:");
  write("proc/self/cgroup", "nonsense\n0::relative\n:::");
  write("cgroup/memory.max", "much");

  EXPECT_EQ(std::numeric_limits<uint64_t>::max(), available_bytes());
}

}  // namespace
}  // namespace ringtune
