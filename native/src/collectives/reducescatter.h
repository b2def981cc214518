// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/status.h"
#include "collectives/collective_context.h"
#include "collectives/reduce_kernels.h"

namespace ringtune {

// Rows that a rank keeps: an equal share, one more on the first ranks where they do not divide evenly.
int64_t rows_of_rank(int64_t rows, int rank, int world_size);

struct ReducescatterTask {
  CollectiveContext& context;
  const Reduction& reduction;
  const std::byte* input;  // all rows
  std::byte* output;       // this rank's; may begin where the input does
  int64_t rows;
  size_t row_elements;
  size_t chunk_bytes;  // a multiple of the cache line
};

// Reduces in rank order; every rank gets its rows of the result.
Status reducescatter(const ReducescatterTask& task);

}  // namespace ringtune
