// SPDX-License-Identifier: Apache-2.0
// Result of a collective whose size is known only once all ranks have announced their rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "collectives/aligned_buffer.h"

namespace ringtune {

struct Gathered {
  AlignedBuffer buffer;       // the rows, in the order of the ranks they came from
  std::vector<int64_t> rows;  // number of rows from each rank

  std::byte* data() const { return buffer.data(); }
  size_t bytes() const { return buffer.bytes(); }
};

}  // namespace ringtune
