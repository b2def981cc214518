// SPDX-License-Identifier: Apache-2.0
// Sums of the ranks' contributions, always in rank order: the same bits on every rank and under every config.
#pragma once

#include <cstddef>
#include <span>

#include "base/dtype.h"

namespace ringtune {

// target[i] = sources[0][i] + sources[1][i] + ... (divided by the number of sources for Average; integers round
// down). The target may be one of the sources at the same address, not an overlapping one. `dtype` must be reducible.
void reduce_in_rank_order(DataType dtype, ReduceOp op, std::span<const std::byte* const> sources, std::byte* target,
                          size_t elements);

}  // namespace ringtune
