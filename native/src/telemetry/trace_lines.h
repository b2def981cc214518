// SPDX-License-Identifier: Apache-2.0
// Turns records into the lines of a Chrome trace (JSON array format).
//
// One event per line, and after every line the text so far is a trace that viewers read: they ask neither for the
// closing bracket nor for lines that a killed job could not write. pid is the rank, tid the row, ts the steady clock in
// microseconds. A row's spans never overlap: its next span ends the one that is open, so that dropped records cannot
// leave a row in disorder.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "telemetry/trace_record.h"
#include "telemetry/track_names.h"

namespace ringtune {

class TraceLines {
 public:
  TraceLines(int rank, const TrackNames& names) : rank_(rank), names_(names) {}

  // The opening bracket, and both clocks at one moment: by them, traces of several hosts are shifted to one time.
  void begin_trace(int64_t time_ns, int64_t unix_us);
  void add(const TraceRecord& record);
  void add_instant(std::string_view name, std::string_view detail, int64_t time_ns);
  // The last line, and the closing bracket.
  void end_trace(int64_t time_ns, uint64_t dropped);

  const std::string& text() const { return text_; }
  void clear() { text_.clear(); }

 private:
  enum class Span : uint8_t { kNone, kNegotiation, kCollective };
  struct Row {
    Span open = Span::kNone;
    std::string place;  // the rank and the row, as each of its events has them
  };

  void open_negotiation(const TraceRecord& record);
  void open_collective(const TraceRecord& record);
  void describe(const TraceRecord& collective);
  void close_span(const TraceRecord& record, bool is_end_lost);
  Row& row_of(TrackId track);

  void begin_event(char type, const Row& row);
  void begin_timed_event(char type, const Row& row, int64_t time_ns);
  void begin_instant(std::string_view name, int64_t time_ns);
  void add_metadata(std::string_view key, const Row& row, std::string_view value);
  void end_event() { text_ += "},\n"; }
  void append_number(uint64_t number);
  void append_us(int64_t time_ns);
  void append_name(std::string_view name);
  void append_quoted(std::string_view text);

  const int rank_;
  const TrackNames& names_;
  std::vector<Row> rows_;  // one per track

  // Text that all tensors of a response have in common, written once.
  int64_t written_time_ns_ = 0;
  std::string written_us_;
  TraceRecord collective_;
  std::string collective_text_;

  std::string text_;
};

}  // namespace ringtune
