// SPDX-License-Identifier: Apache-2.0
// Ranks are threads with a GPU each, of the stand-in driver; NCCL is a stand-in, too.
#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "device/nccl/standin_nccl_world.h"

namespace ringtune {
namespace {

using testing::by_nccl;
using testing::DeviceVector;
using testing::finish_on;
using testing::ramp;
using testing::run_nccl_world;
using testing::UserStream;

class Nccl : public testing::NcclTest {};

// The rank's tensor is written late on its stream, reduced in place, and read on the same stream.
template <typename T>
std::vector<T> reduced(Engine& engine, const std::string& name, const std::vector<T>& values,
                       const ReduceArguments& reduce, const UserStream& stream) {
  DeviceVector<T> tensor(values.size());
  tensor.write_on(stream, values, 300);
  Handle handle = kNoHandle;
  EXPECT_TRUE(engine.allreduce_async(tensor.arguments(name, stream), reduce, true, handle).ok());
  const Status status = finish_on(engine, handle, stream);
  EXPECT_TRUE(status.ok()) << status.message();
  return tensor.read_on(stream);
}

TEST_F(Nccl, SumsWaitForWhatTheStreamWrites) {
  run_nccl_world(3, [](Engine& engine) {
    const UserStream stream(engine.rank());
    for (int round = 0; round < 20; ++round) {
      const size_t size = static_cast<size_t>(1 + 37 * round);
      const auto sum = reduced<float>(engine, "t" + std::to_string(round % 4), ramp<float>(size, engine.rank()),
                                      {ReduceOp::kSum}, stream);

      for (size_t i = 0; i < size; ++i) {
        ASSERT_EQ(static_cast<float>(3 * i + 3), sum[i]);
      }
    }
    EXPECT_EQ(20U, by_nccl(engine));
  });
}

TEST_F(Nccl, TensorsOfOneRoundGoInOneGroup) {
  run_nccl_world(2, [](Engine& engine) {
    const UserStream stream(engine.rank());
    std::vector<std::unique_ptr<DeviceVector<double>>> tensors;
    std::vector<Handle> handles;
    for (int i = 0; i < 16; ++i) {
      tensors.push_back(std::make_unique<DeviceVector<double>>(100));
    }
    const std::vector<double> ones(100, 1 + engine.rank());
    for (int i = 0; i < 16; ++i) {
      TensorArguments arguments = tensors[static_cast<size_t>(i)]->arguments("g" + std::to_string(i), stream);
      arguments.group = "all";
      arguments.group_size = 16;
      tensors[static_cast<size_t>(i)]->write_on(stream, ones, 50);
      ASSERT_TRUE(engine.allreduce_async(arguments, {ReduceOp::kAverage}, true, handles.emplace_back()).ok());
    }
    for (const Handle handle : handles) {
      EXPECT_TRUE(finish_on(engine, handle, stream).ok());
    }

    for (const auto& tensor : tensors) {
      EXPECT_EQ(std::vector<double>(100, 1.5), tensor->read_on(stream));
    }
    EXPECT_EQ(1U, by_nccl(engine));
  });
}

TEST_F(Nccl, WhatNcclMeansOtherwiseGoesThroughTheHost) {
  run_nccl_world(3, [](Engine& engine) {
    const UserStream stream(engine.rank());
    std::vector<float> with_nan{1, 2, static_cast<float>(engine.rank())};
    with_nan[0] = engine.rank() == 1 ? NAN : 1;

    const auto largest = reduced<float>(engine, "max", with_nan, {ReduceOp::kMax}, stream);
    const auto scaled = reduced<float>(engine, "product", {0.1F, 3}, {ReduceOp::kProduct, 0.5}, stream);
    const auto counts = reduced<int32_t>(engine, "int", {engine.rank(), 7}, {ReduceOp::kAverage}, stream);

    EXPECT_EQ(0U, by_nccl(engine));
    EXPECT_TRUE(std::isnan(largest[0]));
    EXPECT_EQ(2, largest[2]);
    EXPECT_EQ(1.5F * 1.5F * 1.5F, scaled[1]);
    EXPECT_EQ((std::vector<int32_t>{1, 7}), counts);
  });
}

TEST_F(Nccl, BroadcastsAndReducescattersGoByNcclHoweverRowsDivide) {
  run_nccl_world(3, [](Engine& engine) {
    const UserStream stream(engine.rank());
    DeviceVector<int32_t> news(33);
    const std::vector<int32_t> own_news = ramp<int32_t>(33, 100 * engine.rank());
    news.write_on(stream, own_news, 200);
    Handle handle = kNoHandle;
    ASSERT_TRUE(engine.broadcast_async(news.arguments("news", stream), 1, handle).ok());
    EXPECT_TRUE(finish_on(engine, handle, stream).ok());
    EXPECT_EQ(ramp<int32_t>(33, 100), news.read_on(stream));

    for (const size_t rows : {6UL, 7UL, 2UL}) {
      DeviceVector<float> all(rows * 5);
      const auto own_rows =
          static_cast<size_t>(static_cast<int>(rows) / 3 + (engine.rank() < static_cast<int>(rows % 3)));
      DeviceVector<float> own(std::max<size_t>(1, own_rows * 5));
      const std::vector<float> values = ramp<float>(rows * 5, engine.rank());
      all.write_on(stream, values, 200);
      TensorArguments arguments = all.arguments("rows" + std::to_string(rows), stream);
      arguments.shape = {static_cast<int64_t>(rows), 5};
      arguments.output = reinterpret_cast<void*>(own.address());
      ASSERT_TRUE(engine.reducescatter_async(arguments, {ReduceOp::kSum}, handle).ok());
      EXPECT_TRUE(finish_on(engine, handle, stream).ok());

      const std::vector<float> result = own.read_on(stream);
      const size_t before = static_cast<size_t>(engine.rank()) * (rows / 3) + std::min<size_t>(engine.rank(), rows % 3);
      for (size_t i = 0; i < own_rows * 5; ++i) {
        ASSERT_EQ(static_cast<float>(3 * (before * 5 + i) + 3), result[i]) << rows << " " << i;
      }
    }
    EXPECT_EQ(4U, by_nccl(engine));
  });
}

TEST_F(Nccl, RanksThatShareAGpuGoThroughTheHostUnlessToldOtherwise) {
  run_nccl_world(2, [](Engine& engine) {
    const UserStream stream(0);
    EXPECT_EQ(std::vector<float>(9, 3),
              reduced<float>(engine, "a", std::vector<float>(9, 1.0F + engine.rank()), {ReduceOp::kSum}, stream));
    EXPECT_EQ(0U, by_nccl(engine));
  });
  run_nccl_world(
      2,
      [](Engine& engine) {
        const UserStream stream(0);
        EXPECT_EQ(std::vector<float>(9, 3),
                  reduced<float>(engine, "a", std::vector<float>(9, 1.0F + engine.rank()), {ReduceOp::kSum}, stream));
        EXPECT_EQ(1U, by_nccl(engine));
      },
      GpuOperations::kNccl);
}

TEST_F(Nccl, HostMeansHost) {
  run_nccl_world(
      2,
      [](Engine& engine) {
        const UserStream stream(engine.rank());
        EXPECT_EQ(std::vector<float>(9, 3),
                  reduced<float>(engine, "a", std::vector<float>(9, 1.0F + engine.rank()), {ReduceOp::kSum}, stream));
        EXPECT_EQ(0U, by_nccl(engine));
        EXPECT_EQ(0, standin_nccl_communicators());
      },
      GpuOperations::kHost);
}

TEST_F(Nccl, OneRankWithoutNcclDecidesForAll) {
  standin_nccl_fail("ncclGetVersion", 1, 3);
  run_nccl_world(3, [](Engine& engine) {
    const UserStream stream(engine.rank());
    for (int round = 0; round < 3; ++round) {
      EXPECT_EQ(std::vector<float>(9, 6),
                reduced<float>(engine, "a", std::vector<float>(9, 1.0F + engine.rank()), {ReduceOp::kSum}, stream));
    }
    EXPECT_EQ(0U, by_nccl(engine));
  });
  standin_nccl_fail("ncclGetVersion", 1, 3);
  run_nccl_world(
      2,
      [](Engine& engine) {
        const UserStream stream(engine.rank());
        DeviceVector<float> tensor(3);
        Handle handle = kNoHandle;
        ASSERT_TRUE(engine.allreduce_async(tensor.arguments("a", stream), {ReduceOp::kSum}, true, handle).ok());

        const Status status = finish_on(engine, handle, stream);

        EXPECT_EQ(StatusCode::kConfigError, status.code());
        for (const char* word : {"RINGTUNE_GPU_OPERATIONS=nccl", "on rank ", "ncclGetVersion"}) {
          EXPECT_NE(std::string::npos, status.message().find(word)) << status.message();
        }
      },
      GpuOperations::kNccl);
}

TEST_F(Nccl, WhileARankHasJoinedTheOthersGoThroughTheHost) {
  run_nccl_world(3, [](Engine& engine) {
    const UserStream stream(engine.rank());
    const std::vector<float> ones(50, 1);
    EXPECT_EQ(std::vector<float>(50, 3), reduced<float>(engine, "a", ones, {ReduceOp::kSum}, stream));
    if (engine.rank() != 1) {
      EXPECT_EQ(std::vector<float>(50, 2), reduced<float>(engine, "a", ones, {ReduceOp::kSum}, stream));
      EXPECT_EQ(std::vector<float>(50, 2), reduced<float>(engine, "new", ones, {ReduceOp::kSum}, stream));
    }
    Handle handle = kNoHandle;
    ASSERT_TRUE(engine.join_async(handle).ok());
    EXPECT_TRUE(testing::finish(engine, handle).ok());
    EXPECT_EQ(1U, by_nccl(engine));
    EXPECT_EQ(std::vector<float>(50, 3), reduced<float>(engine, "a", ones, {ReduceOp::kSum}, stream));
    EXPECT_EQ(2U, by_nccl(engine));
  });
}

TEST_F(Nccl, ARankThatFailsEndsTheWorldAndWhatHangsOnTheOthersGpus) {
  for (const char* function : {"ncclGroupEnd", "ncclAllReduce", "ncclGroupStart"}) {
    run_nccl_world(3, [function](Engine& engine) {
      const UserStream stream(engine.rank());
      const std::vector<float> ones(50, 1);
      reduced<float>(engine, "a", ones, {ReduceOp::kSum}, stream);
      Handle barrier = kNoHandle;
      ASSERT_TRUE(engine.barrier_async(barrier).ok());
      ASSERT_TRUE(testing::finish(engine, barrier).ok());
      if (engine.rank() == 0) {
        standin_nccl_fail(function, 1, 1);
      }
      ASSERT_TRUE(engine.barrier_async(barrier).ok());
      ASSERT_TRUE(testing::finish(engine, barrier).ok());

      DeviceVector<float> tensor(50);
      tensor.write_on(stream, ones, 100);
      Status status;
      for (const int64_t limit_ns = now_ns() + testing::kDeadlineNs; status.ok() && now_ns() < limit_ns;) {
        Handle handle = kNoHandle;
        status = engine.allreduce_async(tensor.arguments("b", stream), {ReduceOp::kSum}, true, handle);
        if (status.ok()) {
          status = finish_on(engine, handle, stream);
        }
      }
      stream.synchronize();  // no kernel hangs

      EXPECT_EQ(StatusCode::kDeviceError, status.code()) << status.message();
      EXPECT_NE(std::string::npos, status.message().find(function)) << status.message();
    });
  }
}

TEST_F(Nccl, AnErrorThatNcclFindsLaterEndsTheWorld) {
  run_nccl_world(2, [](Engine& engine) {
    const UserStream stream(engine.rank());
    reduced<float>(engine, "a", {1, 2}, {ReduceOp::kSum}, stream);
    if (engine.rank() == 1) {
      standin_nccl_lose();
    }
    DeviceVector<float> tensor(50);
    Status status;
    for (const int64_t limit_ns = now_ns() + testing::kDeadlineNs; status.ok() && now_ns() < limit_ns;) {
      Handle handle = kNoHandle;
      status = engine.allreduce_async(tensor.arguments("b", stream), {ReduceOp::kSum}, true, handle);
      if (status.ok()) {
        status = finish_on(engine, handle, stream);
      }
    }
    stream.synchronize();

    EXPECT_EQ(StatusCode::kDeviceError, status.code()) << status.message();
    EXPECT_NE(std::string::npos, status.message().find("remote process exited")) << status.message();
  });
}

TEST_F(Nccl, AMeetingThatFailsSaysHowToDoWithoutNccl) {
  standin_nccl_fail("init", 1, 2);
  run_nccl_world(2, [](Engine& engine) {
    const UserStream stream(engine.rank());
    DeviceVector<float> tensor(3);
    Handle handle = kNoHandle;
    ASSERT_TRUE(engine.allreduce_async(tensor.arguments("a", stream), {ReduceOp::kSum}, true, handle).ok());

    const Status status = finish_on(engine, handle, stream);

    EXPECT_EQ(StatusCode::kDeviceError, status.code());
    EXPECT_NE(std::string::npos, status.message().find("RINGTUNE_GPU_OPERATIONS=host")) << status.message();
  });
}

}  // namespace
}  // namespace ringtune
