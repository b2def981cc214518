// SPDX-License-Identifier: Apache-2.0
#include "telemetry/trace_lines.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace ringtune {
namespace {

// The row of events that belong to no tensor.
constexpr TrackId kEngineRow = 0;
constexpr char kBegin = 'B';
constexpr char kEnd = 'E';
constexpr char kInstant = 'i';
constexpr char kMetadata = 'M';

std::string in_capitals(std::string_view name) {
  std::string capitals(name);
  std::transform(name.begin(), name.end(), capitals.begin(),
                 [](char c) { return 'a' <= c && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; });
  return capitals;
}

bool is_one_response(const TraceRecord& a, const TraceRecord& b) {
  return a.time_ns == b.time_ns && a.number == b.number && a.tensors == b.tensors && a.operation == b.operation &&
         a.algorithm == b.algorithm;
}

bool needs_escape(char c) { return c == '"' || c == '\\' || static_cast<unsigned char>(c) < 0x20; }

}  // namespace

void TraceLines::begin_trace(int64_t time_ns, int64_t unix_us) {
  text_ += "[\n";
  add_metadata("process_name", row_of(kEngineRow), "rank " + std::to_string(rank_));
  begin_instant("timeline_started", time_ns);
  text_ += R"(,"args":{"steady_us":)";
  append_us(time_ns);
  text_ += R"(,"unix_us":)";
  append_number(static_cast<uint64_t>(unix_us));
  text_ += '}';
  end_event();
}

void TraceLines::add(const TraceRecord& record) {
  switch (record.kind) {
    case TraceRecord::Kind::kNegotiate:
      close_span(record, true);
      open_negotiation(record);
      return;
    case TraceRecord::Kind::kBegin:
      close_span(record, row_of(record.track).open == Span::kCollective);
      open_collective(record);
      return;
    case TraceRecord::Kind::kEnd:
      close_span(record, false);
      return;
    case TraceRecord::Kind::kCycle:
      begin_instant("cycle", record.time_ns);
      text_ += R"(,"args":{"round":)";
      append_number(record.number);
      text_ += '}';
      end_event();
      return;
  }
}

void TraceLines::add_instant(std::string_view name, std::string_view detail, int64_t time_ns) {
  begin_instant(name, time_ns);
  text_ += R"(,"args":{"detail":)";
  append_quoted(detail);
  text_ += '}';
  end_event();
}

void TraceLines::end_trace(int64_t time_ns, uint64_t dropped) {
  begin_instant("timeline_stopped", time_ns);
  text_ += R"(,"args":{"dropped_events":)";
  append_number(dropped);
  text_ += "}}\n]\n";  // after the last event JSON wants no comma
}

void TraceLines::open_negotiation(const TraceRecord& record) {
  Row& row = row_of(record.track);
  row.open = Span::kNegotiation;
  begin_timed_event(kBegin, row, record.time_ns);
  text_ += R"(,"name":"NEGOTIATE","args":{"bytes":)";
  append_number(record.number);
  text_ += '}';
  end_event();
}

void TraceLines::open_collective(const TraceRecord& record) {
  Row& row = row_of(record.track);
  row.open = Span::kCollective;
  begin_timed_event(kBegin, row, record.time_ns);
  const bool is_told = is_one_response(record, collective_);
  const size_t begin = text_.size();
  if (is_told) {
    text_ += collective_text_;
  } else {
    describe(record);
    collective_ = record;
    collective_text_.assign(text_, begin);
  }
  end_event();
}

void TraceLines::describe(const TraceRecord& collective) {
  append_name(in_capitals(collective.operation));
  text_ += R"(,"args":{"bytes":)";
  append_number(collective.number);
  text_ += R"(,"tensors":)";
  append_number(collective.tensors);
  if (!collective.algorithm.empty()) {
    text_ += R"(,"algorithm":)";
    append_quoted(collective.algorithm);
  }
  text_ += '}';
}

void TraceLines::close_span(const TraceRecord& record, bool is_end_lost) {
  Row& row = row_of(record.track);
  if (row.open == Span::kNone) {
    return;
  }
  row.open = Span::kNone;
  begin_timed_event(kEnd, row, record.time_ns);
  if (is_end_lost) {
    text_ += R"(,"args":{"end_lost":true})";
  }
  end_event();
}

// The row, introduced to the viewer at its first event.
TraceLines::Row& TraceLines::row_of(TrackId track) {
  if (track >= rows_.size()) {
    rows_.resize(track + 1);
  }
  Row& row = rows_[track];
  if (row.place.empty()) {
    row.place = R"("pid":)" + std::to_string(rank_) + R"(,"tid":)" + std::to_string(track);
    add_metadata("thread_name", row, track == kEngineRow ? "engine" : names_.name(track));
  }
  return row;
}

// Leaves the event open for the fields of its kind.
void TraceLines::begin_event(char type, const Row& row) {
  text_ += R"({"ph":")";
  text_ += type;
  text_ += "\",";
  text_ += row.place;
}

void TraceLines::begin_timed_event(char type, const Row& row, int64_t time_ns) {
  begin_event(type, row);
  text_ += R"(,"ts":)";
  append_us(time_ns);
}

void TraceLines::begin_instant(std::string_view name, int64_t time_ns) {
  begin_timed_event(kInstant, row_of(kEngineRow), time_ns);
  text_ += R"(,"s":"p")";  // drawn across all rows of the rank
  append_name(name);
}

void TraceLines::add_metadata(std::string_view key, const Row& row, std::string_view value) {
  begin_event(kMetadata, row);
  append_name(key);
  text_ += R"(,"args":{"name":)";
  append_quoted(value);
  text_ += '}';
  end_event();
}

void TraceLines::append_name(std::string_view name) {
  text_ += R"(,"name":)";
  append_quoted(name);
}

void TraceLines::append_number(uint64_t number) {
  std::array<char, 20> digits;  // of the largest
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  text_.append(digits.data(), end);
}

void TraceLines::append_us(int64_t time_ns) {
  if (time_ns != written_time_ns_ || written_us_.empty()) {
    constexpr int64_t kNsPerUs = 1000;
    const std::string rest = std::to_string(kNsPerUs + time_ns % kNsPerUs);  // its first digit keeps the zeros
    written_us_ = std::to_string(time_ns / kNsPerUs) + '.' + rest.substr(1);
    written_time_ns_ = time_ns;
  }
  text_ += written_us_;
}

void TraceLines::append_quoted(std::string_view text) {
  constexpr std::string_view kHexDigits = "0123456789abcdef";
  text_ += '"';
  while (!text.empty()) {
    const auto special = std::find_if(text.begin(), text.end(), needs_escape);
    text_.append(text.begin(), special);
    text.remove_prefix(static_cast<size_t>(special - text.begin()));
    if (!text.empty()) {
      const auto code = static_cast<unsigned char>(text.front());
      text_ += "\\u00";
      text_ += kHexDigits[code >> 4];
      text_ += kHexDigits[code & 0xf];
      text.remove_prefix(1);
    }
  }
  text_ += '"';
}

}  // namespace ringtune
