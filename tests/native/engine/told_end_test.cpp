// SPDX-License-Identifier: Apache-2.0
// Allreduces whose callers are told of the end instead of waiting for it.
#include <future>

#include <gtest/gtest.h>

#include "local_world.h"

namespace ringtune {
namespace {

using testing::kDeadlineNs;
using testing::run_world;

// Submits one number and returns what will be told.
std::future<Status> told_end(Engine& engine, const std::string& name, const std::vector<float>& input,
                             std::vector<float>& output) {
  auto told = std::make_shared<std::promise<Status>>();
  const Status status = engine.allreduce_async(testing::tensor(name, input, output), {}, true,
                                               [told](const Status& end) { told->set_value(end); });
  EXPECT_TRUE(status.ok()) << status.message();
  return told->get_future();
}

Status within_deadline(std::future<Status>& told) {
  return told.wait_for(std::chrono::nanoseconds(kDeadlineNs)) == std::future_status::ready
             ? told.get()
             : Status(StatusCode::kCollectiveTimeout, "the test's own deadline passed");
}

TEST(ToldEndTest, TellsOnceTheResultIsThere) {
  run_world(2, [](Engine& engine) {
    for (int round = 0; round < 3; ++round) {  // the name is free again once the end was told
      const std::vector<float> input{1.0F + static_cast<float>(engine.rank())};
      std::vector<float> output(1);
      std::future<Status> told = told_end(engine, "x", input, output);
      const Status end = within_deadline(told);
      ASSERT_TRUE(end.ok()) << end.message();
      ASSERT_EQ(3.0F, output[0]);
    }
  });
}

TEST(ToldEndTest, TellsThatTheEngineWasShutDown) {
  run_world(2, [](Engine& engine) {
    if (engine.rank() == 0) {  // the other rank never submits it
      const std::vector<float> input(1);
      std::vector<float> output(1);
      std::future<Status> told = told_end(engine, "x", input, output);
      engine.shutdown();
      ASSERT_EQ(StatusCode::kShutDown, within_deadline(told).code());
    }
  });
}

TEST(ToldEndTest, DoesNotTellWhatWasRefused) {
  run_world(1, [](Engine& engine) {
    const std::vector<float> input(1);
    std::vector<float> output(1);
    bool is_told = false;
    engine.shutdown();
    const Status status = engine.allreduce_async(testing::tensor("x", input, output), {}, true,
                                                 [&is_told](const Status&) { is_told = true; });
    ASSERT_EQ(StatusCode::kShutDown, status.code());
    ASSERT_FALSE(is_told);
  });
}

}  // namespace
}  // namespace ringtune
