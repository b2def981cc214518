// SPDX-License-Identifier: Apache-2.0
#include "engine/gpu/nccl/nccl_rules.h"

namespace ringtune {

NcclKnobs nccl_knobs(const EngineConfig& config) {
  return {config.nccl_pack_bytes, static_cast<int>(config.nccl_ctas), config.nccl_hierarchical};
}

std::optional<GpuReduction> gpu_reduction_of(const Signature& signature, int world_size) {
  return gpu_reduction({signature.dtype, signature.op, signature.prescale, signature.postscale}, world_size);
}

}  // namespace ringtune
