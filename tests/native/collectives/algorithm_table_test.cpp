// SPDX-License-Identifier: Apache-2.0
#include "collectives/algorithm_table.h"

#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "collectives/collective_world.h"

namespace ringtune {
namespace {

using testing::Hosts;

const Layout kOneHost = Layout::one_host(0, 2);
const Layout kTwoHosts(0, {0, 1});
const Layout kTwoByTwo(0, {0, 0, 1, 1});

std::string_view name_of(int algorithm) { return allreduce_algorithms()[static_cast<size_t>(algorithm)].name; }

std::string_view chosen(const EngineConfig& config, const Layout& layout, TensorMemory memory, size_t bytes) {
  return name_of(choose_allreduce(config, AlgorithmTable(layout), layout, memory, bytes).algorithm);
}

AlgorithmTable table_of(const std::vector<TableRow>& rows, const Layout& layout) {
  AlgorithmTable table(layout);
  const Status status = table.replace(rows, layout);
  EXPECT_TRUE(status.ok()) << status.message();
  return table;
}

const int kDirect = algorithm_named("direct");
const int kStaged = algorithm_named("reduce_scatter_allgather");
const int kRing = algorithm_named("ring");
const int kTree = algorithm_named("tree");
const int kHierarchical = algorithm_named("hierarchical");

TEST(AlgorithmTable, CoversEverySizeWithWhatCanRun) {
  for (const Hosts& hosts : testing::all_worlds()) {
    const Layout layout(0, hosts);
    const AlgorithmTable table(layout);
    for (const bool is_hierarchical : {false, true}) {
      EngineConfig config;
      config.hierarchical_allreduce = is_hierarchical;
      for (size_t bytes = 0; bytes < (size_t{1} << 40); bytes = bytes * 2 + 1) {
        for (const TensorMemory memory : {TensorMemory::kAny, TensorMemory::kRegistered}) {
          const AllreduceChoice choice = choose_allreduce(config, table, layout, memory, bytes);
          ASSERT_LT(static_cast<size_t>(choice.algorithm), allreduce_algorithms().size());
          ASSERT_TRUE(can_run(allreduce_algorithms()[static_cast<size_t>(choice.algorithm)], layout, memory));
        }
      }
    }
  }
}

TEST(AlgorithmTable, TheConfigDecides) {
  EngineConfig hierarchical;
  hierarchical.hierarchical_allreduce = true;

  for (const std::string_view name : configurable_allreduce_algorithms()) {
    EngineConfig config;
    config.allreduce_algorithm = name;
    const AllreduceAlgorithm& row = allreduce_algorithms()[static_cast<size_t>(algorithm_named(name))];
    const Layout& able = row.reach == Reach::kOneHost ? kOneHost : kTwoHosts;
    EXPECT_EQ(name, chosen(config, able, TensorMemory::kAny, 100));
  }
  EXPECT_EQ("direct", chosen(EngineConfig(), kOneHost, TensorMemory::kAny, 100));
  EXPECT_EQ("hierarchical", chosen(EngineConfig(), kTwoHosts, TensorMemory::kAny, 100));
  EXPECT_EQ("recursive_doubling", chosen(EngineConfig(), kTwoByTwo, TensorMemory::kAny, 16 * kKiB));
  EXPECT_EQ("ring", chosen(EngineConfig(), kTwoByTwo, TensorMemory::kAny, 16 * kKiB + 1));
  EXPECT_EQ("hierarchical", chosen(hierarchical, kTwoByTwo, TensorMemory::kAny, 100));
}

TEST(AlgorithmTable, ANameThatCannotRunHereLeavesTheChoiceToTheTable) {
  EngineConfig between_hosts;
  between_hosts.allreduce_algorithm = "ring";
  EngineConfig on_one_host;
  on_one_host.allreduce_algorithm = "direct";

  EXPECT_EQ("direct", chosen(between_hosts, kOneHost, TensorMemory::kAny, 100));
  EXPECT_EQ("ring", chosen(on_one_host, kTwoByTwo, TensorMemory::kAny, kMiB));
}

TEST(AlgorithmTable, BetweenHostsTheSwitchDecidesWhichRowsAreLookedAt) {
  const std::vector<TableRow> rows{{kMiB, kTree, 256 * kKiB},
                                   {64 * kKiB, algorithm_named("hierarchical_tree"), 256 * kKiB},
                                   {kAnySize, kRing, 512 * kKiB},
                                   {kAnySize, kHierarchical, kMiB}};
  const AlgorithmTable table = table_of(rows, kTwoByTwo);
  const auto name = [&](bool is_hierarchical, size_t bytes) {
    EngineConfig config;
    config.hierarchical_allreduce = is_hierarchical;
    return name_of(choose_allreduce(config, table, kTwoByTwo, TensorMemory::kAny, bytes).algorithm);
  };

  EXPECT_EQ("tree", name(false, 64 * kKiB));
  EXPECT_EQ("ring", name(false, kMiB + 1));
  EXPECT_EQ("hierarchical_tree", name(true, 64 * kKiB));
  EXPECT_EQ("hierarchical", name(true, 64 * kKiB + 1));
}

TEST(AlgorithmTable, WithOneRankPerHostATableMayNameTheHierarchicalRowForEither) {
  const AlgorithmTable table = table_of({{kAnySize, kHierarchical, kMiB}}, kTwoHosts);

  EXPECT_EQ(kHierarchical, table.algorithm(kTwoHosts, false, kMiB));
  EXPECT_EQ(kHierarchical, table.algorithm(kTwoHosts, true, kMiB));
}

TEST(AlgorithmTable, RegisteredTensorsAreReducedWhereTheyAreUnlessTheConfigNamesAnotherWay) {
  EngineConfig named;
  named.allreduce_algorithm = "reduce_scatter_allgather";

  EXPECT_EQ("registered", chosen(EngineConfig(), kOneHost, TensorMemory::kRegistered, kMiB));
  EXPECT_EQ("reduce_scatter_allgather", chosen(named, kOneHost, TensorMemory::kRegistered, kMiB));
  EXPECT_EQ("ring", chosen(EngineConfig(), kTwoByTwo, TensorMemory::kRegistered, kMiB));
}

TEST(AlgorithmTable, ChunksAreWholeCacheLines) {
  EngineConfig config;
  config.chunk_bytes = 16 * kKiB + 1;

  EXPECT_EQ(16 * kKiB, choose_chunk_bytes(config, kOneHost));
  EXPECT_EQ(16 * kKiB,
            choose_allreduce(config, AlgorithmTable(kOneHost), kOneHost, TensorMemory::kAny, kMiB).chunk_bytes);
  EXPECT_GT(choose_chunk_bytes(EngineConfig(), kTwoHosts), choose_chunk_bytes(EngineConfig(), kOneHost));
}

TEST(AlgorithmTable, OnOneHostAnAllreduceHasLargerChunksThanWhatOnlyMovesData) {
  EXPECT_LT(choose_chunk_bytes(EngineConfig(), kOneHost), AlgorithmTable(kOneHost).chunk_bytes(kStaged, kMiB));
}

TEST(AlgorithmTable, TheFirstRowThatHoldsAMessageDecidesOnIt) {
  const AlgorithmTable table = table_of(
      {{64 * kKiB, kDirect, 128 * kKiB}, {kMiB, kStaged, 32 * kKiB}, {kAnySize, kStaged, 512 * kKiB}}, kOneHost);
  const auto choice = [&](size_t bytes) {
    return choose_allreduce(EngineConfig(), table, kOneHost, TensorMemory::kAny, bytes);
  };

  EXPECT_EQ(kDirect, choice(64 * kKiB).algorithm);
  EXPECT_EQ(kStaged, choice(64 * kKiB + 1).algorithm);
  EXPECT_EQ(32 * kKiB, choice(kMiB).chunk_bytes);
  EXPECT_EQ(512 * kKiB, choice(kMiB + 1).chunk_bytes);
}

TEST(AlgorithmTable, WhatTheConfigFixesIsLookedUpAmongItsOwnRows) {
  const AlgorithmTable table = table_of({{64 * kKiB, kDirect, 128 * kKiB}, {kAnySize, kStaged, 32 * kKiB}}, kOneHost);
  EngineConfig staged;
  staged.allreduce_algorithm = "reduce_scatter_allgather";
  EngineConfig direct;
  direct.allreduce_algorithm = "direct";

  EXPECT_EQ(32 * kKiB, choose_allreduce(staged, table, kOneHost, TensorMemory::kAny, kKiB).chunk_bytes);
  EXPECT_EQ(AlgorithmTable(kOneHost).chunk_bytes(kStaged, kMiB),
            choose_allreduce(direct, table, kOneHost, TensorMemory::kAny, kMiB).chunk_bytes);
}

TEST(AlgorithmTable, BetweenHostsBothPositionsOfTheSwitchNeedARowForAnySize) {
  AlgorithmTable table(kTwoByTwo);

  for (const int algorithm : {kRing, kHierarchical}) {
    EXPECT_EQ(StatusCode::kConfigError, table.replace({{kAnySize, algorithm, kMiB}}, kTwoByTwo).code());
  }
}

TEST(AlgorithmTable, MessagesAreCostlyWhereRecursiveDoublingWasTheFasterOne) {
  const std::vector<TableRow> doubling{{kKiB, algorithm_named("recursive_doubling"), kMiB},
                                       {kAnySize, kHierarchical, kMiB}};

  EXPECT_TRUE(has_costly_messages(table_of(doubling, kTwoHosts), kTwoHosts));
  EXPECT_FALSE(has_costly_messages(AlgorithmTable(kTwoHosts), kTwoHosts));
  EXPECT_FALSE(has_costly_messages(AlgorithmTable(kTwoByTwo), kTwoByTwo));
  EXPECT_FALSE(has_costly_messages(AlgorithmTable(kOneHost), kOneHost));
}

TEST(AlgorithmTable, RowsThatCannotServeAreRefusedAndChangeNothing) {
  AlgorithmTable table(kOneHost);
  const int past_the_last = algorithm_named("unheard-of");

  for (const std::vector<TableRow>& rows : {std::vector<TableRow>{},
                                            {{kMiB, kStaged, 128 * kKiB}},
                                            {{kAnySize, kRing, 128 * kKiB}},
                                            {{kAnySize, algorithm_named("registered"), 128 * kKiB}},
                                            {{kAnySize, past_the_last, 128 * kKiB}},
                                            {{kAnySize, -1, 128 * kKiB}},
                                            {{kAnySize, kStaged, 16 * kKiB + 1}},
                                            {{kAnySize, kStaged, 8 * kKiB}},
                                            {{kAnySize, kStaged, 8 * kMiB}}}) {
    EXPECT_EQ(StatusCode::kConfigError, table.replace(rows, kOneHost).code());
  }
  EXPECT_EQ(kDirect, table.algorithm(kOneHost, false, 100));
  EXPECT_EQ(AlgorithmTable(kOneHost).chunk_bytes(kStaged, kMiB), table.chunk_bytes(kStaged, kMiB));
}

}  // namespace
}  // namespace ringtune
