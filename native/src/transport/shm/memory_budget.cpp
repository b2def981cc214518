// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/memory_budget.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <utility>

namespace ringtune {
namespace {

constexpr uint64_t kUnknown = std::numeric_limits<uint64_t>::max();
constexpr uint64_t kBytesPerKib = 1024;

// One version of the control groups' interface.
struct Interface {
  const char* controller;  // as in /proc/self/cgroup
  const char* mount;
  const char* limit;
  const char* usage;
  const char* reclaimable;  // key of memory.stat: page cache that goes before anything is refused
};
constexpr Interface kInterfaces[] = {
    {"", "", "memory.max", "memory.current", "inactive_file"},
    {"memory", "/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"},
};

// No value for a file that is missing or says "max".
std::optional<uint64_t> read_number(const std::string& path) {
  std::ifstream file(path);
  uint64_t value = 0;
  return file >> value ? std::optional(value) : std::nullopt;
}

// The number after a key at the beginning of a line.
std::optional<uint64_t> read_entry(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string word;
    uint64_t value = 0;
    if (words >> word >> value && word == key) {
      return value;
    }
  }
  return std::nullopt;
}

// "/a/b" of this process, from lines such as "0::/a/b" and "4:memory:/a/b"; empty where it is in none.
std::string group_path(const std::string& listing, const std::string& controller) {
  std::ifstream file(listing);
  std::string line;
  while (std::getline(file, line)) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (second == std::string::npos || line.substr(first + 1, second - first - 1) != controller) {
      continue;
    }
    const std::string path = line.substr(second + 1);
    return path.starts_with('/') ? path : "";
  }
  return "";
}

uint64_t left_in(const std::string& group, const Interface& interface) {
  const auto limit = read_number(group + "/" + interface.limit);
  const auto usage = read_number(group + "/" + interface.usage);
  if (!limit || !usage) {
    return kUnknown;
  }
  const uint64_t reclaimable = read_entry(group + "/memory.stat", interface.reclaimable).value_or(0);
  const uint64_t taken = *usage - std::min(*usage, reclaimable);
  return *limit - std::min(*limit, taken);
}

}  // namespace

MemoryBudget::MemoryBudget(std::string proc, std::string control_groups)
    : proc_(std::move(proc)), control_groups_(std::move(control_groups)) {}

uint64_t MemoryBudget::available_bytes() const { return std::min(machine_bytes(), group_bytes()); }

uint64_t MemoryBudget::machine_bytes() const {
  const auto available_kib = read_entry(proc_ + "/meminfo", "MemAvailable:");
  return available_kib ? *available_kib * kBytesPerKib : kUnknown;
}

uint64_t MemoryBudget::group_bytes() const {
  uint64_t least = kUnknown;
  for (const Interface& interface : kInterfaces) {
    // A container may see a path that its own mount does not have, whose root is then the group itself.
    const std::string root = control_groups_ + interface.mount;
    least = std::min(least, left_in(root, interface));
    for (std::string path = group_path(proc_ + "/self/cgroup", interface.controller); path.size() > 1;
         path.resize(path.rfind('/'))) {
      least = std::min(least, left_in(root + path, interface));
    }
  }
  return least;
}

}  // namespace ringtune
