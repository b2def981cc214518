// SPDX-License-Identifier: Apache-2.0
// Result of a collective whose size is known only once all ranks have announced their rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "collectives/aligned_buffer.h"

namespace ringtune {

class DeviceMemory;

struct Gathered {
  MutableByteSpan offered{};  // memory of the caller's; takes the rows if they fill it exactly
  AlignedBuffer buffer;       // takes them otherwise
  bool is_in_offered = false;
  std::vector<int64_t> rows;                // number of rows from each rank
  std::shared_ptr<DeviceMemory> on_device;  // has the rows in place of the two above, if they never left their GPUs

  // The rows in the host's memory, in the order of the ranks they came from.
  std::byte* data() const { return is_in_offered ? offered.data() : buffer.data(); }
  size_t bytes() const { return is_in_offered ? offered.size() : buffer.bytes(); }

  Status allocate(size_t bytes) {
    is_in_offered = offered.data() != nullptr && offered.size() == bytes;
    return is_in_offered ? Status::ok_status() : buffer.allocate(bytes);
  }
};

}  // namespace ringtune
