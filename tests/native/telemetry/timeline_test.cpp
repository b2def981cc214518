// SPDX-License-Identifier: Apache-2.0
#include "telemetry/timeline.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "trace_reader.h"

namespace ringtune {
namespace {

using testing::argument;
using testing::events_named;
using testing::events_of;
using testing::first_named;
using testing::Json;
using testing::read_file;
using testing::repaired;
using testing::row_name;
using testing::ScratchFolder;

const Log kLog(LogLevel::kWarning, 0);
constexpr TracedCollective kAllreduce{"allreduce", "ring", 2, 8192};

void trace_tensor(Timeline& timeline, std::string_view name) {
  const TrackId track = timeline.negotiate(name, 4096, now_ns());
  timeline.begin(track, kAllreduce, now_ns());
  timeline.end(track, now_ns());
}

size_t count_in(const std::string& text, std::string_view word) {
  size_t count = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + word.size())) {
    ++count;
  }
  return count;
}

// Returns whether the file came to have so many bytes. A batch begins when all of the one before is in the file, and
// the writer's ring holds a batch: no record is dropped, however busy the machine.
bool trace_until(Timeline& timeline, const std::string& path, size_t bytes) {
  constexpr size_t kBatch = 2000;
  const int64_t deadline_ns = now_ns() + 60 * kNsPerS;
  std::string text;
  for (size_t traced = kBatch; text.size() < bytes; traced += kBatch) {
    for (size_t i = 0; i < kBatch; ++i) {
      trace_tensor(timeline, "weight");
    }
    while (count_in(text, "NEGOTIATE") < traced) {
      if (now_ns() >= deadline_ns) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      text = read_file(path);
    }
  }
  return true;
}

std::vector<Json> events_in(const std::string& path) { return events_of(read_file(path)); }

class TimelineTest : public ::testing::Test {
 protected:
  ScratchFolder folder_;
  std::string path_ = folder_.file("trace.json");
  Timeline timeline_{kLog, 0};
};

TEST_F(TimelineTest, AStoppedTraceIsJsonWithEverythingInIt) {
  ASSERT_TRUE(timeline_.start(path_, true).ok());
  EXPECT_TRUE(timeline_.is_on());
  timeline_.cycle(7, now_ns());
  trace_tensor(timeline_, "weight");
  trace_tensor(timeline_, "bias");
  timeline_.instant("config_switch", "epoch 3: cycle_ms 2.5");
  timeline_.stop();

  const std::vector<Json> events = events_in(path_);

  EXPECT_FALSE(timeline_.is_on());
  EXPECT_EQ(2u, events_named(events, "NEGOTIATE").size());
  EXPECT_EQ(2u, events_named(events, "ALLREDUCE").size());
  EXPECT_EQ("7", argument(first_named(events, "cycle"), "round"));
  EXPECT_EQ("epoch 3: cycle_ms 2.5", argument(first_named(events, "config_switch"), "detail"));
  EXPECT_EQ("0", argument(first_named(events, "timeline_stopped"), "dropped_events"));
}

TEST_F(TimelineTest, CyclesAreMarkedOncePerRoundAndOnlyWhereAskedFor) {
  for (const bool mark_cycles : {true, false}) {
    ASSERT_TRUE(timeline_.start(path_, mark_cycles).ok());
    for (const uint64_t round : {1, 1, 2, 2, 1}) {
      timeline_.cycle(round, now_ns());
    }
    timeline_.stop();

    EXPECT_EQ(mark_cycles ? 3u : 0u, events_named(events_in(path_), "cycle").size());
  }
}

TEST_F(TimelineTest, NothingIsNotedWhileItIsOff) {
  EXPECT_EQ(kNoTrack, timeline_.negotiate("before", 1, now_ns()));
  timeline_.instant("before", "");
  ASSERT_TRUE(timeline_.start(path_, false).ok());
  timeline_.begin(kNoTrack, kAllreduce, now_ns());  // submitted before the trace began
  timeline_.end(kNoTrack, now_ns());
  timeline_.stop();
  timeline_.instant("after", "");
  trace_tensor(timeline_, "after");

  EXPECT_EQ(4u, events_in(path_).size()) << read_file(path_);
}

TEST_F(TimelineTest, ASecondTraceIsCompleteAndKnowsTheRowsOfTheFirst) {
  ASSERT_TRUE(timeline_.start(path_, false).ok());
  const TrackId first = timeline_.negotiate("weight", 4096, now_ns());
  timeline_.stop();
  ASSERT_TRUE(timeline_.start(folder_.file("second.json"), false).ok());
  timeline_.begin(first, kAllreduce, now_ns());  // spans under way are drawn from here
  timeline_.end(first, now_ns());
  EXPECT_TRUE(trace_until(timeline_, folder_.file("second.json"), 1'000'000));
  EXPECT_EQ(first, timeline_.negotiate("weight", 4096, now_ns()));
  timeline_.stop();

  const std::vector<Json> events = events_in(folder_.file("second.json"));

  EXPECT_EQ("0", argument(first_named(events, "timeline_stopped"), "dropped_events"));
  EXPECT_EQ("weight", row_name(events, first));
  EXPECT_EQ(events_named(events, "ALLREDUCE").size(), events_named(events, "NEGOTIATE").size());
  EXPECT_EQ(1u, events_named(events, "timeline_stopped").size());
}

TEST_F(TimelineTest, StartingTwiceIsAnErrorThatNamesTheFirstTrace) {
  ASSERT_TRUE(timeline_.start(path_, false).ok());

  const Status status = timeline_.start(folder_.file("other.json"), false);

  EXPECT_EQ(StatusCode::kConfigError, status.code());
  EXPECT_NE(std::string::npos, status.message().find(path_)) << status.message();
  EXPECT_TRUE(timeline_.is_on());
  timeline_.stop();
  timeline_.stop();
}

TEST_F(TimelineTest, APathThatCannotBeOpenedLeavesItOff) {
  EXPECT_EQ(StatusCode::kConfigError, timeline_.start(folder_.file("missing/trace.json"), false).code());
  EXPECT_FALSE(timeline_.is_on());

  ASSERT_TRUE(timeline_.start(path_, false).ok());
  timeline_.stop();

  EXPECT_EQ(4u, events_in(path_).size());
}

TEST_F(TimelineTest, AFullDiskEndsTheTraceWithOneWarningAndTheNextOneWorks) {
  ::testing::internal::CaptureStderr();
  ASSERT_TRUE(timeline_.start("/dev/full", false).ok());
  const int64_t deadline_ns = now_ns() + 60 * kNsPerS;
  while (timeline_.is_on() && now_ns() < deadline_ns) {
    trace_tensor(timeline_, "weight");
  }
  trace_tensor(timeline_, "weight");
  EXPECT_TRUE(timeline_.start(path_, false).ok());
  const std::string warning = ::testing::internal::GetCapturedStderr();
  timeline_.stop();

  EXPECT_EQ(1, std::count(warning.begin(), warning.end(), '\n')) << warning;
  EXPECT_NE(std::string::npos, warning.find("'/dev/full' ends after 0 bytes: No space left on device")) << warning;
  EXPECT_EQ(4u, events_in(path_).size());
}

TEST_F(TimelineTest, AnEventReachesTheFileWithoutWaitingForMore) {
  ASSERT_TRUE(timeline_.start(path_, false).ok());
  trace_tensor(timeline_, "weight");
  const int64_t deadline_ns = now_ns() + 60 * kNsPerS;
  std::string text;
  while (text.find("ALLREDUCE") == std::string::npos && now_ns() < deadline_ns) {
    text = read_file(path_);
  }

  EXPECT_EQ(1u, events_named(events_of(repaired(text)), "ALLREDUCE").size());
}

TEST_F(TimelineTest, EveryRankWritesAFileOfItsOwn) {
  Timeline third(kLog, 2);
  ASSERT_TRUE(third.start(path_, false).ok());
  third.stop();

  EXPECT_FALSE(std::filesystem::exists(path_));
  EXPECT_EQ("2", first_named(events_in(folder_.file("trace.rank2.json")), "timeline_started").of("pid"));
}

// An unread pipe holds the writer up for as long as the test wants.
TEST_F(TimelineTest, WhatTheWriterCannotFollowIsDroppedAndCounted) {
  ASSERT_EQ(0, mkfifo(path_.c_str(), 0600));
  const int reading = open(path_.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_TRUE(timeline_.start(path_, false).ok());
  constexpr uint64_t kNoted = 3 * TraceRing::kCapacity;
  for (uint64_t i = 0; i < kNoted; ++i) {
    timeline_.negotiate("weight", i, now_ns());
  }
  ::testing::internal::CaptureStderr();
  std::thread stopping([this] { timeline_.stop(); });
  fcntl(reading, F_SETFL, 0);
  std::string text;
  std::vector<char> block(1 << 16);
  for (ssize_t size = 1; size > 0;) {
    size = read(reading, block.data(), block.size());
    text.append(block.data(), static_cast<size_t>(std::max<ssize_t>(size, 0)));
  }
  stopping.join();
  close(reading);
  const std::string warning = ::testing::internal::GetCapturedStderr();

  const std::vector<Json> events = events_of(text);
  const std::string dropped = argument(first_named(events, "timeline_stopped"), "dropped_events");
  EXPECT_LE(TraceRing::kCapacity, std::stoull(dropped));
  EXPECT_EQ(kNoted, events_named(events, "NEGOTIATE").size() + std::stoull(dropped));
  EXPECT_NE(std::string::npos, warning.find("lacks " + dropped + " events")) << warning;
}

TEST_F(TimelineTest, ATraceCountsWhatItLacksItselfAlone) {
  ASSERT_TRUE(timeline_.start(path_, false).ok());
  for (size_t i = 0; i <= TrackNames::kMaxTracks; ++i) {  // one more than there are rows
    timeline_.negotiate(std::to_string(i), 1, now_ns());
  }
  timeline_.stop();
  EXPECT_NE("0", argument(first_named(events_in(path_), "timeline_stopped"), "dropped_events"));

  ASSERT_TRUE(timeline_.start(path_, false).ok());
  timeline_.stop();

  EXPECT_EQ("0", argument(first_named(events_in(path_), "timeline_stopped"), "dropped_events"));
}

TEST_F(TimelineTest, StartsAndStopsOfAnyThreadDisturbNobody) {
  constexpr int kTraces = 40;
  std::atomic<bool> is_done{false};
  std::thread communication([&] {
    for (uint64_t round = 0; !is_done.load(); ++round) {
      timeline_.cycle(round, now_ns());
      trace_tensor(timeline_, "tensor" + std::to_string(round % 50));
    }
  });
  std::thread tuner([&] {
    while (!is_done.load()) {
      timeline_.instant("sample", "score 1.5");
    }
  });
  std::vector<std::thread> controllers;
  for (const char* name : {"a", "b"}) {
    controllers.emplace_back([this, name] {
      for (int i = 0; i < kTraces; ++i) {
        [[maybe_unused]] const Status either = timeline_.start(folder_.file(name + std::to_string(i)), true);
        timeline_.stop();
      }
    });
  }
  for (std::thread& controller : controllers) {
    controller.join();
  }
  is_done.store(true);
  communication.join();
  tuner.join();

  int traces = 0;
  for (const auto& file : std::filesystem::directory_iterator(std::filesystem::path(path_).parent_path())) {
    ++traces;
    EXPECT_EQ(1u, events_named(events_in(file.path().string()), "timeline_stopped").size()) << file.path();
  }
  EXPECT_LE(kTraces, traces);
}

void trace_until_killed(const std::string& path) {
  Timeline timeline(kLog, 0);
  if (timeline.start(path, false).ok() && trace_until(timeline, path, 1'000'000)) {
    kill(getpid(), SIGKILL);
  }
}

TEST_F(TimelineTest, AKilledJobLeavesATraceThatViewersRead) {
  EXPECT_EXIT(trace_until_killed(path_), ::testing::KilledBySignal(SIGKILL), "");

  const std::vector<Json> events = events_of(repaired(read_file(path_)));

  EXPECT_LT(1'000u, events_named(events, "ALLREDUCE").size());
  EXPECT_TRUE(events_named(events, "timeline_stopped").empty());
}

}  // namespace
}  // namespace ringtune
