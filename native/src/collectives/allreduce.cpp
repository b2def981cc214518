// SPDX-License-Identifier: Apache-2.0
#include "collectives/allreduce.h"

#include <algorithm>
#include <array>

#include "collectives/message_sizes.h"

namespace ringtune {
namespace {

constexpr std::string_view kRing = "ring";
constexpr std::string_view kHierarchical = "hierarchical";

constexpr std::array<AllreduceAlgorithm, 5> kAlgorithms{{
    {"direct", "every rank reduces everything: one synchronization", Reach::kOneHost, TensorMemory::kAny,
     kDirectMaxBytes, &direct_allreduce},
    {"registered", "every rank reduces its block in the ranks' own memory: nothing is staged", Reach::kOneHost,
     TensorMemory::kRegistered, kAnySize, &registered_allreduce},
    {"reduce_scatter_allgather", "every rank reduces its block of each chunk, pipelined through cache-sized stages",
     Reach::kOneHost, TensorMemory::kAny, kAnySize, &reduce_scatter_allgather},
    {kRing, "all ranks form one ring over the network, whatever their hosts", Reach::kSeveralHosts, TensorMemory::kAny,
     kAnySize, &ring_allreduce},
    {kHierarchical, "shared memory inside a host; between hosts every local rank exchanges the block it reduced",
     Reach::kSeveralHosts, TensorMemory::kAny, kAnySize, &hierarchical_allreduce},
}};

Reach reach_of(const Layout& layout) { return layout.host_count() == 1 ? Reach::kOneHost : Reach::kSeveralHosts; }

template <typename Predicate>
int first_row(Predicate is_wanted) {
  const auto row = std::find_if(kAlgorithms.begin(), kAlgorithms.end(), is_wanted);
  return static_cast<int>(row - kAlgorithms.begin());
}

}  // namespace

std::span<const AllreduceAlgorithm> allreduce_algorithms() { return kAlgorithms; }

bool can_run(const AllreduceAlgorithm& algorithm, const Layout& layout, TensorMemory memory) {
  return algorithm.reach == reach_of(layout) && (algorithm.memory == TensorMemory::kAny || algorithm.memory == memory);
}

std::vector<std::string_view> configurable_allreduce_algorithms() {
  std::vector<std::string_view> names;
  for (const AllreduceAlgorithm& row : kAlgorithms) {
    if (row.reach == Reach::kOneHost && row.memory == TensorMemory::kAny) {
      names.push_back(row.name);
    }
  }
  return names;
}

std::optional<int> configured_algorithm(const EngineConfig& config, const Layout& layout) {
  if (reach_of(layout) == Reach::kSeveralHosts) {
    return algorithm_named(config.hierarchical_allreduce ? kHierarchical : kRing);
  }
  return config.allreduce_algorithm == kAutoAlgorithm ? std::nullopt
                                                      : std::optional(algorithm_named(config.allreduce_algorithm));
}

int registered_algorithm(const Layout& layout, size_t bytes) {
  return first_row([&](const AllreduceAlgorithm& row) {
    return bytes <= row.auto_max_bytes && can_run(row, layout, TensorMemory::kRegistered);
  });
}

int algorithm_named(std::string_view name) {
  return first_row([name](const AllreduceAlgorithm& row) { return row.name == name; });
}

}  // namespace ringtune
