// SPDX-License-Identifier: Apache-2.0
#include "engine/nccl_rules.h"

#include "device/nccl/nccl_meaning.h"

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
    case OpKind::kReducescatter:
      return nccl_reduction(signature.dtype, signature.op, signature.prescale * signature.postscale, world_size)
          .has_value();
    case OpKind::kBarrier:
    case OpKind::kJoin:
      break;
  }
  return false;
}

}  // namespace ringtune
