// SPDX-License-Identifier: Apache-2.0
// The engine's work: submissions become requests, responses become collectives, failures end everything. One thread at
// a time does it; see ProgressLoop.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/config.h"
#include "base/log.h"
#include "engine/executor.h"
#include "engine/gpu/gpu_tensors.h"
#include "engine/leader.h"
#include "engine/pending_tensors.h"
#include "engine/submissions/handle_table.h"
#include "engine/submissions/submission_queue.h"
#include "telemetry/counters.h"
#include "telemetry/step_recorder.h"
#include "telemetry/timeline.h"
#include "transport/transport.h"

namespace ringtune {

inline constexpr int64_t kNoLimit = -1;

inline SubmissionQueue::Limits queue_limits(const EngineConfig& config) {
  return {config.fusion_bytes, static_cast<int64_t>(config.cycle_ms * static_cast<double>(kNsPerMs))};
}

// Config that a rank runs, as other threads see it.
class ActiveConfig {
 public:
  explicit ActiveConfig(const EngineConfig& config) : config_(config), hash_(config_hash(config)) {}

  void set(const EngineConfig& config, uint64_t epoch);
  EngineConfig get() const;
  uint64_t epoch() const { return epoch_.load(); }
  // The communication thread, which alone calls `set`.
  uint64_t hash() const { return hash_; }
  bool is_cache_on() const { return config_.response_cache; }

 private:
  mutable std::mutex mutex_;  // guards config_ against readers of other threads
  EngineConfig config_;
  uint64_t hash_;
  std::atomic<uint64_t> epoch_{0};
};

// Rates of the hosts' links, and the number of measurements so far; empty before the first.
struct HostRates {
  std::vector<uint64_t> bytes_per_s;  // one per host
  uint64_t measurements = 0;
  bool is_uneven = false;  // `skew` has an effect
};

// The newest rates, as other threads see them.
class MeasuredRates {
 public:
  void set(std::vector<uint64_t> rates);
  HostRates get() const;

 private:
  mutable std::mutex mutex_;  // guards rates_
  HostRates rates_;
};

class Progress {
 public:
  // `leader` is null on a rank that leads no host.
  Progress(Transport& transport, Leader* leader, Executor executor, GpuTensors& gpu, SubmissionQueue& queue,
           HandleTable& handles, ActiveConfig& active, Counters& counters, StepRecorder& steps, Timeline& timeline,
           LapTimes& laps, int64_t timeout_ns);

  // Returns whether anything was done; if not, the thread may sleep until the next event, or for `wait_limit_ns`.
  bool step();
  // Negative: until the next event.
  int64_t wait_limit_ns() const;
  // Fails all pending operations and all later submissions.
  void fail_everything(const Status& status);
  // No further collective is begun. Any thread.
  void stop() { is_stopping_.store(true); }
  bool is_stopping() const { return is_stopping_.load(); }
  // Any thread.
  HostRates host_rates() const { return rates_.get(); }
  // For collectives beside the negotiated ones: of an idle engine, in a turn.
  CollectiveContext make_context() { return executor_.make_context(); }

 private:
  void collect_submissions();
  bool send_requests();

  bool execute_responses();
  void execute(const Response& response);
  void run_collective(const Response& response);
  // Returns true if the tensors can move as the response says; else the world has failed.
  bool can_follow(const Response& response, const std::vector<Submission>& tensors);
  // The response's tensors in its order; fails the world and is false where one is not to be had.
  bool take_tensors(const Response& response, std::vector<Submission>& tensors, std::vector<Bytes>& zeros);
  void finish_join(int last_joined_rank);
  void switch_config(const Response& response);
  void measure_host_rates();
  // Gives the hosts their shares after a new config or new rates.
  void set_shares();
  void trace_begin(const Response& response, const std::vector<Submission>& tensors);
  void trace_end(const std::vector<Submission>& tensors);
  void fail_tensors(const Response& response);
  void finish(std::span<Submission> done, const Status& status);

  void watch_coordinator(int64_t now_ns);
  // True if a rank through which answers come has departed while something waits for one; fails the world then.
  bool has_lost_way(int rank);

  Transport& transport_;
  Leader* leader_;
  Executor executor_;
  GpuTensors& gpu_;
  SubmissionQueue& queue_;
  HandleTable& handles_;
  ActiveConfig& active_;
  Counters& counters_;
  StepRecorder& steps_;
  Timeline& timeline_;
  LapTimes& laps_;
  int64_t timeout_ns_;

  MeasuredRates rates_;
  PendingTensors pending_;
  std::deque<Bytes> unsent_;      // encoded requests the ring had no room for yet
  int64_t waiting_since_ns_ = 0;  // for any answer of the coordinator; 0: none is due
  bool has_failed_ = false;
  std::atomic<bool> is_stopping_{false};
};

}  // namespace ringtune
