// SPDX-License-Identifier: Apache-2.0
// Memory that this process may still take, as the kernel reports it: the machine's, and that of its control groups.
#pragma once

#include <cstdint>
#include <string>

namespace ringtune {

class MemoryBudget {
 public:
  // The roots are there for tests.
  explicit MemoryBudget(std::string proc = "/proc", std::string control_groups = "/sys/fs/cgroup");

  // The smallest of their remainders; the largest value where no limit is known.
  uint64_t available_bytes() const;

 private:
  uint64_t machine_bytes() const;
  // Limit of the group and all groups above it, version 2 and version 1 of the interface.
  uint64_t group_bytes() const;

  std::string proc_;
  std::string control_groups_;
};

}  // namespace ringtune
