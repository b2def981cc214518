// SPDX-License-Identifier: Apache-2.0
#include "telemetry/trace_lines.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "trace_reader.h"

namespace ringtune {
namespace {

using testing::argument;
using testing::events_named;
using testing::events_of;
using testing::first_named;
using testing::Json;
using testing::row_name;

using Kind = TraceRecord::Kind;

TraceRecord record_of(Kind kind, TrackId track, int64_t time_ns) {
  return {.time_ns = time_ns,
          .number = 4096,
          .operation = "allreduce",
          .algorithm = "ring",
          .track = track,
          .tensors = 3,
          .kind = kind};
}

// "B:NEGOTIATE E B:ALLREDUCE" of one row.
std::string spans_of(const std::vector<Json>& events, TrackId track) {
  std::string spans;
  for (const Json& event : events) {
    if (event.of("tid") == std::to_string(track) && event.of("ph") != "M") {
      const std::string name = event.has("name") ? ":" + event.of("name") : "";
      spans += (spans.empty() ? "" : " ") + event.of("ph") + name;
    }
  }
  return spans;
}

class TraceLinesTest : public ::testing::Test {
 protected:
  std::vector<Json> events() {
    lines_.end_trace(9'000, 0);
    return events_of(lines_.text());
  }

  TrackNames names_;
  TrackId weight_ = names_.find_or_add("layer1.weight");
  TraceLines lines_{2, names_};
};

TEST_F(TraceLinesTest, ATensorHasARowOfItsOwnWithItsNameAndItsPhases) {
  lines_.begin_trace(1'000, 1'700'000'000'000'000);
  lines_.add(record_of(Kind::kNegotiate, weight_, 1'001));
  lines_.add(record_of(Kind::kBegin, weight_, 2'050));
  lines_.add(record_of(Kind::kEnd, weight_, 1'234'567'890));

  const std::vector<Json> events = this->events();

  EXPECT_EQ("B:NEGOTIATE E B:ALLREDUCE E", spans_of(events, weight_));
  EXPECT_EQ("layer1.weight", row_name(events, weight_));
  EXPECT_EQ("rank 2", argument(first_named(events, "process_name"), "name"));
  const Json collective = first_named(events, "ALLREDUCE");
  EXPECT_EQ("2", collective.of("pid"));
  EXPECT_EQ("2.050", collective.of("ts"));
  EXPECT_EQ("3", argument(collective, "tensors"));
  EXPECT_EQ("4096", argument(collective, "bytes"));
  EXPECT_EQ("ring", argument(collective, "algorithm"));
  EXPECT_EQ(1, std::count_if(events.begin(), events.end(), [](const Json& event) {
              return event.of("ph") == "E" && event.of("ts") == "1234567.890";
            }));
}

TEST_F(TraceLinesTest, TensorsOfOneMomentKeepWhatIsTheirOwn) {
  const TrackId bias = names_.find_or_add("layer1.bias");
  TraceRecord fused = record_of(Kind::kBegin, weight_, 5'000);
  lines_.begin_trace(0, 0);
  lines_.add(fused);
  fused.track = bias;
  lines_.add(fused);
  fused.algorithm = "";
  lines_.add(fused);

  const std::vector<Json> collectives = events_named(events(), "ALLREDUCE");

  std::string shown;
  for (const Json& collective : collectives) {
    shown += collective.of("tid") + " " + collective.of("ts") + " " + argument(collective, "algorithm") + ";";
  }
  EXPECT_EQ("1 5.000 ring;2 5.000 ring;2 5.000 ;", shown);
}

TEST_F(TraceLinesTest, BothClocksAreToldOnce) {
  lines_.begin_trace(1'500, 1'700'000'000'000'000);

  const Json started = first_named(events(), "timeline_started");

  EXPECT_EQ("1.500", argument(started, "steady_us"));
  EXPECT_EQ("1700000000000000", argument(started, "unix_us"));
}

TEST_F(TraceLinesTest, WhatWasDroppedLeavesNoRowInDisorder) {
  lines_.begin_trace(0, 0);
  lines_.add(record_of(Kind::kEnd, weight_, 1));    // its beginning was before the trace
  lines_.add(record_of(Kind::kBegin, weight_, 2));  // its negotiation was dropped
  lines_.add(record_of(Kind::kNegotiate, weight_, 3));
  lines_.add(record_of(Kind::kNegotiate, weight_, 4));
  lines_.add(record_of(Kind::kEnd, weight_, 5));
  lines_.add(record_of(Kind::kEnd, weight_, 6));

  const std::vector<Json> events = this->events();

  EXPECT_EQ("B:ALLREDUCE E B:NEGOTIATE E B:NEGOTIATE E", spans_of(events, weight_));
  std::string lost;
  for (const Json& event : events) {
    if (event.of("ph") == "E") {
      lost += event.has("args") ? "lost " : "good ";
    }
  }
  EXPECT_EQ("lost lost good ", lost);
}

TEST_F(TraceLinesTest, AnyNameAndTextIsJson) {
  const std::string odd = "a \"quoted\" \\ \x01\x1f \n \xc3\xa4 name";
  const TrackId track = names_.find_or_add(odd);
  lines_.begin_trace(0, 0);
  lines_.add(record_of(Kind::kNegotiate, track, 1));
  lines_.add_instant(odd, odd, 2);

  const std::vector<Json> events = this->events();

  EXPECT_EQ(odd, row_name(events, track));
  EXPECT_EQ(odd, argument(first_named(events, odd), "detail"));
}

TEST_F(TraceLinesTest, EveryLineIsOneEvent) {
  lines_.begin_trace(0, 0);
  lines_.add(record_of(Kind::kNegotiate, weight_, 1));
  lines_.add(record_of(Kind::kCycle, kNoTrack, 1));
  lines_.add_instant("two\nlines", "of\ntext", 2);

  const size_t count = events().size();

  // The brackets have lines of their own.
  EXPECT_EQ(count + 2, static_cast<size_t>(std::count(lines_.text().begin(), lines_.text().end(), '\n')));
}

TEST(TrackNames, GiveANameOneNumberAndAreBounded) {
  TrackNames names;
  const TrackId first = names.find_or_add("0");

  for (size_t i = 1; i < TrackNames::kMaxTracks; ++i) {
    EXPECT_NE(kNoTrack, names.find_or_add(std::to_string(i)));
  }

  EXPECT_EQ(first, names.find_or_add("0"));
  EXPECT_EQ("0", names.name(first));
  EXPECT_EQ(kNoTrack, names.find_or_add("one too many"));
}

}  // namespace
}  // namespace ringtune
