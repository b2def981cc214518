// SPDX-License-Identifier: Apache-2.0
// The registry of allreduce algorithms. A new one is one file and one row of the table in allreduce.cpp.
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
};

inline constexpr size_t kAnySize = std::numeric_limits<size_t>::max();

// Worlds in which an algorithm can run.
enum class Reach : uint8_t { kOneHost, kSeveralHosts };

// Memory of a fusion's tensors: registered ones lie at the same offsets of the arenas of all ranks.
enum class TensorMemory : uint8_t { kAny, kRegistered };

struct AllreduceAlgorithm {
  std::string_view name;
  std::string_view description;
  Reach reach;
  TensorMemory memory;  // memory that it needs
  // Compiled in: `auto` takes the first row whose bound holds the message, unless a measured table says otherwise.
  size_t auto_max_bytes;
  Status (*run)(const AllreduceTask& task);
};

// All rows; a row's number is what travels.
std::span<const AllreduceAlgorithm> allreduce_algorithms();
bool can_run(const AllreduceAlgorithm& algorithm, const Layout& layout, TensorMemory memory);

// Names that a config may ask for: rows of one host that take any memory. Between hosts `hierarchical_allreduce`
// decides.
std::vector<std::string_view> configurable_allreduce_algorithms();

// The config's choice for any message: between hosts always, inside one where it names a row.
std::optional<int> configured_algorithm(const EngineConfig& config, const Layout& layout);
// The first row of the registry whose bound holds a message of registered tensors: what the table does not measure.
int registered_algorithm(const Layout& layout, size_t bytes);
// The row of that name; past the last one if there is none.
int algorithm_named(std::string_view name);

// One file each.
Status direct_allreduce(const AllreduceTask& task);
Status registered_allreduce(const AllreduceTask& task);
Status reduce_scatter_allgather(const AllreduceTask& task);
Status ring_allreduce(const AllreduceTask& task);
Status hierarchical_allreduce(const AllreduceTask& task);

}  // namespace ringtune
