// SPDX-License-Identifier: Apache-2.0
#include "engine/gpu/staging/device_staging.h"

#include <gtest/gtest.h>

#include "device/standin_world.h"

namespace ringtune {
namespace {

class DeviceStagingTest : public testing::StandinTest {};

// A caller's thread may be between the copy and the queue, which refuses the submission, while the engine ends.
TEST_F(DeviceStagingTest, ATensorIsLetGoAfterTheEnd) {
  const Layout layout(0, {0});
  const testing::UserStream stream;
  testing::DeviceVector<float> values(1000);
  Submission submission;
  submission.name = "x";
  submission.signature.shape = {1000};
  submission.input = reinterpret_cast<const std::byte*>(values.address());
  submission.output = reinterpret_cast<std::byte*>(values.address());
  DeviceStaging staging(RINGTUNE_STANDIN_CUDA, layout, nullptr, [] {});
  ASSERT_TRUE(staging.take_in(stream.named(), false, submission).ok());

  staging.close();
  staging.let_go(submission.handle, *submission.staged);

  EXPECT_TRUE(staging.is_drained(submission.handle));
}

}  // namespace
}  // namespace ringtune
