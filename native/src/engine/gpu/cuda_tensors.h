// SPDX-License-Identifier: Apache-2.0
// GPUs' tensors by CUDA: copied to the host and back, or reduced by NCCL where they are.
#pragma once

#include "engine/gpu/gpu_tensors.h"
#include "engine/gpu/nccl/nccl_collectives.h"
#include "engine/gpu/nccl/nccl_decision.h"
#include "engine/gpu/patience.h"
#include "engine/gpu/staging/copy_trace.h"
#include "engine/gpu/staging/device_staging.h"
#include "engine/gpu/staging/parked_submissions.h"

namespace ringtune {

class CudaTensors final : public GpuTensors {
 public:
  CudaTensors(const GpuOptions& options, const EngineParts& engine);

  Status take_in(const DeviceStream& stream, bool is_kept, Submission& submission, OnEnd& on_end) override;
  Status give_back(std::span<Submission> tensors, const Status& status) override;
  Status wait_for(const DeviceEvent& done, const DeviceStream& stream) override;
  bool is_drained(Handle handle) override;

  void set_config(const EngineConfig& config) override { nccl_.set_knobs(nccl_knobs(config)); }
  std::vector<Submission> collect(std::vector<Submission> batch, int64_t now_ns) override;
  std::vector<Submission> take_held_back() override { return parked_.take_all(); }
  Status run(const Response& response, std::span<Submission> tensors, CollectiveContext& host, bool& is_done) override;
  std::string_view algorithm(OpKind kind) const override;
  void watch() override { nccl_.watch(); }
  std::optional<int64_t> due_ns() const override;
  void abort() override { nccl_.abort(); }

  void close() override;

 private:
  // Decides whether a response that is meant for NCCL goes by NCCL, the same on all ranks. They meet at the first one.
  Status choose(const Submission& first, CollectiveContext& host, bool& is_by_nccl);
  // Tensors that have stayed on their GPU go to the host after all.
  Status stage(std::span<Submission> tensors);
  // Tells of the end once the stream waits for the result.
  OnEnd after_result(const DeviceStream& stream, OnEnd on_end);
  // The driver has failed, which ends the world.
  void fail(const Status& status);

  Transport& transport_;
  Counters& counters_;
  const Patience patience_;
  DeviceStaging staging_;
  NcclCollectives nccl_;
  NcclDecision decision_;
  ParkedSubmissions parked_;
  CopyTrace copy_trace_;
};

}  // namespace ringtune
