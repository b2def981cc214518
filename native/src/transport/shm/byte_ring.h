// SPDX-License-Identifier: Apache-2.0
// Frames from one writer to one or more readers through a ring in shared memory; every reader gets every frame.
#pragma once

#include <cstddef>

#include "base/bytes.h"
#include "transport/shm/atomics.h"

namespace ringtune {

class ByteRing {
 public:
  // A view of zeroed shared memory of `footprint` bytes, aligned to a cache line.
  ByteRing(std::byte* memory, size_t capacity_bytes, int readers);

  static size_t footprint(size_t capacity_bytes, int readers);

  // False if the slowest reader has left too little room.
  bool try_write(ByteSpan frame);
  // False if no frame is there. Never throws; a corrupt length yields an empty frame, which no decoder accepts.
  bool try_read(int reader, Bytes& frame);

  size_t max_frame_bytes() const { return capacity_bytes_ - sizeof(uint32_t); }

 private:
  struct alignas(kCacheLine) Cursor {
    SharedU64 bytes;
  };

  void copy_in(uint64_t at, const void* source, size_t bytes);
  void copy_out(uint64_t at, void* target, size_t bytes) const;

  Cursor* written_;
  Cursor* read_;
  std::byte* data_;
  size_t capacity_bytes_;
  int readers_;
};

}  // namespace ringtune
