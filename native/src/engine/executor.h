// SPDX-License-Identifier: Apache-2.0
// Runs one negotiated collective on this rank's tensors.
#pragma once

#include <utility>
#include <vector>

#include "base/config.h"
#include "base/status.h"
#include "collectives/collective_context.h"
#include "engine/gpu/gpu_tensors.h"
#include "engine/submissions/submission.h"
#include "telemetry/counters.h"
#include "wire/messages.h"

namespace ringtune {

class Executor {
 public:
  // `links` is null in a world of one host, `arenas` where there are none.
  Executor(const Layout& layout, Stage stage, Links* links, const Arenas* arenas, GpuTensors& gpu, Counters& counters)
      : layout_(layout), stage_(std::move(stage)), links_(links), arenas_(arenas), gpu_(gpu), counters_(counters) {}

  // The tensors of the response, in its order; their signatures are equal but for their shapes. Where the caller has no
  // output buffer, the submission gets its result. On a GPU the result is there only once `done` is complete.
  Status run(const Response& response, std::vector<Submission>& tensors);

  // Between two collectives.
  void set_config(const EngineConfig& config);

  CollectiveContext make_context() { return {layout_, stage_, links_, arenas_}; }

 private:
  Status allreduce(const Response& response, const std::vector<Submission>& tensors);
  Status run_alone(const Response& response, Submission& tensor);

  const Layout& layout_;
  Stage stage_;
  Links* links_;
  const Arenas* arenas_;
  GpuTensors& gpu_;
  Counters& counters_;
};

}  // namespace ringtune
