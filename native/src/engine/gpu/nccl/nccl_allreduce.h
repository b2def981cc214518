// SPDX-License-Identifier: Apache-2.0
// The allreduces of a response by NCCL: small tensors packed into one buffer, large ones where they are, and scaled by
// kernels where NCCL's own scaling would change bits.
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "device/device_memory.h"
#include "device/nccl/nccl_communicator.h"
#include "device/pack_kernels.h"
#include "engine/gpu/nccl/nccl_packing.h"
#include "engine/submissions/submission.h"

namespace ringtune {

// Largest buffer; more bytes take several rounds.
inline constexpr uint64_t kPackBufferBytes = 64 * kMiB;

struct PackingWish {
  uint64_t largest_bytes = 0;  // larger tensors stay where they are
  bool is_for_all = false;     // none does
  uint64_t room_elements = 0;  // room behind the buffer, for whoever sums it
};

class NcclAllreduce {
 public:
  // Enqueues the sums of all ranks' buffers on the stream, as one group.
  using SumBuffers = std::function<Status(std::span<const NcclBuffers>)>;

  // Without kernels, or memory, all tensors are reduced where they are.
  NcclAllreduce(std::shared_ptr<DeviceMemoryPool> memory, std::shared_ptr<PackKernels> kernels, cuda::Stream stream,
                uint64_t buffer_bytes = kPackBufferBytes)
      : memory_(std::move(memory)), kernels_(std::move(kernels)), stream_(stream), buffer_bytes_(buffer_bytes) {}

  bool can_pack() const { return kernels_ != nullptr && memory_ != nullptr; }
  // True if the kernels for the scaling are there.
  bool can_scale(const KernelScaling& scaling) const {
    return scaling.needs_buffer() ? can_pack() : kernels_ != nullptr || !scaling.is_needed();
  }

  // Below: in a scope of the device.

  Status run(std::span<const Submission> tensors, const KernelScaling& scaling, const PackingWish& wish,
             const SumBuffers& sum);
  // The end of a sum over all ranks that lies in `outputs`.
  Status finish(const KernelScaling& scaling, std::span<const DeviceArray> outputs);
  // Number of tensors so far.
  uint64_t packed_tensors() const { return packed_tensors_; }
  // The event after the last run: the buffer is in use until then.
  void set_end(const std::shared_ptr<DeviceEvent>& end);

 private:
  Status run_round(std::span<const Submission> tensors, const KernelScaling& scaling, const PackingRound& round,
                   const std::function<Status()>& sum);
  Status make_buffer(const PackingPlan& plan, uint64_t room_elements, size_t element_bytes);

  const std::shared_ptr<DeviceMemoryPool> memory_;
  const std::shared_ptr<PackKernels> kernels_;
  const cuda::Stream stream_;
  const uint64_t buffer_bytes_;
  std::shared_ptr<DeviceMemory> buffer_;
  uint64_t packed_tensors_ = 0;
};

}  // namespace ringtune
