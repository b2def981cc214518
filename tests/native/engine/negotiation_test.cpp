// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "local_world.h"

namespace ringtune {
namespace {

using testing::allreduce;
using testing::counter;
using testing::finish;
using testing::run_world;

TEST(Negotiation, RanksMaySubmitInAnyOrder) {
  run_world(3, [](Engine& engine) {
    constexpr int kTensors = 30;
    std::vector<std::vector<float>> values(kTensors, std::vector<float>(10, 1));
    std::vector<Handle> handles(kTensors);

    for (int i = 0; i < kTensors; ++i) {
      const int which = (i * 7 + engine.rank() * 11) % kTensors;
      const auto arguments = testing::tensor("t" + std::to_string(which), values[which], values[which]);
      ASSERT_TRUE(engine.allreduce_async(arguments, {ReduceOp::kSum}, false, handles[which]).ok());
    }
    for (const Handle handle : handles) {
      ASSERT_TRUE(finish(engine, handle).ok());
    }

    ASSERT_EQ(std::vector<std::vector<float>>(kTensors, std::vector<float>(10, 3)), values);
  });
}

class MismatchTest : public ::testing::TestWithParam<std::string> {
 protected:
  static Status submit(Engine& engine, const std::string& what, std::vector<float>& values) {
    Handle handle = 0;
    TensorArguments arguments = testing::tensor("x", values, values);
    const bool is_odd = engine.rank() == 1;
    Status status;
    if (is_odd && what == "shape") {
      arguments.shape = {2, 3};
    }
    if (is_odd && what == "dtype") {
      arguments.dtype = DataType::kInt32;
    }
    if (is_odd && what == "kind") {
      status = engine.broadcast_async(arguments, 0, handle);
    } else {
      const ReduceOp op = is_odd && what == "operation" ? ReduceOp::kAverage : ReduceOp::kSum;
      status = engine.allreduce_async(arguments, {op}, false, handle);
    }
    return status.ok() ? finish(engine, handle) : status;
  }
};

TEST_P(MismatchTest, IsAnErrorOnEveryRankAndTheEngineStaysUsable) {
  run_world(3, [](Engine& engine) {
    std::vector<float> values(6, 1);

    const Status status = submit(engine, GetParam(), values);

    EXPECT_EQ(StatusCode::kMismatchError, status.code());
    EXPECT_NE(std::string::npos, status.message().find("'x' differs")) << status.message();
    EXPECT_NE(std::string::npos, status.message().find("on rank 1")) << status.message();
    EXPECT_EQ(std::vector<float>(6, 1), values);
    ASSERT_TRUE(allreduce(engine, "x", values).ok());
    EXPECT_EQ(std::vector<float>(6, 3), values);
  });
}

INSTANTIATE_TEST_SUITE_P(All, MismatchTest, ::testing::Values("shape", "dtype", "operation", "kind"));

TEST(Negotiation, ANameInFlightIsRefusedAtOnce) {
  run_world(2, [](Engine& engine) {
    std::vector<float> first(4, 1);
    std::vector<float> second(4, 1);
    Handle handle = 0;
    Handle refused = 0;
    if (engine.rank() == 0) {
      ASSERT_TRUE(engine.allreduce_async(testing::tensor("x", first, first), {ReduceOp::kSum}, false, handle).ok());

      const Status status =
          engine.allreduce_async(testing::tensor("x", second, second), {ReduceOp::kSum}, false, refused);

      EXPECT_EQ(StatusCode::kMismatchError, status.code());
    }
    std::vector<float> ready(1, 1);
    ASSERT_TRUE(allreduce(engine, "ready", ready).ok());
    if (engine.rank() == 0) {
      ASSERT_TRUE(finish(engine, handle).ok());
    } else {
      ASSERT_TRUE(allreduce(engine, "x", first).ok());
    }
    EXPECT_EQ(std::vector<float>(4, 2), first);
  });
}

TEST(Negotiation, ANewShapeUnderAnOldNameIsNegotiatedAnew) {
  run_world(2, [](Engine& engine) {
    for (int round = 0; round < 40; ++round) {
      std::vector<int32_t> values(static_cast<size_t>(1 + round % 3), 1);
      ASSERT_TRUE(allreduce(engine, "x", values).ok());
      ASSERT_EQ(std::vector<int32_t>(values.size(), 2), values);
    }
    EXPECT_GE(counter(engine, "full_requests"), 3u);
  });
}

TEST(Negotiation, ARankThatChangesAKnownTensorAloneIsNamedAndTheEngineStaysUsable) {
  run_world(3, [](Engine& engine) {
    std::vector<float> values(6, 1);
    std::vector<float> other(8, 1);
    ASSERT_TRUE(allreduce(engine, "x", values).ok());
    ASSERT_TRUE(allreduce(engine, "x", values).ok());

    const Status status = allreduce(engine, "x", engine.rank() == 1 ? other : values);

    EXPECT_EQ(StatusCode::kMismatchError, status.code());
    EXPECT_NE(std::string::npos, status.message().find("[6] on ranks 0, 2; ")) << status.message();
    EXPECT_NE(std::string::npos, status.message().find("[8] on rank 1;")) << status.message();
    ASSERT_TRUE(allreduce(engine, "x", values).ok());
    EXPECT_EQ(std::vector<float>(6, 27), values);
  });
}

TEST(Negotiation, IllegalTensorsAreRefusedLocally) {
  run_world(1, [](Engine& engine) {
    std::vector<float> values(4);
    TensorArguments arguments = testing::tensor("x", values, values);
    Handle handle = 0;

    arguments.dtype = DataType::kBool;
    EXPECT_EQ(StatusCode::kMismatchError,
              engine.allreduce_async(arguments, {ReduceOp::kAverage}, false, handle).code());
    arguments.dtype = DataType::kFloat32;
    arguments.shape = {-1};
    EXPECT_EQ(StatusCode::kMismatchError, engine.allreduce_async(arguments, {ReduceOp::kSum}, false, handle).code());
    arguments.shape = {4};
    EXPECT_EQ(StatusCode::kMismatchError, engine.broadcast_async(arguments, 1, handle).code());
    arguments.name = "";
    EXPECT_EQ(StatusCode::kMismatchError, engine.allreduce_async(arguments, {ReduceOp::kSum}, false, handle).code());
  });
}

}  // namespace
}  // namespace ringtune
