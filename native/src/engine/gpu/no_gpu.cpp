// SPDX-License-Identifier: Apache-2.0
// In place of all other sources of this folder where the engine is built for hosts alone (RINGTUNE_GPU=OFF): tensors of
// the host pass, and those of GPUs are refused.
#include <string>

#include "engine/gpu/gpu_tensors.h"

namespace ringtune {
namespace {

class NoGpuTensors final : public GpuTensors {
 public:
  Status take_in(const DeviceStream& stream, bool /*is_kept*/, Submission& submission, OnEnd& /*on_end*/) override {
    if (stream.device == kNoDevice) {
      return Status::ok_status();
    }
    return {StatusCode::kDeviceError, "'" + submission.name + "' is on GPU " + std::to_string(stream.device) +
                                          ", and this engine was built without GPUs (RINGTUNE_GPU=OFF)"};
  }
  Status give_back(std::span<Submission> /*tensors*/, const Status& status) override { return status; }
  Status wait_for(const DeviceEvent& /*done*/, const DeviceStream& /*stream*/) override { return Status::ok_status(); }
  bool is_drained(Handle /*handle*/) override { return true; }

  void set_config(const EngineConfig& /*config*/) override {}
  std::vector<Submission> collect(std::vector<Submission> batch, int64_t /*now_ns*/) override { return batch; }
  std::vector<Submission> take_held_back() override { return {}; }
  Status run(const Response& /*response*/, std::span<Submission> /*tensors*/, CollectiveContext& /*host*/,
             bool& is_done) override {
    is_done = false;
    return Status::ok_status();
  }
  std::string_view algorithm(OpKind /*kind*/) const override { return {}; }
  void watch() override {}
  std::optional<int64_t> due_ns() const override { return std::nullopt; }
  void abort() override {}
  void close() override {}
};

}  // namespace

std::unique_ptr<GpuTensors> make_gpu_tensors(const GpuOptions& /*options*/, const EngineParts& /*engine*/) {
  return std::make_unique<NoGpuTensors>();
}

bool has_cuda() { return false; }

bool is_nccl_able(const Signature& /*signature*/, int /*world_size*/) { return false; }

}  // namespace ringtune
