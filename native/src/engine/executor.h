// SPDX-License-Identifier: Apache-2.0
// Runs one negotiated collective on this rank's tensors.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/config.h"
#include "base/status.h"
#include "collectives/collective_context.h"
#include "collectives/host_shares.h"
#include "engine/gpu/gpu_tensors.h"
#include "engine/submissions/submission.h"
#include "telemetry/counters.h"
#include "wire/messages.h"

namespace ringtune {

class Executor {
 public:
  // `links` is null in a world of one host, `arenas` where there are none.
  Executor(const Layout& layout, Stage stage, Links* links, const Arenas* arenas, GpuTensors& gpu, Counters& counters)
      : layout_(layout),
        stage_(std::move(stage)),
        links_(links),
        arenas_(arenas),
        gpu_(gpu),
        counters_(counters),
        shares_(layout.host_count()) {}

  // The tensors of the response, in its order; their signatures are equal but for their shapes. Where the caller has no
  // output buffer, the submission gets its result. On a GPU the result is there only once `done` is complete.
  Status run(const Response& response, std::vector<Submission>& tensors);

  // Between two collectives.
  void set_config(const EngineConfig& config);

  // Shares of the hosts from now on; without rates they are even. With `is_chunk_auto`, uneven shares may have smaller
  // chunks than responses say. All ranks call it with the same.
  void set_shares(std::span<const uint64_t> rates, bool is_chunk_auto) {
    shares_ = rates.empty() ? HostShares(layout_.host_count()) : HostShares::balanced(rates);
    is_chunk_auto_ = is_chunk_auto;
  }

  CollectiveContext make_context() { return {layout_, stage_, links_, arenas_, &shares_}; }

 private:
  Status allreduce(const Response& response, const std::vector<Submission>& tensors);
  // The chunk that uneven shares use in place of the response's.
  size_t skewed_chunk_bytes(size_t chunk_bytes, size_t bytes) const;
  Status run_alone(const Response& response, Submission& tensor);

  const Layout& layout_;
  Stage stage_;
  Links* links_;
  const Arenas* arenas_;
  GpuTensors& gpu_;
  Counters& counters_;
  HostShares shares_;
  bool is_chunk_auto_ = true;
  bool may_round_ = false;  // the config allows it
};

}  // namespace ringtune
