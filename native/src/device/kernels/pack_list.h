// SPDX-License-Identifier: Apache-2.0
// The parameters of the kernels of pack_scale.cu: a list of arrays to move. The host writes them, the GPU reads them.
#pragma once

#include <cstdint>

namespace ringtune {

// No constants of their own: CUDA C gives those a place in the GPU's memory.
enum : uint32_t {
  kPackThreads = 256,  // threads of a block
  kPackEntries = 128,  // arrays of a list
  // A block moves one chunk, so that arrays of any sizes share the GPU evenly; bytes of the wider of both types.
  kPackChunkBytes = 16384,
};

// The elements of a chunk.
constexpr uint32_t pack_chunk_elements(uint32_t source_bytes, uint32_t target_bytes) {
  return kPackChunkBytes / (source_bytes > target_bytes ? source_bytes : target_bytes);
}

// Addresses are multiples of their elements' sizes. Both may be the same, otherwise the arrays are apart.
struct PackEntry {
  uint64_t source;
  uint64_t target;
  uint64_t elements;  // at least 1
};

struct PackList {
  PackEntry entries[kPackEntries];
  uint32_t first_chunks[kPackEntries];  // the number of chunks before the entry's own
  uint32_t size;                        // entries, at least 1
  // Operations on each element, in this order, unless it is copied.
  int32_t average_of;  // divide by it if it is more than 1
  double factor;
};
static_assert(sizeof(PackList) <= 4096, "the parameters of a kernel are 4 KiB at most");

}  // namespace ringtune
