// SPDX-License-Identifier: Apache-2.0
// Header of a chunk: the part of a message that one of several connections between two ranks carries.
#pragma once

#include <cstdint>

#include "base/bytes.h"

namespace ringtune {

// Bytes of a chunk at most: a connection that is slow keeps the rest of the message waiting for no more than this.
inline constexpr size_t kMaxStreamedChunkBytes = 256 << 10;

struct ChunkHeader {
  uint32_t message = 0;  // number of the message among those in chunks from one rank to the other, which may wrap
  uint32_t bytes = 0;    // number of bytes that follow
  uint64_t offset = 0;   // place of the first of them in the message

  bool operator==(const ChunkHeader&) const = default;
};

inline constexpr size_t kChunkHeaderBytes = sizeof(uint32_t) + sizeof(uint32_t) + sizeof(uint64_t);

Bytes encode(const ChunkHeader& header);
// False for a header of another size, and for a chunk that is empty or larger than any sender of ours makes.
bool decode(ByteSpan bytes, ChunkHeader& header);

}  // namespace ringtune
