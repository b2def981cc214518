// SPDX-License-Identifier: Apache-2.0
// Rank 0's part of the negotiation: collects requests, decides rounds, watches for stalls, carries config switches.
//
// A round goes out when a ready tensor has waited `cycle_ms`, and earlier when `fusion_bytes` are ready, when every
// tensor of the last step is ready, or when a caller waits for a ready tensor.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/log.h"
#include "engine/fusion.h"
#include "engine/response_cache.h"
#include "engine/tensor_ledger.h"
#include "telemetry/step_recorder.h"
#include "transport/transport.h"
#include "wire/messages.h"

namespace ringtune {

struct CoordinatorLimits {
  int64_t stall_warn_ns;
  int64_t timeout_ns;
};

class Coordinator {
 public:
  Coordinator(Transport& transport, const EngineConfig& config, CoordinatorLimits limits, const Log& log,
              const StepRecorder& steps);

  // Any thread: the config of the next round; returns its epoch.
  uint64_t switch_config(const EngineConfig& config);

  // The communication thread. True if something was received or sent.
  bool progress(int64_t now_ns);
  // When `progress` must be called at the latest, or nothing.
  std::optional<int64_t> next_deadline_ns() const;

 private:
  bool receive_requests(int64_t now_ns);
  void handle(int rank, const Request& request, int64_t now_ns);
  void handle_item(int rank, const RequestItem& item, int64_t now_ns);
  bool is_config_agreed(int rank, const Request& request);
  void take_config_switch();
  void note_step_marks();

  // A round that only the amount of ready bytes started sends full fusions and leaves the rest to wait for more.
  enum class Due { kNothing, kFullFusions, kEverything };
  Due what_is_due(int64_t now_ns) const;
  int64_t cycle_end_ns() const;
  void run_round(Due due);
  void emit_collective(const std::vector<std::string>& names);
  void emit_mismatch(const LedgerEntry& entry);
  ResponseTensor response_tensor(const LedgerEntry& entry);
  bool publish();

  void watch_stalls(int64_t now_ns);
  void watch_departures();

  Transport& transport_;
  CoordinatorLimits limits_;
  const Log& log_;
  const StepRecorder& steps_;

  TensorLedger ledger_;
  ResponseCache cache_;
  std::deque<Bytes> outbox_;  // encoded responses the ring had no room for yet

  EngineConfig config_;  // of the rounds decided from now on
  uint64_t config_epoch_ = 0;
  std::map<uint64_t, uint64_t> config_hashes_;  // by epoch: all that may still be in force somewhere
  uint64_t cycle_ = 0;

  uint64_t seen_steps_ = 0;
  uint64_t emitted_in_step_ = 0;
  uint64_t tensors_per_step_ = 0;
  int64_t next_stall_look_ns_ = 0;

  // Guards wanted_ and last_epoch_, which callers' threads write.
  std::mutex wanted_mutex_;
  std::deque<EngineConfig> wanted_;
  uint64_t last_epoch_ = 0;
  std::atomic<bool> has_wanted_{false};
};

}  // namespace ringtune
