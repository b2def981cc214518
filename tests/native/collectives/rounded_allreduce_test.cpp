// SPDX-License-Identifier: Apache-2.0
// Allreduces whose partial results travel between hosts as bfloat16: bound of the error, and one result whatever the
// way.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <random>

#include "collective_world.h"
#include "collectives/allreduce.h"
#include "collectives/message_sizes.h"

namespace ringtune {
namespace {

using testing::Hosts;

using Values = std::vector<float>;
using Run = Status (*)(const AllreduceTask&);

constexpr double kUnit = 1.0 / 256;  // bfloat16 keeps 8 bits
constexpr double kFloatSlack = 1e-6;

// Magnitudes differ so much that the order of a sum in float32 shows.
Values contribution(int rank, size_t elements) {
  std::mt19937 random(static_cast<unsigned>(rank) + 7);
  std::uniform_real_distribution<float> values(-3, 3);
  Values contributed(elements);
  std::uniform_int_distribution<int> exponents(-14, 14);
  std::ranges::generate(contributed, [&] { return std::ldexp(values(random), exponents(random)); });
  return contributed;
}

struct Way {
  Run run = &hierarchical_allreduce;
  const HostShares* shares = nullptr;
  size_t chunk_bytes = 256 * kKiB;
  size_t in_flight_bytes = 0;
};

class RoundedAllreduceTest : public testing::EveryWorld {
 protected:
  Values reduced(const Reduction& reduction, size_t elements, const Way& way) {
    std::vector<Values> data;
    for (int rank = 0; rank < size(); ++rank) {
      data.push_back(contribution(rank, elements));
    }
    run(reduction, data, way);
    EXPECT_TRUE(std::ranges::all_of(data, [&](const Values& result) { return result == data.front(); }));
    return data.front();
  }

  // Each rank's data become the result.
  template <typename Element>
  void run(const Reduction& reduction, std::vector<std::vector<Element>>& data, const Way& way) {
    world_.run([&](CollectiveContext& context) {
      std::vector<Element>& mine = data[static_cast<size_t>(context.rank())];
      auto* const own = reinterpret_cast<std::byte*>(mine.data());
      GatherList list;
      list.add(own, own, mine.size() * sizeof(Element));
      context.shares = way.shares;
      const Status status = way.run({context, list, reduction, way.chunk_bytes, true, way.in_flight_bytes});
      EXPECT_TRUE(status.ok()) << status.message();
    });
  }

  // Largest |result - exact| that rounding explains, as hierarchical_allreduce.cpp states it; and the exact value.
  std::pair<double, double> bound_and_exact(const Reduction& reduction, const std::vector<Values>& given, size_t at) {
    const Layout layout(0, GetParam());
    double exact = 0;
    double magnitudes = 0;
    double contributions = 0;
    for (int host = 0; host < layout.host_count(); ++host) {
      double partial = 0;
      for (const int rank : layout.ranks_of(host)) {
        partial += reduction.prescale * given[static_cast<size_t>(rank)][at];
        contributions += std::abs(given[static_cast<size_t>(rank)][at]);
      }
      exact += partial;
      magnitudes += std::abs(partial);
    }
    const double scale = reduction.postscale / (reduction.op == ReduceOp::kAverage ? size() : 1);
    const double bound = kUnit * (magnitudes + std::abs(exact)) * (1 + kUnit) + kFloatSlack * contributions;
    return {bound * std::abs(scale), exact * scale};
  }
};

TEST_P(RoundedAllreduceTest, StaysWithinTheStatedErrorAndIsRounded) {
  constexpr size_t kElements = 20011;
  std::vector<Values> given;
  for (int rank = 0; rank < size(); ++rank) {
    given.push_back(contribution(rank, kElements));
  }
  for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAverage}) {
    const Reduction reduction{DataType::kFloat32, op, 0.75, 1.5, size()};
    const Values results = reduced(reduction, kElements, {});
    for (size_t at = 0; at < kElements; ++at) {
      const auto [bound, exact] = bound_and_exact(reduction, given, at);
      ASSERT_LE(std::abs(results[at] - exact), bound) << "element " << at;
      ASSERT_EQ(0U, std::bit_cast<uint32_t>(results[at]) & 0xFFFFU) << "element " << at;
    }
  }
}

TEST_P(RoundedAllreduceTest, HasOneResultWhateverTheWay) {
  const Reduction reduction{DataType::kFloat32, ReduceOp::kAverage, 1, 1, size()};
  std::vector<uint64_t> rates(static_cast<size_t>(Layout(0, GetParam()).host_count()), 1000);
  rates.back() = 400;
  const HostShares uneven = HostShares::balanced(rates);
  for (const size_t elements : {size_t{1}, size_t{5003}, size_t{150001}}) {
    const Values expected = reduced(reduction, elements, {.run = &hierarchical_whole_allreduce});
    const Way distant{.chunk_bytes = testing::kSmallChunk, .in_flight_bytes = 5 * testing::kSmallChunk};
    const Way distant_uneven{
        .shares = &uneven, .chunk_bytes = 2 * testing::kSmallChunk, .in_flight_bytes = kMaxInFlightBytes};
    for (const Way& way :
         {Way{}, Way{.shares = &uneven}, Way{.chunk_bytes = testing::kSmallChunk}, distant, distant_uneven}) {
      ASSERT_TRUE(expected == reduced(reduction, elements, way)) << elements << " elements";
    }
  }
}

TEST_P(RoundedAllreduceTest, GivesTensorsOfBFloat16TheBitsThatItGivesFloat32) {
  for (const size_t elements : {size_t{1}, size_t{5003}, size_t{150001}}) {
    std::vector<Values> wide;
    std::vector<std::vector<BFloat16>> narrow(static_cast<size_t>(size()), std::vector<BFloat16>(elements));
    for (int rank = 0; rank < size(); ++rank) {
      wide.push_back(contribution(rank, elements));
      auto& own = narrow[static_cast<size_t>(rank)];
      std::ranges::transform(wide.back(), own.begin(), [](float value) { return to_bfloat16(value); });
      std::ranges::transform(own, wide.back().begin(), [](BFloat16 value) { return to_float(value); });
    }
    const Reduction of_floats{DataType::kFloat32, ReduceOp::kAverage, 0.75, 1.5, size()};
    const Reduction of_halves{DataType::kBFloat16, ReduceOp::kAverage, 0.75, 1.5, size()};
    run(of_floats, wide, {});
    run(of_halves, narrow, {});
    for (size_t at = 0; at < elements; ++at) {
      const BFloat16 result = narrow.front()[at];
      ASSERT_EQ(std::bit_cast<uint32_t>(wide.front()[at]), uint32_t{result.bits} << 16U) << "element " << at;
    }
    for (const auto& result : narrow) {
      ASSERT_TRUE(std::ranges::equal(result, narrow.front(), {}, &BFloat16::bits, &BFloat16::bits));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Worlds, RoundedAllreduceTest, ::testing::ValuesIn(testing::several_hosts()),
                         [](const auto& info) { return testing::world_name(info.param); });

TEST(RoundingAlgorithm, IsTheChosenOneOnlyIfThatIsHierarchicalInOneRound) {
  const auto name_for = [](std::string_view chosen) {
    return allreduce_algorithms()[static_cast<size_t>(rounding_algorithm(algorithm_named(chosen)))].name;
  };

  EXPECT_EQ("hierarchical_whole", name_for("hierarchical_whole"));
  EXPECT_EQ("hierarchical", name_for("ring"));
  EXPECT_EQ("hierarchical", name_for("hierarchical"));
}

}  // namespace
}  // namespace ringtune
