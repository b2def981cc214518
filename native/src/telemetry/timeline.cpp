// SPDX-License-Identifier: Apache-2.0
#include "telemetry/timeline.h"

#include <chrono>
#include <system_error>
#include <utility>

#include "base/clock.h"

namespace ringtune {
namespace {

// Interval between writes: a killed job loses so much of its trace. Seldom is cheap: 20 ms cost 1.7 times the processor
// time per event.
constexpr std::chrono::milliseconds kWriteEvery{100};
constexpr size_t kBlockBytes = 64 * 1024;
// Between two visits of the writer.
constexpr size_t kMaxInstants = 1024;

int64_t unix_time_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

Status Timeline::start(const std::string& path, bool mark_cycles) {
  const std::lock_guard control(control_mutex_);
  if (is_on()) {
    return {StatusCode::kConfigError,
            "a timeline is already being written to '" + file_.path() + "'; stop it before another is started"};
  }
  finish_writer();  // of a trace that a full disk has ended
  if (Status s = file_.open(trace_path_of(path, rank_)); !s.ok()) return s;
  if (!ring_) {
    ring_ = std::make_unique<TraceRing>();
  }
  ring_->clear();
  dropped_.store(0, std::memory_order_relaxed);
  is_marking_cycles_.store(mark_cycles, std::memory_order_relaxed);
  if (!launch_writer()) {
    return {StatusCode::kConfigError, "the timeline '" + file_.path() +
                                          "' cannot be written: the system has no thread left for it; raise the"
                                          " limit of processes (ulimit -u)"};
  }
  return Status::ok_status();
}

bool Timeline::launch_writer() {
  {
    const std::lock_guard lock(wake_mutex_);
    is_stopping_ = false;
    instants_.clear();
  }
  is_on_.store(true, std::memory_order_release);
  try {
    writer_thread_ = std::thread([this] { run_writer(); });
  } catch (const std::system_error&) {
    is_on_.store(false);
    file_.close();
    return false;
  }
  return true;
}

void Timeline::stop() {
  const std::lock_guard control(control_mutex_);
  is_on_.store(false);
  finish_writer();
}

void Timeline::finish_writer() {
  if (!writer_thread_.joinable()) {
    return;
  }
  {
    const std::lock_guard lock(wake_mutex_);
    is_stopping_ = true;
  }
  wake_.notify_one();
  writer_thread_.join();
}

void Timeline::instant(std::string_view name, std::string_view detail) {
  if (!is_on()) {
    return;
  }
  const std::lock_guard lock(wake_mutex_);
  if (instants_.size() == kMaxInstants) {
    dropped_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  instants_.push_back({now_ns(), std::string(name), std::string(detail)});
}

TrackId Timeline::row(std::string_view name) {
  if (!is_on()) {
    return kNoTrack;
  }
  const TrackId track = names_.find_or_add(name);
  if (track == kNoTrack) {
    dropped_.fetch_add(1, std::memory_order_relaxed);
  }
  return track;
}

TrackId Timeline::negotiate(std::string_view name, uint64_t bytes, int64_t time_ns) {
  const TrackId track = row(name);
  if (track != kNoTrack) {
    note({.time_ns = time_ns, .number = bytes, .track = track, .kind = TraceRecord::Kind::kNegotiate});
  }
  return track;
}

void Timeline::begin(TrackId track, const TracedCollective& collective, int64_t time_ns) {
  if (is_on() && track != kNoTrack) {
    note({time_ns, collective.bytes, collective.operation, collective.algorithm, track, collective.tensors,
          TraceRecord::Kind::kBegin});
  }
}

void Timeline::end(TrackId track, int64_t time_ns) {
  if (is_on() && track != kNoTrack) {
    note({.time_ns = time_ns, .track = track, .kind = TraceRecord::Kind::kEnd});
  }
}

void Timeline::cycle(uint64_t round, int64_t time_ns) {
  if (is_on() && is_marking_cycles_.load(std::memory_order_relaxed) && round != last_round_) {
    last_round_ = round;
    note({.time_ns = time_ns, .number = round, .kind = TraceRecord::Kind::kCycle});
  }
}

void Timeline::note(const TraceRecord& record) {
  // Again, and with acquire: only then is the ring of the thread that started the trace seen here.
  if (is_on_.load(std::memory_order_acquire) && !ring_->put(record)) {
    dropped_.fetch_add(1, std::memory_order_relaxed);
  }
}

void Timeline::abandon_after_fork() {
  is_on_.store(false);
  file_.close();
}

void Timeline::run_writer() {
  TraceLines lines(rank_, names_);
  lines.begin_trace(now_ns(), unix_time_us());
  int error = write(lines);
  std::vector<Instant> instants;
  for (bool is_last = false; error == 0 && !is_last;) {
    is_last = wait_for_instants(instants);
    error = write_noted(lines, instants);
  }
  if (error == 0) {
    lines.end_trace(now_ns(), dropped_.load(std::memory_order_relaxed));
    error = write(lines);
  }
  is_on_.store(false);
  const int close_error = file_.close();
  report(error != 0 ? error : close_error);
}

// Sleeps until the next visit; returns whether it is the last.
bool Timeline::wait_for_instants(std::vector<Instant>& instants) {
  instants.clear();
  std::unique_lock lock(wake_mutex_);
  wake_.wait_for(lock, kWriteEvery, [this] { return is_stopping_; });
  instants.swap(instants_);
  return is_stopping_;
}

int Timeline::write_noted(TraceLines& lines, const std::vector<Instant>& instants) {
  for (const Instant& instant : instants) {
    lines.add_instant(instant.name, instant.detail, instant.time_ns);
  }
  TraceRecord record;
  while (ring_->take(record)) {
    lines.add(record);
    if (lines.text().size() >= kBlockBytes) {
      if (const int error = write(lines); error != 0) return error;
    }
  }
  return write(lines);
}

int Timeline::write(TraceLines& lines) {
  const int error = file_.append(lines.text());
  lines.clear();
  return error;
}

void Timeline::report(int error) const {
  if (error != 0) {
    log_.write(LogLevel::kWarning, "the timeline '" + file_.path() + "' ends after " + std::to_string(file_.bytes()) +
                                       " bytes: " + std::generic_category().message(error) +
                                       "; training goes on without it");
  } else if (const uint64_t dropped = dropped_.load(std::memory_order_relaxed); dropped != 0) {
    log_.write(LogLevel::kWarning, "the timeline '" + file_.path() + "' lacks " + std::to_string(dropped) +
                                       " events: they came faster than they could be written, or named more than " +
                                       std::to_string(TrackNames::kMaxTracks) + " tensors");
  }
}

}  // namespace ringtune
