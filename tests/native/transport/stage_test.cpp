// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/stage.h"

#include <chrono>
#include <thread>

#include <gtest/gtest.h>
#include <unistd.h>

#include "base/clock.h"
#include "transport/shm/failure_record.h"

namespace ringtune {
namespace {

constexpr size_t kStageChunkBytes = 16 * 1024;

std::shared_ptr<Segment> segment_of(int local_size) {
  int fd = -1;
  std::shared_ptr<Segment> segment;
  EXPECT_TRUE(Segment::create(local_size, fd).ok());
  EXPECT_TRUE(Segment::map(fd, local_size, segment).ok());
  close(fd);
  return segment;
}

// The second host has the ranks 1 and 3.
const std::vector<int> kHosts{0, 1, 0, 1};

// A transport that only names silent peers, as rank 3's does to a stage, which makes no other call while no rank
// leaves.
class TellsOfSilence final : public Transport {
 public:
  explicit TellsOfSilence(int silent_rank) : silent_rank_(silent_rank) {}

  int rank() const override { return 3; }
  int world_size() const override { return static_cast<int>(kHosts.size()); }
  int leader() const override { return 1; }
  bool try_send_request(ByteSpan) override { return false; }
  bool try_receive_response(Bytes&) override { return false; }
  bool try_receive_request(int, Bytes&) override { return false; }
  bool try_publish_response(ByteSpan) override { return false; }
  bool try_forward_request(ByteSpan) override { return false; }
  bool try_receive_published(Bytes&) override { return false; }
  void pass_on_departure() override {}
  bool try_receive_forwarded(int, Bytes&) override { return false; }
  size_t max_frame_bytes() const override { return 0; }
  uint32_t announce_wait(Sleeper) override { return 0; }
  void cancel_wait(Sleeper) override {}
  void wait(Sleeper, uint32_t, int64_t) override {}
  void awaken(Sleeper) override {}
  void notify() override {}
  void fail(const Failure&) override {}
  std::optional<Failure> failure() const override { return std::nullopt; }
  int silent_rank() const override { return silent_rank_; }
  void depart() override {}
  bool has_departed(int) const override { return false; }

 private:
  int silent_rank_;
};

TEST(Stage, RanksAreCountedInsideTheHost) {
  const Stage stage(segment_of(2), Layout(3, kHosts), kNsPerS);

  EXPECT_EQ(1, stage.local_rank());
  EXPECT_EQ(2, stage.local_size());
}

TEST(Stage, ATimeoutNamesTheRanksOfTheWorld) {
  const std::shared_ptr<Segment> segment = segment_of(2);
  Stage stage(segment, Layout(3, kHosts), 50 * kNsPerMs);
  ASSERT_TRUE(stage.begin(kStageChunkBytes, 1).ok());
  stage.publish(Phase::kStaged, 0);

  const Status status = stage.wait_for_all(Phase::kStaged, 0);

  EXPECT_EQ(StatusCode::kCollectiveTimeout, status.code());
  EXPECT_NE(std::string::npos, status.message().find("rank 1 did not move on")) << status.message();
  EXPECT_NE(std::string::npos, status.message().find("noticed by rank 3")) << status.message();
  EXPECT_EQ(1, read_failure(*segment)->culprit_rank);
}

TEST(Stage, ATimeoutNamesARankOfAnotherHostThatHasFallenSilent) {
  const std::shared_ptr<Segment> segment = segment_of(2);
  TellsOfSilence transport(0);
  Stage stage(segment, Layout(3, kHosts), 50 * kNsPerMs, &transport);
  ASSERT_TRUE(stage.begin(kStageChunkBytes, 1).ok());

  const Status status = stage.wait_for(0, Phase::kReduced, 0);

  EXPECT_EQ(0u, status.message().find("rank 0 (host 0) has fallen silent; rank 1 did not move")) << status.message();
  EXPECT_EQ(0, read_failure(*segment)->culprit_rank);
}

TEST(Stage, WhatANeighbourKnowsBetterIsReportedInstead) {
  const std::shared_ptr<Segment> segment = segment_of(2);
  TellsOfSilence transport(kNoCulprit);
  Stage stage(segment, Layout(3, kHosts), 50 * kNsPerMs, &transport);
  ASSERT_TRUE(stage.begin(kStageChunkBytes, 1).ok());
  std::thread neighbour([&segment] {
    std::this_thread::sleep_for(std::chrono::milliseconds(120));  // later than this rank's limit
    record_failure(*segment, {StatusCode::kCollectiveTimeout, 2, "rank 2 sent nothing"});
  });

  const Status status = stage.wait_for(0, Phase::kReduced, 0);
  neighbour.join();

  EXPECT_EQ("rank 2 sent nothing", status.message());
}

TEST(Stage, ASlotIsOverwrittenOnlyWhenEveryRankHasReadIt) {
  constexpr uint64_t kChunks = 200;
  const std::shared_ptr<Segment> segment = segment_of(2);
  const auto write = [&] {
    Stage stage(segment, Layout(1, kHosts), 60 * kNsPerS);
    ASSERT_TRUE(stage.begin(kStageChunkBytes, kChunks).ok());
    for (uint64_t chunk = 0; chunk < kChunks; ++chunk) {
      ASSERT_TRUE(stage.reserve(chunk).ok());
      *reinterpret_cast<uint64_t*>(stage.slot(0, chunk)) = chunk;
      stage.publish(Phase::kStaged, chunk);
      stage.publish(Phase::kDrained, chunk);
    }
    stage.end();
  };
  std::thread writer(write);
  Stage stage(segment, Layout(3, kHosts), 60 * kNsPerS);
  ASSERT_TRUE(stage.begin(kStageChunkBytes, kChunks).ok());

  for (uint64_t chunk = 0; chunk < kChunks; ++chunk) {
    ASSERT_TRUE(stage.wait_for(0, Phase::kStaged, chunk).ok());
    ASSERT_EQ(chunk, *reinterpret_cast<uint64_t*>(stage.slot(0, chunk)));
    stage.publish(Phase::kDrained, chunk);
  }

  stage.end();
  writer.join();
}

}  // namespace
}  // namespace ringtune
