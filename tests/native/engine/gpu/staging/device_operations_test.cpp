// SPDX-License-Identifier: Apache-2.0
// Every operation gives the same bits on tensors of a GPU as on tensors of the host.
#include <cmath>
#include <numeric>

#include "collectives/reducescatter.h"
#include "device/standin_world.h"

namespace ringtune {
namespace {

using testing::DeviceVector;
using testing::finish;
using testing::finish_on;
using testing::run_hosts;
using testing::use_standin;
using testing::UserStream;

// One host, and two over TCP: with an arena and without.
class DeviceOperationsTest : public testing::StandinTest, public ::testing::WithParamInterface<std::vector<int>> {
 protected:
  static void run(const std::function<void(Engine&)>& body) { run_hosts(GetParam(), body, use_standin); }
};

INSTANTIATE_TEST_SUITE_P(Hosts, DeviceOperationsTest,
                         ::testing::Values(std::vector<int>{0}, std::vector<int>{0, 0, 0}, std::vector<int>{0, 0, 1}));

// Values whose sums are rounded, so that the order of the ranks shows.
std::vector<float> some_values(const Engine& engine, size_t elements) {
  std::vector<float> values(elements);
  for (size_t i = 0; i < elements; ++i) {
    values[i] = std::sin(static_cast<float>(i + 1) * static_cast<float>(engine.rank() + 1));
  }
  return values;
}

TEST_P(DeviceOperationsTest, AnAllreduceOfEveryKindAndSize) {
  run([](Engine& engine) {
    const UserStream stream;
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAverage, ReduceOp::kMax, ReduceOp::kAdasum}) {
      for (const size_t elements : {0UL, 1UL, 7UL, 4097UL, 100003UL}) {
        const std::vector<float> input = some_values(engine, elements);
        std::vector<float> expected = input;
        const std::string name = "host." + std::to_string(elements);
        const ReduceArguments reduce{op, 0.5, op == ReduceOp::kAdasum ? 1.0 : 3.0};
        Handle handle = kNoHandle;
        ASSERT_TRUE(engine.allreduce_async(testing::tensor(name, expected, expected), reduce, false, handle).ok());
        ASSERT_TRUE(finish(engine, handle).ok());

        DeviceVector<float> values(elements);
        values.write_on(stream, input, 100);
        const bool is_gradient = elements % 2 == 1;
        ASSERT_TRUE(engine.allreduce_async(values.arguments("gpu." + name, stream), reduce, is_gradient, handle).ok());
        const Status status = finish_on(engine, handle, stream);

        ASSERT_TRUE(status.ok()) << status.message();
        ASSERT_EQ(expected, values.read_on(stream)) << elements;
      }
    }
  });
}

TEST_P(DeviceOperationsTest, AnOutputOfItsOwnLeavesTheInputAlone) {
  run([](Engine& engine) {
    const UserStream stream;
    DeviceVector<float> input(33);
    DeviceVector<float> output(33);
    const std::vector<float> values(33, 1);
    input.write_on(stream, values, 100);
    TensorArguments tensor = input.arguments("x", stream);
    tensor.output = reinterpret_cast<void*>(output.address());
    Handle handle = kNoHandle;
    ASSERT_TRUE(engine.allreduce_async(tensor, {ReduceOp::kSum}, false, handle).ok());

    ASSERT_TRUE(finish_on(engine, handle, stream).ok());

    EXPECT_EQ(std::vector<float>(33, static_cast<float>(engine.world_size())), output.read_on(stream));
    EXPECT_EQ(values, input.read_on(stream));
  });
}

TEST_P(DeviceOperationsTest, AReducescatterWritesThisRanksRowsAndNoMore) {
  run([](Engine& engine) {
    const UserStream stream;
    const int64_t rows = 7;
    DeviceVector<int64_t> input(static_cast<size_t>(rows) * 3);
    const auto own_rows = static_cast<size_t>(rows_of_rank(rows, engine.rank(), engine.world_size()));
    DeviceVector<int64_t> output(own_rows * 3);
    std::vector<int64_t> values(input.size());
    std::iota(values.begin(), values.end(), 0);
    input.write_on(stream, values, 100);
    TensorArguments tensor = input.arguments("x", stream);
    tensor.output = reinterpret_cast<void*>(output.address());
    tensor.shape = {rows, 3};
    Handle handle = kNoHandle;
    ASSERT_TRUE(engine.reducescatter_async(tensor, {ReduceOp::kSum}, handle).ok());

    ASSERT_TRUE(finish_on(engine, handle, stream).ok());

    int64_t first = 0;
    for (int rank = 0; rank < engine.rank(); ++rank) {
      first += rows_of_rank(rows, rank, engine.world_size()) * 3;
    }
    const std::vector<int64_t> result = output.read_on(stream);
    for (size_t i = 0; i < result.size(); ++i) {
      ASSERT_EQ((first + static_cast<int64_t>(i)) * engine.world_size(), result[i]);
    }
    EXPECT_EQ(values, input.read_on(stream));
  });
}

TEST_P(DeviceOperationsTest, ABroadcastOverwritesAllButTheRoot) {
  run([](Engine& engine) {
    const UserStream stream;
    const int root = engine.world_size() - 1;
    DeviceVector<double> values(1001);
    const std::vector<double> input(1001, engine.rank() + 0.25);
    values.write_on(stream, input, 300);
    Handle handle = kNoHandle;
    ASSERT_TRUE(engine.broadcast_async(values.arguments("x", stream), root, handle).ok());

    ASSERT_TRUE(finish_on(engine, handle, stream).ok());

    EXPECT_EQ(std::vector<double>(1001, root + 0.25), values.read_on(stream));
  });
}

TEST_P(DeviceOperationsTest, RaggedResultsAreOnTheHost) {
  run([](Engine& engine) {
    const UserStream stream;
    const auto ranks = static_cast<size_t>(engine.world_size());
    const auto rank = static_cast<size_t>(engine.rank());
    DeviceVector<int32_t> rows(rank + 1);
    const std::vector<int32_t> input(rank + 1, static_cast<int32_t>(rank));
    rows.write_on(stream, input, 100);
    Handle handle = kNoHandle;
    ASSERT_TRUE(engine.allgather_async(rows.arguments("gathered", stream), false, handle).ok());
    std::optional<Outcome> outcome = engine.wait(handle, testing::kDeadlineNs, {}, stream.named());
    ASSERT_TRUE(outcome && outcome->status.ok());
    std::vector<int32_t> expected;
    for (size_t r = 0; r < ranks; ++r) {
      expected.insert(expected.end(), r + 1, static_cast<int32_t>(r));
    }
    const auto* gathered = reinterpret_cast<const int32_t*>(outcome->result->data());
    EXPECT_EQ(expected, std::vector<int32_t>(gathered, gathered + expected.size()));
    EXPECT_TRUE(engine.is_drained(handle));

    DeviceVector<int32_t> sent(ranks);
    const std::vector<int32_t> to_send(ranks, static_cast<int32_t>(10 * rank));
    sent.write_on(stream, to_send, 100);
    const std::vector<int64_t> splits(ranks, 1);
    ASSERT_TRUE(engine.alltoall_async(sent.arguments("sent", stream), splits, handle).ok());
    outcome = engine.wait(handle, testing::kDeadlineNs, {}, stream.named());
    ASSERT_TRUE(outcome && outcome->status.ok());
    const auto* received = reinterpret_cast<const int32_t*>(outcome->result->data());
    for (size_t r = 0; r < ranks; ++r) {
      EXPECT_EQ(static_cast<int32_t>(10 * r), received[r]);
    }
  });
}

// No thread waits: the stream has the result once the callback runs.
TEST_P(DeviceOperationsTest, AnOutputThatFitsTakesTheRowsOnTheGpu) {
  run([](Engine& engine) {
    const UserStream stream;
    const auto ranks = static_cast<size_t>(engine.world_size());
    const auto rank = static_cast<size_t>(engine.rank());
    DeviceVector<int32_t> own(rank + 1);
    DeviceVector<int32_t> all(ranks * (ranks + 1) / 2);
    const std::vector<int32_t> input(rank + 1, static_cast<int32_t>(rank));
    own.write_on(stream, input, 300);
    TensorArguments rows = own.arguments("rows", stream);
    rows.output = reinterpret_cast<void*>(all.address());
    rows.output_bytes = all.size() * sizeof(int32_t);
    Handle handle = kNoHandle;
    testing::Told gathered;
    ASSERT_TRUE(engine.allgather_async(rows, false, handle, gathered.on_end()).ok());

    ASSERT_TRUE(gathered.outcome().status.ok());

    std::vector<int32_t> expected;
    for (size_t r = 0; r < ranks; ++r) {
      expected.insert(expected.end(), r + 1, static_cast<int32_t>(r));
    }
    EXPECT_EQ(expected, all.read_on(stream));

    DeviceVector<int32_t> sent(2 * ranks);
    DeviceVector<int32_t> received(2 * ranks);
    const std::vector<int32_t> values = [&] {
      std::vector<int32_t> to_each;
      for (size_t to = 0; to < ranks; ++to) {
        to_each.insert(to_each.end(), 2, static_cast<int32_t>(10 * rank + to));
      }
      return to_each;
    }();
    sent.write_on(stream, values, 300);
    TensorArguments exchanged = sent.arguments("exchanged", stream);
    exchanged.output = reinterpret_cast<void*>(received.address());
    exchanged.output_bytes = received.size() * sizeof(int32_t);
    testing::Told told;
    ASSERT_TRUE(engine.alltoall_async(exchanged, std::vector<int64_t>(ranks, 2), handle, told.on_end()).ok());

    ASSERT_TRUE(told.outcome().status.ok());

    const std::vector<int32_t> found = received.read_on(stream);
    for (size_t from = 0; from < ranks; ++from) {
      EXPECT_EQ(static_cast<int32_t>(10 * from + rank), found[2 * from]);
      EXPECT_EQ(static_cast<int32_t>(10 * from + rank), found[2 * from + 1]);
    }
    EXPECT_EQ(values, sent.read_on(stream));
  });
}

TEST_P(DeviceOperationsTest, ARankThatHasJoinedGivesZeros) {
  run([](Engine& engine) {
    const UserStream stream;
    const bool is_last = engine.rank() == engine.world_size() - 1;
    DeviceVector<float> values(100);
    const std::vector<float> input(100, 1);
    std::vector<Handle> handles;
    // The copies of these are under way when the rank joins.
    for (int i = 0; i < (is_last ? 3 : 5); ++i) {
      Handle handle = kNoHandle;
      values.write_on(stream, input, 2000);
      ASSERT_TRUE(
          engine.allreduce_async(values.arguments("x" + std::to_string(i), stream), {ReduceOp::kSum}, true, handle)
              .ok());
      ASSERT_TRUE(finish_on(engine, handle, stream).ok());
      const int givers = engine.world_size() - (i < 3 ? 0 : 1);
      ASSERT_EQ(std::vector<float>(100, static_cast<float>(givers)), values.read_on(stream)) << i;
    }
    Handle joined = kNoHandle;
    ASSERT_TRUE(engine.join_async(joined).ok());
    ASSERT_TRUE(finish(engine, joined).ok());
  });
}

// A join must not overtake a tensor that waits for its copy.
TEST_P(DeviceOperationsTest, AJoinWaitsForTheTensorsBeforeIt) {
  run([](Engine& engine) {
    const UserStream stream;
    DeviceVector<float> values(100);
    const std::vector<float> input(100, 1);
    values.write_on(stream, input, 20000);
    Handle reduced = kNoHandle;
    Handle joined = kNoHandle;
    ASSERT_TRUE(engine.allreduce_async(values.arguments("x", stream), {ReduceOp::kSum}, true, reduced).ok());
    ASSERT_TRUE(engine.join_async(joined).ok());

    ASSERT_TRUE(finish(engine, joined).ok());
    ASSERT_TRUE(finish_on(engine, reduced, stream).ok());

    EXPECT_EQ(std::vector<float>(100, static_cast<float>(engine.world_size())), values.read_on(stream));
  });
}

// A fusion may hold tensors of the host and of GPUs; a barrier is none of a GPU's.
TEST_P(DeviceOperationsTest, ManyTensorsOfBothKindsAtOnce) {
  run([](Engine& engine) {
    const UserStream stream;
    constexpr size_t kTensors = 40;
    std::vector<std::unique_ptr<DeviceVector<float>>> on_gpu;
    std::vector<std::vector<float>> on_host;
    const std::vector<float> input(50, 2);
    for (int step = 0; step < 3; ++step) {
      on_gpu.clear();
      on_host.assign(kTensors, input);
      std::vector<Handle> handles;
      for (size_t i = 0; i < kTensors; ++i) {
        on_gpu.push_back(std::make_unique<DeviceVector<float>>(50));
        on_gpu.back()->write_on(stream, input, 50);
        Handle handle = kNoHandle;
        ASSERT_TRUE(engine
                        .allreduce_async(on_gpu.back()->arguments("gpu" + std::to_string(i), stream), {ReduceOp::kSum},
                                         true, handle)
                        .ok());
        handles.push_back(handle);
        ASSERT_TRUE(engine
                        .allreduce_async(testing::tensor("host" + std::to_string(i), on_host[i], on_host[i]),
                                         {ReduceOp::kSum}, true, handle)
                        .ok());
        handles.push_back(handle);
      }
      for (const Handle handle : handles) {
        ASSERT_TRUE(finish_on(engine, handle, stream).ok());
      }
      Handle barrier = kNoHandle;
      ASSERT_TRUE(engine.barrier_async(barrier).ok());
      ASSERT_TRUE(finish(engine, barrier).ok());
      const std::vector<float> expected(50, 2.0F * static_cast<float>(engine.world_size()));
      for (size_t i = 0; i < kTensors; ++i) {
        ASSERT_EQ(expected, on_gpu[i]->read_on(stream));
        ASSERT_EQ(expected, on_host[i]);
      }
      engine.mark_step();
    }
  });
}

}  // namespace
}  // namespace ringtune
