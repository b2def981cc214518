// SPDX-License-Identifier: Apache-2.0
// Several tensors seen as one buffer. Fusion needs no buffer of its own: chunks are copied straight from the tensors
// into the stage and back.
#pragma once

#include <cstddef>
#include <vector>

#include "base/bytes.h"

namespace ringtune {

class GatherList {
 public:
  // The tensor that follows the ones added before; input and output may be the same memory.
  void add(const std::byte* input, std::byte* output, size_t bytes);

  size_t bytes() const { return bytes_; }

  // Copies [offset, offset + bytes) of the concatenated inputs to `target`.
  void copy_in(size_t offset, std::byte* target, size_t bytes) const;
  // Copies `source` over [offset, offset + bytes) of the concatenated outputs.
  void copy_out(size_t offset, const std::byte* source, size_t bytes) const;

 private:
  struct Piece {
    const std::byte* input;
    std::byte* output;
    size_t offset;
    size_t bytes;
  };

  // Calls `copy(piece, offset within the piece, offset within the range, bytes)` for every piece in the range.
  template <typename Copy>
  void for_range(size_t offset, size_t bytes, Copy copy) const;

  std::vector<Piece> pieces_;
  size_t bytes_ = 0;
};

}  // namespace ringtune
