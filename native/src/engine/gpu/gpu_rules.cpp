// SPDX-License-Identifier: Apache-2.0
#include "engine/gpu/gpu_rules.h"

#include "engine/gpu/nccl/nccl_rules.h"

namespace ringtune {

bool is_nccl_able(const Signature& signature, int world_size) {
  if (signature.memory != MemoryKind::kCuda) {
    return false;
  }
  switch (signature.kind) {
    case OpKind::kBroadcast:
    case OpKind::kAllgather:
    case OpKind::kAlltoall:
      return true;
    case OpKind::kAllreduce:
      return gpu_reduction_of(signature, world_size).has_value();
    case OpKind::kReducescatter: {
      const std::optional<GpuReduction> reduction = gpu_reduction_of(signature, world_size);
      return reduction && !reduction->kernels.needs_buffer();
    }
    case OpKind::kBarrier:
    case OpKind::kJoin:
      break;
  }
  return false;
}

}  // namespace ringtune
