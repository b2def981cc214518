// SPDX-License-Identifier: Apache-2.0
// The pairwise order, in groups of any size: every algorithm that has it gives its bits.
#include "collectives/pairwise.h"

#include <array>
#include <bit>
#include <numeric>
#include <string_view>

#include "collective_world.h"
#include "collectives/allreduce.h"
#include "reduction_reference.h"

namespace ringtune {
namespace {

using testing::CollectiveWorld;
using testing::Hosts;

// Every algorithm between hosts but the ring.
constexpr std::array<std::string_view, 8> kPairwise{"recursive_doubling",
                                                    "halving_doubling",
                                                    "tree",
                                                    "hierarchical_recursive_doubling",
                                                    "hierarchical_halving_doubling",
                                                    "hierarchical_tree",
                                                    "hierarchical_whole",
                                                    "hierarchical"};

Hosts hosts_of_one_rank(int count) {
  Hosts hosts(static_cast<size_t>(count));
  std::iota(hosts.begin(), hosts.end(), 0);
  return hosts;
}

std::vector<Bytes> results_of(CollectiveWorld& world, std::string_view name, const Reduction& reduction,
                              size_t chunk_bytes, const std::vector<Bytes>& inputs) {
  std::vector<Bytes> outputs = inputs;
  const AllreduceAlgorithm& row = allreduce_algorithms()[static_cast<size_t>(algorithm_named(name))];
  world.run([&](CollectiveContext& context) {
    Bytes& own = outputs[static_cast<size_t>(context.rank())];
    GatherList data;
    data.add(own.data(), own.data(), own.size());
    const Status status = row.run({context, data, reduction, chunk_bytes});
    EXPECT_TRUE(status.ok()) << status.message();
  });
  return outputs;
}

// The order as pairwise.h defines it, for one element.
float sum_in_pairs(const std::vector<float>& values) {
  const size_t paired = std::bit_floor(values.size());
  const size_t folding = values.size() - paired;
  std::vector<float> level;
  for (size_t member = 0; member < values.size(); ++member) {
    if (member >= 2 * folding) {
      level.push_back(values[member]);
    } else if (member % 2 == 0) {
      level.push_back(values[member] + values[member + 1]);
    }
  }
  while (level.size() > 1) {
    for (size_t i = 0; i < level.size() / 2; ++i) {
      level[i] = level[2 * i] + level[2 * i + 1];
    }
    level.resize(level.size() / 2);
  }
  return level.front();
}

// Sums of these round differently in every order.
float uneven_value(size_t member, size_t index) {
  return 1.0F / static_cast<float>(1 + index * 7 + member * 13) - 0.001F;
}

std::vector<Bytes> uneven_inputs(int members, size_t elements) {
  std::vector<Bytes> inputs;
  for (int member = 0; member < members; ++member) {
    Bytes& input = inputs.emplace_back(elements * sizeof(float));
    for (size_t i = 0; i < elements; ++i) {
      write_element(input.data(), i, uneven_value(static_cast<size_t>(member), i));
    }
  }
  return inputs;
}

Bytes expected_in_pairs(int members, size_t elements) {
  Bytes expected(elements * sizeof(float));
  std::vector<float> values(static_cast<size_t>(members));
  for (size_t i = 0; i < elements; ++i) {
    for (size_t member = 0; member < values.size(); ++member) {
      values[member] = uneven_value(member, i);
    }
    write_element(expected.data(), i, sum_in_pairs(values));
  }
  return expected;
}

class PairwiseTest : public ::testing::TestWithParam<int> {};

TEST_P(PairwiseTest, EveryAlgorithmHasTheBitsOfTheOrderOnEveryRankWhateverTheChunk) {
  CollectiveWorld world(hosts_of_one_rank(GetParam()));
  const Reduction sum{.ranks = world.size()};
  for (const size_t elements : {0, 1, 2, 5, 4097, 150001}) {
    const std::vector<Bytes> inputs = uneven_inputs(world.size(), elements);
    const Bytes expected = expected_in_pairs(world.size(), elements);
    for (const std::string_view name : kPairwise) {
      for (const size_t chunk_bytes : {testing::kSmallChunk, 256 * kKiB}) {
        for (const Bytes& result : results_of(world, name, sum, chunk_bytes, inputs)) {
          ASSERT_TRUE(expected == result) << name << ", " << elements << " elements in chunks of " << chunk_bytes;
        }
      }
    }
  }
}

TEST_P(PairwiseTest, EveryDtypeAndOperationFollowsItsDefinition) {
  CollectiveWorld world(hosts_of_one_rank(GetParam()));
  for (const Reduction& reduction : testing::all_reductions(world.size())) {
    for (const size_t elements : {1, 17, testing::goes_in_many_chunks(reduction) ? 20011 : 1000}) {
      std::vector<Bytes> inputs;
      for (int rank = 0; rank < world.size(); ++rank) {
        inputs.push_back(testing::contribution_of(reduction, rank, elements));
      }
      const Bytes expected = testing::expected_result(reduction, elements);
      for (const std::string_view name : kPairwise) {
        for (const Bytes& result : results_of(world, name, reduction, testing::kSmallChunk, inputs)) {
          ASSERT_TRUE(expected == result) << name << " " << testing::describe(reduction) << ", " << elements;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Members, PairwiseTest, ::testing::Values(2, 3, 4, 5, 6, 7, 8, 9, 16),
                         ::testing::PrintToStringParamName());

}  // namespace
}  // namespace ringtune
