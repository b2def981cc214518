// SPDX-License-Identifier: Apache-2.0
// The decision of a job's ranks to use NCCL for their GPUs' tensors, or the host.
//
// The first response that is meant for NCCL decides for the whole job: all ranks meet in it, tell each other their GPUs
// and whether they have NCCL, and come to one conclusion.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>

#include "base/log.h"
#include "collectives/collective_context.h"
#include "device/pack_kernels.h"
#include "engine/gpu/engine_parts.h"
#include "engine/gpu/gpu_rules.h"
#include "engine/gpu/nccl/nccl_collectives.h"
#include "engine/gpu/nccl/nccl_meeting.h"

namespace ringtune {

class NcclDecision {
 public:
  // A decision for NCCL opens the collectives.
  NcclDecision(GpuOptions options, const EngineParts& engine, NcclCollectives& collectives);

  // Any thread: whether such a tensor stays on its GPU until its response comes.
  bool may_take(const Signature& signature) const {
    return choice_.load() != Choice::kHost && is_nccl_able(signature, layout_.world_size());
  }
  bool is_made() const { return choice_.load() != Choice::kNone; }
  bool is_for_nccl() const { return choice_.load() == Choice::kNccl; }

  // Meets the other ranks, and decides by the facts that all have exchanged. Called by the driving thread, with the GPU
  // of its first tensor. `kConfigError` if the ranks must not go on.
  Status make(const std::shared_ptr<Device>& device, CollectiveContext& host);

 private:
  enum class Choice : uint8_t { kNone, kNccl, kHost };

  Status introduce(const std::shared_ptr<Device>& device, NcclIntroduction& own);
  // The parts that every rank has.
  NcclEquipment common_equipment(std::span<const NcclIntroduction> all) const;

  const GpuOptions options_;
  const Layout& layout_;
  const Log& log_;
  NcclCollectives& collectives_;

  std::atomic<Choice> choice_;
  std::shared_ptr<const NcclLibrary> library_;
  std::shared_ptr<PackKernels> kernels_;  // until the collectives have them
};

}  // namespace ringtune
