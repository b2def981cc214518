// SPDX-License-Identifier: Apache-2.0
// Allreduces whose callers get a callback at the end instead of waiting for it.
#include <future>

#include <gtest/gtest.h>

#include "local_world.h"

namespace ringtune {
namespace {

using testing::kDeadlineNs;
using testing::run_world;

// Submits one number and returns its future outcome.
std::future<Status> told_end(Engine& engine, const std::string& name, const std::vector<float>& input,
                             std::vector<float>& output) {
  auto told = std::make_shared<std::promise<Status>>();
  Handle forgotten = kNoHandle;
  const Status status = engine.allreduce_async(testing::tensor(name, input, output), {}, true, forgotten,
                                               [told](const Outcome& end) { told->set_value(end.status); });
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
    Handle forgotten = kNoHandle;
    const Status status = engine.allreduce_async(testing::tensor("x", input, output), {}, true, forgotten,
                                                 [&is_told](const Outcome&) { is_told = true; });
    ASSERT_EQ(StatusCode::kShutDown, status.code());
    ASSERT_FALSE(is_told);
  });
}

TEST(ToldEndTest, PutsRowsWhereTheCallerHasRoomForThem) {
  run_world(2, [](Engine& engine) {
    for (const size_t room : {2, 3}) {
      const std::vector<float> input{static_cast<float>(engine.rank())};
      std::vector<float> output(room, -1.0F);
      TensorArguments tensor = testing::tensor("x", input, output);
      tensor.shape = {1};
      tensor.output_bytes = room * sizeof(float);
      std::promise<Outcome> told;
      std::future<Outcome> end = told.get_future();
      Handle forgotten = kNoHandle;
      const Status status = engine.allgather_async(tensor, false, forgotten,
                                                   [&told](const Outcome& outcome) { told.set_value(outcome); });
      ASSERT_TRUE(status.ok()) << status.message();
      const Outcome outcome = end.get();
      ASSERT_TRUE(outcome.status.ok()) << outcome.status.message();
      ASSERT_EQ(std::vector<int64_t>({1, 1}), outcome.result->rows);
      ASSERT_EQ(room == 2, outcome.result->data() == reinterpret_cast<std::byte*>(output.data()));
      ASSERT_EQ(room == 2 ? 1.0F : -1.0F, output[1]);
    }
  });
}

TEST(ToldEndTest, RefusesAReducescatterWhoseOutputHasAnotherSize) {
  run_world(2, [](Engine& engine) {
    const std::vector<float> input(3, 1.0F);
    std::vector<float> output(2);
    TensorArguments tensor = testing::tensor("x", input, output);
    tensor.output_bytes = sizeof(float);  // rank 0 keeps two of three rows
    Handle handle = kNoHandle;
    const Status status = engine.reducescatter_async(tensor, {}, handle);
    ASSERT_EQ(engine.rank() == 0 ? StatusCode::kConfigError : StatusCode::kOk, status.code());
  });
}

}  // namespace
}  // namespace ringtune
