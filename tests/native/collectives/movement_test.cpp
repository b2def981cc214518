// SPDX-License-Identifier: Apache-2.0
// Collectives that move rows without a reduction, in every world.
#include <atomic>
#include <numeric>

#include "collective_world.h"
#include "collectives/allgather.h"
#include "collectives/alltoall.h"
#include "collectives/barrier.h"
#include "collectives/broadcast.h"

namespace ringtune {
namespace {

using testing::kSmallChunk;

using Values = std::vector<int64_t>;

// Differs in every element: a chunk that comes late or twice shows.
Values values_of(int rank, size_t count, int purpose = 0) {
  Values values(count);
  std::iota(values.begin(), values.end(), (static_cast<int64_t>(rank) << 32) + (static_cast<int64_t>(purpose) << 48));
  return values;
}

std::byte* bytes_of(Values& values) { return reinterpret_cast<std::byte*>(values.data()); }
const std::byte* bytes_of(const Values& values) { return reinterpret_cast<const std::byte*>(values.data()); }

Values values_in(const Gathered& gathered) {
  const auto* first = reinterpret_cast<const int64_t*>(gathered.data());
  return {first, first + gathered.bytes() / sizeof(int64_t)};
}

void append(Values& all, const Values& part) { all.insert(all.end(), part.begin(), part.end()); }

class MovementTest : public testing::EveryWorld {};

TEST_P(MovementTest, EveryRootBroadcastsItsBytes) {
  for (int root = 0; root < size(); ++root) {
    for (const size_t count : {0, 1, 2047, 2048, 2049, 65537}) {
      world_.run([&](CollectiveContext& context) {
        Values values = values_of(context.rank(), count);

        const Status status = broadcast({context, bytes_of(values), count * sizeof(int64_t), root, kSmallChunk});

        EXPECT_TRUE(status.ok()) << status.message();
        EXPECT_TRUE(values_of(root, count) == values) << count << " values from rank " << root;
      });
    }
  }
}

// Number of rows that each rank brings to an allgather.
using RowCounts = int64_t (*)(int rank);
constexpr RowCounts kRowCounts[] = {
    [](int) -> int64_t { return 0; },
    [](int) -> int64_t { return 1; },
    [](int) -> int64_t { return 700; },
    [](int rank) -> int64_t { return rank * 3; },  // none of rank 0
    [](int rank) -> int64_t { return rank % 2 == 0 ? 0 : 5000 + rank; },
    [](int rank) -> int64_t { return rank == 0 ? 20000 : 1; },
    [](int rank) -> int64_t { return (rank * 7919 + 13) % 4001; },
};

TEST_P(MovementTest, GathersRowsInRankOrderWhateverTheirNumbers) {
  for (const bool is_hierarchical : {false, true}) {
    for (const RowCounts rows_of : kRowCounts) {
      for (const size_t row_values : {1, 3}) {
        world_.run([&](CollectiveContext& context) {
          const int64_t rows = rows_of(context.rank());
          const Values input = values_of(context.rank(), static_cast<size_t>(rows) * row_values);
          Gathered result;

          const Status status = allgather(
              {context, bytes_of(input), rows, row_values * sizeof(int64_t), is_hierarchical, kSmallChunk}, result);

          ASSERT_TRUE(status.ok()) << status.message();
          Values expected;
          Values expected_rows;
          for (int rank = 0; rank < size(); ++rank) {
            expected_rows.push_back(rows_of(rank));
            append(expected, values_of(rank, static_cast<size_t>(rows_of(rank)) * row_values));
          }
          EXPECT_EQ(expected_rows, result.rows);
          EXPECT_TRUE(expected == values_in(result)) << "rank " << context.rank();
        });
      }
    }
  }
}

// Longer than a segment of the exchange between counterparts.
TEST(AllgatherBetweenHosts, LongRowsOfUnequalNumbersArriveWhole) {
  const auto rows_of = [](int rank) -> int64_t { return rank * 170001 + 1; };
  for (const Hosts& hosts : {Hosts{0, 0, 1, 1}, Hosts{0, 1, 0, 1, 2, 2}}) {
    testing::CollectiveWorld world(hosts);
    world.run([&](CollectiveContext& context) {
      Values expected;
      for (int rank = 0; rank < context.world_size(); ++rank) {
        append(expected, values_of(rank, static_cast<size_t>(rows_of(rank))));
      }
      const int64_t rows = rows_of(context.rank());
      const Values input = values_of(context.rank(), static_cast<size_t>(rows));
      Gathered result;

      const Status status = allgather({context, bytes_of(input), rows, sizeof(int64_t), false, 256 * 1024}, result);

      ASSERT_TRUE(status.ok()) << status.message();
      EXPECT_TRUE(expected == values_in(result)) << "rank " << context.rank();
    });
  }
}

TEST_P(MovementTest, GatheredMemoryBeginsAtACacheLine) {
  world_.run([](CollectiveContext& context) {
    const Values input = values_of(context.rank(), 3);
    Gathered result;

    ASSERT_TRUE(allgather({context, bytes_of(input), 3, sizeof(int64_t), false, kSmallChunk}, result).ok());

    EXPECT_EQ(0U, reinterpret_cast<uintptr_t>(result.data()) % kCacheLine);
  });
}

// Rows from one rank to another.
using SplitSizes = int64_t (*)(int from, int to);
constexpr SplitSizes kSplitSizes[] = {
    [](int, int) -> int64_t { return 0; },
    [](int, int) -> int64_t { return 1; },
    [](int, int) -> int64_t { return 1500; },
    [](int from, int to) -> int64_t { return from == to ? 0 : 2048; },  // a chunk each
    [](int from, int to) -> int64_t { return from == 0 ? 3000 * to : 0; },
    [](int from, int to) -> int64_t { return to == 0 ? 9000 : from; },
    [](int from, int to) -> int64_t { return (from * 7919 + to * 104729) % 3001; },
    [](int from, int to) -> int64_t { return (from * 7919 + to * 104729) % 129; },
};

// Each with the way by other ranks allowed, and without; it is taken where no part is larger than 1 KiB.
std::vector<std::pair<SplitSizes, bool>> splits_with_both_ways() {
  std::vector<std::pair<SplitSizes, bool>> all;
  for (const SplitSizes rows_of : kSplitSizes) {
    all.emplace_back(rows_of, false);
    all.emplace_back(rows_of, true);
  }
  return all;
}

TEST_P(MovementTest, RowsGoWhereTheSplitsSend) {
  for (const auto& [rows_of, has_costly_messages] : splits_with_both_ways()) {
    world_.run([&, rows_of = rows_of, has_costly_messages = has_costly_messages](CollectiveContext& context) {
      Values input;
      Values splits;
      Values expected;
      Values expected_rows;
      for (int peer = 0; peer < size(); ++peer) {
        splits.push_back(rows_of(context.rank(), peer));
        append(input, values_of(context.rank(), static_cast<size_t>(splits.back()), peer));
        expected_rows.push_back(rows_of(peer, context.rank()));
        append(expected, values_of(peer, static_cast<size_t>(expected_rows.back()), context.rank()));
      }
      Gathered result;

      const Status status =
          alltoall({context, bytes_of(input), splits, sizeof(int64_t), kSmallChunk, has_costly_messages}, result);

      ASSERT_TRUE(status.ok()) << status.message();
      EXPECT_EQ(expected_rows, result.rows);
      EXPECT_TRUE(expected == values_in(result)) << "rank " << context.rank();
    });
  }
}

TEST_P(MovementTest, NobodyLeavesABarrierBeforeAllHaveCome) {
  std::atomic<int> arrived{0};

  world_.run([&](CollectiveContext& context) {
    for (int round = 1; round <= 20; ++round) {
      arrived.fetch_add(1);
      ASSERT_TRUE(barrier(context, kSmallChunk).ok());
      ASSERT_GE(arrived.load(), size() * round);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Worlds, MovementTest, ::testing::ValuesIn(testing::all_worlds()),
                         [](const auto& info) { return testing::world_name(info.param); });

}  // namespace
}  // namespace ringtune
