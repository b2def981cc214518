// SPDX-License-Identifier: Apache-2.0
// Rank 0's part of the negotiation: collects requests, decides rounds, watches for stalls, carries config switches.
// Requests of other hosts come through their leaders (HostLeader).
//
// Ranks hold their tensors back for `cycle_ms` (SubmissionQueue); a tensor that is ready has waited and goes at once.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
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
#include "engine/tensor_ledger.h"
#include "telemetry/step_recorder.h"
#include "transport/layout.h"
#include "transport/links.h"
#include "transport/transport.h"
#include "wire/messages.h"

namespace ringtune {

struct CoordinatorLimits {
  int64_t stall_warn_ns;
  int64_t timeout_ns;
};

class Coordinator final : public Leader {
 public:
  Coordinator(Transport& transport, const Layout& layout, const EngineConfig& config, CoordinatorLimits limits,
              const StepRecorder& steps, const Log& log);

  // Any thread: the config of the next round; returns its epoch.
  uint64_t switch_config(const EngineConfig& config);
  // Any thread: all ranks measure the rates of the hosts' links before the next round.
  void measure_host_rates();
  // Any thread: all ranks learn it, and give the answer after the same step; while some ranks have joined, once all
  // have.
  void tell_tuning(bool is_finished);

  // Before the first round: whether ranks may use NCCL.
  void set_gpu_operations(GpuOperations operations) { gpu_operations_ = operations; }
  // Before the first round: the network, whose bytes on their way show that it was lost.
  void set_links(const Links* links) { links_ = links; }
  // In a turn of the engine's work: the meaning of `auto` in the rounds decided from now on.
  void set_table(AlgorithmTable table) { table_ = std::move(table); }

  bool progress(int64_t now_ns) override;
  bool is_congested() const override { return !outbox_.empty(); }

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

  void watch_stalls(int64_t now_ns);
  void warn_of_stall(const LedgerEntry& overdue, int64_t now_ns);
  void fail_overdue(const std::vector<int>& missing, const std::string& what);
  void watch_departures();
  void fail_if_departed(const std::vector<int>& missing, const std::string& what);

  Transport& transport_;
  const Layout& layout_;
  CoordinatorLimits limits_;
  const Links* links_ = nullptr;  // null in a world of one host
  const StepRecorder& steps_;
  const Log& log_;

  ResponseCache cache_;
  Recurrence recurrence_;
  TensorLedger ledger_;
  std::deque<Bytes> outbox_;  // encoded responses the ring had no room for yet

  EngineConfig config_;  // holds for the rounds decided from now on
  AlgorithmTable table_;
  GpuOperations gpu_operations_ = GpuOperations::kHost;
  uint64_t config_epoch_ = 0;
  std::map<uint64_t, uint64_t> config_hashes_;  // epoch to hash: all that may still be in force somewhere
  uint64_t cycle_ = 0;

  int64_t next_stall_look_ns_ = 0;

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
