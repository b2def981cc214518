// SPDX-License-Identifier: Apache-2.0
#include "collectives/gather_list.h"

#include <algorithm>
#include <cstring>

namespace ringtune {

void GatherList::add(const std::byte* input, std::byte* output, size_t bytes) {
  if (bytes > 0) {
    pieces_.push_back({input, output, bytes_, bytes});
    bytes_ += bytes;
  }
}

template <typename Copy>
void GatherList::for_range(size_t offset, size_t bytes, Copy copy) const {
  // The last piece that begins at or before the offset.
  auto piece = std::upper_bound(pieces_.begin(), pieces_.end(), offset,
                                [](size_t at, const Piece& candidate) { return at < candidate.offset; });
  size_t done = 0;
  while (done < bytes) {
    const Piece& current = *(piece - 1);
    const size_t within = offset + done - current.offset;
    const size_t count = std::min(current.bytes - within, bytes - done);
    copy(current, within, done, count);
    done += count;
    ++piece;
  }
}

void GatherList::copy_in(size_t offset, std::byte* target, size_t bytes) const {
  for_range(offset, bytes, [target](const Piece& piece, size_t within, size_t done, size_t count) {
    std::memcpy(target + done, piece.input + within, count);
  });
}

void GatherList::copy_out(size_t offset, const std::byte* source, size_t bytes) const {
  for_range(offset, bytes, [source](const Piece& piece, size_t within, size_t done, size_t count) {
    std::memcpy(piece.output + within, source + done, count);
  });
}

}  // namespace ringtune
