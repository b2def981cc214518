// SPDX-License-Identifier: Apache-2.0
// The parts of a config and of a signature that are about NCCL.
#pragma once

#include <cstdint>
#include <optional>

#include "base/config.h"
#include "device/nccl/nccl_meaning.h"
#include "wire/messages.h"

namespace ringtune {

// The part of a config that is about NCCL.
struct NcclKnobs {
  uint64_t pack_bytes = 0;
  int max_ctas = 0;
  bool is_hierarchical = false;
};
NcclKnobs nccl_knobs(const EngineConfig& config);

// For an allreduce or reducescatter: how NCCL and the kernels do it, if they can.
std::optional<GpuReduction> gpu_reduction_of(const Signature& signature, int world_size);

}  // namespace ringtune
