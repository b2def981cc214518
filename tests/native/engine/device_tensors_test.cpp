// SPDX-License-Identifier: Apache-2.0
// Tensors of a GPU through the whole engine, over the stand-in for the driver.
#include <numeric>

#include "device/standin_world.h"

namespace ringtune {
namespace {

using testing::DeviceVector;
using testing::finish_on;
using testing::run_world;
using testing::use_standin;
using testing::UserStream;

class DeviceTensorsTest : public testing::StandinTest {};

TEST_F(DeviceTensorsTest, AnAllreduceIsOrderedOnTheCallersStreamOnBothSides) {
  run_world(
      2,
      [](Engine& engine) {
        const UserStream stream;
        DeviceVector<float> values(1000);
        std::vector<float> input(1000, static_cast<float>(engine.rank() + 1));
        for (int step = 0; step < 20; ++step) {
          values.write_on(stream, input, 500);
          Handle handle = kNoHandle;
          ASSERT_TRUE(engine.allreduce_async(values.arguments("x", stream), {ReduceOp::kSum}, true, handle).ok());
          const Status status = finish_on(engine, handle, stream);
          ASSERT_TRUE(status.ok()) << status.message();
          ASSERT_EQ(std::vector<float>(1000, 3), values.read_on(stream));
          ASSERT_TRUE(engine.is_drained(handle));
        }
      },
      use_standin);
}

}  // namespace
}  // namespace ringtune
