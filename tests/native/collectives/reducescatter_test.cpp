// SPDX-License-Identifier: Apache-2.0
#include "collectives/reducescatter.h"

#include <numeric>

#include "collective_world.h"
#include "collectives/allreduce.h"
#include "reduction_reference.h"

namespace ringtune {
namespace {

using testing::kSmallChunk;

class ReducescatterTest : public testing::EveryWorld {
 protected:
  // Every rank gets its rows of the whole result; in place on the odd ranks.
  void expect_exact(const Reduction& reduction, int64_t rows, size_t row_elements) {
    const size_t elements = static_cast<size_t>(rows) * row_elements;
    const Bytes expected = testing::expected_result(reduction, elements);
    const size_t row_bytes = row_elements * element_bytes(reduction.dtype);
    world_.run([&](CollectiveContext& context) {
      Bytes input = testing::contribution_of(reduction, context.rank(), elements);
      const auto own_rows = static_cast<size_t>(rows_of_rank(rows, context.rank(), size()));
      Bytes separate(own_rows * row_bytes);
      std::byte* output = context.rank() % 2 == 1 ? input.data() : separate.data();

      const Status status = reducescatter({context, reduction, input.data(), output, rows, row_elements, kSmallChunk});

      EXPECT_TRUE(status.ok()) << status.message();
      size_t rows_before = 0;
      for (int rank = 0; rank < context.rank(); ++rank) {
        rows_before += static_cast<size_t>(rows_of_rank(rows, rank, size()));
      }
      EXPECT_TRUE(std::equal(output, output + own_rows * row_bytes, expected.data() + rows_before * row_bytes))
          << testing::describe(reduction) << ", " << rows << " rows, rank " << context.rank();
    });
  }
};

TEST_P(ReducescatterTest, EveryDtypeAndOperationFollowsItsDefinition) {
  for (const Reduction& reduction : testing::all_reductions(size())) {
    for (const int64_t rows : {0, 1, 3, 17, 1000}) {
      expect_exact(reduction, rows, 7);
    }
  }
}

TEST_P(ReducescatterTest, LargePartsGoThroughInPieces) {
  for (const DataType dtype : {DataType::kFloat32, DataType::kFloat16, DataType::kInt8}) {
    expect_exact({dtype, ReduceOp::kSum, 1, 1, size()}, 200003, 1);
    expect_exact({dtype, ReduceOp::kSum, 1, 1, size()}, 5, 30011);
    expect_exact({dtype, ReduceOp::kSum, 1, 1, size()}, 5, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Worlds, ReducescatterTest, ::testing::ValuesIn(testing::all_worlds()),
                         [](const auto& info) { return testing::world_name(info.param); });

// On hosts of equally many ranks: the sum of each host's contributions in rank order, then those of the hosts.
TEST(ReducescatterBetweenHosts, HasTheBitsOfTheHierarchicalAllreduce) {
  constexpr size_t kElements = 40003;
  for (const testing::Hosts& hosts : {testing::Hosts{0, 0, 1, 1}, {0, 1, 2, 0, 1, 2}, {0, 0, 0, 1, 1, 1}}) {
    testing::CollectiveWorld world(hosts);
    const Reduction reduction{DataType::kFloat32, ReduceOp::kSum, 1, 1, static_cast<int>(hosts.size())};
    world.run([&](CollectiveContext& context) {
      std::vector<float> input(kElements);
      for (size_t i = 0; i < kElements; ++i) {
        input[i] = 1.0F / static_cast<float>(1 + i * 7 + static_cast<size_t>(context.rank()) * 13) - 0.001F;
      }
      std::vector<float> whole = input;
      std::vector<float> own(static_cast<size_t>(rows_of_rank(kElements, context.rank(), reduction.ranks)));
      auto* const sums = reinterpret_cast<std::byte*>(whole.data());
      GatherList data;
      data.add(sums, sums, kElements * sizeof(float));

      const auto* const given = reinterpret_cast<const std::byte*>(input.data());
      auto* const taken = reinterpret_cast<std::byte*>(own.data());
      ASSERT_TRUE(reducescatter({context, reduction, given, taken, kElements, 1, kSmallChunk}).ok());
      ASSERT_TRUE(hierarchical_allreduce({context, data, reduction, kSmallChunk}).ok());

      size_t before = 0;
      for (int rank = 0; rank < context.rank(); ++rank) {
        before += static_cast<size_t>(rows_of_rank(kElements, rank, reduction.ranks));
      }
      EXPECT_TRUE(std::equal(own.begin(), own.end(), whole.begin() + static_cast<std::ptrdiff_t>(before)))
          << testing::world_name(hosts) << ", rank " << context.rank();
    });
  }
}

TEST(Reducescatter, TheFirstRanksTakeWhatDoesNotDivide) {
  for (const int64_t rows : {0, 1, 6, 7, 8, 1001}) {
    for (const int world_size : {1, 2, 3, 7}) {
      int64_t total = 0;
      for (int rank = 0; rank < world_size; ++rank) {
        EXPECT_EQ(rows / world_size + (rank < rows % world_size), rows_of_rank(rows, rank, world_size));
        total += rows_of_rank(rows, rank, world_size);
      }
      EXPECT_EQ(rows, total);
    }
  }
}

}  // namespace
}  // namespace ringtune
