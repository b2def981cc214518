// SPDX-License-Identifier: Apache-2.0
// Choice of the ready tensors that travel together.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/tensor_ledger.h"

namespace ringtune {

struct FusionLimits {
  uint64_t fusion_bytes;      // 0: every tensor alone
  size_t max_response_bytes;  // limit of one response frame
  bool is_by_memory = false;  // tensors of GPUs and of the host apart
};

// A signature in a response, at most: shapes and the group's name are bounded where tensors are submitted.
inline constexpr size_t kMaxSignatureBytes = 1024;

// Returns true if tensors of two signatures may travel together.
bool is_fusable(const Signature& a, const Signature& b);

// The oldest ready tensor and, for allreduce, further ones of its dtype and operation up to the limit, in the order
// in which they became ready, or lie in the arenas: those that do travel by themselves; those of its group whatever the
// limit. Others in between are passed over, not waited for: a float16 tensor between float32 ones does not end the
// fusion. There must be a ready tensor.
std::vector<LedgerEntry*> pick_fusion(const TensorLedger& ledger, const FusionLimits& limits);

}  // namespace ringtune
