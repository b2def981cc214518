// SPDX-License-Identifier: Apache-2.0
// The registry of allreduce algorithms. A new one is one file and one row of the table in allreduce.cpp; between hosts
// also its times in world/algorithm_tables/between_hosts.py.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/config.h"
#include "base/status.h"
#include "collectives/chunks.h"
#include "collectives/collective_context.h"
#include "collectives/gather_list.h"
#include "collectives/reduce_kernels.h"

namespace ringtune {

struct AllreduceTask {
  CollectiveContext& context;
  const GatherList& data;
  const Reduction& reduction;
  size_t chunk_bytes;  // a multiple of the cache line
  // Partial results travel between hosts as bfloat16: only `rounding_algorithm`s do that, for float32 and bfloat16.
  bool is_rounded = false;
  // Bytes of the message that may be on their way between hosts at once, if they are more than two chunks; equal on all
  // ranks. `hierarchical` and `hierarchical_whole` alone heed it.
  size_t in_flight_bytes = 0;
};

inline constexpr size_t kAnySize = std::numeric_limits<size_t>::max();

// Worlds in which an algorithm can run: one host, or several, all ranks of which are alike to it, or which it goes
// through host by host.
enum class Reach : uint8_t { kOneHost, kAllRanks, kHostByHost };

// Memory of a fusion's tensors: registered ones lie at the same offsets of the arenas of all ranks.
enum class TensorMemory : uint8_t { kAny, kRegistered };

struct AllreduceAlgorithm {
  std::string_view name;
  std::string_view description;
  Reach reach;
  TensorMemory memory;  // memory that it needs
  // Compiled in: `auto` takes the first row whose bound holds the message, unless a measured table says otherwise; 0:
  // only such a table or a config names it.
  size_t auto_max_bytes;
  Status (*run)(const AllreduceTask& task);
};

// All rows; ranks send each other a row's number.
std::span<const AllreduceAlgorithm> allreduce_algorithms();
bool can_run(const AllreduceAlgorithm& algorithm, const Layout& layout, TensorMemory memory);

// Names that a config may ask for: rows that take any memory.
std::vector<std::string_view> configurable_allreduce_algorithms();

// The config's choice for any message, where it names a row that can run here.
std::optional<int> configured_algorithm(const EngineConfig& config, const Layout& layout);
// The first row of the registry whose bound holds a message of registered tensors. The table has no times of these.
int registered_algorithm(const Layout& layout, size_t bytes);
// True for the rows that `auto` may choose. Between hosts rows go host by host where `hierarchical_allreduce` is on,
// else they take all ranks alike; where every host has one rank, either will do.
bool is_choice_of_auto(const AllreduceAlgorithm& algorithm, const Layout& layout, bool is_hierarchical);
// The row that rounds in the place of one that was chosen for a message between hosts: itself, if it can.
int rounding_algorithm(int chosen);
// The row of that name; past the last one if there is none.
int algorithm_named(std::string_view name);

// One file each.
Status direct_allreduce(const AllreduceTask& task);
Status registered_allreduce(const AllreduceTask& task);
Status reduce_scatter_allgather(const AllreduceTask& task);
Status ring_allreduce(const AllreduceTask& task);
Status hierarchical_allreduce(const AllreduceTask& task);
// True if a hierarchical allreduce cuts the largest blocks of the message into one share per host.
bool has_shares(const AllreduceTask& task);
Status hierarchical_whole_allreduce(const AllreduceTask& task);
// These in pairwise_allreduce.cpp.
Status recursive_doubling_allreduce(const AllreduceTask& task);
Status halving_doubling_allreduce(const AllreduceTask& task);
Status tree_allreduce(const AllreduceTask& task);
Status hierarchical_recursive_doubling_allreduce(const AllreduceTask& task);
Status hierarchical_halving_doubling_allreduce(const AllreduceTask& task);
Status hierarchical_tree_allreduce(const AllreduceTask& task);

}  // namespace ringtune
