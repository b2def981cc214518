// SPDX-License-Identifier: Apache-2.0
#include "collectives/allreduce.h"

#include <algorithm>
#include <array>

#include "collectives/message_sizes.h"

namespace ringtune {
namespace {

constexpr std::array<AllreduceAlgorithm, 12> kAlgorithms{{
    {"direct", "every rank reduces everything: one synchronization", Reach::kOneHost, TensorMemory::kAny,
     kDirectMaxBytes, &direct_allreduce},
    {"registered", "every rank reduces its block in the ranks' own memory: nothing is staged", Reach::kOneHost,
     TensorMemory::kRegistered, kAnySize, &registered_allreduce},
    {"reduce_scatter_allgather", "every rank reduces its block of each chunk, pipelined through cache-sized stages",
     Reach::kOneHost, TensorMemory::kAny, kAnySize, &reduce_scatter_allgather},
    {"hierarchical", "shared memory inside a host; between hosts every local rank exchanges the block it reduced",
     Reach::kHostByHost, TensorMemory::kAny, kAnySize, &hierarchical_allreduce},
    {"hierarchical_whole", "as hierarchical, in one round: blocks of any size are exchanged whole", Reach::kHostByHost,
     TensorMemory::kAny, 0, &hierarchical_whole_allreduce},
    {"hierarchical_recursive_doubling", "shared memory inside a host; between hosts recursive doubling",
     Reach::kHostByHost, TensorMemory::kAny, 0, &hierarchical_recursive_doubling_allreduce},
    {"hierarchical_halving_doubling", "shared memory inside a host; between hosts recursive halving and doubling",
     Reach::kHostByHost, TensorMemory::kAny, 0, &hierarchical_halving_doubling_allreduce},
    {"hierarchical_tree", "shared memory inside a host; between hosts a binomial tree", Reach::kHostByHost,
     TensorMemory::kAny, 0, &hierarchical_tree_allreduce},
    {"recursive_doubling", "partners at distances 1, 2, 4, ... exchange the whole message", Reach::kAllRanks,
     TensorMemory::kAny, kDoublingMaxBytes, &recursive_doubling_allreduce},
    {"halving_doubling", "partners at distances 1, 2, 4, ... halve the message, and put it together on the way back",
     Reach::kAllRanks, TensorMemory::kAny, 0, &halving_doubling_allreduce},
    {"tree", "segments go up a binomial tree of all ranks, and their results down", Reach::kAllRanks,
     TensorMemory::kAny, 0, &tree_allreduce},
    {"ring", "all ranks form one ring over the network, whatever their hosts", Reach::kAllRanks, TensorMemory::kAny,
     kAnySize, &ring_allreduce},
}};

bool has_one_host(const Layout& layout) { return layout.host_count() == 1; }
bool has_one_rank_per_host(const Layout& layout) { return layout.host_count() == layout.world_size(); }

template <typename Predicate>
int first_row(Predicate is_wanted) {
  const auto row = std::find_if(kAlgorithms.begin(), kAlgorithms.end(), is_wanted);
  return static_cast<int>(row - kAlgorithms.begin());
}

}  // namespace

std::span<const AllreduceAlgorithm> allreduce_algorithms() { return kAlgorithms; }

bool can_run(const AllreduceAlgorithm& algorithm, const Layout& layout, TensorMemory memory) {
  return (algorithm.reach == Reach::kOneHost) == has_one_host(layout) &&
         (algorithm.memory == TensorMemory::kAny || algorithm.memory == memory);
}

std::vector<std::string_view> configurable_allreduce_algorithms() {
  std::vector<std::string_view> names;
  for (const AllreduceAlgorithm& row : kAlgorithms) {
    if (row.memory == TensorMemory::kAny) {
      names.push_back(row.name);
    }
  }
  return names;
}

std::optional<int> configured_algorithm(const EngineConfig& config, const Layout& layout) {
  const int row = algorithm_named(config.allreduce_algorithm);
  const bool is_able = row < static_cast<int>(kAlgorithms.size()) &&
                       can_run(kAlgorithms[static_cast<size_t>(row)], layout, TensorMemory::kAny);
  return is_able ? std::optional(row) : std::nullopt;
}

bool is_choice_of_auto(const AllreduceAlgorithm& algorithm, const Layout& layout, bool is_hierarchical) {
  if (!can_run(algorithm, layout, TensorMemory::kAny)) {
    return false;
  }
  return has_one_host(layout) || has_one_rank_per_host(layout) ||
         (algorithm.reach == Reach::kHostByHost) == is_hierarchical;
}

int registered_algorithm(const Layout& layout, size_t bytes) {
  return first_row([&](const AllreduceAlgorithm& row) {
    return bytes <= row.auto_max_bytes && can_run(row, layout, TensorMemory::kRegistered);
  });
}

int rounding_algorithm(int chosen) {
  const bool is_whole = kAlgorithms[static_cast<size_t>(chosen)].run == &hierarchical_whole_allreduce;
  return first_row([&](const AllreduceAlgorithm& row) {
    return row.run == (is_whole ? &hierarchical_whole_allreduce : &hierarchical_allreduce);
  });
}

int algorithm_named(std::string_view name) {
  return first_row([name](const AllreduceAlgorithm& row) { return row.name == name; });
}

}  // namespace ringtune
