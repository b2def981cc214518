// SPDX-License-Identifier: Apache-2.0
#include "engine/submissions/submission_queue.h"

#include <thread>

#include <gtest/gtest.h>

#include "base/clock.h"

namespace ringtune {
namespace {

void push(SubmissionQueue& queue, const std::string& name) {
  Submission submission;
  submission.name = name;
  bool is_wake_needed = false;
  ASSERT_TRUE(queue.push(submission, is_wake_needed).ok());
}

TEST(SubmissionQueue, TheLastStepHasItsTensorsAndTheTimeBetweenTheFirstAndTheLast) {
  SubmissionQueue queue({1 << 20, kNsPerMs});
  EXPECT_EQ(0u, queue.last_step().tensors);

  const int64_t begun_ns = now_ns();
  push(queue, "a");
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  push(queue, "b");
  const int64_t ended_ns = now_ns();
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  queue.end_step();

  EXPECT_EQ(2u, queue.last_step().tensors);
  EXPECT_GE(queue.last_step().span_ns, 5 * kNsPerMs);
  EXPECT_LE(queue.last_step().span_ns, ended_ns - begun_ns);
}

TEST(SubmissionQueue, AStepOfOneTensorOrOfNoneTakesNoTime) {
  SubmissionQueue queue({1 << 20, kNsPerMs});
  push(queue, "a");
  queue.end_step();
  EXPECT_EQ(1u, queue.last_step().tensors);
  EXPECT_EQ(0, queue.last_step().span_ns);

  queue.end_step();
  EXPECT_EQ(0u, queue.last_step().tensors);
}

}  // namespace
}  // namespace ringtune
