// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/byte_ring.h"

#include <algorithm>
#include <cstring>

namespace ringtune {

ByteRing::ByteRing(std::byte* memory, size_t capacity_bytes, int readers)
    : written_(reinterpret_cast<Cursor*>(memory)),
      read_(written_ + 1),
      data_(reinterpret_cast<std::byte*>(read_ + readers)),
      capacity_bytes_(capacity_bytes),
      readers_(readers) {}

size_t ByteRing::footprint(size_t capacity_bytes, int readers) {
  return round_up(sizeof(Cursor) * (1 + static_cast<size_t>(readers)) + capacity_bytes, kCacheLine);
}

bool ByteRing::try_write(ByteSpan frame) {
  const uint64_t written = written_->bytes.load(std::memory_order_relaxed);
  uint64_t slowest = written;
  for (int reader = 0; reader < readers_; ++reader) {
    slowest = std::min(slowest, read_[reader].bytes.load(std::memory_order_acquire));
  }
  const auto size = static_cast<uint32_t>(frame.size());
  if (written - slowest + sizeof(size) + size > capacity_bytes_) {
    return false;
  }
  copy_in(written, &size, sizeof(size));
  copy_in(written + sizeof(size), frame.data(), size);
  // Sequentially consistent, because a doorbell's `sleepers` is read next.
  written_->bytes.store(written + sizeof(size) + size);
  return true;
}

bool ByteRing::try_read(int reader, Bytes& frame) {
  const uint64_t read = read_[reader].bytes.load(std::memory_order_relaxed);
  const uint64_t available = written_->bytes.load() - read;
  if (available == 0) {
    return false;
  }
  uint32_t size = 0;
  copy_out(read, &size, sizeof(size));
  if (sizeof(size) + size > available) {
    frame.clear();
    read_[reader].bytes.store(read + available);
    return true;
  }
  frame.resize(size);
  copy_out(read + sizeof(size), frame.data(), size);
  read_[reader].bytes.store(read + sizeof(size) + size);
  return true;
}

void ByteRing::copy_in(uint64_t at, const void* source, size_t bytes) {
  const size_t start = at % capacity_bytes_;
  const size_t first = std::min(bytes, capacity_bytes_ - start);
  if (first > 0) {
    std::memcpy(data_ + start, source, first);
  }
  if (bytes > first) {
    std::memcpy(data_, static_cast<const std::byte*>(source) + first, bytes - first);
  }
}

void ByteRing::copy_out(uint64_t at, void* target, size_t bytes) const {
  const size_t start = at % capacity_bytes_;
  const size_t first = std::min(bytes, capacity_bytes_ - start);
  if (first > 0) {
    std::memcpy(target, data_ + start, first);
  }
  if (bytes > first) {
    std::memcpy(static_cast<std::byte*>(target) + first, data_, bytes - first);
  }
}

}  // namespace ringtune
