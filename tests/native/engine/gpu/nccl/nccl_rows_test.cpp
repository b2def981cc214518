// SPDX-License-Identifier: Apache-2.0
// Allgather and alltoall by NCCL: the host's results, on the GPU, and no memory left behind.
#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <vector>

#include "device/device_memory.h"
#include "device/nccl/standin_nccl_world.h"

namespace ringtune {
namespace {

using testing::by_nccl;
using testing::DeviceVector;
using testing::finish_on;
using testing::ramp;
using testing::run_nccl_world;
using testing::UserStream;

constexpr size_t kRowElements = 3;

class NcclRows : public testing::NcclTest {};

std::optional<Outcome> wait_on(Engine& engine, Handle handle, const UserStream& stream) {
  return engine.wait(handle, testing::kDeadlineNs, {}, stream.named());
}

TensorArguments rows_of(const DeviceVector<int32_t>& tensor, const std::string& name, int64_t rows,
                        const UserStream& stream) {
  TensorArguments arguments = tensor.arguments(name, stream);
  arguments.output = nullptr;
  arguments.shape = {rows, static_cast<int64_t>(kRowElements)};
  return arguments;
}

// The result's elements, copied as a framework does: to memory of its own, on the stream that waited.
std::vector<int32_t> taken(const Outcome& outcome, const UserStream& stream) {
  const auto rows =
      static_cast<size_t>(std::accumulate(outcome.result->rows.begin(), outcome.result->rows.end(), int64_t{0}));
  if (rows == 0) {
    EXPECT_EQ(nullptr, outcome.result->on_device);
    return {};
  }
  DeviceVector<int32_t> target(rows * kRowElements);
  EXPECT_EQ(rows * kRowElements * sizeof(int32_t), outcome.result->on_device->bytes());
  const Status moved = outcome.result->on_device->move_to(target.address(), reinterpret_cast<void*>(stream.raw()));
  EXPECT_TRUE(moved.ok()) << moved.message();
  outcome.result->on_device.reset();
  return target.read_on(stream);
}

std::vector<int32_t> gathered(Engine& engine, const std::string& name, int64_t rows, const UserStream& stream) {
  const size_t elements = static_cast<size_t>(rows) * kRowElements;
  DeviceVector<int32_t> tensor(std::max<size_t>(1, elements));
  const std::vector<int32_t> values = ramp<int32_t>(tensor.size(), 1'000'000 * engine.rank());
  tensor.write_on(stream, values, 300);
  Handle handle = kNoHandle;
  EXPECT_TRUE(engine.allgather_async(rows_of(tensor, name, rows, stream), false, handle).ok());
  const std::optional<Outcome> outcome = wait_on(engine, handle, stream);
  EXPECT_TRUE(outcome && outcome->status.ok()) << (outcome ? outcome->status.message() : "");
  std::vector<int32_t> found = taken(*outcome, stream);
  stream.synchronize();
  return found;
}

TEST_F(NcclRows, AnAllgatherHasTheRowsOfAllRanksWhateverTheirNumbers) {
  run_nccl_world(3, [](Engine& engine) {
    const UserStream stream(engine.rank());
    const std::vector<std::vector<int64_t>> rounds{{4, 4, 4}, {1, 0, 7}, {0, 0, 0}, {0, 5000, 1}, {9000, 9000, 9000}};
    for (size_t round = 0; round < rounds.size(); ++round) {
      const std::vector<int64_t>& rows = rounds[round];
      const auto found =
          gathered(engine, "round" + std::to_string(round), rows[static_cast<size_t>(engine.rank())], stream);

      std::vector<int32_t> expected;
      for (int rank = 0; rank < 3; ++rank) {
        const auto part =
            ramp<int32_t>(static_cast<size_t>(rows[static_cast<size_t>(rank)]) * kRowElements, 1'000'000 * rank);
        expected.insert(expected.end(), part.begin(), part.end());
      }
      ASSERT_EQ(expected, found) << round;
    }
    EXPECT_EQ(rounds.size(), by_nccl(engine));
  });
}

TEST_F(NcclRows, AnAlltoallHasTheRowsThatEachRankSent) {
  run_nccl_world(3, [](Engine& engine) {
    const UserStream stream(engine.rank());
    const auto rank = static_cast<size_t>(engine.rank());
    // Rows from a rank (outer) to a rank (inner); in the third, rank 1 gets none, in the fourth no rank does.
    const std::vector<std::vector<std::vector<int64_t>>> rounds{{{1, 1, 1}, {1, 1, 1}, {1, 1, 1}},
                                                                {{0, 3, 2}, {4000, 0, 1}, {5, 9000, 6}},
                                                                {{2, 0, 2}, {0, 0, 1}, {0, 0, 0}},
                                                                {{0, 0, 0}, {0, 0, 0}, {0, 0, 0}}};
    for (size_t round = 0; round < rounds.size(); ++round) {
      const std::vector<int64_t>& splits = rounds[round][rank];
      const int64_t rows = std::accumulate(splits.begin(), splits.end(), int64_t{0});
      std::vector<int32_t> values;
      for (size_t to = 0; to < 3; ++to) {
        values.insert(values.end(), static_cast<size_t>(splits[to]) * kRowElements,
                      static_cast<int32_t>(100 * round + 10 * rank + to));
      }
      values.resize(std::max<size_t>(1, values.size()));
      DeviceVector<int32_t> tensor(values.size());
      tensor.write_on(stream, values, 300);
      Handle handle = kNoHandle;
      const TensorArguments arguments = rows_of(tensor, "round" + std::to_string(round), rows, stream);
      ASSERT_TRUE(engine.alltoall_async(arguments, splits, handle).ok());
      const std::optional<Outcome> outcome = wait_on(engine, handle, stream);
      ASSERT_TRUE(outcome && outcome->status.ok()) << outcome->status.message();

      std::vector<int32_t> expected;
      for (size_t from = 0; from < 3; ++from) {
        const int64_t of_rank = rounds[round][from][rank];
        EXPECT_EQ(of_rank, outcome->result->rows[from]);
        expected.insert(expected.end(), static_cast<size_t>(of_rank) * kRowElements,
                        static_cast<int32_t>(100 * round + 10 * from + rank));
      }
      ASSERT_EQ(expected, taken(*outcome, stream)) << round;
      stream.synchronize();
    }
    EXPECT_EQ(rounds.size(), by_nccl(engine));
  });
}

// Many in flight among reductions; some results are moved on another stream, some not at all.
TEST_F(NcclRows, ResultsInFlightKeepTheirMemoryUntilTheyAreTaken) {
  run_nccl_world(2, [](Engine& engine) {
    const UserStream stream(engine.rank());
    const UserStream other(engine.rank());
    for (int step = 0; step < 8; ++step) {
      std::vector<std::unique_ptr<DeviceVector<int32_t>>> tensors;
      std::vector<std::vector<int32_t>> values;
      std::vector<Handle> handles;
      for (int i = 0; i < 12; ++i) {
        const int64_t rows = 1 + (i * 7 + step) % 5 + engine.rank();
        values.emplace_back(static_cast<size_t>(rows) * kRowElements, 100 * step + 10 * i + engine.rank());
        tensors.push_back(std::make_unique<DeviceVector<int32_t>>(values.back().size()));
        tensors.back()->write_on(stream, values.back(), 20);
        ASSERT_TRUE(engine
                        .allgather_async(rows_of(*tensors.back(), "t" + std::to_string(i), rows, stream), false,
                                         handles.emplace_back())
                        .ok());
      }
      for (size_t i = 0; i < handles.size(); ++i) {
        const UserStream& waiting = i % 3 == 1 ? other : stream;
        const std::optional<Outcome> outcome = wait_on(engine, handles[i], waiting);
        ASSERT_TRUE(outcome && outcome->status.ok());
        if (i % 3 == 2) {
          continue;
        }
        std::vector<int32_t> expected;
        for (int rank = 0; rank < 2; ++rank) {
          expected.insert(expected.end(), static_cast<size_t>(outcome->result->rows[static_cast<size_t>(rank)]) * 3,
                          100 * step + 10 * static_cast<int32_t>(i) + rank);
        }
        ASSERT_EQ(expected, taken(*outcome, waiting));
      }
      stream.synchronize();
      other.synchronize();
    }
  });
}

TEST_F(NcclRows, AnOutputThatFitsTakesTheRowsAndAnotherIsLeftAlone) {
  run_nccl_world(2, [](Engine& engine) {
    const UserStream stream(engine.rank());
    for (const bool is_fitting : {true, false}) {
      DeviceVector<int32_t> own(3);
      DeviceVector<int32_t> all(is_fitting ? 6 : 9);
      const std::vector<int32_t> untouched = all.read_on(stream);
      const std::vector<int32_t> values(3, engine.rank());
      own.write_on(stream, values, 300);
      TensorArguments rows = rows_of(own, is_fitting ? "fitting" : "other", 1, stream);
      rows.output = reinterpret_cast<void*>(all.address());
      rows.output_bytes = all.size() * sizeof(int32_t);
      Handle handle = kNoHandle;
      testing::Told told;
      ASSERT_TRUE(engine.allgather_async(rows, false, handle, told.on_end()).ok());

      const Outcome outcome = told.outcome();

      ASSERT_TRUE(outcome.status.ok()) << outcome.status.message();
      EXPECT_EQ(is_fitting, outcome.result->on_device == nullptr);
      EXPECT_EQ(is_fitting ? (std::vector<int32_t>{0, 0, 0, 1, 1, 1}) : untouched, all.read_on(stream));
    }
    EXPECT_EQ(2U, by_nccl(engine));
  });
}

TEST_F(NcclRows, OneGpuWithoutPoolsLetsRowsGoThroughTheHostAndNothingElse) {
  reset({4, 7, 300, 1, 1, 0});
  run_nccl_world(2, [](Engine& engine) {
    const UserStream stream(engine.rank());
    DeviceVector<int32_t> tensor(6);
    const std::vector<int32_t> values(6, engine.rank());
    tensor.write_on(stream, values, 100);
    Handle handle = kNoHandle;
    ASSERT_TRUE(engine.allgather_async(rows_of(tensor, "rows", 2, stream), false, handle).ok());
    const std::optional<Outcome> outcome = wait_on(engine, handle, stream);
    ASSERT_TRUE(outcome && outcome->status.ok());
    EXPECT_EQ(nullptr, outcome->result->on_device);
    const auto* found = reinterpret_cast<const int32_t*>(outcome->result->data());
    EXPECT_EQ((std::vector<int32_t>{0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1}), std::vector<int32_t>(found, found + 12));
    EXPECT_EQ(0U, by_nccl(engine));

    ASSERT_TRUE(engine.allreduce_async(tensor.arguments("sum", stream), {ReduceOp::kSum}, false, handle).ok());
    EXPECT_TRUE(finish_on(engine, handle, stream).ok());
    EXPECT_EQ(std::vector<int32_t>(6, 1), tensor.read_on(stream));
    EXPECT_EQ(1U, by_nccl(engine));
  });
}

// The first error of ragged collectives that go on until there is one.
Status error_of_rows(Engine& engine, const DeviceVector<int32_t>& tensor, const UserStream& stream) {
  Status status;
  const auto finish = [&](const Status& submitted, const Handle& handle) {
    status = submitted.ok() ? finish_on(engine, handle, stream) : submitted;
  };
  for (const int64_t limit_ns = now_ns() + testing::kDeadlineNs; status.ok() && now_ns() < limit_ns;) {
    Handle handle = kNoHandle;
    for (const int64_t rows : {3, 3 + engine.rank()}) {
      if (status.ok()) {
        finish(engine.allgather_async(rows_of(tensor, "a", rows, stream), false, handle), handle);
      }
    }
    if (status.ok()) {
      finish(engine.alltoall_async(rows_of(tensor, "b", 9, stream), {3, 3, 3}, handle), handle);
    }
  }
  return status;
}

TEST_F(NcclRows, ARankThatFailsMidwayEndsTheWorldAndLeavesNoMemory) {
  for (const char* function : {"cuMemAllocFromPoolAsync", "ncclAllGather", "ncclBroadcast", "ncclSend", "ncclRecv"}) {
    run_nccl_world(3, [function](Engine& engine) {
      const UserStream stream(engine.rank());
      gathered(engine, "before", 2, stream);
      Handle barrier = kNoHandle;
      ASSERT_TRUE(engine.barrier_async(barrier).ok());
      ASSERT_TRUE(testing::finish(engine, barrier).ok());
      if (engine.rank() == 1) {
        standin_fail(function, 1, 2);
        standin_nccl_fail(function, 1, 1);
      }
      ASSERT_TRUE(engine.barrier_async(barrier).ok());
      ASSERT_TRUE(testing::finish(engine, barrier).ok());
      const DeviceVector<int32_t> tensor(9 * kRowElements);

      const Status status = error_of_rows(engine, tensor, stream);
      stream.synchronize();

      EXPECT_EQ(StatusCode::kDeviceError, status.code()) << status.message();
      EXPECT_NE(std::string::npos, status.message().find(function)) << status.message();
    });
    expect_nothing_alive();
  }
}

}  // namespace
}  // namespace ringtune
