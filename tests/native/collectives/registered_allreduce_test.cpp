// SPDX-License-Identifier: Apache-2.0
// Allreduce in the ranks' arenas, for every dtype and operation, by ranks that own parts of odd sizes at odd places.
#include <algorithm>
#include <cstring>
#include <utility>

#include "base/config.h"
#include "collective_world.h"
#include "collectives/allreduce.h"
#include "reduction_reference.h"
#include "transport/shm/arena.h"

namespace ringtune {
namespace {

constexpr std::byte kUntouched{0xa5};
constexpr size_t kArenaBytes = 4 * kMiB;

// Elements [first, last) of a tensor, and the number of unused bytes before them.
struct Part {
  size_t first;
  size_t last;
  size_t gap_bytes;
};

// In the fusion's order: some follow each other in memory, others do not, and none begins at a cache line.
std::vector<Part> parts_of(size_t elements, size_t element) {
  return {{0, elements / 7, element},
          {elements / 7, elements / 3, 0},
          {elements / 3, elements / 2, 3 * element},
          {elements / 2, elements, 5 * kCacheLine + element}};
}

class RegisteredAllreduceTest : public testing::EveryWorld {
 protected:
  RegisteredAllreduceTest() {
    for (int rank = 0; rank < size(); ++rank) {
      const auto arena = std::make_shared<Arena>(world_.arenas(), rank);
      EXPECT_TRUE(arena->allocate(kArenaBytes, memories_.emplace_back()).ok());
    }
  }

  // One rank's part of it; returns the rank's result.
  Bytes allreduce(CollectiveContext& context, const Reduction& reduction, const Bytes& input) {
    const size_t element = element_bytes(reduction.dtype);
    std::byte* memory = memories_[static_cast<size_t>(context.rank())].get();
    const std::vector<Part> parts = parts_of(input.size() / element, element);
    std::memset(memory, std::to_integer<int>(kUntouched), input.size() + 16 * kCacheLine);
    GatherList data;
    std::byte* at = memory;
    for (const Part& part : parts) {
      const size_t bytes = (part.last - part.first) * element;
      at += part.gap_bytes;
      std::copy_n(input.data() + part.first * element, bytes, at);
      data.add(at, at, bytes);
      at += bytes;
    }
    const Status status = registered_allreduce({context, data, reduction, 16 * kKiB});
    EXPECT_TRUE(status.ok()) << status.message();
    Bytes output(input.size());
    data.copy_in(0, output.data(), output.size());
    expect_untouched_gaps(memory, parts, element);
    return output;
  }

  static void expect_untouched_gaps(const std::byte* at, const std::vector<Part>& parts, size_t element) {
    for (const Part& part : parts) {
      EXPECT_TRUE(std::all_of(at, at + part.gap_bytes, [](std::byte value) { return value == kUntouched; }));
      at += part.gap_bytes + (part.last - part.first) * element;
    }
    EXPECT_EQ(kUntouched, *at);
  }

  std::vector<std::shared_ptr<std::byte>> memories_;
};

TEST_P(RegisteredAllreduceTest, EveryDtypeAndOperationFollowsItsDefinition) {
  for (const Reduction& reduction : testing::all_reductions(size())) {
    for (const size_t elements : {0, 1, 3, 17, 1000, 20011}) {
      const Bytes expected = testing::expected_result(reduction, elements);
      world_.run([&](CollectiveContext& context) {
        const Bytes input = testing::contribution_of(reduction, context.rank(), elements);
        ASSERT_TRUE(expected == allreduce(context, reduction, input))
            << testing::describe(reduction) << ", " << elements << " elements, rank " << context.rank();
      });
    }
  }
}

TEST_P(RegisteredAllreduceTest, LargeMessagesFollowEachOther) {
  const Reduction reduction{DataType::kFloat32, ReduceOp::kAverage, 1, 1, size()};
  for (const size_t elements : {300001, 65536, 700003}) {
    const Bytes expected = testing::expected_result(reduction, elements);
    world_.run([&](CollectiveContext& context) {
      const Bytes input = testing::contribution_of(reduction, context.rank(), elements);
      for (int round = 0; round < 3; ++round) {
        ASSERT_TRUE(expected == allreduce(context, reduction, input))
            << elements << " elements, rank " << context.rank();
      }
    });
  }
}

TEST_P(RegisteredAllreduceTest, AlternatesWithAlgorithmsThatUseTheStages) {
  const Reduction reduction{DataType::kInt32, ReduceOp::kSum, 1, 1, size()};
  constexpr size_t kElements = 40001;
  const Bytes expected = testing::expected_result(reduction, kElements);
  world_.run([&](CollectiveContext& context) {
    const Bytes input = testing::contribution_of(reduction, context.rank(), kElements);
    for (int round = 0; round < 5; ++round) {
      ASSERT_TRUE(expected == allreduce(context, reduction, input)) << "round " << round;
      Bytes output(input.size());
      GatherList data;
      data.add(input.data(), output.data(), input.size());
      ASSERT_TRUE(reduce_scatter_allgather({context, data, reduction, 64 * kKiB}).ok());
      ASSERT_TRUE(expected == output) << "round " << round;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Worlds, RegisteredAllreduceTest, ::testing::ValuesIn(testing::single_hosts()),
                         [](const auto& info) { return testing::world_name(info.param); });

}  // namespace
}  // namespace ringtune
