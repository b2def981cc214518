// SPDX-License-Identifier: Apache-2.0
// Which tensors may go by NCCL: read from what ranks have agreed on, so that all of them answer alike.
#pragma once

#include <cstdint>
#include <string>

#include "wire/messages.h"

namespace ringtune {

// RINGTUNE_GPU_OPERATIONS, the same on all ranks.
enum class GpuOperations : uint8_t {
  kAuto,  // by NCCL where every rank has a GPU of its own and NCCL is there
  kNccl,  // by NCCL, or not at all
  kHost,
};

struct GpuOptions {
  GpuOperations operations = GpuOperations::kAuto;
  std::string nccl_library;  // where the process has none loaded; empty: the system's
};

// Whether NCCL gives for such a tensor what the engine gives.
bool is_nccl_able(const Signature& signature, int world_size);

}  // namespace ringtune
