// SPDX-License-Identifier: Apache-2.0
// Adasum: gradients are added as far as they differ and averaged as far as they agree.
//
// Source: Maleki et al. (2020), Scaling Distributed Training with Adaptive Summation, arXiv:2006.02924.
#pragma once

#include <cstddef>

#include "base/status.h"
#include "collectives/collective_context.h"
#include "collectives/reduce_kernels.h"

namespace ringtune {

// One tensor: its norm weighs it, so tensors cannot be fused.
struct AdasumTask {
  CollectiveContext& context;
  const Reduction& reduction;  // dtype and scales
  const std::byte* input;
  std::byte* output;  // may be the input
  size_t elements;
  size_t chunk_bytes;  // a multiple of the cache line
};

Status adasum(const AdasumTask& task);

}  // namespace ringtune
