// SPDX-License-Identifier: Apache-2.0
// Several tensors seen as one buffer. Fusion needs no buffer of its own: chunks are copied straight from the tensors
// into the stage and back.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "base/bytes.h"

namespace ringtune {

class GatherList {
 public:
  // The tensor that follows the ones added before; input and output may be the same memory. Tensors that follow each
  // other in memory too are one piece.
  void add(const std::byte* input, std::byte* output, size_t bytes);

  size_t bytes() const { return bytes_; }

  // Address of [offset, offset + bytes) of the inputs, or of the outputs; null where it is not in one piece.
  const std::byte* contiguous_input(size_t offset, size_t bytes) const;
  std::byte* contiguous_output(size_t offset, size_t bytes) const;

  // Calls `visit(input, output, offset within the range, bytes)` for every piece of [offset, offset + bytes), in its
  // order.
  template <typename Visit>
  void for_pieces(size_t offset, size_t bytes, Visit visit) const {
    for_range(offset, bytes, [&visit](const Piece& piece, size_t within, size_t done, size_t count) {
      visit(piece.input + within, piece.output + within, done, count);
    });
  }

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

  // The last piece that begins at or before the offset; the list is not empty.
  const Piece& piece_at(size_t offset) const;

  // Calls `copy(piece, offset within the piece, offset within the range, bytes)` for every piece in the range.
  template <typename Copy>
  void for_range(size_t offset, size_t bytes, Copy copy) const {
    if (bytes == 0) {
      return;
    }
    const Piece* piece = &piece_at(offset);
    for (size_t done = 0; done < bytes; ++piece) {
      const size_t within = offset + done - piece->offset;
      const size_t count = std::min(piece->bytes - within, bytes - done);
      copy(*piece, within, done, count);
      done += count;
    }
  }

  std::vector<Piece> pieces_;
  size_t bytes_ = 0;
};

}  // namespace ringtune
