// SPDX-License-Identifier: Apache-2.0
// Every algorithm in every world that it can run in, for every dtype and operation.
#include "collectives/allreduce.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "collective_world.h"
#include "collectives/message_sizes.h"
#include "reduction_reference.h"

namespace ringtune {
namespace {

using testing::CollectiveWorld;
using testing::Hosts;
using testing::kSmallChunk;

struct Case {
  const AllreduceAlgorithm& algorithm;
  Reduction reduction;
  size_t chunk_bytes = kSmallChunk;
  size_t in_flight_bytes = 0;
};

// Fuses the tensor out of three pieces, which do not follow each other in memory; in place on the odd ranks. Returns
// each rank's result.
std::vector<Bytes> allreduce_all(CollectiveWorld& world, const Case& run, const std::vector<Bytes>& inputs) {
  std::vector<Bytes> outputs(inputs.size());
  world.run([&](CollectiveContext& context) {
    const auto rank = static_cast<size_t>(context.rank());
    const size_t element = element_bytes(run.reduction.dtype);
    Bytes& output = outputs[rank];
    output = rank % 2 == 1 ? inputs[rank] : Bytes(inputs[rank].size());
    const std::byte* input = rank % 2 == 1 ? output.data() : inputs[rank].data();
    GatherList data;
    const size_t elements = output.size() / element;
    for (const auto& [first, last] :
         {std::pair(elements / 3, elements), {elements / 7, elements / 3}, {size_t{0}, elements / 7}}) {
      data.add(input + first * element, output.data() + first * element, (last - first) * element);
    }
    const Status status =
        run.algorithm.run({context, data, run.reduction, run.chunk_bytes, false, run.in_flight_bytes});
    EXPECT_TRUE(status.ok()) << status.message();
  });
  return outputs;
}

std::vector<Bytes> contributions(const Reduction& reduction, size_t elements) {
  std::vector<Bytes> inputs;
  for (int rank = 0; rank < reduction.ranks; ++rank) {
    inputs.push_back(testing::contribution_of(reduction, rank, elements));
  }
  return inputs;
}

class AllreduceTest : public testing::EveryWorld {
 protected:
  // The algorithms that can run here.
  std::vector<AllreduceAlgorithm> algorithms() const {
    std::vector<AllreduceAlgorithm> able;
    for (const AllreduceAlgorithm& algorithm : allreduce_algorithms()) {
      if (can_run(algorithm, Layout(0, GetParam()), TensorMemory::kAny)) {
        able.push_back(algorithm);
      }
    }
    return able;
  }

  // By every algorithm that can run here.
  void expect_exact(const Reduction& reduction, size_t elements, const std::vector<size_t>& chunks,
                    size_t in_flight_bytes = 0) {
    const std::vector<Bytes> inputs = contributions(reduction, elements);
    const Bytes expected = testing::expected_result(reduction, elements);
    for (const AllreduceAlgorithm& algorithm : algorithms()) {
      for (const size_t chunk_bytes : chunks) {
        const Case run{algorithm, reduction, chunk_bytes, in_flight_bytes};
        const std::vector<Bytes> results = allreduce_all(world_, run, inputs);
        for (size_t rank = 0; rank < results.size(); ++rank) {
          ASSERT_TRUE(expected == results[rank])
              << algorithm.name << " " << testing::describe(reduction) << ", " << elements << " elements in chunks of "
              << chunk_bytes << ", " << in_flight_bytes << " bytes in flight, rank " << rank;
        }
      }
    }
  }
};

TEST_P(AllreduceTest, EveryDtypeAndOperationFollowsItsDefinition) {
  for (const Reduction& reduction : testing::all_reductions(size())) {
    for (const size_t elements : {0, 1, 3, 17, 1000}) {
      expect_exact(reduction, elements, {kSmallChunk});
    }
    if (testing::goes_in_many_chunks(reduction)) {
      expect_exact(reduction, 20011, {kSmallChunk});
    }
  }
}

TEST_P(AllreduceTest, AnySizeGoesThroughAnyChunk) {
  for (const DataType dtype : {DataType::kFloat32, DataType::kBFloat16}) {
    for (const size_t elements : {2047, 2048, 2049, 65537, 300001}) {
      expect_exact({dtype, ReduceOp::kSum, 1, 1, size()}, elements,
                   {16 * kKiB, 20480 + kCacheLine, 256 * kKiB, 4 * kMiB});
    }
  }
}

// Distant hosts: some of a message's chunks are in flight, then all of them, in worlds that have had fewer before.
TEST_P(AllreduceTest, MoreChunksMayBeInFlightThanTheStagesHold) {
  for (const DataType dtype : {DataType::kFloat32, DataType::kBFloat16}) {
    for (const size_t in_flight_bytes : {3 * kSmallChunk, 5 * kSmallChunk + 1, kMaxInFlightBytes}) {
      for (const size_t elements : {2049, 20011, 65537}) {
        expect_exact({dtype, ReduceOp::kAverage, 1, 1, size()}, elements, {kSmallChunk, 20480 + kCacheLine},
                     in_flight_bytes);
      }
    }
  }
}

// Whole blocks between two hosts, shares between three; stages of four slots, three, and two.
TEST(AllreduceBetweenHosts, ManyChunksGoThroughStagesOfAnyDepth) {
  constexpr size_t kElements = 9 * kMiB / sizeof(float) + 5;
  const std::span<const AllreduceAlgorithm> rows = allreduce_algorithms();
  const auto hierarchical =
      std::find_if(rows.begin(), rows.end(), [](const AllreduceAlgorithm& row) { return row.name == "hierarchical"; });
  ASSERT_NE(rows.end(), hierarchical);
  for (const Hosts& hosts : {Hosts{0, 0, 1, 1}, Hosts{0, 1, 2}}) {
    CollectiveWorld world(hosts);
    const Reduction reduction{DataType::kFloat32, ReduceOp::kSum, 1, 1, world.size()};
    const std::vector<Bytes> inputs = contributions(reduction, kElements);
    const Bytes expected = testing::expected_result(reduction, kElements);
    for (const size_t chunk_bytes : {2 * kMiB, 5 * kMiB / 2, 4 * kMiB}) {
      for (const size_t in_flight_bytes : {size_t{0}, kMaxInFlightBytes}) {
        const Case run{*hierarchical, reduction, chunk_bytes, in_flight_bytes};
        for (const Bytes& result : allreduce_all(world, run, inputs)) {
          ASSERT_TRUE(expected == result) << "chunks of " << chunk_bytes << ", " << in_flight_bytes
                                          << " bytes in flight, " << testing::world_name(hosts);
        }
      }
    }
  }
}

// Values whose sums round differently in every order.
std::vector<std::vector<float>> uneven_values(int ranks, size_t elements) {
  std::vector<std::vector<float>> values(static_cast<size_t>(ranks), std::vector<float>(elements));
  for (size_t rank = 0; rank < values.size(); ++rank) {
    for (size_t i = 0; i < elements; ++i) {
      values[rank][i] = 1.0F / static_cast<float>(1 + i * 7 + rank * 13) - 0.001F;
    }
  }
  return values;
}

TEST_P(AllreduceTest, AllRanksGetTheSameBitsInAHostThoseOfTheRankOrder) {
  constexpr size_t kElements = 70001;
  const auto values = uneven_values(size(), kElements);
  std::vector<Bytes> inputs;
  for (const auto& own : values) {
    const ByteSpan bytes = std::as_bytes(std::span(own));
    inputs.emplace_back(bytes.begin(), bytes.end());
  }

  for (const AllreduceAlgorithm& algorithm : algorithms()) {
    const Case run{algorithm, {DataType::kFloat32, ReduceOp::kAverage, 1, 1, size()}};
    const std::vector<Bytes> results = allreduce_all(world_, run, inputs);

    for (size_t i = 0; i < kElements; ++i) {
      float sum = values[0][i];
      double exact = static_cast<double>(values[0][i]);
      for (size_t rank = 1; rank < values.size(); ++rank) {
        sum += values[rank][i];
        exact += static_cast<double>(values[rank][i]);
      }
      const auto result = read_element<float>(results[0].data(), i);
      if (is_one_host()) {
        ASSERT_EQ(sum / static_cast<float>(size()), result) << algorithm.name << ", element " << i;
      }
      ASSERT_NEAR(exact / size(), static_cast<double>(result), 1e-6) << algorithm.name << ", element " << i;
    }
    for (const Bytes& result : results) {
      ASSERT_TRUE(results[0] == result) << algorithm.name;
    }
  }
}

TEST_P(AllreduceTest, HalvesAreRoundedOnceWhateverTheWay) {
  // In float16, 2048 + 1 is 2048: partial results that were rounded would show.
  for (const AllreduceAlgorithm& algorithm : algorithms()) {
    std::vector<Bytes> inputs;
    for (int rank = 0; rank < size(); ++rank) {
      inputs.emplace_back(5000 * sizeof(Float16));
      for (size_t i = 0; i < 5000; ++i) {
        write_element(inputs.back().data(), i,
                      to_float16(static_cast<size_t>(rank) == i % static_cast<size_t>(size()) ? 2048.0F : 1.0F));
      }
    }
    const Case run{algorithm, {DataType::kFloat16, ReduceOp::kSum, 1, 1, size()}};

    const std::vector<Bytes> results = allreduce_all(world_, run, inputs);

    for (size_t i = 0; i < 5000; ++i) {
      float sum = 0;
      for (const Bytes& input : inputs) {
        sum += to_float(read_element<Float16>(input.data(), i));
      }
      ASSERT_EQ(to_float16(sum).bits, read_element<Float16>(results.back().data(), i).bits) << algorithm.name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Worlds, AllreduceTest, ::testing::ValuesIn(testing::all_worlds()),
                         [](const auto& info) { return testing::world_name(info.param); });

TEST(AllreduceRegistry, AConfigMayNameWhatRunsWithAnyMemory) {
  EXPECT_EQ(
      (std::vector<std::string_view>{"direct", "reduce_scatter_allgather", "hierarchical", "hierarchical_whole",
                                     "hierarchical_recursive_doubling", "hierarchical_halving_doubling",
                                     "hierarchical_tree", "recursive_doubling", "halving_doubling", "tree", "ring"}),
      configurable_allreduce_algorithms());
}

}  // namespace
}  // namespace ringtune
