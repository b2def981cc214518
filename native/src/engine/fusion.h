// SPDX-License-Identifier: Apache-2.0
// Which ready tensors travel together.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "engine/tensor_ledger.h"

namespace ringtune {

struct FusionLimits {
  uint64_t fusion_bytes;      // 0: every tensor alone
  size_t max_response_bytes;  // what one response frame may hold
};

// The oldest ready tensor and, for allreduce, further ones of its dtype and operation up to the limit, in the order
// in which they became ready. Others in between are passed over, not waited for. There must be a ready tensor.
std::vector<std::string> pick_fusion(const TensorLedger& ledger, const FusionLimits& limits);

}  // namespace ringtune
