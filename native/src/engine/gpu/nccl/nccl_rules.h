// SPDX-License-Identifier: Apache-2.0
// Rules for tensors that may go by NCCL: read from what ranks have agreed on, so that all of them answer alike.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/config.h"
#include "device/nccl/nccl_meaning.h"
#include "wire/messages.h"

namespace ringtune {

// RINGTUNE_GPU_OPERATIONS, the same on all ranks.
enum class GpuOperations : uint8_t {
  kAuto,  // NCCL where every rank has a GPU of its own and NCCL is there
  kNccl,  // NCCL, or not at all
  kHost,
};

struct GpuOptions {
  GpuOperations operations = GpuOperations::kAuto;
  std::string nccl_library;  // loaded where the process has none; empty: the system's
};

// The part of a config that is about NCCL.
struct NcclKnobs {
  uint64_t pack_bytes = 0;
  int max_ctas = 0;
  bool is_hierarchical = false;
};
NcclKnobs nccl_knobs(const EngineConfig& config);

// True if NCCL's result for such a tensor is the engine's, with kernels where they are needed.
bool is_nccl_able(const Signature& signature, int world_size);

// For an allreduce or reducescatter: how NCCL and the kernels do it, if they can.
std::optional<GpuReduction> gpu_reduction_of(const Signature& signature, int world_size);

}  // namespace ringtune
