// SPDX-License-Identifier: Apache-2.0
// Options for GPUs' tensors, and the rule for those that may go by NCCL: read from values that all ranks have agreed
// on, so that all of them answer alike.
#pragma once

#include <cstdint>
#include <string>

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
  std::string nccl_library = {};  // loaded where the process has none; empty: the system's
  std::string cuda_library = {};  // loaded with the first tensor of a GPU; empty: the system's
};

// True if NCCL's result for such a tensor is the engine's, with kernels where they are needed.
bool is_nccl_able(const Signature& signature, int world_size);

}  // namespace ringtune
