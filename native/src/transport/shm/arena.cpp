// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/arena.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>

#include "transport/shm/atomics.h"

namespace ringtune {

Status Arena::allocate(size_t bytes, std::shared_ptr<std::byte>& memory) {
  const size_t size = std::max(kCacheLine, round_up(bytes, kCacheLine));
  const std::lock_guard lock(mutex_);
  if (bytes > arenas_->arena_bytes()) {
    return {StatusCode::kConfigError, "cannot allocate " + std::to_string(bytes) +
                                          " bytes of registered memory: a rank may have " +
                                          std::to_string(arenas_->arena_bytes()) + " bytes"};
  }
  const size_t offset = find_place(size);
  if (const size_t end = offset + size; end > committed_bytes_) {
    Status status = end > arenas_->arena_bytes()
                        ? Status(StatusCode::kConfigError,
                                 "the arena of this rank is full: " + std::to_string(arenas_->arena_bytes()) + " bytes")
                        : arenas_->commit(local_rank_, committed_bytes_, end, budget_);
    if (!status.ok()) {
      put_back(offset, committed_bytes_ - offset);
      return status;
    }
    committed_bytes_ = end;
  }
  memory = std::shared_ptr<std::byte>(begin() + offset, [self = shared_from_this(), offset, size](std::byte*) {
    const std::lock_guard guard(self->mutex_);
    self->put_back(offset, size);
  });
  return Status::ok_status();
}

ArenaOffset Arena::offset_of(const std::byte* memory, size_t bytes) const {
  const auto first = reinterpret_cast<uintptr_t>(begin());
  const auto at = reinterpret_cast<uintptr_t>(memory);
  const size_t capacity = arenas_->arena_bytes();
  const bool is_inside = at >= first && at - first <= capacity && bytes <= capacity - (at - first);
  return is_inside ? at - first : kNotInArena;
}

size_t Arena::find_place(size_t bytes) {
  for (auto range = free_.begin(); range != free_.end(); ++range) {
    const auto [offset, size] = *range;
    // The last one can grow.
    if (size < bytes && offset + size < committed_bytes_) {
      continue;
    }
    free_.erase(range);
    if (size > bytes) {
      free_.emplace(offset + bytes, size - bytes);
    }
    return offset;
  }
  return committed_bytes_;
}

void Arena::put_back(size_t offset, size_t bytes) {
  if (bytes == 0) {
    return;
  }
  const auto range = free_.emplace(offset, bytes).first;
  if (const auto next = std::next(range); next != free_.end() && offset + bytes == next->first) {
    range->second += next->second;
    free_.erase(next);
  }
  if (range != free_.begin()) {
    if (const auto before = std::prev(range); before->first + before->second == offset) {
      before->second += range->second;
      free_.erase(range);
    }
  }
}

}  // namespace ringtune
