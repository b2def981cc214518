// SPDX-License-Identifier: Apache-2.0
// Rank 0's part of the negotiation: collects requests, decides rounds, watches for stalls, carries config switches.
// Requests of other hosts come through their leaders (HostLeader).
//
// Ranks hold their tensors back for `cycle_ms` (SubmissionQueue); a tensor that is ready has waited and goes at once,
// unless hosts are so far from each other that it should wait for the rest of its step (StepRhythm).
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/config.h"
#include "base/log.h"
#include "collectives/algorithm_table.h"
#include "engine/fusion.h"
#include "engine/gpu/gpu_rules.h"
#include "engine/leader.h"
#include "engine/recurrence.h"
#include "engine/response_cache.h"
#include "engine/stall_watch.h"
#include "engine/step_rhythm.h"
#include "engine/submissions/submission_queue.h"
#include "engine/tensor_ledger.h"
#include "telemetry/step_recorder.h"
#include "transport/layout.h"
#include "transport/links.h"
#include "transport/transport.h"
#include "wire/messages.h"

namespace ringtune {

class Coordinator final : public Leader {
 public:
  Coordinator(Transport& transport, const Layout& layout, const EngineConfig& config, StallLimits limits,
              const StepRecorder& steps, const SubmissionQueue& queue, const Log& log);

  // Any thread: the config of the next round; returns its epoch.
  uint64_t switch_config(const EngineConfig& config);
  // Any thread: all ranks measure the rates of the hosts' links before the next round.
  void measure_host_rates();
  // Any thread: all ranks learn it, and give the answer after the same step; while some ranks have joined, once all
  // have.
  void tell_tuning(bool is_finished);

  // Before the first round: whether ranks may use NCCL.
  void set_gpu_operations(GpuOperations operations) { gpu_operations_ = operations; }
  // See StallWatch.
  void set_links(const Links* links) { stalls_.set_links(links); }
  // In a turn of the engine's work: the meaning of `auto` in the rounds decided from now on.
  void set_table(AlgorithmTable table) { table_ = std::move(table); }

  bool progress(int64_t now_ns) override;
  bool is_congested() const override { return !outbox_.empty(); }
  std::optional<int64_t> due_ns() const override { return held_until_ns_; }

 private:
  bool receive_requests(int64_t now_ns);
  bool receive_forwarded(int leader, int64_t now_ns);
  // Counts a request of one rank, or, where there are no items, of several.
  void handle(std::span<const int> ranks, const Request& request, int64_t now_ns);
  bool handle_item(int rank, const RequestItem& item, int64_t now_ns);
  void fail_out_of_order(int rank, const std::string& what);
  bool is_config_agreed(int rank, const Request& request);
  Response make_response(Response::Type type, uint64_t cycle) const;
  void take_host_rates();
  void take_config_switch();
  void take_tuning();

  // Decides whether the ready tensors wait; returns whether they do.
  bool hold_back(int64_t now_ns);
  void run_round();
  void emit_collective(const std::vector<LedgerEntry*>& entries);
  void add_tensor(Response& response, const LedgerEntry& entry);
  void emit_error(const LedgerEntry& entry);
  void emit_joined();
  // For a fusion, whose tensors are alike.
  void choose_algorithm(Response& response, const LedgerEntry& first, uint64_t bytes) const;
  // For NCCL, no rank may have joined: it has no data on a GPU.
  bool is_for_nccl(const std::vector<LedgerEntry*>& entries) const;
  CacheId find_id(const LedgerEntry& entry) const;
  bool publish();

  Transport& transport_;
  const Layout& layout_;
  StallLimits limits_;
  const Links* links_ = nullptr;  // null in a world of one host
  const StepRecorder& steps_;
  const SubmissionQueue& queue_;  // this rank's

  ResponseCache cache_;
  Recurrence recurrence_;
  TensorLedger ledger_;
  StallWatch stalls_;
  StepRhythm rhythm_;
  std::optional<int64_t> held_until_ns_;  // while tensors that are ready wait for others
  std::deque<Bytes> outbox_;              // encoded responses the ring had no room for yet

  EngineConfig config_;  // holds for the rounds decided from now on
  AlgorithmTable table_;
  GpuOperations gpu_operations_ = GpuOperations::kHost;
  uint64_t config_epoch_ = 0;
  std::map<uint64_t, uint64_t> config_hashes_;  // epoch to hash: all that may still be in force somewhere
  uint64_t cycle_ = 0;

  // Guards wanted_, last_epoch_ and told_, which callers' threads write.
  std::mutex wanted_mutex_;
  std::deque<EngineConfig> wanted_;
  uint64_t last_epoch_ = 0;
  std::atomic<bool> has_wanted_{false};
  std::deque<bool> told_;  // true: tuning has finished
  std::atomic<bool> has_told_{false};
  std::atomic<bool> wants_host_rates_{false};
};

}  // namespace ringtune
