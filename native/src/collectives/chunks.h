// SPDX-License-Identifier: Apache-2.0
// Cutting of messages into chunks, which move at once, and of chunks into blocks, each of which one rank owns.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "transport/shm/atomics.h"

namespace ringtune {

// Bytes [offset, offset + bytes) of something.
struct ByteRange {
  size_t offset;
  size_t bytes;
};

// Chunks of a message: at least one, so that empty messages synchronize like others.
inline uint64_t chunk_count(size_t bytes, size_t chunk_bytes) {
  return std::max<uint64_t>(1, (bytes + chunk_bytes - 1) / chunk_bytes);
}

// Empty past the message's end.
inline ByteRange chunk_range(size_t bytes, size_t chunk_bytes, uint64_t chunk) {
  const size_t offset = std::min(bytes, chunk * chunk_bytes);
  return {offset, std::min(chunk_bytes, bytes - offset)};
}

// The block of one owner, within its chunk. Whole cache lines, so that two owners never write to one; the last blocks
// may be short or empty.
inline ByteRange block_range(size_t chunk_bytes, int owners, int owner) {
  const auto count = static_cast<size_t>(owners);
  const size_t share = round_up((chunk_bytes + count - 1) / count, kCacheLine);
  const size_t offset = std::min(chunk_bytes, share * static_cast<size_t>(owner));
  return {offset, std::min(share, chunk_bytes - offset)};
}

}  // namespace ringtune
