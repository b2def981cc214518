// SPDX-License-Identifier: Apache-2.0
// GPUs' tensors by NCCL, in the order that the ranks have negotiated.
//
// The first response that is meant for NCCL decides for the whole job: all ranks meet in it, tell each other their GPUs
// and whether they have NCCL, and come to one conclusion. The communicator never blocks: whoever waits for it sees a
// peer's death, the limit and Ctrl-C as in every other collective, and an abort ends what hangs on the GPU.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "collectives/collective_context.h"
#include "device/device_memory.h"
#include "engine/gpu/gpu_rules.h"
#include "engine/gpu/nccl/nccl_allreduce.h"
#include "engine/gpu/nccl/nccl_communicators.h"
#include "engine/gpu/nccl/nccl_hierarchy.h"
#include "engine/gpu/nccl/nccl_meeting.h"
#include "engine/gpu/nccl/nccl_rules.h"
#include "engine/gpu/staging/device_staging.h"
#include "engine/submissions/submission.h"
#include "telemetry/counters.h"
#include "transport/transport.h"

namespace ringtune {

class NcclPath {
 public:
  NcclPath(GpuOptions options, const Layout& layout, Transport& transport, DeviceStaging& staging, Counters& counters,
           const Log& log, int64_t timeout_ns);

  // Any thread: whether such a tensor stays on its GPU until its response comes.
  bool may_take(const Signature& signature) const {
    return decision_.load() != Decision::kHost && is_nccl_able(signature, layout_.world_size());
  }

  // Below: who does the engine's work.

  // The knobs from now on, at the same place among the responses on all ranks.
  void set_config(const EngineConfig& config);
  // For a response that is meant for NCCL: whether it goes by NCCL, the same on all ranks. They meet at the first one.
  Status choose(const Submission& first, CollectiveContext& host, bool& is_by_nccl);
  // For all others: tensors that have stayed on their GPU go to the host.
  Status stage(std::span<Submission> tensors);
  // Enqueues the collective after what the tensors' streams have been given; `done` is its end.
  Status run(std::span<Submission> tensors, size_t chunk_bytes, CollectiveContext& host);
  // Looks after what was enqueued; an error ends the world.
  void watch();
  // True if the ranks have found that they can use NCCL.
  bool is_open() const { return decision_.load() == Decision::kNccl; }
  bool is_busy() const { return !in_flight_.empty(); }
  // The name of the way that a collective takes once it is open.
  std::string_view algorithm(OpKind kind) const;

  // The world has failed: ends what is under way on this rank's GPU.
  void abort();
  // In good order where nothing has failed. Idempotent.
  void close();

 private:
  enum class Decision : uint8_t { kNone, kNccl, kHost };

  Status introduce(const std::shared_ptr<Device>& device, NcclIntroduction& own);
  // Chooses NCCL or the host by what the ranks have told each other; `kConfigError` if they must not go on.
  Status decide(std::span<const NcclIntroduction> all, const std::shared_ptr<Device>& device, CollectiveContext& host);
  // Meets the other ranks in NCCL.
  Status open(CollectiveContext& host);
  // Takes what all ranks have: pools of memory for results, kernels.
  Status equip(std::span<const NcclIntroduction> all);
  // True if nothing is missing for such a tensor.
  bool is_equipped_for(const Signature& signature) const;
  // Lets the stream wait for the tensor, and finds room for what it brings.
  Status prepare(Submission& tensor, size_t chunk_bytes, CollectiveContext& host);
  Status enqueue(const Submission& tensor, NcclCommunicator& communicator);
  // Scales what NCCL alone cannot.
  Status finish(const Submission& tensor);
  Status allreduce(std::span<const Submission> tensors, size_t chunk_bytes, CollectiveContext& host);
  // All that is left to do on the stream, and the event after it.
  Status enqueue_all(std::span<const Submission> tensors, size_t chunk_bytes, CollectiveContext& host,
                     const std::shared_ptr<DeviceEvent>& end);
  // The tensors and the engine's own buffers are in use until then.
  void set_end(std::span<const Submission> tensors, const std::shared_ptr<DeviceEvent>& end);
  NcclCommunicator::Watch patience(const std::string& what);
  // A peer's death is what NCCL sees last.
  Status explain(const Status& seen) const;
  // Forgets what has ended on the GPU.
  Status drain();
  // Error that NCCL has reported for a while, or a timeout where nothing has moved for too long.
  Status look_for_trouble(int64_t now_ns);
  bool is_hierarchical(OpKind kind) const;
  void count(OpKind kind);
  // Leaves to the driver what the stream may still use.
  void release();

  const GpuOptions options_;
  const Layout& layout_;
  Transport& transport_;
  DeviceStaging& staging_;
  Counters& counters_;
  const Log& log_;
  const int64_t timeout_ns_;

  std::atomic<Decision> decision_;
  std::shared_ptr<const NcclLibrary> library_;
  std::shared_ptr<Device> device_;
  cuda::Stream stream_ = nullptr;
  std::unique_ptr<NcclCommunicators> communicators_;
  std::shared_ptr<DeviceMemoryPool> results_;  // null if a rank's GPU has no such memory
  std::shared_ptr<PackKernels> kernels_;       // null if a rank's GPU cannot run them
  std::unique_ptr<NcclAllreduce> allreduce_;
  std::unique_ptr<NcclHierarchy> hierarchy_;  // made at first use
  NcclKnobs knobs_;
  std::deque<std::shared_ptr<DeviceEvent>> in_flight_;  // the ends of the collectives under way, in their order
  int64_t moved_ns_ = 0;                                // when the first of them became the first
  int64_t looked_ns_ = 0;                               // when `watch` last asked
  int64_t error_since_ns_ = 0;                          // when NCCL first said that something is wrong
};

}  // namespace ringtune
