// SPDX-License-Identifier: Apache-2.0
// Writes the work of one rank's engine as a Chrome trace, started and stopped while the job runs.
//
// The communication thread only notes fixed-size records in a ring; a writer thread turns them into lines and writes
// them to the file. Where the writer cannot follow, records are dropped and counted; the communication thread never
// waits. While no trace is written every call costs one relaxed load.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/log.h"
#include "base/status.h"
#include "telemetry/trace_file.h"
#include "telemetry/trace_lines.h"
#include "telemetry/trace_record.h"
#include "telemetry/track_names.h"

namespace ringtune {

// A collective as the trace shows it. The texts must outlive the timeline: they are names from tables.
struct TracedCollective {
  std::string_view operation;  // "allreduce"
  std::string_view algorithm;  // empty: it has none
  uint32_t tensors = 1;        // fused
  uint64_t bytes = 0;          // size of all of them
};

class Timeline {
 public:
  Timeline(Log log, int rank) : log_(log), rank_(rank) {}
  ~Timeline() { stop(); }
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  // Any thread.

  // Rank 0 writes to `path`, rank r to the same with `.rank<r>` before the suffix; an old file is overwritten.
  // `kConfigError` where the file cannot be opened, or where a trace is being written already.
  Status start(const std::string& path, bool mark_cycles);
  // Writes the noted records and completes the file; without a trace it has no effect.
  void stop();
  bool is_on() const { return is_on_.load(std::memory_order_relaxed); }
  // Something that has no duration: a config that came into force, a decision of the tuner.
  void instant(std::string_view name, std::string_view detail);

  // The communication thread alone. A tensor's next span ends the one before. Times are of the steady clock, so that
  // one reading serves all tensors of a response.

  // The tensor waits for the other ranks. Returns its row, for `begin` and `end`; none while no trace is written.
  TrackId negotiate(std::string_view name, uint64_t bytes, int64_t time_ns);
  // The row of an activity without a tensor; none while no trace is written.
  TrackId row(std::string_view name);
  // Its collective runs. Without a row (the trace began after the submission) no span is drawn.
  void begin(TrackId track, const TracedCollective& collective, int64_t time_ns);
  // Ends the tensor's span, done or failed. Call it before the tensor's name can be submitted again.
  void end(TrackId track, int64_t time_ns);
  // A round of the negotiation came; drawn once per round, where `mark_cycles` asked for it.
  void cycle(uint64_t round, int64_t time_ns);

  // In a forked child, which has no writer: gives the file back to the parent. No call is allowed afterwards, not even
  // destruction.
  void abandon_after_fork();

 private:
  struct Instant {
    int64_t time_ns;
    std::string name;
    std::string detail;
  };

  void note(const TraceRecord& record);
  bool launch_writer();
  void finish_writer();
  void run_writer();
  bool wait_for_instants(std::vector<Instant>& instants);
  int write_noted(TraceLines& lines, const std::vector<Instant>& instants);
  int write(TraceLines& lines);
  void report(int error) const;

  const Log log_;
  const int rank_;

  std::mutex control_mutex_;  // one start or stop at a time; taken before wake_mutex_
  std::thread writer_thread_;
  TraceFile file_;  // the writer's while it runs, else guarded by control_mutex_

  std::atomic<bool> is_on_{false};  // storing true publishes ring_, which stays from then on
  std::atomic<bool> is_marking_cycles_{false};
  std::atomic<uint64_t> dropped_{0};
  std::unique_ptr<TraceRing> ring_;
  TrackNames names_;
  uint64_t last_round_ = 0;  // the communication thread's

  std::mutex wake_mutex_;  // guards is_stopping_ and instants_
  std::condition_variable wake_;
  bool is_stopping_ = false;
  std::vector<Instant> instants_;
};

}  // namespace ringtune
