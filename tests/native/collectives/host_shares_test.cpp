// SPDX-License-Identifier: Apache-2.0
// Shares by host: whole, aligned, balanced; and the bits of a hierarchical allreduce, which do not depend on them.
#include "collectives/host_shares.h"

#include <algorithm>
#include <array>

#include "collective_world.h"
#include "collectives/allreduce.h"
#include "collectives/host_rates.h"
#include "collectives/message_sizes.h"
#include "reduction_reference.h"

namespace ringtune {
namespace {

using testing::CollectiveWorld;
using testing::Hosts;

constexpr std::array<uint64_t, 3> kThirdIsSlow{1000, 1000, 500};
constexpr std::array<uint64_t, 4> kSecondIsSlow{1000, 500, 1000, 1000};

// Bytes through a host's link for a message of one byte, by the share that a block of many elements has.
double traffic(const HostShares& shares, int hosts, int host) {
  constexpr size_t kElements = 1 << 20;
  const double share = static_cast<double>(shares.of(kElements, host).elements) / kElements;
  return 1 + share * (hosts - 2);
}

TEST(HostShares, EvenSharesDifferByLessThanTwoCacheLines) {
  const HostShares shares(3);

  EXPECT_TRUE(shares.is_even());
  EXPECT_NEAR(4096.0 / 3, static_cast<double>(shares.of(4096, 0).elements), 32);
  EXPECT_NEAR(4096.0 / 3, static_cast<double>(shares.of(4096, 2).elements), 32);
}

TEST(HostShares, FollowEachOtherAndAreTheWholeBlockWhateverItsSize) {
  for (const auto& rates : std::vector<std::vector<uint64_t>>{{1, 1},
                                                              {1, 9},
                                                              {1000, 1000, 500},
                                                              {7, 1000, 3, 1},
                                                              {5, 4, 3, 2, 1},
                                                              {1, ~uint64_t{0}, 1, 1},
                                                              {700, 1000, 1000}}) {
    const HostShares shares = HostShares::balanced(rates);
    for (const size_t elements : {0, 1, 15, 16, 17, 4097, 1 << 20, (1 << 20) - 1}) {
      size_t end = 0;
      for (int host = 0; host < static_cast<int>(rates.size()); ++host) {
        const HostShare share = shares.of(elements, host);
        EXPECT_EQ(end, share.first);
        EXPECT_TRUE(share.first % 16 == 0 || share.first == elements);
        EXPECT_LE(share.elements, shares.room(1 << 20, host));
        end = share.first + share.elements;
      }
      EXPECT_EQ(elements, end);
    }
  }
}

TEST(HostShares, AHostWithHalfTheRateGetsNoneOfThreeOrFour) {
  const HostShares three = HostShares::balanced(kThirdIsSlow);
  const HostShares four = HostShares::balanced(kSecondIsSlow);

  EXPECT_FALSE(three.is_even());
  EXPECT_EQ(0U, three.of(1 << 20, 2).elements);
  EXPECT_NEAR(1.5, traffic(three, 3, 0), 1e-3);
  EXPECT_EQ(0U, four.of(1 << 20, 1).elements);
  EXPECT_NEAR(1 + 2.0 / 3, traffic(four, 4, 3), 1e-3);
}

TEST(HostShares, EveryHostsTrafficTakesEquallyLongWhereAllHaveAShare) {
  const std::array<uint64_t, 4> rates{1000, 800, 700, 1000};
  const HostShares shares = HostShares::balanced(rates);

  const double first_s = traffic(shares, 4, 0) / static_cast<double>(rates[0]);
  for (int host = 1; host < 4; ++host) {
    EXPECT_NEAR(first_s, traffic(shares, 4, host) / static_cast<double>(rates[static_cast<size_t>(host)]), 1e-6);
  }
}

TEST(HostShares, AreEvenBetweenTwoHostsAndWhereRatesDifferLittle) {
  EXPECT_TRUE(HostShares::balanced(std::array<uint64_t, 1>{0}).is_even());
  EXPECT_TRUE(HostShares::balanced(std::array<uint64_t, 2>{1, 2}).is_even());
  EXPECT_TRUE(HostShares::balanced(std::array<uint64_t, 3>{1000, 851, 950}).is_even());
  EXPECT_FALSE(HostShares::balanced(std::array<uint64_t, 3>{1000, 840, 1000}).is_even());
}

struct Sizes {
  size_t elements;
  size_t chunk_bytes = 256 * kKiB;
  size_t in_flight_bytes = 0;
};

Bytes reduced_with(CollectiveWorld& world, const HostShares* shares, const Reduction& reduction, const Sizes& sizes) {
  std::vector<Bytes> data;
  for (int rank = 0; rank < world.size(); ++rank) {
    data.push_back(testing::contribution_of(reduction, rank, sizes.elements));
  }
  world.run([&](CollectiveContext& context) {
    Bytes& own = data[static_cast<size_t>(context.rank())];
    GatherList list;
    list.add(own.data(), own.data(), own.size());
    context.shares = shares;
    const Status status =
        hierarchical_allreduce({context, list, reduction, sizes.chunk_bytes, false, sizes.in_flight_bytes});
    EXPECT_TRUE(status.ok()) << status.message();
  });
  EXPECT_TRUE(std::ranges::all_of(data, [&](const Bytes& result) { return result == data.front(); }));
  return data.front();
}

class SharedAllreduceTest : public ::testing::TestWithParam<Hosts> {};

TEST_P(SharedAllreduceTest, HasTheSameBitsWithAllSharesForEveryDtypeAndOperation) {
  CollectiveWorld world(GetParam());
  const int hosts = Layout(0, GetParam()).host_count();
  const auto rates_with = [&](uint64_t first, uint64_t last) {
    std::vector<uint64_t> rates(static_cast<size_t>(hosts), 1000);
    rates.front() = first;
    rates.back() = last;
    return rates;
  };
  for (const Reduction& reduction : testing::all_reductions(world.size())) {
    for (const size_t elements : {20011, testing::goes_in_many_chunks(reduction) ? 150001 : 1000}) {
      const Bytes expected = testing::expected_result(reduction, elements);
      for (const auto& rates : {rates_with(1000, 500), rates_with(600, 1000), rates_with(1, 800)}) {
        const HostShares shares = HostShares::balanced(rates);
        ASSERT_TRUE(expected == reduced_with(world, &shares, reduction, {elements})) << testing::describe(reduction);
      }
    }
  }
}

TEST_P(SharedAllreduceTest, HasTheSameBitsWithManyChunksInFlight) {
  CollectiveWorld world(GetParam());
  std::vector<uint64_t> rates(static_cast<size_t>(Layout(0, GetParam()).host_count()), 1000);
  rates.back() = 300;
  const HostShares shares = HostShares::balanced(rates);
  for (const DataType dtype : {DataType::kFloat32, DataType::kBFloat16}) {
    const Reduction reduction{dtype, ReduceOp::kSum, 1, 1, world.size()};
    const Bytes expected = testing::expected_result(reduction, 150001);
    for (const size_t in_flight_bytes : {3 * testing::kSmallChunk, kMaxInFlightBytes}) {
      const Sizes sizes{150001, testing::kSmallChunk, in_flight_bytes};
      ASSERT_TRUE(expected == reduced_with(world, &shares, reduction, sizes)) << testing::describe(reduction);
    }
  }
}

TEST_P(SharedAllreduceTest, RatesAreTheSameOnAllRanks) {
  CollectiveWorld world(GetParam());
  std::vector<std::vector<uint64_t>> rates(static_cast<size_t>(world.size()));

  world.run([&](CollectiveContext& context) {
    const Status status = measure_host_rates(context, rates[static_cast<size_t>(context.rank())]);
    EXPECT_TRUE(status.ok()) << status.message();
  });

  EXPECT_EQ(static_cast<size_t>(Layout(0, GetParam()).host_count()), rates.front().size());
  EXPECT_GT(std::ranges::min(rates.front()), 0U);
  EXPECT_TRUE(std::ranges::all_of(rates, [&](const auto& each) { return each == rates.front(); }));
}

// 3 x 1, 4 x 1, 2 + 1 + 2, 5 x 1.
INSTANTIATE_TEST_SUITE_P(Worlds, SharedAllreduceTest,
                         ::testing::Values(Hosts{0, 1, 2}, Hosts{0, 1, 2, 3}, Hosts{0, 0, 1, 2, 2},
                                           Hosts{0, 1, 2, 3, 4}),
                         [](const auto& info) { return testing::world_name(info.param); });

}  // namespace
}  // namespace ringtune
