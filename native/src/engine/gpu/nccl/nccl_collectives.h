// SPDX-License-Identifier: Apache-2.0
// Collectives of GPUs' tensors by NCCL on a stream of the engine's, in the order that the ranks have negotiated.
//
// The communicator never blocks: whoever waits for it sees a peer's death, the limit and Ctrl-C as in every other
// collective, and an abort ends kernels that hang on the GPU.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string_view>

#include "collectives/collective_context.h"
#include "device/device_memory.h"
#include "device/pack_kernels.h"
#include "engine/gpu/engine_parts.h"
#include "engine/gpu/nccl/nccl_allreduce.h"
#include "engine/gpu/nccl/nccl_communicators.h"
#include "engine/gpu/nccl/nccl_hierarchy.h"
#include "engine/gpu/nccl/nccl_rules.h"
#include "engine/gpu/patience.h"
#include "engine/submissions/submission.h"

namespace ringtune {

// Parts that every rank has.
struct NcclEquipment {
  bool has_memory_pools = false;
  bool has_kernels = false;
};

// Used by the driving thread, which does the engine's work.
class NcclCollectives {
 public:
  explicit NcclCollectives(const EngineParts& engine);

  // The knobs from now on, at the same place among the responses on all ranks.
  void set_knobs(const NcclKnobs& knobs) { knobs_ = knobs; }

  // Meets the other ranks in NCCL, once. `kernels` are null where this GPU cannot run them.
  Status open(std::shared_ptr<Device> device, std::shared_ptr<const NcclLibrary> library,
              std::shared_ptr<PackKernels> kernels, CollectiveContext& host);
  // Takes the equipment that all ranks have: pools of memory for results, kernels.
  Status equip(const NcclEquipment& common);

  // Below: open and equipped.

  // True if the equipment for such a tensor is there.
  bool is_equipped_for(const Signature& signature) const;
  // The name of the way that a collective takes.
  std::string_view algorithm(OpKind kind) const;
  // Enqueues the collective after the work already in the tensors' streams; `done` is its end.
  Status run(std::span<Submission> tensors, size_t chunk_bytes, CollectiveContext& host);

  // Below: open or not.

  // Looks after the enqueued collectives; an error ends the world.
  void watch();
  bool is_busy() const { return !in_flight_.empty(); }
  // The world has failed: ends the collectives under way on this rank's GPU.
  void abort();
  // In good order where no collective has failed. Idempotent.
  void close();

 private:
  // Lets the stream wait for the tensor, and finds room for its results.
  Status prepare(Submission& tensor, size_t chunk_bytes, CollectiveContext& host);
  Status enqueue(const Submission& tensor, NcclCommunicator& communicator);
  // Scales the results that NCCL alone cannot scale.
  Status finish(const Submission& tensor);
  Status allreduce(std::span<const Submission> tensors, size_t chunk_bytes, CollectiveContext& host);
  // All that is left to do on the stream, and the event after it.
  Status enqueue_all(std::span<const Submission> tensors, size_t chunk_bytes, CollectiveContext& host,
                     const std::shared_ptr<DeviceEvent>& end);
  // The tensors and the engine's own buffers are in use until then.
  void set_end(std::span<const Submission> tensors, const std::shared_ptr<DeviceEvent>& end);
  // Forgets the collectives that have ended on the GPU.
  Status drain();
  // Error that NCCL has reported for a while, or a timeout where no collective has ended for too long.
  Status look_for_trouble(int64_t now_ns);
  bool is_hierarchical(OpKind kind) const;
  void count(OpKind kind);
  // Leaves memory that the stream may still use to the driver.
  void release();

  const Layout& layout_;
  Transport& transport_;
  Counters& counters_;
  const int64_t timeout_ns_;
  const Patience patience_;

  NcclKnobs knobs_;
  std::shared_ptr<Device> device_;
  cuda::Stream stream_ = nullptr;
  std::unique_ptr<NcclCommunicators> communicators_;
  std::shared_ptr<DeviceMemoryPool> results_;  // null if a rank's GPU has no such memory
  std::shared_ptr<PackKernels> kernels_;       // null if a rank's GPU cannot run them
  std::unique_ptr<NcclAllreduce> allreduce_;
  std::unique_ptr<NcclHierarchy> hierarchy_;            // made at first use
  std::deque<std::shared_ptr<DeviceEvent>> in_flight_;  // the ends of the collectives under way, in their order
  int64_t moved_ns_ = 0;                                // when the first of them became the first
  int64_t looked_ns_ = 0;                               // when `watch` last asked
  int64_t error_since_ns_ = 0;                          // when NCCL first reported an error
};

}  // namespace ringtune
