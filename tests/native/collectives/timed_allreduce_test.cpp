// SPDX-License-Identifier: Apache-2.0
#include "collectives/timed_allreduce.h"

#include <vector>

#include "collectives/algorithm_table.h"
#include "collectives/collective_world.h"
#include "collectives/gather_list.h"

namespace ringtune {
namespace {

using testing::EveryWorld;
using testing::Hosts;

// Calls `lead` on rank 0 and the follower elsewhere; every rank must end well.
template <typename Lead>
void time_in(testing::CollectiveWorld& world, Lead lead) {
  world.run([&](CollectiveContext& context) {
    TimedAllreduce timed(context);
    if (context.rank() != 0) {
      const Status status = timed.follow();
      EXPECT_TRUE(status.ok()) << status.message();
      return;
    }
    lead(timed);
    EXPECT_TRUE(timed.end().ok());
  });
}

class TimedAllreduceTest : public EveryWorld {};

// A collective that does not know of the timing finds the stages and links as it expects them.
TEST_P(TimedAllreduceTest, TimesEveryAlgorithmAndLeavesTheWorldAsItWas) {
  const Layout layout(0, GetParam());
  int timed_algorithms = 0;
  time_in(world_, [&](TimedAllreduce& timed) {
    bool has_room = false;
    ASSERT_TRUE(timed.begin(256 * kKiB, has_room).ok());
    ASSERT_TRUE(has_room);
    for (int algorithm = 0; algorithm < static_cast<int>(allreduce_algorithms().size()); ++algorithm) {
      if (!can_run(allreduce_algorithms()[static_cast<size_t>(algorithm)], layout, TensorMemory::kAny)) {
        continue;
      }
      ++timed_algorithms;
      for (const size_t chunk_bytes : {16 * kKiB, 64 * kKiB}) {
        int64_t elapsed_ns = -1;
        EXPECT_TRUE(timed.run({256 * kKiB, algorithm, chunk_bytes, 2}, elapsed_ns).ok());
        EXPECT_GT(elapsed_ns, 0);
      }
    }
  });
  EXPECT_EQ(layout.host_count() == 1 ? 2 : 9, timed_algorithms);

  const float expected = static_cast<float>(size() * (size() + 1)) / 2;
  world_.run([&](CollectiveContext& context) {
    std::vector<float> values(100000, static_cast<float>(context.rank() + 1));
    GatherList list;
    auto* bytes = reinterpret_cast<std::byte*>(values.data());
    list.add(bytes, bytes, values.size() * sizeof(float));
    const AllreduceChoice choice = choose_allreduce(EngineConfig(), AlgorithmTable(context.layout), context.layout,
                                                    TensorMemory::kAny, list.bytes());
    const Reduction sum{.ranks = context.world_size()};
    const AllreduceAlgorithm& algorithm = allreduce_algorithms()[static_cast<size_t>(choice.algorithm)];
    ASSERT_TRUE(algorithm.run({context, list, sum, choice.chunk_bytes}).ok());
    EXPECT_EQ(std::vector<float>(values.size(), expected), values);
  });
}

INSTANTIATE_TEST_SUITE_P(Worlds, TimedAllreduceTest,
                         ::testing::Values(Hosts{0, 0}, Hosts{0, 0, 0}, Hosts{0, 1}, Hosts{0, 0, 1, 1}, Hosts{0, 1, 1}),
                         [](const auto& info) { return testing::world_name(info.param); });

TEST(TimedAllreduce, WithoutRoomOnEveryRankNothingCanBeTimed) {
  testing::CollectiveWorld world(Hosts{0, 0});

  time_in(world, [](TimedAllreduce& timed) {
    bool has_room = true;
    ASSERT_TRUE(timed.begin(size_t{1} << 60, has_room).ok());
    EXPECT_FALSE(has_room);
    EXPECT_EQ(StatusCode::kConfigError, timed.check({4, algorithm_named("direct"), 16 * kKiB, 1}).code());
  });
}

TEST(TimedAllreduce, CallsThatCannotBeMadeAreRefused) {
  testing::CollectiveWorld world(Hosts{0, 0});

  time_in(world, [](TimedAllreduce& timed) {
    bool has_room = false;
    ASSERT_TRUE(timed.begin(64 * kKiB, has_room).ok());
    const int direct = algorithm_named("direct");
    EXPECT_TRUE(timed.check({64 * kKiB, direct, 16 * kKiB, 1}).ok());
    for (const TimedCalls& calls :
         {TimedCalls{64 * kKiB + 4, direct, 16 * kKiB, 1}, TimedCalls{6, direct, 16 * kKiB, 1},
          TimedCalls{64, direct, 64, 1}, TimedCalls{64, direct, 8 * kMiB, 1}, TimedCalls{64, direct, 16 * kKiB + 4, 1},
          TimedCalls{64, -1, 16 * kKiB, 1}, TimedCalls{64, algorithm_named("ring"), 16 * kKiB, 1},
          TimedCalls{64, algorithm_named("unheard-of"), 16 * kKiB, 1}}) {
      EXPECT_EQ(StatusCode::kConfigError, timed.check(calls).code());
    }
  });
}

}  // namespace
}  // namespace ringtune
