// SPDX-License-Identifier: Apache-2.0
#include "collectives/gather_list.h"

#include <cstring>

namespace ringtune {

void GatherList::add(const std::byte* input, std::byte* output, size_t bytes) {
  if (bytes == 0) {
    return;
  }
  Piece* last = pieces_.empty() ? nullptr : &pieces_.back();
  if (last != nullptr && last->input + last->bytes == input && last->output + last->bytes == output) {
    last->bytes += bytes;
  } else {
    pieces_.push_back({input, output, bytes_, bytes});
  }
  bytes_ += bytes;
}

const GatherList::Piece& GatherList::piece_at(size_t offset) const {
  const auto next = std::upper_bound(pieces_.begin(), pieces_.end(), offset,
                                     [](size_t at, const Piece& candidate) { return at < candidate.offset; });
  return *(next - 1);
}

const std::byte* GatherList::contiguous_input(size_t offset, size_t bytes) const {
  if (bytes == 0) {
    return nullptr;
  }
  const Piece& piece = piece_at(offset);
  const size_t within = offset - piece.offset;
  return bytes <= piece.bytes - within ? piece.input + within : nullptr;
}

std::byte* GatherList::contiguous_output(size_t offset, size_t bytes) const {
  if (bytes == 0) {
    return nullptr;
  }
  const Piece& piece = piece_at(offset);
  const size_t within = offset - piece.offset;
  return bytes <= piece.bytes - within ? piece.output + within : nullptr;
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
