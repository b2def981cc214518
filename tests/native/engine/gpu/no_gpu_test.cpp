// SPDX-License-Identifier: Apache-2.0
// The engine as it is built with RINGTUNE_GPU=OFF: this program has no_gpu.cpp in place of CUDA and NCCL.
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/gpu/gpu_tensors.h"
#include "local_world.h"

namespace ringtune {
namespace {

using testing::run_world;

TEST(NoGpuTest, TensorsOfTheHostAreReduced) {
  run_world(2, [](Engine& engine) {
    std::vector<float> values{1, 2, 3};
    ASSERT_TRUE(testing::allreduce(engine, "x", values).ok());
    EXPECT_EQ((std::vector<float>{2, 4, 6}), values);
  });
}

TEST(NoGpuTest, ATensorOfAGpuIsRefusedAndTheWorldGoesOn) {
  run_world(2, [](Engine& engine) {
    std::vector<float> values{1, 2, 3};
    TensorArguments tensor = testing::tensor("x", values, values);
    tensor.stream = {3, 0};
    Handle handle = kNoHandle;
    const Status status = engine.allreduce_async(tensor, {ReduceOp::kSum}, true, handle);
    EXPECT_EQ(StatusCode::kDeviceError, status.code());
    EXPECT_NE(std::string::npos, status.message().find("'x' is on GPU 3")) << status.message();

    ASSERT_TRUE(testing::allreduce(engine, "x", values).ok());
    EXPECT_EQ((std::vector<float>{2, 4, 6}), values);
  });
}

TEST(NoGpuTest, NothingGoesByNccl) {
  Signature signature;
  signature.kind = OpKind::kBroadcast;
  signature.memory = MemoryKind::kCuda;
  EXPECT_FALSE(is_nccl_able(signature, 2));
  EXPECT_FALSE(has_cuda());
}

}  // namespace
}  // namespace ringtune
